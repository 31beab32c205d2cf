"""GTIDs that a source has executed or is committing, queried from the source."""

from __future__ import annotations

from replica_client.errors import GtidFormatError, MalformedPacketError
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet, parse_owned_gtids
from replica_client.stream.transport.connection import SourceConnection, suppress_unknown_variable


async def executed_gtids(connection: SourceConnection) -> GtidSet | MariadbGtidSet:
    """Return the GTIDs in a source's binlog: ``gtid_executed``, or MariaDB's ``gtid_binlog_pos``.

    MySQL sends a transaction to its replicas before ``gtid_executed`` has it: until the engine has
    committed, and with semi-synchronous replication until a replica has acknowledged, only
    :func:`owned_gtids` has it.

    Raises:
        ServerError: the source refuses the query.
        MalformedPacketError: the answer is no GTID set.
    """
    name = "gtid_binlog_pos" if connection.server.is_mariadb else "gtid_executed"
    rows = await connection.query(f"SELECT @@global.{name}", columns=1, rows=1)
    return connection.gtids(rows[0][0])


async def owned_gtids(connection: SourceConnection) -> GtidSet:
    """Return the GTIDs that sessions of a MySQL source are committing or applying now.

    Raises:
        ServerError: the source refuses the query.
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
    """Return the GTIDs that a source has executed, and the wanted GTIDs that it is committing.

    A dump leaves out the latter, too: MySQL compares with executed and owned GTIDs. So a replica
    may already have them.

    Args:
        connection: to the source.
        wanted: GTIDs that a replica has; ``gtid_owned`` is queried only if the source lacks some of
            them.

    Raises:
        ServerError: the source refuses the query.
        MalformedPacketError: an answer is no GTID set.
    """
    if connection.server.is_mariadb:
        # The binlog state has a GTID for each server of a domain; the position has only the last
        # GTID of the domain, whose number may be smaller.
        with suppress_unknown_variable():  # a server that is no MariaDB and serves its binlog
            rows = await connection.query("SELECT @@global.gtid_binlog_state", columns=1, rows=1)
            return connection.gtids(rows[0][0])
    executed = await executed_gtids(connection)
    if isinstance(executed, GtidSet) and isinstance(wanted, GtidSet) and not wanted <= executed:
        # Owned before executed: a GTID moves from the first set to the second.
        owned = await owned_gtids(connection)
        again = await executed_gtids(connection)
        if isinstance(again, GtidSet):
            return again | (owned & wanted)
    return executed
