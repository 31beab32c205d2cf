"""``asyncmy.replication``'s interface: its names, arguments, events and rows.

::

    from replica_client.compat.asyncmy import BinLogStream

The connections are asyncmy's own. Values are those of
:class:`~replica_client.compat.pymysqlreplication.binlogstream.BinLogStreamReader`, which lists what asyncmy
gives wrongly, too.
"""

from replica_client.compat.asyncmy.binlogstream import BinLogStream as BinLogStream
