"""What is in binlog files: the tables, what they look like, and where the files may be cut."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pyarrow as pa

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.events.table_map import TableMapEvent
from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.binlog.options import DecodeOptions
from replica_client.errors import BinlogDecodeError, ConfigError
from replica_client.position.losses import LOSS_KINDS, Loss
from replica_client.position.position import Position
from replica_client.position.prepared import PreparedLedger
from replica_client.readers.assembler import AssemblyOptions, TransactionAssembler
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.fast.column_fast_path import ColumnFastPath
from replica_client.readers.files.file_batches import FileSteps
from replica_client.readers.files.file_bytes import BinlogFile, open_events
from replica_client.readers.files.file_prepared import FilePrepared
from replica_client.readers.prepared_rows import PreparedRows
from replica_client.readers.transaction import Transaction
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape

PIECE_SIZE = 8 << 20
"""Bytes of binlog that are decoded together, about: whole transactions."""


@dataclass(slots=True)
class Piece:
    """A range of whole transactions.

    Attributes:
        start: before the first one.
        stop: behind the last one.
        files: those that it touches.
        tables: wanted tables with rows in it.
        must_read: whether it may have rows of others too, or what has to stop the reading.
        gaps: losses before its first transaction that the files tell only from one to the next.
    """

    start: Position
    stop: Position
    files: tuple[BinlogFile, ...]
    tables: set[TableName] = field(default_factory=set)
    must_read: bool = False
    gaps: list[Loss] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes, as far as they are in one file; else none that is known."""
        return self.stop.offset - self.start.offset if len(self.files) == 1 else 1 << 62


@dataclass(slots=True)
class Contents:
    """What was found in files.

    Attributes:
        files: all of them.
        pieces: they cover the files.
        schemas: of the batches of each wanted table that has rows, the newest last.
        history: what tables look like at the end.
    """

    files: list[BinlogFile]
    pieces: list[Piece] = field(default_factory=list)
    schemas: dict[TableName, list[pa.Schema]] = field(default_factory=dict)
    history: SchemaHistory = field(default_factory=SchemaHistory)

    def history_at(self, position: Position) -> SchemaHistory:
        """What tables look like at a place; a copy."""
        history = self.history.copy()
        history.rewind(position.file, position.offset)
        return history


class SeenSchemas:
    """Collects the schemas of tables in the order in which they are seen.

    Args:
        schemas: of the tables' batches, the newest last.
    """

    def __init__(self, schemas: dict[TableName, list[pa.Schema]]) -> None:
        self.schemas = schemas
        self._last: dict[TableName, TableShape] = {}

    def saw(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        """Rows of a table come that looks like this."""
        name = (shape.database, shape.table)
        if self._last.get(name) == shape:
            return
        self._last[name] = shape
        schema = BatchBuilder(shape, None, decoder.options, decoder).schema
        schemas = self.schemas.setdefault(name, [])
        if schema in schemas:
            schemas.remove(schema)
        schemas.append(schema)


class _Looking(TransactionAssembler):
    """Tells what tables look like whose rows come, and passes the rows over."""

    def __init__(self, look: _Look, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._look = look

    def _decoder_of(self, table_map: TableMapEvent, decoder: BinlogDecoder) -> None:
        found = super()._decoder_of(table_map, decoder)
        if found is not None:
            self._look.saw(*found)

    def undoubted_decoder(
        self, table_map: TableMapEvent, decoder: BinlogDecoder
    ) -> tuple[tuple[TableShape, RowImageDecoder] | None] | None:
        """As of :class:`TransactionAssembler`; no table is wanted."""
        found = super().undoubted_decoder(table_map, decoder)
        if found is None or found[0] is None:
            return found
        self._look.saw(*found[0])
        return (None,)


class _Look:
    """Goes through files once.

    Args:
        files: in order.
    """

    def __init__(self, files: Sequence[BinlogFile]) -> None:
        self.found = Contents(list(files))
        self.schemas = SeenSchemas(self.found.schemas)
        # None before what is read begins.
        self._piece: Piece | None = None

    def saw(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        """Rows of a table come that looks like this."""
        if self._piece is not None:
            self._piece.tables.add((shape.database, shape.table))
            self.schemas.saw(shape, decoder)

    def go(
        self,
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        history: SchemaHistory,
        begin: Position | None,
        end: Position | None,
    ) -> None:
        """Read everything up to the end; every checksum is looked at."""
        self.found.history = history
        if begin is not None:
            try:
                _Leg(self, assembly, decode, history, None, begin).read(self._begin_nothing)
            except BinlogDecodeError:
                # A fault in what is not read: what was known before it may not hold behind it.
                self.found.history = history = SchemaHistory(
                    lower_case_names=history.lower_case_names
                )
        leg = _Leg(self, assembly, decode, history, begin, end)
        leg.read(partial(self._enter, leg))
        self._close(leg.feed)

    def _begin_nothing(self, start: Position, file: BinlogFile) -> None:
        """Nothing is kept of what is before the begin."""

    def _enter(self, leg: _Leg, start: Position, file: BinlogFile) -> None:
        piece = self._piece
        if piece is not None and leg.feed.tracker.in_transaction:
            # Relay logs: a transaction goes on in the next file.
            piece.files = (*piece.files, file)
            return
        self._close(leg.feed)
        self._piece = Piece(start, start, (file,))

    def cut(self, file: BinlogFile, leg: _Leg) -> None:
        """Begin another piece, where this one is large enough and nothing is open."""
        piece, tracker = self._piece, leg.feed.tracker
        if piece is None or tracker.in_transaction or tracker.file != file.name:
            return
        first = piece.start.offset if piece.start.file == file.name else FIRST_EVENT
        if tracker.offset - first < PIECE_SIZE:
            return
        self._close(leg.feed)
        here = Position(file.name, tracker.offset)
        self._piece = Piece(here, here, (file,))
        # So that the tables of the next piece are seen again.
        leg.fast_path.forget()

    def _close(self, feed: EventFeed) -> None:
        piece, tracker = self._piece, feed.tracker
        if piece is not None:
            piece.stop = Position(tracker.file or piece.start.file, tracker.offset)
            self.found.pieces.append(piece)

    def take(self, transaction: Transaction) -> None:
        """A transaction that is not ordinary."""
        piece = self._piece
        if piece is not None:
            piece.must_read |= transaction.xa_commit or bool(transaction.losses)
            piece.gaps += [loss for loss in transaction.losses if loss.kind == "gtid_gap"]


class _Leg:
    """Reads from one position to another, and shows a look what is there."""

    def __init__(
        self,
        look: _Look,
        assembly: AssemblyOptions,
        decode: DecodeOptions,
        history: SchemaHistory,
        begin: Position | None,
        end: Position | None,
    ) -> None:
        self._look, self._decode = look, decode
        self._begin, self._end = begin, end
        self.feed = EventFeed(decode, begin, mode="file")

        def again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
            return _Looking(look, assembly, decode, None, known, rows)

        prepared = FilePrepared(PreparedLedger(), lambda: look.found.files, decode, history, again)
        assembler = _Looking(look, assembly, decode, None, history, prepared)
        self.fast_path = ColumnFastPath(self.feed, assembler, BatchAssembler(2, decode), True)
        self._steps = FileSteps(self.feed, assembler, self.fast_path, end)

    def read(self, enter: Callable[[Position, BinlogFile], None]) -> None:
        """Read all of it; ``enter`` is told each file."""
        for start, file in files_between(self._look.found.files, self._begin, self._end):
            enter(start, file)
            self.feed.new_decoder(file.name)
            with file.open() as stream:
                source = open_events(stream, file.name, self._decode)
                for ready in self._steps.read(source, file.name, start.offset):
                    for item in ready:
                        self._look.take(item)
                    self._look.cut(file, self)
            if self._steps.stopped:
                return


def files_between(
    files: Sequence[BinlogFile], begin: Position | None, end: Position | None
) -> Iterator[tuple[Position, BinlogFile]]:
    """The files from one position to another, and where each is begun to read.

    Raises:
        ConfigError: the file of the first position is not among them.
    """
    names = [file.name for file in files]
    if begin is not None and begin.file not in names:
        raise ConfigError(
            f"since {begin}: no such file among {', '.join(names[:5])}{' …' if names[5:] else ''}"
        )
    for file in files[names.index(begin.file) if begin is not None else 0 :]:
        start = Position(file.name, FIRST_EVENT)
        if begin is not None and begin.file == file.name and begin.offset > FIRST_EVENT:
            start = Position(file.name, begin.offset)
        if end is not None and start >= end:
            return
        yield start, file


def look_at(
    files: Sequence[BinlogFile],
    assembly: AssemblyOptions,
    decode: DecodeOptions,
    history: SchemaHistory,
    begin: Position | None,
    end: Position | None,
) -> Contents:
    """Go through files once, without decoding a row.

    Args:
        files: in order; none is a stream.
        assembly: which tables.
        decode: how events are decoded.
        history: what tables look like at the start; it is moved on.
        begin: between transactions; what is before counts for the schema history alone.
        end: no transaction that begins there or later counts.

    Raises:
        BinlogDecodeError: the first fault.
        DataLossError: the source logged that it lost changes.
    """
    stated = frozenset(LOSS_KINDS) - {"undecodable"}
    look = _Look(files)
    look.go(replace(assembly, record_losses=stated, full_rows=False), decode, history, begin, end)
    return look.found
