"""Binlog files cut into pieces of whole transactions, each of which can be decoded on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory, TemporaryTables
from replica_client.schema.shape import TableShape
from replica_client.stream.fast.column_fast_path import ColumnFastPath
from replica_client.stream.files.file_batches import FileSteps
from replica_client.stream.files.file_bytes import BinlogFile, open_events
from replica_client.stream.files.file_order import files_between
from replica_client.stream.files.file_range import FilePrepared
from replica_client.stream.position.losses import LOSS_KINDS, Loss
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
