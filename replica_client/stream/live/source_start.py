"""The start at a source: its position, a previous server's state, and binlog filters.

Files, offsets, the schema history and pending XA transactions are valid on one server only.
Positions that were delivered before a failover may be acknowledged after it; each is saved with its
own server's state.

Rows are filtered by the database of their table, statements by the default database of their
session: with ``binlog_do_db=x`` the source does not log ``USE y; ALTER TABLE x.t …`` but still logs
the rows of ``x.t``. That is harmless if the table maps describe their rows
(``binlog_row_metadata=FULL``). Otherwise the definition derived from the binlog may differ from the
source's, and rows would be wrong without any sign.

So without FULL a stream of tables that a filter lets through is refused. Users who accept rows of
unproven tables (``on_unknown_table="positional"``, or ``unknown_table`` among the recorded losses)
get a warning instead.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, Self

from replica_client.errors import AccessDeniedError, ConfigError, ServerError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, EventHeader
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.protocol.wire.server_errors import NO_CATALOG_ERRORS
from replica_client.rows.selection import Selection
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.live.source_identity import IDENTITY_KEY, SourceIdentity, missing_gtids
from replica_client.stream.position.losses import LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.transactions.arguments import Start, micros_of
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.driver_dump import open_dump
from replica_client.stream.transport.dump import DumpRequest
from replica_client.stream.transport.server_statements import BinlogStatus


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


@dataclass(frozen=True, slots=True)
class ReadingState:
    """The state that is saved with the positions of one server.

    Attributes:
        identity: the server's identity.
        history: definitions of its tables.
        losses: changes that could not be delivered.
        prepared: XA transactions that are pending.
        defaults: whether column defaults and comments are saved.
    """

    identity: SourceIdentity
    history: SchemaHistory
    losses: LossLedger
    prepared: PreparedLedger
    defaults: bool

    def copy(self) -> Self:
        """Return an independent copy."""
        identity = replace(self.identity, files=dict(self.identity.files))
        parts = (self.history.copy(), self.losses.copy(), self.prepared.copy())
        return type(self)(identity, *parts, self.defaults)

    def to_state(self, position: Position) -> dict[str, object]:
        """Return the state for the checkpoint of a position."""
        if position.file:
            self.history.prune(position.file, position.offset)
        state: dict[str, object] = {
            STATE_KEY: self.history.to_parts(defaults=self.defaults),
            IDENTITY_KEY: self.identity.to_state(),
        }
        kept = {
            LOSSES_KEY: self.losses.to_state(position),
            PREPARED_KEY: self.prepared.to_state(position),
        }
        return state | {key: value for key, value in kept.items() if value}


@dataclass(frozen=True, slots=True)
class PastSource:
    """A server that the stream has left.

    Attributes:
        delivered: the position after everything delivered from it.
        reached: start of the transaction that was read last.
        state: the state that is saved with its positions.
    """

    delivered: Position
    reached: Position
    state: ReadingState

    def has(self, position: Position) -> bool:
        """Return whether a position of this stream belongs to this server, or to one before it."""
        ours, theirs = self.reached.gtid_set, position.gtid_set
        if ours is None or theirs is None or missing_gtids(theirs, ours):
            return False
        if theirs != ours:
            return True
        # A position after the last transaction here, or before the first of the next server.
        at = Position(position.file, position.offset)
        begin, end = (Position(one.file, one.offset) for one in (self.delivered, self.reached))
        return not position.inside_transaction and begin <= at <= end


_LOG: Final = logging.getLogger("replica_client.stream")


async def check_filters(
    connection: SourceConnection, selection: Selection | None, *, may_be_unproven: bool = False
) -> None:
    """Refuse a source whose filters may hide changes of wanted tables, or warn.

    Args:
        connection: to the source.
        selection: the wanted tables; None: all.
        may_be_unproven: whether the user accepts rows of tables that are not proven.

    Raises:
        ConfigError: the filters may hide such statements, and the table maps do not describe their
            rows.
        ServerError: the source refuses the query, for another reason than a missing privilege.
    """
    address = connection.options.address
    try:
        status = await connection.binlog_status()
    except AccessDeniedError as error:
        _LOG.warning(
            "%s: whether binlog filters hide statements is not known: %s", address, str(error)
        )
        return
    except ServerError as error:
        if error.errno in NO_CATALOG_ERRORS:
            return
        raise
    if not status.filters:
        return
    said = f"{address} logs {status.filters}"
    if not hides_statements(status, selection):
        _LOG.warning("%s: changes of other databases are never seen", said)
        return
    if await row_metadata(connection) == "FULL":
        _LOG.warning("%s: changes of others are never seen", said)
        return
    reason = (
        f"{said}: it leaves out a statement that alters a wanted table from another default database, and rows after "
        "it would be read by the old definition; set binlog_row_metadata=FULL on the source (MySQL 8.0.1, MariaDB "
        "10.5), or remove the filters"
    )
    if may_be_unproven:
        _LOG.warning("%s", reason)
        return
    raise ConfigError(f"{reason}, or accept it with on_unknown_table=positional")


def hides_statements(status: BinlogStatus, selection: Selection | None) -> bool:
    """Return whether a source logs rows of wanted tables but may hide statements on them."""
    if selection is None or not status.do_databases:
        return bool(status.filters)
    wanted = selection.casefolded()
    return any(wanted.wants_database(name.lower()) for name in status.do_databases)


def grants_select(granted: Iterable[Sequence[object]]) -> bool:
    """Return whether the rows of SHOW GRANTS have a privilege by which an account sees tables."""
    privileges = (
        str(row[0]).upper().removeprefix("GRANT ").partition(" ON ")[0] for row in granted
    )
    return any(
        name.strip().partition("(")[0].strip() in ("SELECT", "ALL PRIVILEGES", "ALL")
        for listed in privileges
        for name in listed.split(",")
    )


async def sees_no_table(connection: SourceConnection) -> bool:
    """Return whether the binlog has no column names, and the account may read none, and say so."""
    try:
        granted = await connection.query("SHOW GRANTS")
        if grants_select(granted) or await row_metadata(connection) == "FULL":
            return False
    except ServerError:
        return False
    options = connection.options
    _LOG.warning(
        "%s: the account %r sees no table, and the binlog has no column names: the stream ends at the first row; "
        "grant it SELECT on the tables to follow (GRANT SELECT ON *.* TO %s), or set binlog_row_metadata = FULL",
        options.address,
        options.user,
        options.user,
    )
    return True


async def row_metadata(connection: SourceConnection) -> str:
    """Return ``binlog_row_metadata`` in capital letters; ``""`` if the server has none."""
    rows = await connection.query("SHOW GLOBAL VARIABLES LIKE 'binlog_row_metadata'")
    return str(rows[0][1]).upper() if rows and len(rows[0]) > 1 else ""
