"""Binlog files as events, changes, transactions and record batches."""

# Over 500 lines: the four iterators of files and the only function that opens them; ranges, bytes
# and batches have modules of their own.

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Literal, overload

from replica_client._compiled import tell_plain
from replica_client.errors import USER_BOUNDARY, BinlogDecodeError, ConfigError
from replica_client.options import checked_arguments, checked_types, remedies
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.row_change import AnyChange
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.fast.event_fast_path import EventFastPath
from replica_client.stream.fast.row_fast_path import RowFastPath
from replica_client.stream.files.file_batches import FileBatches, FileEvents, FileSteps
from replica_client.stream.files.file_bytes import BinlogFile, FileSource, binlog_files, open_events
from replica_client.stream.files.file_order import check_files, check_position
from replica_client.stream.files.file_range import (
    AnyGtidSet,
    Begin,
    FilePrepared,
    begin_at_time,
    begin_behind_gtids,
    end_behind_gtids,
    first_at,
    previous_gtids,
    spooled,
)
from replica_client.stream.position.losses import LOSS_KINDS, LOSSES_KEY, LossLedger
from replica_client.stream.position.prepared import PREPARED_KEY, PreparedLedger
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions import inside
from replica_client.stream.transactions.arguments import (
    Start,
    assembly_of,
    decode_of,
    micros_of,
    parse_start,
    stop_of,
)
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transactions.inside import GivenChange, position_at
from replica_client.stream.transactions.loss_watch import Notice, batches_of, changes_of, used_as
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch


@used_as("files need no block; write `for change in rc.open_binlog(…).changes():`")
class BinlogFileReader:
    """Reader of binlog files in order; every iterator starts from the beginning.

    Made by :func:`open_binlog`.

    Attributes:
        history: definitions of the tables, as far as the last iterator read.
        losses: counts of changes that the last iterator could not deliver (``record_losses``).
        prepared: XA transactions that are pending where the last iterator is.

    Examples:
        >>> reader = rc.open_binlog(["shop-bin.000001", "shop-bin.000002"], tables=["shop.orders"])
        >>> sum(change.kind == "insert" for change in reader.changes())
        40
    """

    def __init__(
        self,
        files: Sequence[BinlogFile],
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        start: Start,
        stop: Start,
        schema: SchemaHistory | None = None,
        losses: LossLedger | None = None,
        lower_case_table_names: int | None = None,
        prepared: PreparedLedger | None = None,
        threads: int = 1,
        *,
        checks_tables: bool = False,
    ) -> None:
        self._threads = threads
        self._checks_tables = checks_tables
        self._letter_case = lower_case_table_names
        self._files = list(files)
        self._assembly = assembly
        self._decode = decode
        self._start = start
        self._stop = stop
        # A transaction stands for the position after it, which takes time to compute.
        self._delivered: Position | Transaction = Position("", 0)
        self._given: GivenChange | None = None
        self._tracker: PositionTracker | None = None
        self._reader: FileSteps | None = None
        self._schema = schema
        self.history = SchemaHistory() if schema is None else schema
        self._earlier = LossLedger() if losses is None else losses
        self.losses = self._earlier.copy()
        self._pending = PreparedLedger() if prepared is None else prepared
        self.prepared = self._pending.copy()

    @property
    def position(self) -> Position:
        """The safe resume point after everything that the last iterator delivered."""
        if isinstance(self._delivered, Transaction):
            self._delivered = self._delivered.position
        if self._given is not None:
            return position_at(self._delivered, self._given)
        return self._delivered

    @position.setter
    def position(self, position: Position) -> None:
        self._delivered = position

    def state(self, position: Position | None = None) -> dict[str, object]:
        """Return the state for the :class:`~replica_client.stream.position.stores.Checkpoint` of a position.

        Args:
            position: the position; None: :attr:`position`.
        """
        parts = self.history.to_parts(defaults=self._assembly.saves_defaults)
        state: dict[str, object] = {STATE_KEY: parts}
        position = self.position if position is None else position
        kept = {
            LOSSES_KEY: self.losses.to_state(position),
            PREPARED_KEY: self.prepared.to_state(position),
        }
        return state | {key: value for key, value in kept.items() if value}

    @property
    def unmatched_patterns(self) -> list[str]:
        """Patterns of ``tables`` that match no table that was read or is known."""
        return self._assembly.selection.unmatched_of(self.history)

    def check_tables(self, hint: str = "") -> None:
        """Raise unless every pattern of ``tables`` matches a table that was read or is known.

        Args:
            hint: for the end of the message.

        Raises:
            ConfigError: naming the pattern, and the nearest table.
        """
        self._assembly.selection.check_matched(self.history, hint=hint)

    def _check_read_tables(self) -> None:
        """Raise if a pattern matched no table at the end of all files.

        A loss may have been of such a table: it was told.
        """
        if self._checks_tables and not self.losses.counts:
            self.check_tables(f"; {remedies('empty answer')}")

    def __iter__(self) -> Iterator[BinlogEvent]:
        """Yield :meth:`events`."""
        return self.events()

    def events(self) -> Iterator[BinlogEvent]:
        """Yield every event in order; the events inside a transaction payload follow it.

        Raises:
            BinlogDecodeError: the first fault; everything before it was delivered.
            OSError: a file cannot be read.
        """
        with USER_BOUNDARY:
            begin, stop = self._range()
            yield from self._events(begin.position, stop)

    def look_at_events(self, fast_path_of: Callable[[EventFeed], EventFastPath]) -> Iterator[None]:
        """Visit every event in order and in place; yields now and then.

        Args:
            fast_path_of: makes what looks at the events.

        Raises:
            BinlogDecodeError: as :meth:`events`.
        """
        begin, _ = self._range()
        feed = EventFeed(self._decode, begin.position, mode="file")
        fast_path = fast_path_of(feed)
        steps = FileSteps(feed, fast_path, fast_path, None)
        files = self._from_start(begin.position)
        for _ in self._read_files(steps, feed, files, begin.position, None):
            yield

    def transactions(self) -> Iterator[Transaction]:
        """Yield committed transactions; very large transactions in parts.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: the first fault; everything before it was delivered.
            OSError: a file cannot be read.
        """
        with USER_BOUNDARY:
            begin, stop = self._range()
            assembler = self._new_assembler(begin)
            for ready in self._transaction_steps(assembler, begin.position, stop):
                for transaction in ready:
                    if begin.passed is not None:
                        begin.check(transaction)
                    self._count_losses(transaction)
                    yield transaction
                    self._delivered = transaction
            self._check_read_tables()

    def _transaction_steps(
        self,
        assembler: TransactionAssembler,
        start: Position | None,
        stop: Position | None,
    ) -> Iterator[Iterable[Transaction]]:
        """Yield lists of transactions as they become complete."""
        files = self._from_start(start)
        feed = EventFeed(self._decode, start, mode="file")
        fast_path = RowFastPath(feed, assembler, True)
        yield from self._read_files(
            FileSteps(feed, assembler, fast_path, stop), feed, files, start, stop
        )
        self.position = feed.tracker.position

    def _read_files(
        self,
        reader: FileSteps,
        feed: EventFeed,
        files: Sequence[BinlogFile],
        start: Position | None,
        stop: Position | None,
    ) -> Iterator[list[Any]]:
        for file in files:
            first = start.offset if start is not None and start.file == file.name else FIRST_EVENT
            if stop is not None and Position(file.name, first) >= stop:
                return
            feed.new_decoder(file.name)
            with file.open() as stream:
                source = open_events(stream, file.name, self._decode)
                yield from reader.read(source, file.name, max(first, FIRST_EVENT))
            if reader.stopped:
                return

    def _count_losses(self, transaction: Transaction) -> None:
        for loss in transaction.losses:
            self.losses.add(loss, transaction.start)

    def _new_assembler(self, begin: Begin) -> TransactionAssembler:
        schema, start = begin.history or self._schema, begin.position
        self.history = SchemaHistory() if schema is None else schema.copy()
        self.losses = self._earlier.copy()
        if start is not None:
            self._delivered = start
            self.history.rewind(start.file, start.offset)
        if self._letter_case is not None:
            self.history.casefold_names(self._letter_case != 0)
        self.prepared = self._pending.copy()
        prepared = FilePrepared(
            self.prepared, lambda: self._files, self._decode, self.history, self._assembler_of
        )
        return TransactionAssembler(self._assembly, self._decode, start, self.history, prepared)

    def _assembler_of(self, history: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(self._assembly, self._decode, None, history, rows)

    @overload
    def changes(self, *, notices: Literal[False] = False) -> Iterator[AnyChange]: ...

    @overload
    def changes(self, *, notices: bool) -> Iterator[AnyChange | Notice]: ...

    @checked_types
    def changes(self, *, notices: bool = False) -> Iterator[AnyChange | Notice]:
        """Yield row changes of committed transactions, in order.

        :attr:`position` lies before the transaction of the last yielded change until the next
        change is requested. In a transaction of more than 1,024 changes it lies before that change.

        Args:
            notices: also yield each :class:`~replica_client.schema.history_records.SchemaChange`
                (CREATE, ALTER, RENAME, TRUNCATE, DROP … of a wanted table or of a database) and
                each :class:`~replica_client.stream.position.losses.Loss`, in its place among the rows.

        Raises:
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: the first fault; everything before it was delivered.
            OSError: a file cannot be read.
        """
        self._given = None
        before: Transaction | None = None
        with USER_BOUNDARY:
            for transaction in self.transactions():
                light = transaction.with_rows(())
                changes = changes_of(
                    transaction, notices=notices, before=before, without_rows=light
                )
                for change in islice(changes, inside.POSITIONED_AFTER):
                    yield change
                for change in changes:
                    self._given = light, change
                    yield change
                self._given, before = None, light

    @overload
    def batches(
        self,
        max_rows: int = 16384,
        max_seconds: float = 1.0,
        *,
        notices: Literal[False] = False,
    ) -> Iterator[RecordBatch]: ...

    @overload
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool
    ) -> Iterator[RecordBatch | Notice]: ...

    @checked_types
    def batches(
        self, max_rows: int = 16384, max_seconds: float = 1.0, *, notices: bool = False
    ) -> Iterator[RecordBatch | Notice]:
        """Yield row changes as Arrow record batches, each of one table and one shape.

        :attr:`position` moves only after all rows before it have been yielded.

        Args:
            max_rows: rows that a batch has at most.
            max_seconds: a batch is yielded after this time at the latest, while events are
                processed; with several threads after the decoding of a piece of the file.
            notices: as in :meth:`changes`; all rows before a notice come in batches before it.

        Raises:
            ConfigError: pyarrow is not installed.
            DataLossError: a change that cannot be delivered as rows.
            SchemaError: a table's definition is not known, or is not that of its rows.
            SpoolError: rows that wait for their COMMIT cannot be kept in a temporary file.
            BinlogDecodeError: the first fault; everything before it was delivered.
            OSError: a file cannot be read.
        """
        with USER_BOUNDARY:
            from replica_client.rows.batching import BatchAssembler

            batches = BatchAssembler(max_rows, self._decode)
            if self._threads > 1 and not self._assembly.record_losses:
                begin, stop = self._range()
                if begin.passed is None:
                    yield from self._piece_batches(begin, stop, max_rows, notices)
                    self._check_read_tables()
                    return
            deadline = time.monotonic() + max_seconds
            for ready in self._steps(batches, notices):
                yield from ready
                if time.monotonic() >= deadline:
                    reached = self._reached()
                    yield from batches.flush()
                    self.position = reached
                    deadline = time.monotonic() + max_seconds
            reached = self._reached()
            yield from batches.flush()
            self.position = reached
            self._check_read_tables()

    def _piece_batches(
        self, begin: Begin, stop: Position | None, max_rows: int, notices: bool
    ) -> Iterator[RecordBatch | Notice]:
        """Yield the batches of several threads, each of which decodes pieces of the files."""
        from replica_client.stream.files.pieces import (
            Decoding,
            Piece,
            PieceReading,
            Pieces,
            decoded_in_order,
        )

        self._files = spooled(self._files)
        self._new_assembler(begin)
        self._from_start(begin.position)
        before = self.history
        found = before.copy()
        pieces = Pieces(
            self._files,
            self._assembly,
            self._decode,
            found,
            begin.position,
            stop,
            pending=self.prepared,
            threads=self._threads,
        )
        how = Decoding(self._assembly, self._decode, None, max_rows, notices)
        revision = found.revision

        def read(piece: Piece) -> PieceReading:
            nonlocal before, revision
            if found.revision == revision and piece.stop is not None:
                # While nothing changes the history, several threads can share it.
                return PieceReading(piece, self._files, before, how)
            reading = PieceReading(piece, self._files, before.copy(), how)
            before, revision = found.copy(), found.revision
            return reading

        for reading, batches in decoded_in_order(pieces, read, self._threads):
            yield from batches
            self.history, self.prepared = reading.history, reading.pending
            if reading.piece.reached is not None:
                self.position = reading.piece.reached

    def _reached(self) -> Position:
        if self._reader is not None and self._reader.inside is not None:
            return self._reader.inside
        return self.position if self._tracker is None else self._tracker.position

    def _steps(
        self, batches: BatchAssembler, notices: bool
    ) -> Iterator[list[RecordBatch | Notice]]:
        """Yield lists of the batches that became full, step by step."""
        self._tracker = self._reader = None
        begin, stop = self._range()
        start = begin.position
        if begin.passed is not None:
            for transaction in self.transactions():
                yield list(batches_of(batches, transaction, notices=notices))
            return
        assembler = self._new_assembler(begin)
        files = self._from_start(start)
        feed = EventFeed(self._decode, start, mode="file")
        self._tracker = feed.tracker
        reader = self._reader = FileBatches(
            feed, assembler, batches, stop, self._count_losses, notices=notices
        )
        yield from self._read_files(reader, feed, files, start, stop)

    def _range(self) -> tuple[Begin, Position | None]:
        """Return where to begin and where to stop, None for the end.

        A time becomes the position before the first transaction that was committed then or later.
        """
        start, stop = self._start, None if isinstance(self._stop, str) else self._stop
        if isinstance(start, Position) and not start.file and start.gtid_set is None:
            start = "earliest"  # the position of a reader that has read nothing
        begin = Begin(start if isinstance(start, Position) else None)
        by_gtid = isinstance(stop, Position) and not stop.file
        if isinstance(start, datetime.datetime) or (begin.position and not begin.position.file):
            self._files = spooled(self._files)
            names = [file.name for file in self._files]
            history = SchemaHistory() if self._schema is None else self._schema.copy()
            if self._letter_case is not None:
                history.casefold_names(self._letter_case != 0)
            scan = partial(self._scan, history)
            if isinstance(start, datetime.datetime):
                begin = begin_at_time(scan, names[0], micros_of(start))
            elif begin.position is not None:
                begin = begin_behind_gtids(scan, names, self._previous, begin.position)
            begin = replace(begin, history=history)
        if isinstance(stop, datetime.datetime):
            self._files = spooled(self._files)
            scan = partial(self._scan, SchemaHistory())
            return begin, begin_at_time(scan, self._files[0].name, micros_of(stop)).position
        if not by_gtid or not isinstance(stop, Position):
            return begin, stop
        self._files = spooled(self._files)
        first = begin.position or Position(self._files[0].name, FIRST_EVENT)
        seen = self._previous(first.file) if first.gtid_set is None else first.gtid_set
        return begin, end_behind_gtids(partial(self._scan, None), first, seen, stop)

    def limits(self) -> tuple[Position | None, Position | None]:
        """Return start and stop as positions between transactions; None: the files' begin or end.

        Raises:
            ConfigError: the files do not have them.
            BinlogDecodeError: a fault in the events that were read to find them.
        """
        begin, stop = self._range()
        if begin.passed is not None:
            assembly = replace(self._assembly, record_losses="all", on_statement="deliver")
            assembler = TransactionAssembler(assembly, self._decode, begin.position, begin.history)
            steps = self._transaction_steps(assembler, begin.position, None)
            for transaction in chain.from_iterable(steps):
                begin.check(transaction)
        return begin.position, stop

    def first_at(self, micros: int) -> Position | None:
        """Return the start of the first transaction that was committed at a time or later.

        Returns None if there is none.

        Args:
            micros: the time, in microseconds since 1970.

        Raises:
            BinlogDecodeError: a fault in the events that were read to find it.
        """
        self._files = spooled(self._files)
        return first_at(self._scan(SchemaHistory(), None), micros)

    def _scan(self, history: SchemaHistory | None, start: Position | None) -> Iterator[Transaction]:
        """Return the transactions from a position on, with lenient checks and undecoded rows."""
        lenient = frozenset(LOSS_KINDS) - {"undecodable"}
        assembly = replace(self._assembly, on_statement="deliver", record_losses=lenient)
        assembler = TransactionAssembler(assembly, self._decode, start, history)
        return chain.from_iterable(self._transaction_steps(assembler, start, None))

    def _previous(self, file: str) -> AnyGtidSet | None:
        """Return the GTIDs of the transactions before a file."""
        return previous_gtids(self._events(Position(file, FIRST_EVENT), None))

    def _events(self, start: Position | None, stop: Position | None) -> Iterator[BinlogEvent]:
        files = self._from_start(start)
        feed = EventFeed(self._decode, start, mode="file")
        try:
            for ready in self._read_files(FileEvents(feed, stop), feed, files, start, stop):
                yield from ready
        except BinlogDecodeError:
            # All transactions that ended before the fault were delivered.
            self.position = feed.tracker.position
            raise
        self.position = feed.tracker.position

    def _from_start(self, start: Position | None) -> list[BinlogFile]:
        """Return the files from a position on."""
        if start is None:
            return self._files
        names = [file.name for file in self._files]
        if start.file not in names:
            raise ConfigError(
                f"start {start}: no such file among {', '.join(names[:5])}"
                f"{' …' if len(names) > 5 else ''}"
            )
        return self._files[names.index(start.file) :]


@checked_arguments(
    options=(DecodeOptions, "rc.DecodeOptions(…)"),
    assembly=(AssemblyOptions, "rc.AssemblyOptions(…)"),
    schema=(SchemaHistory, "a rc.SchemaHistory, as stream.history is"),
    losses=(LossLedger, "a rc.LossLedger, as reader.losses is"),
    prepared=(PreparedLedger, "what was saved with the position"),
)
def open_binlog(
    source: FileSource,
    *,
    tables: Sequence[str] | str | None = None,
    exclude: Sequence[str] | str | None = None,
    columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
    start: Position | str | datetime.datetime | None = None,
    stop: Position | str | datetime.datetime | None = None,
    keys: Mapping[str, bytes] | None = None,
    options: DecodeOptions | None = None,
    assembly: AssemblyOptions | None = None,
    schema: SchemaHistory | None = None,
    full_rows: bool = False,
    record_losses: Collection[str] | str = (),
    on_statement: Literal["error", "deliver"] | None = None,
    on_unknown_table: Literal["error", "positional"] | None = None,
    invalid_text: Literal["strict", "replace", "bytes"] | None = None,
    temporals: Literal["lossless", "python"] | None = None,
    losses: LossLedger | None = None,
    prepared: PreparedLedger | None = None,
    memory_map: bool = False,
    lower_case_table_names: int | None = None,
    threads: int = 1,
    allow_empty: bool = False,
) -> BinlogFileReader:
    """Open binlog files for reading.

    Args:
        source: a path, a directory, a list of both in order, a binary file object, or a whole file in
            memory (bytes, a memoryview, an mmap), which is read without a copy.
        tables: patterns ``database.table`` (``*``, ``?``) of the wanted tables; None takes all.
        exclude: patterns of unwanted tables.
        columns: names of the wanted columns, for all tables or by table pattern.
        start: where to start; default the first event.
        stop: where to stop: the first transaction that begins there or later is not delivered.
        keys: encryption keys by id, see :class:`~replica_client.protocol.binlog.event.DecodeOptions`.
        options: how values are decoded.
        assembly: how transactions are put together, instead of ``tables``, ``exclude``, ``columns``,
            ``full_rows`` and ``record_losses``.
        schema: definitions of the tables at the start; statements in the files update a copy.
        full_rows: refuse row images that lack wanted columns.
        record_losses: kinds of losses that are counted instead of stopping the reading
            (``statement``, ``undecodable``, ``incomplete_row``, ``gtid_gap``, ``unknown_table``,
            ``xa_prepare``, or ``all``); see :class:`~replica_client.stream.transactions.assembler.AssemblyOptions`.
        on_statement: handling of a row change that was logged as text: ``error`` stops with
            ``DataLossError``, ``deliver`` delivers it as a statement of its transaction; None:
            ``error``.
        on_unknown_table: handling of a table whose column names are not proven: ``error`` stops
            with ``UnknownTableError``, ``positional`` names its columns ``col_1``, ``col_2`` …;
            None: ``positional``.
        invalid_text: handling of bytes that are not text of their character set: ``strict`` stops,
            ``replace`` inserts U+FFFD, ``bytes`` returns the bytes; None: ``strict``.
        temporals: ``lossless`` returns :class:`~replica_client.DateTime` and its kin, ``python``
            the types of :mod:`datetime`, which have no zero dates; None: ``lossless``.
        losses: losses before the start; counting continues in a copy.
        lower_case_table_names: the setting of the server that wrote the files, which they do not
            contain. None: the setting in ``schema``; without one, a statement on ``Orders`` leaves
            ``orders`` unproven, so that its columns get names by position.
        prepared: XA transactions that were prepared before the start and had not ended, as saved
            with its position; a copy is updated. Others are searched in the files before the start.
        memory_map: read the operating system's pages of files in place, which saves a copy. A file
            must not be truncated while it is read: the operating system would end the process.
        threads: number of threads that decode the rows of ``batches()`` in parallel, in pieces of
            about 8 MB of a file; the order stays. Only one thread reads if losses are recorded, or
            if the start is a GTID set of which the files lack transactions before it.
        allow_empty: accept a pattern of ``tables`` that matches no table. Otherwise it is an error at the
            end of the files, if they are read from their beginning.

    Raises:
        ConfigError: no such file, or an option is wrong.
    """
    given = locals()
    decode, assembly = decode_of(given), assembly_of(given)
    begin, end = parse_start(start, "earliest"), parse_start(stop, "latest", "stop")
    end = stop_of(begin, end)
    if begin == "latest" or end == "earliest":
        raise ConfigError("files are read from a position or a time to a position or a time")
    files = binlog_files(source, memory_map)
    check_files(files, decode, gaps="gtid_gap" in assembly.record_losses)
    for option, one in (("start", begin), ("stop", end)):
        if isinstance(one, Position) and one.file and files[0].path is not None:
            check_position(one, files, option, decode)
    tell_plain()
    return BinlogFileReader(
        files,
        assembly,
        decode,
        begin,
        end,
        schema,
        losses,
        lower_case_table_names,
        prepared,
        threads,
        checks_tables=bool(tables) and not allow_empty and (begin, end) == ("earliest", "latest"),
    )
