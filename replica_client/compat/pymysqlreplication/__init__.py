"""python-mysql-replication's interface: its names, arguments, events and rows.

::

    from replica_client.compat.pymysqlreplication import BinLogStreamReader

:class:`~replica_client.compat.pymysqlreplication.binlogstream.BinLogStreamReader` lists what differs.
"""

from replica_client.compat.pymysqlreplication.binlogstream import (
    BinLogStreamReader as BinLogStreamReader,
)
