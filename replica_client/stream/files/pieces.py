"""Binlog files cut into pieces of whole transactions, and pieces as record batches, several decoded at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from typing import Any, BinaryIO

from replica_client.errors import DataLossError, ReplicaClientError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, DecodeOptions
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.codec.turns import Turn, outside
from replica_client.protocol.position import Position
from replica_client.rows.batches import BatchSizes
from replica_client.rows.batching import BatchAssembler, RecordBatch
from replica_client.rows.conditions import matches
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.screens import condition_screens
from replica_client.rows.where import Condition
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory, TemporaryTables
from replica_client.schema.shape import TableShape
from replica_client.stream.fast.column_fast_path import ColumnFastPath
from replica_client.stream.fast.row_fast_path import RowFastPath
from replica_client.stream.files.file_batches import FileBatches, FileSteps
from replica_client.stream.files.file_bytes import BinlogFile, InMemoryBytes, open_events
from replica_client.stream.files.file_order import files_between
from replica_client.stream.files.file_range import FilePrepared
from replica_client.stream.position.losses import LOSS_KINDS, Loss, loss_kinds
from replica_client.stream.position.prepared import PreparedLedger
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction

PIECE_SIZE = 16 << 20
"""Bytes of whole transactions that are decoded together, roughly; half with several threads.
"""

Saw = Callable[[TableShape, RowImageDecoder], None]
"""Callback for rows of a wanted table, with the table's shape and decoder."""


@dataclass(slots=True)
class Piece:
    """A range of whole transactions.

    Attributes:
        start: position before the first transaction.
        files: the files that contain the range.
        pending: XA transactions that are prepared at its start.
        temporary: temporary tables that sessions have there.
        stop: position after the last transaction; None: the piece is read to the end of its files,
            or to the fault before that.
        reached: position after the piece, with its GTID set if known.
        tables: wanted tables with rows in it.
        must_read: whether it may have rows of other tables too, or an event that has to stop the
            reading.
        gaps: losses before its first transaction that only a comparison of two files shows.
    """

    start: Position
    files: tuple[BinlogFile, ...]
    pending: PreparedLedger
    temporary: TemporaryTables
    stop: Position | None = None
    reached: Position | None = None
    tables: set[TableName] = field(default_factory=set)
    must_read: bool = False
    gaps: list[Loss] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of the piece; a huge number if it covers several files or has no known end."""
        if len(self.files) > 1 or self.stop is None:
            return 1 << 62
        return self.stop.offset - self.start.offset


class _Looking(TransactionAssembler):
    """Assembler that reports the definitions of tables with rows, and skips the rows."""

    def __init__(self, saw: Saw, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._saw = saw

    def _decoder_of(self, table_map: TableMapEvent, decoder: BinlogDecoder) -> None:
        found = super()._decoder_of(table_map, decoder)
        if found is not None:
            self._saw(*found)

    def decoder_if_certain(
        self, table_map: TableMapEvent, decoder: BinlogDecoder
    ) -> tuple[tuple[TableShape, RowImageDecoder] | None] | None:
        """Treat every table as not selected."""
        found = super().decoder_if_certain(table_map, decoder)
        if found is None or found[0] is None:
            return found
        self._saw(*found[0])
        return (None,)


class Pieces:
    """Iterator that cuts files into pieces in a single pass, without decoding rows.

    Args:
        files: the files in order; none is a stream.
        assembly: which tables.
        decode: how events are decoded; every checksum is verified.
        history: definitions where reading begins; iterating updates it.
        begin: a position between transactions; None: the beginning of the files.
        end: no transaction that begins there or later counts.
        pending: XA transactions that are prepared where reading begins.
        saw: called with tables, before the piece that has their rows is yielded.
        threads: number of threads that decode the pieces.

    Attributes:
        history: as given; the definitions after the last yielded piece.
    """

    def __init__(
        self,
        files: Sequence[BinlogFile],
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        history: SchemaHistory,
        begin: Position | None,
        end: Position | None,
        *,
        pending: PreparedLedger | None = None,
        saw: Saw | None = None,
        threads: int = 1,
    ) -> None:
        self._size = PIECE_SIZE if threads < 2 else PIECE_SIZE // 2
        self._files, self._decode = list(files), decode
        self._begin, self._end = begin, end
        self._also = saw
        self.history = history
        self._feed = EventFeed(decode, begin, mode="file")
        # Losses are reported by the reader of the pieces.
        stated = frozenset(LOSS_KINDS) - {"undecodable"}
        assembly = replace(assembly, record_losses=stated, full_rows=False)

        def again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
            return _Looking(self._saw, assembly, decode, None, known, rows)

        ledger = PreparedLedger() if pending is None else pending.copy()
        self._prepared = FilePrepared(ledger, lambda: self._files, decode, history, again)
        assembler = _Looking(self._saw, assembly, decode, None, history, self._prepared)
        self._fast_path = ColumnFastPath(self._feed, assembler, BatchAssembler(2, decode), True)
        self._steps = FileSteps(self._feed, assembler, self._fast_path, end)
        self._piece: Piece | None = None

    def __iter__(self) -> Iterator[Piece]:
        """Yield the pieces, which cover the files.

        Raises:
            BinlogDecodeError: the first fault; the last piece goes up to it.
            DataLossError: the source logged that it lost changes; the last piece goes up to it.
            ConfigError: the files do not have the begin.
        """
        try:
            yield from self._read()
        except ReplicaClientError:
            if self._piece is not None:
                yield self._piece
            raise
        yield from self._closed()

    def _read(self) -> Iterator[Piece]:
        for start, file in files_between(self._files, self._begin, self._end):
            if self._piece is not None and self._feed.tracker.in_transaction:
                # Relay logs: a transaction may go on in the next file.
                self._piece.files = (*self._piece.files, file)
            else:
                yield from self._closed()
                self._open(start, file)
            self._feed.new_decoder(file.name)
            with file.open() as stream:
                source = open_events(stream, file.name, self._decode)
                for ready in self._steps.read(source, file.name, start.offset):
                    for transaction in ready:
                        self._take(transaction)
                    if self._is_enough(file):
                        yield from self._closed()
                        self._open(Position(file.name, self._feed.tracker.offset), file)
                        # So that the next piece reports its tables again.
                        self._fast_path.forget()
            if self._steps.stopped:
                return

    def _open(self, start: Position, file: BinlogFile) -> None:
        pending = self._prepared.ledger.copy()
        self._piece = Piece(start, (file,), pending, self.history.temporary_tables)

    def _closed(self) -> Iterator[Piece]:
        piece, tracker = self._piece, self._feed.tracker
        if piece is not None:
            piece.stop = Position(tracker.file or piece.start.file, tracker.offset)
            piece.reached = tracker.position
            # The rows of an XA COMMIT were seen at its XA PREPARE, in an earlier piece.
            piece.must_read |= not self._prepared.ledger.has_all_of(piece.pending)
            self._piece = None
            yield piece

    def _is_enough(self, file: BinlogFile) -> bool:
        """Return whether a piece is large enough and no transaction is open."""
        piece, tracker = self._piece, self._feed.tracker
        if piece is None or tracker.in_transaction or tracker.file != file.name:
            return False
        first = piece.start.offset if piece.start.file == file.name else FIRST_EVENT
        return tracker.offset - first >= self._size

    def _saw(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        if self._piece is not None:
            self._piece.tables.add((shape.database, shape.table))
        if self._also is not None:
            self._also(shape, decoder)

    def _take(self, transaction: Transaction) -> None:
        """Note the losses of a transaction that is not ordinary."""
        piece = self._piece
        if piece is not None:
            piece.must_read |= bool(transaction.losses)
            piece.gaps += [loss for loss in transaction.losses if loss.kind == "gtid_gap"]


_LARGE = 8
"""Pieces of so many times the usual size are not decoded ahead, as their batches need memory.
"""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Options for the decoding of rows.

    Attributes:
        assembly: which tables and columns.
        decode: how values are decoded.
        where: condition that one of a change's rows must meet; None: no condition.
        max_rows: rows that a batch has at most.
        notices: whether schema changes and losses are yielded, too.
        sizes: sizes of earlier pieces' batches, so that later batches get enough room at once.
        queues: empty queues of pieces that were read, whose memory later pieces reuse.
    """

    assembly: AssemblyOptions
    decode: DecodeOptions
    where: Condition | None
    max_rows: int
    notices: bool = False
    sizes: BatchSizes = field(default_factory=dict)
    queues: list[EventQueue] = field(default_factory=list)


class PieceReading:
    """Reader of one piece.

    Args:
        piece: the piece to read.
        files: all files, in order.
        history: definitions where the piece begins; reading updates it.
        how: how rows are decoded.

    Attributes:
        piece: as given.
        history: as given.
        pending: XA transactions that are prepared after what was read.
    """

    def __init__(
        self, piece: Piece, files: Sequence[BinlogFile], history: SchemaHistory, how: Decoding
    ) -> None:
        self.piece, self.history = piece, history
        self.pending: PreparedLedger = piece.pending.copy()
        self._files, self._how = files, how

    def batches(self, turn: Turn | None = None) -> Iterator[Any]:
        """Yield the rows as batches, with notices among them if these are wanted.

        Args:
            turn: the turn that this thread has if others decode, too; see
                :mod:`~replica_client.protocol.codec.turns`.

        Raises:
            BinlogDecodeError: the first fault; everything before it was yielded.
            DataLossError: a change that cannot be delivered as rows.
        """
        piece, how = self.piece, self._how
        for loss in piece.gaps:
            if loss.kind not in loss_kinds(how.assembly.record_losses):
                raise DataLossError(loss.reason)
        feed = EventFeed(how.decode, piece.start, mode="file")
        prepared = FilePrepared(
            self.pending, lambda: self._files, how.decode, self.history, self._assembler
        )
        assembler = self._assembler(self.history, prepared)
        batches = BatchAssembler(how.max_rows, how.decode, sizes=how.sizes, turn=turn)
        chosen: ChosenRows | None = None
        if how.where is None:
            steps: FileSteps = FileBatches(
                feed,
                assembler,
                batches,
                piece.stop,
                lambda _: None,
                notices=how.notices,
                shares=True,
                turn=turn,
            )
        else:
            chosen = ChosenRows(how.where)
            rows = RowFastPath(feed, assembler, True)
            steps = FileSteps(feed, assembler, rows, piece.stop, turn)
        for start, file in files_between(piece.files, piece.start, piece.stop):
            feed.new_decoder(file.name)
            with outside(turn):
                stream = file.open()
            with stream:
                events = self._queue(stream)
                source = open_events(stream, file.name, how.decode, events, turn)
                for ready in steps.read(source, file.name, start.offset):
                    if chosen is None:
                        yield from ready
                        continue
                    for transaction in ready:
                        yield from chosen.batches(batches, transaction)
                if events is not None:
                    # After a fault the queue's memory is freed.
                    events.clear()
                    how.queues.append(events)
            if steps.stopped:
                break
        yield from batches.flush()

    def _queue(self, stream: BinaryIO) -> EventQueue | None:
        """Return an empty queue for a file's events; None for a file in memory, which needs none."""
        if isinstance(stream, InMemoryBytes):
            return None
        return self._how.queues.pop() if self._how.queues else EventQueue()

    def _assembler(self, history: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(self._how.assembly, self._how.decode, None, history, rows)


class ChosenRows:
    """Filter of the changes that meet a condition, before they become batches.

    Args:
        where: the condition, which one of a change's rows has to meet.
    """

    def __init__(self, where: Condition) -> None:
        self._where = where
        self._screens = condition_screens(where)

    def batches(self, batches: BatchAssembler, transaction: Transaction) -> Iterator[RecordBatch]:
        """Yield the batches that the changes of a transaction fill.

        Raises:
            ConfigError: the condition does not fit the table.
            DataLossError: a row image lacks what decides.
        """
        version, stamp = transaction.commit_version, transaction.commit_us
        for rows in transaction.rows:
            for change in self._screens.changes(rows):
                if matches(self._where, change):
                    yield from batches.add_change(rows, change, version, stamp)


def decoded_in_order(
    pieces: Iterable[Piece], read: Callable[[Piece], PieceReading], threads: int
) -> Iterator[tuple[PieceReading, Iterable[Any]]]:
    """Yield readings of pieces in binlog order, with their batches, decoded by several threads.

    Args:
        pieces: the pieces in order; taken as they are needed.
        read: creates the reading of a piece; called in this thread before the next piece is taken.
        threads: number of decoding threads, which includes the thread that takes the batches.

    Raises:
        ReplicaClientError: of :meth:`PieceReading.batches` and of the pieces; everything before it
            was yielded.
    """
    if threads < 2:
        for piece in pieces:
            reading = read(piece)
            yield reading, reading.batches()
        return
    left = iter(pieces)
    fault: ReplicaClientError | None = None
    turn = Turn()
    ahead: deque[_Work] = deque()
    # An abandoned reader may be garbage-collected in a worker, which cannot wait for itself.
    workers: set[int] = set()
    pool = ThreadPoolExecutor(
        threads - 1, "replica_client decoding", lambda: workers.add(threading.get_ident())
    )
    try:
        while True:
            while fault is None and len(ahead) <= threads:
                try:
                    work = _Work(read(next(left)))
                except StopIteration:
                    break
                except ReplicaClientError as error:
                    fault = error  # reported after all that was found before it
                    break
                if not work.is_large:
                    pool.submit(work.run, turn)
                ahead.append(work)
            if not ahead:
                break
            # This thread decodes, too, as long as the first piece is not done.
            for work in ahead:
                if ahead[0].is_ready:
                    break
                if not work.is_large:
                    work.run(turn)
            first = ahead.popleft()
            yield first.reading, first.reading.batches() if first.is_large else first.given()
    finally:
        pool.shutdown(threading.get_ident() not in workers, cancel_futures=True)
    if fault is not None:
        raise fault


class _Work:
    """A piece that one of several threads decodes.

    Args:
        reading: the reading of the piece.

    Attributes:
        reading: as given.
        is_large: whether its batches would take too much memory together: it is then read as they
            are taken.
    """

    def __init__(self, reading: PieceReading) -> None:
        self.reading = reading
        self.is_large = reading.piece.size > _LARGE * PIECE_SIZE
        self._begun = threading.Lock()
        self._done = threading.Event()
        self._batches: list[Any] = []
        self._fault: Exception | None = None

    @property
    def is_ready(self) -> bool:
        """Whether no thread needs to decode the piece before its batches are taken."""
        return self.is_large or self._done.is_set()

    def run(self, turn: Turn) -> None:
        """Decode the piece, unless another thread does."""
        if not self._begun.acquire(blocking=False):
            return
        try:
            turn.take()
            try:
                self._batches += self.reading.batches(turn)
            finally:
                turn.give()
        except Exception as fault:  # noqa: BLE001 - it is raised where the batches are taken
            self._fault = fault
        self._done.set()

    def given(self) -> Iterator[Any]:
        """Wait for the batches and yield them; then raise the fault, if any."""
        self._done.wait()
        yield from self._batches
        if self._fault is not None:
            raise self._fault
