"""Assembly of decoded events into transactions."""

# Over 500 lines: each event changes the same open transaction, so this is one state; losses,
# savepoints and tables have modules of their own.

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Literal

from replica_client.errors import (
    BinlogDecodeError,
    ConfigError,
    DataLossError,
    MissingTableMapError,
    ReplicaClientError,
    SchemaMismatchError,
    UnknownTableError,
    UnsupportedEventError,
)
from replica_client.options import check_argument, remedies
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events.control import UnknownEvent
from replica_client.protocol.binlog.events.gtids import MariadbGtidFlag
from replica_client.protocol.binlog.events.rows import STMT_END_F
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.layout import ROWS_TYPES, EventClass, types_of
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import Gtid, MariadbGtid
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder, located as error_at
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import TableState
from replica_client.schema.ddl.statements import LONG_STATEMENT
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaChange, SchemaHistory
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss, loss_kinds
from replica_client.stream.position.prepared import PreparedTransaction, XaEnd, XaId, xa_end
from replica_client.stream.position.tracker import PositionTracker, TransactionBoundary
from replica_client.stream.transactions.event_feed import LocatedEvent
from replica_client.stream.transactions.loss_watch import LossWatch, count_unknown
from replica_client.stream.transactions.pending_rows import (
    PreparedRows,
    Savepoints,
    controls_savepoint,
    mixes_engines,
)
from replica_client.stream.transactions.query_text import (
    Provenance,
    controls_transaction,
    query_context,
    statement_text,
)
from replica_client.stream.transactions.row_spool import RowSpool, SpoolItem
from replica_client.stream.transactions.schema_tracking import SchemaTracker, UnknownTablePolicy
from replica_client.stream.transactions.transaction import Statement, Transaction

DEFAULT_PART_SIZE = 16 << 20
# As plain ints: `&` of a flag enum runs Python code.
_IGNORABLE = int(EventFlag.LOG_EVENT_IGNORABLE_F)
_PREPARED_XA = int(MariadbGtidFlag.FL_PREPARED_XA)
_MAX_DECODERS = 10_000
_PLAIN_CONTROL = (b"BEGIN", b"COMMIT")
_Decoder = tuple[TableShape, RowImageDecoder]
_Known = tuple[tuple[object, ...], TableState | None, _Decoder | None]
"""A table map's definition, the table's known state, and the decoder that follows from both."""

_QUERIES = types_of(EventClass.QUERY, EventClass.QUERY_COMPRESSED)
_GTIDS = types_of(EventClass.GTID, EventClass.MARIADB_GTID)
_STATEMENTS = frozenset((*_QUERIES, EventType.EXECUTE_LOAD_QUERY_EVENT))
_FILE_GTIDS = (EventType.PREVIOUS_GTIDS_LOG_EVENT, EventType.GTID_LIST_EVENT)
_LOADS = frozenset(
    (
        EventType.LOAD_EVENT,
        EventType.NEW_LOAD_EVENT,
        EventType.EXEC_LOAD_EVENT,
        EventType.EXECUTE_LOAD_QUERY_EVENT,
    )
)


@dataclass(frozen=True, slots=True)
class AssemblyOptions:
    """Options for the assembly of transactions.

    Attributes:
        selection: wanted tables and columns.
        part_size: bytes of rows events after which a transaction is delivered in parts. Rows that
            the source may take back (all but those of MySQL with GTIDs, and any after a savepoint)
            wait for the transaction's end, beyond 16 MiB in a temporary file.
        on_statement: handling of a row change of a wanted table that was logged as text (statement
            format): ``error`` stops the stream with ``DataLossError``, ``deliver`` delivers it as a
            statement of its transaction.
        on_unknown_table: handling of a table whose column names are in neither the binlog nor the
            schema history: ``error`` stops with ``UnknownTableError``, ``positional`` names its
            columns ``col_1``, ``col_2`` … and marks them unresolved; None: ``error`` for a live
            source, ``positional`` for files. A column whose type the binlog hides (MariaDB's UUID,
            INET4, INET6 and vectors) is refused by name if no definition is known; ``positional``
            delivers its bytes.
        on_schema_mismatch: handling of a table map that contradicts the schema history: ``error``
            stops with ``SchemaMismatchError``, ``positional`` as above.
        full_rows: refuse row images that lack wanted columns (``binlog_row_image`` is not FULL) with
            ``DataLossError``, instead of delivering them with :data:`~replica_client.ABSENT`.
        record_losses: kinds of losses (see :data:`~replica_client.stream.position.losses.LossKind`), or
            ``all``, that do not stop the stream with their error but become a
            :class:`~replica_client.stream.position.losses.Loss` of their transaction, counted with the position.
        withholds_texts: whether texts of errors, which may contain a statement or a value, are kept
            out of records and the log.

    Examples:
        >>> options = rc.AssemblyOptions(rc.Selection(["shop.orders"]), record_losses=["statement"])
        >>> with rc.follow(url, start="earliest", stop_at_end=True, assembly=options) as stream:
        ...     {change.table for change in stream.changes()}
        {'orders'}
    """

    selection: Selection
    part_size: int = DEFAULT_PART_SIZE
    on_statement: Literal["error", "deliver"] = "error"
    on_unknown_table: UnknownTablePolicy | None = None
    on_schema_mismatch: UnknownTablePolicy = "error"
    full_rows: bool = False
    record_losses: Collection[str] | str = ()
    withholds_texts: bool = False

    @property
    def saves_defaults(self) -> bool:
        """Whether column defaults and comments are saved with positions: not if any may be hidden."""
        return not self.withholds_texts and not self.selection.chooses_columns

    def __post_init__(self) -> None:
        if not isinstance(self.selection, Selection):
            raise ConfigError(
                f"AssemblyOptions({self.selection!r}): give rc.Selection(tables) first"
            )
        names = ("part_size", "on_statement", "on_unknown_table", "on_schema_mismatch")
        for name in (*names, "full_rows", "record_losses"):
            if (value := getattr(self, name)) is not None:
                check_argument(name, value)
        object.__setattr__(self, "record_losses", loss_kinds(self.record_losses))


class TransactionAssembler:
    """Assembler of a feed's events into transactions.

    Rows of unwanted tables are skipped before decoding; wanted rows are decoded when a
    transaction's changes are iterated. Nothing that changes a captured table is skipped silently:
    an unknown event inside a transaction, an INCIDENT, or a row change logged as text stops the
    stream with an error.

    Args:
        options: wanted tables, and the handling of losses and unknown tables.
        decode: how values are decoded.
        resume: where delivery continues; the rows of its transaction that are done are skipped.
        history: the schema history at the start; it is updated.
        prepared: the XA transactions that are pending at the start; it is updated.

    Attributes:
        schema: tracker of the current schema history.
        prepared: the XA transactions that are pending.
    """

    def __init__(
        self,
        options: AssemblyOptions,
        decode: DecodeOptions,
        resume: Position | None = None,
        history: SchemaHistory | None = None,
        prepared: PreparedRows | None = None,
    ) -> None:
        self.prepared = PreparedRows() if prepared is None else prepared
        self.schema = SchemaTracker(
            SchemaHistory() if history is None else history,
            options.selection,
            options.on_unknown_table,
            options.on_schema_mismatch,
        )
        self._options = options
        self._decode = decode
        self._resume = resume if resume is not None and resume.inside_transaction else None
        self._losses = LossWatch(
            loss_kinds(options.record_losses), self._resume, withholds=options.withholds_texts
        )
        # One entry per table: an earlier definition of a table seldom returns.
        self._decoders: SizedCache[TableName, _Known] = SizedCache(_MAX_DECODERS)
        self._rows: list[RowsOfEvent] = []
        self._statements: list[tuple[int, Statement]] = []
        self._schema_changes: list[SchemaChange] = []
        self._revision = self.schema.history.revision
        self._size = 0
        self._part = 0
        self._savepoints = Savepoints(self.prepared.storage)
        # Start of the transaction whose rows wait for its end; None: no rows wait.
        self._waits_from: Position | None = None
        self._gtid = ""
        self._commit_timestamp_us: int | None = None
        self._xid: int | None = None
        self._thread_id: int | None = None
        self._is_first_hand: bool | None = None
        self._xa_commit = False

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> Iterator[Transaction]:
        """Take the next event and yield the transactions, or parts, that it completes.

        Raises:
            DataLossError: see above.
            UnsupportedEventError: see above.
        """
        event, boundary = located
        if boundary is not None and (boundary.outcome == "abandoned" or tracker.in_transaction):
            # The boundary belongs to the transaction before this event.
            yield from self._finish(event, boundary, decoder, tracker)
            boundary = None
        try:
            self._take(event, decoder, tracker)
        except BinlogDecodeError as error:
            raise error_at(error, event) from None
        if boundary is not None:
            yield from self._finish(event, boundary, decoder, tracker)
        elif self._losses.found and not tracker.in_transaction:
            # A transaction without changes reports a gap between transactions. An artificial event
            # has no bytes in the file: its transaction starts before the event at its position.
            start = Position(event.file, event.position - event.header.is_artificial)
            yield self._transaction(event, start, tracker.position, complete=True)
        elif self._size >= self._options.part_size:
            if decoder.format.flavor == ServerFlavor.MYSQL and self._gtid:
                # MySQL with GTIDs logs no transaction that it rolls back.
                yield self._deliver_part(event, tracker.inside(), tracker.event_index)
            else:
                self._let_wait(tracker)

    def _take(self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker) -> None:
        code = event.header.type_code
        if code in ROWS_TYPES:
            self._take_rows(event, decoder, tracker)
        elif code in _GTIDS:
            self._take_gtid(event, tracker)
        elif code in _QUERIES:
            self._take_query(event, decoder, tracker)
        elif code == EventType.FORMAT_DESCRIPTION_EVENT:
            self.schema.server_began(event)
        elif code == EventType.XID_EVENT:
            self._xid = event.body.xid
        elif code in _FILE_GTIDS:
            tracker.learn_gtids(self._losses.check_gtids(event, tracker.gtid_set))
        elif code in _LOADS:
            self._take_load(event, decoder, tracker)
        elif code == EventType.INCIDENT_EVENT:
            raise DataLossError(
                f"{_where(event)}: the source logged an incident ({event.body}): it may have lost "
                "changes; compare the tables, then start after it"
            )
        elif (
            isinstance(event.body, UnknownEvent)
            and tracker.in_transaction
            and not event.header.flags & _IGNORABLE
        ):
            raise UnsupportedEventError(
                "an event of unknown type inside a transaction may carry rows",
                file=event.file,
                position=event.position,
                event_type=code,
                event_name=event.header.type_name,
            )

    def _take_rows(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> None:
        body = event.body
        self._savepoints.see_rows(ends_statement=bool(body.flags & STMT_END_F))
        if not body.column_count:
            return  # a dummy event that only carries STMT_END_F
        index = tracker.event_index
        try:
            table_map = decoder.table_map(body.table_id)
        except MissingTableMapError as error:
            self._losses.lose("undecodable", error_at(error, event), event, index, self._gtid)
            return
        try:
            found = self._decoder_of(table_map, decoder)
        except (UnknownTableError, SchemaMismatchError) as error:
            name = (table_map.schema, table_map.table)
            shape = TableShape.from_table_map(table_map, decoder.format.flavor)
            count = count_unknown(event, shape)
            self._losses.lose("unknown_table", error, event, index, self._gtid, name, count)
            return
        if found is None:
            return
        first_row = self._rows_done(index)
        if first_row is None:
            return
        rows = RowsOfEvent(event, *found, index, first_row, self._gtid)
        if not self._losses.is_decodable(rows):
            return
        if self._options.full_rows:
            self._losses.check_images(rows)
        if self._waits_from is not None:
            self._savepoints.append(rows)
            return
        self._rows.append(rows)
        self._size += event.header.event_size

    def _take_gtid(self, event: BinlogEvent, tracker: PositionTracker) -> None:
        body = event.body
        code = event.header.type_code
        if code == EventType.GTID_EVENT:
            self._gtid = str(MariadbGtid(body.domain_id, event.header.server_id, body.sequence))
            if body.thread_id is not None:
                self._thread_id = body.thread_id
            if body.flags & _PREPARED_XA:
                self._let_wait(tracker)
            return
        self._commit_timestamp_us = body.immediate_commit_timestamp
        if body.original_commit_timestamp != body.immediate_commit_timestamp:
            self._is_first_hand = False
        if code != EventType.ANONYMOUS_GTID_LOG_EVENT:
            self._gtid = str(Gtid(body.sid, body.gno, body.tag))

    def _rows_done(self, event_index: int) -> int | None:
        """Return how many rows of an event were delivered before; None when all were."""
        resume = self._resume
        if resume is None or event_index > resume.event_index:
            return 0
        return resume.row_index if event_index == resume.event_index else None

    def _decoder_of(self, table_map: TableMapEvent, decoder: BinlogDecoder) -> _Decoder | None:
        cached = self._known_decoder(table_map)
        if cached is not None:
            return cached[0]
        shape = None
        if self.schema.selection.wants(table_map.schema, table_map.table):
            shape = self.schema.shape(table_map, decoder.format)
        return self._new_decoder(table_map, shape, decoder)

    def _new_decoder(
        self, table_map: TableMapEvent, shape: TableShape | None, decoder: BinlogDecoder
    ) -> _Decoder | None:
        """Create and cache the decoder of a table; None if the table is not wanted."""
        found = None
        if shape is not None:
            columns = self.schema.delivered_columns(table_map, shape, decoder.format)
            found = (shape, RowImageDecoder(shape, self._decode, columns=columns))
        state = self.schema.state_of(table_map)
        known = (table_map.definition, state, found)
        name = (table_map.schema, table_map.table)
        self._decoders.pop(name, None)
        self._decoders.put(name, known, len(table_map.optional_metadata))
        return found

    def _known_decoder(self, table_map: TableMapEvent) -> tuple[_Decoder | None] | None:
        """Return the cached decoder of a table map, in a tuple.

        The tuple holds None for an unwanted table. Returns None itself when nothing is cached.
        """
        known = self._decoders.get((table_map.schema, table_map.table))
        if known is None or known[0] != table_map.definition:
            return None
        return (known[2],) if known[1] is self.schema.state_of(table_map) else None

    @property
    def full_rows(self) -> bool:
        """Whether row images that lack columns are refused."""
        return self._options.full_rows

    @property
    def part_size(self) -> int:
        """Bytes of rows events after which a transaction is delivered in parts."""
        return self._options.part_size

    @property
    def is_between(self) -> bool:
        """Whether the assembler stands between two transactions, with nothing left to skip."""
        if self._losses.records("undecodable"):
            return False  # each event is decoded first
        return not (self._rows or self._statements or self._part or self._resume is not None)

    @property
    def takes_rows(self) -> bool:
        """Whether rows of the open transaction may come by :meth:`take_rows`."""
        return self._resume is None and not self._losses.records("undecodable")

    @property
    def part_room(self) -> int:
        """Bytes of rows events that complete a part of the open transaction."""
        return self._options.part_size - self._size

    @property
    def gtid(self) -> str:
        """GTID of the open transaction; ``""`` for none."""
        return self._gtid

    def take_rows(
        self, rows: Iterable[RowsOfEvent], size: int, ended: int, ends_statement: bool
    ) -> None:
        """Take rows events in the midst of the open transaction, which complete no part of it.

        Args:
            rows: of the wanted tables among them.
            size: bytes of these events.
            ended: see :meth:`Savepoints.see_many_rows`.
            ends_statement: likewise.

        Raises:
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
        """
        self._savepoints.see_many_rows(ended, ends_statement=ends_statement)
        if self._waits_from is None:
            self._rows += rows
            self._size += size
            return
        for one in rows:
            self._savepoints.append(one)

    @property
    def revision(self) -> int:
        """The revision of the schema history."""
        return self.schema.history.revision

    def decoder_if_certain(
        self, table_map: TableMapEvent, decoder: BinlogDecoder
    ) -> tuple[_Decoder | None] | None:
        """Return the decoder of a table map if it is certain, in a tuple.

        The tuple holds None for an unwanted table. Returns None itself when the source has to be
        asked about the table, or the table differs from the assumption or cannot be determined; the
        full decoder then decides.
        """
        cached = self._known_decoder(table_map)
        if cached is not None:
            return cached
        if not self.schema.selection.wants(table_map.schema, table_map.table):
            return (self._new_decoder(table_map, None, decoder),)
        try:
            shape = self.schema.undoubted_shape(table_map, decoder.format)
            return None if shape is None else (self._new_decoder(table_map, shape, decoder),)
        except ReplicaClientError:
            return None

    def unproven(self, event: BinlogEvent, decoder: BinlogDecoder) -> TableMapEvent | None:
        """Return the table map in an event if a query to the source could say more about its table."""
        if event.header.type_code != EventType.TABLE_MAP_EVENT:
            return None
        table_map: TableMapEvent = event.body
        if not self.schema.selection.wants(table_map.schema, table_map.table):
            return None
        if self._known_decoder(table_map) is not None:
            return None
        return table_map if self.schema.needs_proof(table_map, decoder.format) else None

    def perhaps_views(self, event: BinlogEvent, decoder: BinlogDecoder) -> tuple[TableName, ...]:
        """Return the names in a statement that the source could identify as tables or views."""
        if event.header.type_code not in _STATEMENTS:
            return ()
        return self.schema.perhaps_views(event, decoder.format)

    def perhaps_temporary(
        self, event: BinlogEvent, decoder: BinlogDecoder
    ) -> tuple[TableName, ...]:
        """Return a RENAME's tables if a query to the source could say whether it renamed them."""
        if event.header.type_code not in _QUERIES:
            return ()
        return self.schema.perhaps_temporary(event, decoder.format)

    def unknown_pattern(self, event: BinlogEvent, decoder: BinlogDecoder) -> TableName | None:
        """Return the pattern of a CREATE TABLE … LIKE for a wanted table, if it is unknown.

        A query to the source could then say more about the pattern.
        """
        if event.header.type_code not in _QUERIES:
            return None
        return self.schema.unknown_pattern(event, decoder.format)

    def reads_long(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> Callable[[], None] | None:
        """Return work to run in a thread before a long statement is fed; None for other events."""
        if (
            event.header.type_code not in _QUERIES
            or len(event.body.query) <= LONG_STATEMENT
            or controls_savepoint(event.body.query)
        ):
            return None
        around = Provenance(tracker.in_transaction, self._is_first_hand)
        return partial(self.schema.read_ahead, event, decoder.format, around)

    def _take_query(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> None:
        body = event.body
        self._thread_id = body.thread_id
        if body.query in _PLAIN_CONTROL:
            return
        if body.query.startswith(b"XA START"):
            # The transaction may end with an XA PREPARE.
            self._let_wait(tracker)
            return
        index = tracker.event_index
        if tracker.in_transaction and controls_savepoint(body.query):
            self._run_savepoint(event, decoder, tracker)
            return
        self._savepoints.see_statement()
        # Which rows the statement changes must be determined before it changes the definitions.
        around = Provenance(tracker.in_transaction, self._is_first_hand)
        refused = self.schema.text_changes(event, decoder.format, around)
        changes = self.schema.run(event, decoder.format, index, around)
        delivered = self._rows_done(index) is None
        if not delivered:
            self._schema_changes.extend(changes)
        if not changes and not refused and controls_transaction(body.query):
            return
        text = statement_text(body.query, body.session.character_set_client)
        for table in refused:
            self._refuse_statement(event, text[:120], index, table)
        passes = changes or refused or self.schema.passes_on(event, decoder.format)
        if passes and not delivered:
            statement = Statement(
                body.schema.decode("utf-8", "surrogateescape"),
                text,
                event.file,
                event.position,
                index,
                event.header.server_id,
            )
            self._statements.append((index, statement))

    def _run_savepoint(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> None:
        index = tracker.event_index
        self._let_wait(tracker)
        context = query_context(event.body, decoder.format)
        try:
            savepoint = self._savepoints.run(event.body.query, context, index, self._resume)
        except DataLossError as error:
            raise DataLossError(
                f"{_where(event)}: {error}; compare the tables of this transaction with the source, then "
                "start after it"
            ) from None
        if savepoint is not None:
            self._losses.take_back(savepoint)

    def _take_load(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> None:
        tables: tuple[tuple[str, str], ...] = (("", ""),)
        if event.header.type_code == EventType.EXECUTE_LOAD_QUERY_EVENT:
            tables = self.schema.text_changes(event, decoder.format)
        for table in tables:
            self._refuse_statement(event, "LOAD DATA", tracker.event_index, table)

    def _refuse_statement(
        self, event: BinlogEvent, text: str, event_index: int, table: tuple[str, str]
    ) -> None:
        if self._options.on_statement == "error":
            what = ""
            if table[1] and not self.schema.typed_selection.wants(*table):
                what = (
                    f", under a name, {'.'.join(table)}, that is not known to be a table's: it may be a view "
                    "of a wanted table"
                )
            error = DataLossError(
                f"{_where(event)}: rows were changed by a statement logged as text ({text!r}){what}; set "
                f"binlog_format=ROW on the source, or {remedies('deliver statements', 'record statement')}"
            )
            self._losses.lose("statement", error, event, event_index, self._gtid, table, 1)

    def _let_wait(self, tracker: PositionTracker) -> None:
        """Defer the transaction's rows to its end, since it may take them back."""
        if self._waits_from is None:
            self._waits_from = tracker.inside()
            for rows in self._rows:
                self._savepoints.append(rows)
            self._rows, self._size = [], 0

    def _deliver_part(self, event: BinlogEvent, start: Position, event_index: int) -> Transaction:
        """Return a part of the transaction that begins at ``start``, up to an event of it."""
        start = Position(start.file, start.offset, start.gtid_set)
        position = Position(start.file, start.offset, start.gtid_set, event_index + 1, 0)
        transaction = self._transaction(
            event, start, position, complete=False, event_index=event_index
        )
        self._rows, self._size = [], 0
        self._part += 1
        return transaction

    def _finish(
        self,
        event: BinlogEvent,
        boundary: TransactionBoundary,
        decoder: BinlogDecoder,
        tracker: PositionTracker,
    ) -> Iterator[Transaction]:
        if boundary.outcome in ("rollback", "abandoned"):
            if self._part:
                raise DataLossError(
                    f"{_where(event)}: the transaction {self._gtid} at {boundary.file}:{boundary.offset} was "
                    "delivered in parts, and then not committed on the source"
                )
            if boundary.outcome == "rollback":
                self._check_rollback(event, decoder)
            drops: list[SchemaChange] = []
            if self.schema.history.revision != self._revision:
                # A statement of a transaction that was not committed changed nothing.
                if boundary.outcome == "rollback":
                    self.schema.history.roll_back(boundary.file, boundary.offset)
                    drops = [one for one in self._schema_changes if one.kind == "drop_table"]
                else:
                    self.schema.history.rewind(boundary.file, boundary.offset)
            self._rows, self._schema_changes = [], drops
            self._losses.take()
        elif boundary.outcome == "prepare":
            self._prepare(XaId.of_event(event.body), boundary)
        elif self._waits_from is not None:
            yield from self._kept_parts(event, self._savepoints.rows, self._waits_from)
        end = xa_end(event.body.query) if event.header.type_code in _QUERIES else None
        if end is not None and boundary.outcome != "abandoned":
            yield from self._end_prepared(event, end, boundary, tracker)
        start = Position(boundary.file, boundary.offset)
        if boundary.outcome != "abandoned":
            yield self._transaction(event, start, tracker.position, complete=True)
        self._rows, self._statements, self._schema_changes = [], [], []
        self._size = self._part = 0
        self._savepoints.clear()
        self._waits_from = None
        self._revision = self.schema.history.revision
        self._gtid, self._commit_timestamp_us, self._is_first_hand = "", None, None
        self._xid = self._thread_id = None
        self._xa_commit = False
        self._resume = None
        self._losses.end_transaction()

    def _kept_parts(
        self, event: BinlogEvent, items: Iterable[SpoolItem], start: Position
    ) -> Iterator[Transaction]:
        """Yield full parts of the rows that waited; the rest stays for the last part.

        Items other than rows come first, so that each part has its own.
        """
        for item in items:
            if isinstance(item, Statement):
                self._statements.append((0, item))
                continue
            first_row = self._rows_done(item.event_index)
            if first_row is None:
                continue
            if isinstance(item, SchemaChange):
                self._schema_changes.append(item)
            elif isinstance(item, Loss):
                self._losses.found.append(item)
            else:
                if self._size >= self._options.part_size:
                    yield self._deliver_part(event, start, self._rows[-1].event_index)
                if (item.first_row, item.gtid) != (first_row, self._gtid):
                    item = item.__replace__(first_row=first_row, gtid=self._gtid)
                self._rows.append(item)
                self._size += item.event.header.event_size

    def _check_rollback(self, event: BinlogEvent, decoder: BinlogDecoder) -> None:
        """Raise ``DataLossError`` for a rolled back transaction whose rows may stay."""
        if not (self._rows or len(self._savepoints.rows)):
            return
        if mixes_engines(query_context(event.body, decoder.format)):
            raise DataLossError(
                f"{_where(event)}: a transaction was rolled back; its rows stay if their table has no "
                "transactions, which a binlog of this old server does not record; compare its "
                "tables with the source, then start after it"
            )

    # XA transactions.

    def pending_commit(self, located: LocatedEvent) -> XaId | None:
        """Return the xid of an XA COMMIT whose rows have to be read back; None for other events."""
        event, boundary = located
        if boundary is None or event.header.type_code not in _QUERIES:
            return None
        end = xa_end(event.body.query)
        if end is None or not end.commits or end.xid in self.prepared:
            return None
        return end.xid

    def _prepare(self, xid: XaId, boundary: TransactionBoundary) -> None:
        """Keep the rows and statements of a transaction until its XA COMMIT."""
        notices, rows = RowSpool(self.prepared.storage), self._savepoints.hand_over()
        items: list[SpoolItem] = [*self._schema_changes, *self._losses.take()]
        for item in (*items, *(statement for _, statement in self._statements)):
            notices.append(item)
        for one in self._rows:
            rows.append(one)
        self._rows, self._statements, self._schema_changes = [], [], []
        start = Position(boundary.file, boundary.offset)
        self.prepared.keep(PreparedTransaction(xid, start, self._gtid), (notices, rows))

    def _end_prepared(
        self,
        event: BinlogEvent,
        end: XaEnd,
        boundary: TransactionBoundary,
        tracker: PositionTracker,
    ) -> Iterator[Transaction]:
        """Deliver or drop the rows of a prepared transaction; yields all parts but the last."""
        xid, start = end.xid, Position(boundary.file, boundary.offset)
        if xid is not None and end.commits and xid not in self.prepared:
            self.prepared.read_back(xid, start)
        if end.commits and (xid is None or xid not in self.prepared):
            error = DataLossError(
                f"{_where(event)}: {event.body.query_text()[:200]!r} commits a transaction whose XA PREPARE "
                "is not in what can be read; read the files before this one too, or, if the source has "
                "purged them, take a new snapshot, or go on with a record of the loss "
                "(record_losses='xa_prepare')"
            )
            self._losses.lose("xa_prepare", error, event, tracker.event_index, self._gtid)
        spools = () if xid is None else self.prepared.end(xid, start)
        try:
            if end.commits and spools:
                self._xa_commit = True
                start = replace(start, gtid_set=tracker.gtids_before(boundary))
                yield from self._kept_parts(event, chain.from_iterable(spools), start)
        finally:
            for spool in spools:
                spool.close()

    def _transaction(
        self,
        event: BinlogEvent,
        start: Position,
        position: Position,
        *,
        complete: bool,
        event_index: int | None = None,
    ) -> Transaction:
        """Build a transaction from the buffered rows and notices, up to an event index."""
        statements, changes = self._statements, self._schema_changes
        if event_index is None:
            self._statements, self._schema_changes = [], []
        else:
            self._statements = [one for one in statements if one[0] > event_index]
            self._schema_changes = [one for one in changes if one.event_index > event_index]
            statements = [one for one in statements if one[0] <= event_index]
            changes = [one for one in changes if one.event_index <= event_index]
        return Transaction(
            start,
            position,
            self._gtid,
            event.header.timestamp,
            self._commit_timestamp_us,
            tuple(self._rows),
            tuple(statement for _, statement in statements),
            self._part,
            complete,
            tuple(changes),
            self._losses.take(event_index),
            self._xid,
            self._thread_id,
            self._xa_commit,
        )


def _where(event: BinlogEvent) -> str:
    return f"file {event.file}, position {event.position}"
