"""Conversion of a start to a source's position, and of a position to a dump request."""

from __future__ import annotations

import datetime
from dataclasses import replace

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.binlog.header import EventHeader
from replica_client.binlog.layout import HEADER_SIZE
from replica_client.codec.reader import ByteReader
from replica_client.constants.event_types import EventType
from replica_client.errors import ConfigError
from replica_client.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.position.position import Position
from replica_client.readers.start_position import Start, micros_of
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.connection import SourceConnection
from replica_client.transport.request import DumpRequest
from replica_client.transport.side_dump import open_dump


async def resolve_start(connection: SourceConnection, start: Start) -> Position:
    """Return the position that a start means on this source.

    Args:
        connection: to the source.
        start: the start as the user gave it.

    Raises:
        ServerError: the source writes no binlog, or a privilege is missing.
        ConfigError: this source cannot have such a start.
    """
    if isinstance(start, Position):
        return start
    if start == "latest":
        status = await connection.binlog_status()
        return Position(status.file, status.position, connection.gtids(status.executed_gtid_set))
    files = [name for name, _ in await connection.binary_logs()]
    if not files:
        raise ConfigError(f"{connection.options.address} has no binlog file to start at")
    if isinstance(start, datetime.datetime):
        # A file's timestamp has only the second in which it was begun.
        since = micros_of(start) // 1_000_000
        # The newest file that begins before the time; earlier transactions in it are skipped.
        for file in reversed(files[1:]):
            begin = await _first_timestamp(connection.options, file)
            if begin < since:
                return Position(file, FIRST_EVENT)
    return Position(files[0], FIRST_EVENT)


async def _first_timestamp(options: ConnectOptions, file: str) -> int:
    """Return when a binlog file was begun: the time in its format description."""
    async with await open_dump(options, DumpRequest(file, non_block=True)) as dump:
        async for data in dump:
            header = EventHeader.decode(ByteReader(data[:HEADER_SIZE]))
            if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                return header.timestamp
    raise ConfigError(f"{file} on {options.address} has no format description")


async def behind_purged(
    connection: SourceConnection, have: GtidSet | MariadbGtidSet
) -> GtidSet | MariadbGtidSet:
    """Return the GTIDs after which a dump can begin: ours, and those that the source purged.

    Raises:
        ServerError: the source refuses the query.
    """
    if isinstance(have, GtidSet):
        rows = await connection.query("SELECT @@global.gtid_purged", columns=1, rows=1)
        purged = connection.gtids(rows[0][0])
        return have | purged if isinstance(purged, GtidSet) else have
    files = [name for name, _ in await connection.binary_logs()]
    decoder = BinlogDecoder()
    async with await open_dump(connection.options, DumpRequest(files[0], non_block=True)) as dump:
        async for data in dump:
            event = decoder.decode(data, 0, files[0])
            if event.header.type_code == EventType.GTID_LIST_EVENT:
                listed = (MariadbGtid(*gtid) for gtid in event.body.gtids)
                return have | MariadbGtidSet(listed)
    raise ConfigError(f"{files[0]} on {connection.options.address} has no GTID list")


async def dump_request(
    connection: SourceConnection, position: Position, *, non_block: bool
) -> DumpRequest:
    """Return the dump request that continues at a position.

    Uses GTIDs if the position has a set and the source assigns GTIDs to all transactions (then the
    source may be another one than before), otherwise file and offset.

    Raises:
        ConfigError: only a GTID set is known, and the source has no GTIDs.
    """
    gtid_set = position.gtid_set
    if isinstance(gtid_set, GtidSet):
        if connection.server.is_mariadb or not await _has_gtid_mode(connection):
            gtid_set = None
    elif isinstance(gtid_set, MariadbGtidSet) and (
        not connection.server.is_mariadb or (not gtid_set and position.file)
    ):
        gtid_set = None
    if gtid_set is not None:
        return DumpRequest(gtid_set=gtid_set, non_block=non_block)
    if not position.file:
        raise ConfigError(
            f"start {position}: {connection.options.address} ({connection.server.version_text}) does "
            "not follow these GTIDs (gtid_mode is not ON, or it is of the other flavor); give FILE:OFFSET"
        )
    return DumpRequest(position.file, max(position.offset, FIRST_EVENT), non_block=non_block)


async def _has_gtid_mode(connection: SourceConnection) -> bool:
    if connection.server.version < (5, 6, 5):
        return False
    rows = await connection.query("SELECT @@global.gtid_mode", columns=1)
    return bool(rows) and str(rows[0][0]).upper() == "ON"


def transaction_start(position: Position) -> Position:
    """Return the start of the transaction that contains a position."""
    return replace(position, event_index=0, row_index=0)
