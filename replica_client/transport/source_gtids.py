"""What a source has executed, and what it is committing: asked of it."""

from __future__ import annotations

from replica_client.errors import GtidFormatError, MalformedPacketError
from replica_client.gtid import GtidSet, MariadbGtidSet, parse_owned_gtids
from replica_client.transport.connection import SourceConnection, suppress_unknown_variable


async def executed_gtids(connection: SourceConnection) -> GtidSet | MariadbGtidSet:
    """The GTIDs in a source's binlog: ``gtid_executed``, MariaDB's ``gtid_binlog_pos``.

    MySQL sends a transaction to its replicas before ``gtid_executed`` has it: until the engine has
    committed, and with semi-synchronous replication until a replica has acknowledged, only
    :func:`owned_gtids` has it.

    Raises:
        ServerError: the source does not tell.
        MalformedPacketError: the answer is no GTID set.
    """
    name = "gtid_binlog_pos" if connection.server.is_mariadb else "gtid_executed"
    rows = await connection.query(f"SELECT @@global.{name}", columns=1, rows=1)
    return connection.gtids(rows[0][0])


async def owned_gtids(connection: SourceConnection) -> GtidSet:
    """The GTIDs that sessions of a MySQL source are committing or applying now.

    Raises:
        ServerError: the source does not tell.
        MalformedPacketError: the answer has another form.
    """
    rows = await connection.query("SELECT @@global.gtid_owned", columns=1, rows=1)
    try:
        return parse_owned_gtids(str(rows[0][0] or ""))
    except GtidFormatError as error:
        raise MalformedPacketError(f"gtid_owned at {connection.options.address}: {error}") from None


async def gtids_in_binlog(
    connection: SourceConnection, wanted: GtidSet | MariadbGtidSet
) -> GtidSet | MariadbGtidSet:
    """What a source has executed, and those of the wanted GTIDs that it is committing.

    A dump leaves the latter out as well (MySQL compares with executed and owned GTIDs, too), so that a
    replica may have them.

    Args:
        connection: to the source.
        wanted: what a replica has; ``gtid_owned`` is asked for only when the source lacks some of it.

    Raises:
        ServerError: the source does not tell.
        MalformedPacketError: an answer is no GTID set.
    """
    if connection.server.is_mariadb:
        # Of each server of a domain: the position alone is the last one, whose number may be smaller.
        with suppress_unknown_variable():  # of a server that is no MariaDB, and serves its binlog
            rows = await connection.query("SELECT @@global.gtid_binlog_state", columns=1, rows=1)
            return connection.gtids(rows[0][0])
    executed = await executed_gtids(connection)
    if isinstance(executed, GtidSet) and isinstance(wanted, GtidSet) and not wanted <= executed:
        # First owned, then executed: a GTID moves from the one to the other.
        owned = await owned_gtids(connection)
        again = await executed_gtids(connection)
        if isinstance(again, GtidSet):
            return again | (owned & wanted)
    return executed
