"""A range of a live source's binlog that an executor reads as a replica of its own.

The connection that read the end of the binlog stays in the worker's process. The next micro-batch
begins at its position, or a little later when another worker had a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from replica_client.archive.file_list import PLAIN_CONTROL, ListedFile, ReadStatement, list_files
from replica_client.errors import DataLossError, ReplicaClientError
from replica_client.lake.source.envelope import MAX_ROWS
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import (
    FIRST_EVENT,
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
)
from replica_client.protocol.position import Position
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.catalog import Absent, TableChange
from replica_client.schema.history import SchemaChange, SchemaHistory, schema_change
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table
from replica_client.storage.files import file_or_none
from replica_client.storage.location import Location
from replica_client.stream.fast.row_fast_path import RowFastPath
from replica_client.stream.files.file_batches import FileBatches, FileSteps
from replica_client.stream.files.file_bytes import BinlogFile, EventSource, open_events
from replica_client.stream.files.file_range import FilePrepared
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import ReconnectPolicy, StreamOptions
from replica_client.stream.position.prepared import PreparedLedger
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.loss_watch import batches_of
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transforms.transformer import Transformer
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import random_server_id


class Changes(Protocol):
    """Takes the transactions of a range and makes batches of them."""

    batches: BatchAssembler

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Take the unusual events of a transaction, and return the rest of the transaction."""

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Take batches that became full after ``size`` bytes, and yield the batches that are due."""

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield all remaining batches."""


class RowSteps(FileSteps):
    """Reads files as :class:`~replica_client.stream.files.file_batches.FileBatches`, transaction by transaction.

    Args:
        feed: the decoder and the tracker.
        assembler: puts transactions together, and shows them to ``changes``.
        changes: is shown the ordinary ones, too, and makes the batches.
        stop: no transaction that begins there or later is read.
    """

    def __init__(
        self, feed: EventFeed, assembler: KeepingAssembler, changes: Changes, stop: Position | None
    ) -> None:
        super().__init__(feed, assembler, RowFastPath(feed, assembler, True), stop)
        self._changes = changes

    def read(self, source: EventSource, file: str, first: int) -> Iterator[list[pa.RecordBatch]]:
        """Read a file and yield the batches that became full."""
        for found in super().read(source, file, first):
            ready: list[pa.RecordBatch] = []
            for one in found:
                if isinstance(one, Transaction):
                    ready += self._deliver(self._changes.keep_back(one))
                else:
                    ready.append(one)
            yield ready

    def _deliver(self, transaction: Transaction) -> Iterable[Any]:
        return batches_of(self._changes.batches, transaction, notices=False)


class KeepingAssembler(TransactionAssembler):
    """An assembler that shows each transaction to the builder of the batches."""

    def __init__(
        self,
        changes: Changes,
        options: AssemblyOptions,
        decode: DecodeOptions,
        history: SchemaHistory | None,
        prepared: PreparedRows | None = None,
    ) -> None:
        super().__init__(options, decode, None, history, prepared)
        self._changes = changes

    def _take_query(
        self, event: BinlogEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> None:
        known = len(self._schema_changes)
        super()._take_query(event, decoder, tracker)
        if len(self._schema_changes) == known and event.body.query not in PLAIN_CONTROL:
            self._schema_changes += self._perhaps(event, decoder.format, tracker.event_index)

    def _perhaps(
        self, event: BinlogEvent, layout: BinlogFormat, index: int
    ) -> Iterator[SchemaChange]:
        """Yield what a statement may have done that a reader who starts here cannot know.

        CREATE TABLE IF NOT EXISTS is one: the reader of the change log knows whether the table
        existed.
        """
        statement = ReadStatement.of(event, layout)
        history = self.schema.history
        for table in statement.touched[0]:
            if history.lower_case_names:
                table = casefold_table(table)
            state = history.table(table)
            certain = isinstance(state, TableModel | Absent)
            used = statement.context.uses_temporary is not False
            hidden = used and history.is_temporary(statement.context.thread_id, table)
            if self.schema.typed_selection.wants(*table) and not certain and not hidden:
                change = TableChange("not_understood", table, None, state)
                yield schema_change(
                    change, statement.text, event.file, event.position, index, statement.context
                )

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> Iterator[Transaction]:
        """Yield the transactions, as the base does, transformed."""
        for transaction in super().feed(located, decoder, tracker):
            yield self._changes.keep_back(transaction)


def check_files(files: tuple[ListedFile, ...]) -> None:
    """Refuse files that changed since the query was planned.

    Raises:
        DataLossError: one is gone, or shorter.
    """
    for file in files:
        found = file_or_none(file.where)
        size = -1 if found is None else found.size
        if size < file.size:
            now = "is gone" if size < 0 else f"has {size} bytes"
            raise DataLossError(
                f"{file.path} had {file.size} bytes when the query was planned and {now} now; "
                "restore it, then start again"
            )


def file_batches(
    files: tuple[ListedFile, ...],
    start: Position,
    stop: Position | None,
    assembly: AssemblyOptions,
    decode: DecodeOptions,
    history: SchemaHistory | None,
    changes: Changes,
    paths: tuple[Location, ...] = (),
    *,
    by_transaction: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the transactions between two positions, both between transactions.

    Args:
        files: the files of the range.
        start: of the first transaction.
        stop: the first transaction that begins there or later is not read; None: all are.
        assembly: which tables and columns.
        decode: how values are decoded.
        history: the table definitions at the start.
        changes: makes the batches.
        paths: of all files. The rows of an XA transaction that is committed in the range and was
            prepared before it are looked for there.
        by_transaction: show ``changes`` all transactions, not only those with unusual events.

    Raises:
        BinlogDecodeError: the first fault.
        DataLossError: a change that cannot be delivered, or a file that is gone.
    """
    check_files(files)
    feed = EventFeed(decode, start, mode="file")
    history = SchemaHistory() if history is None else history

    def read_again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(assembly, decode, None, known, rows)

    def list_all() -> list[BinlogFile]:
        listed = list_files(paths) if paths else files
        return [BinlogFile(file.name, file.where) for file in listed]

    prepared = FilePrepared(PreparedLedger(), list_all, decode, history, read_again)
    assembler = KeepingAssembler(changes, assembly, decode, history, prepared)
    reader: FileSteps
    if by_transaction:
        reader = RowSteps(feed, assembler, changes, stop)
    else:
        batches = changes.batches
        reader = FileBatches(feed, assembler, batches, stop, lambda _: None, notices=False)
    for file in files:
        first = start.offset if start.file == file.name else FIRST_EVENT
        if stop is not None and Position(file.name, first) >= stop:
            break
        feed.new_decoder(file.name)
        at = first
        with BinlogFile(file.name, file.where).open() as stream:
            source = open_events(stream, file.name, decode)
            for ready in reader.read(source, file.name, max(first, FIRST_EVENT)):
                reached = feed.tracker.offset
                yield from changes.take(ready, reached - at)
                at = reached
        if reader.stopped:
            break
    yield from changes.flush()


class TransformedChanges:
    """Shows transactions to another consumer after the transforms.

    Args:
        changes: the consumer.
        transformer: does the transforms.
        record_losses: kinds of losses that become rows.

    Attributes:
        batches: takes the rows.
    """

    def __init__(
        self, changes: Changes, transformer: Transformer, record_losses: Collection[str]
    ) -> None:
        self._changes, self._transformer = changes, transformer
        self._record_losses = record_losses
        self.batches: BatchAssembler = changes.batches

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Transform a transaction, take its unusual events, and return the rest of it."""
        shown = self._transformer.transaction(transaction, self._record_losses)
        return self._changes.keep_back(shown)

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches, as :class:`~replica_client.lake.source.live_partition.Changes` does."""
        return self._changes.take(ready, size)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Likewise."""
        return self._changes.flush()


MAX_KEPT = 4
"""Connections that stay open in a worker's process."""

_MAX_SKIP = 8 << 20
_STALLED = 20.0
_RECONNECT = ReconnectPolicy(attempts=5, first_attempts=1)


def server_id(source: SourceOptions, number: int) -> int:
    """Our server id: the ``number``-th after the base, or a random one of the upper half."""
    if source.server_id_base is not None:
        return source.server_id_base + number
    return random_server_id()


class _Ignored:
    """Takes the transactions of a range that is passed over."""

    def __init__(self, decode: DecodeOptions) -> None:
        self.batches = BatchAssembler(MAX_ROWS, decode)

    def keep_back(self, transaction: Transaction) -> Transaction:
        """Leaves everything."""
        return transaction

    def take(self, ready: list[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
        """Return nothing."""
        return iter(())

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Return nothing."""
        for _ in self.batches.flush():
            pass
        return iter(())


class RangeStream(SourceStream):
    """Reads ranges of a source's binlog, one after the other."""

    changed: Changes

    def make_assembler(self, assembly: AssemblyOptions) -> TransactionAssembler:
        """Pass transactions to the maker of batches."""
        decode = self._options.decode
        return KeepingAssembler(self.changed, assembly, decode, self.history, self.prepared)

    def _shown(self, transaction: Transaction) -> Transaction:
        """Return the transaction unchanged: the assembler has already shown it to the transforms."""
        return transaction

    async def read(self, until: Position, changes: Changes) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the batches up to a position."""
        self.changed = changes
        at = self.reached.offset
        async for ready in self.fill(changes.batches, until):
            reached = self.reached.offset
            for batch in changes.take(ready, max(0, reached - at)):
                yield batch
            at = reached
        for batch in changes.flush():
            yield batch


@dataclass
class _Kept:
    """A connection that stays, and the loop that it lives in."""

    source: SourceOptions
    runner: asyncio.Runner
    stream: RangeStream

    def close(self) -> None:
        try:
            self.runner.run(self.stream.__aexit__(None, None, None))
        except (ReplicaClientError, OSError):
            pass  # it was lost before
        finally:
            self.runner.close()

    def is_near(self, start: Position) -> bool:
        """Return whether a start is in the same file and close enough to read on to it."""
        at = self.stream.reached
        return at.file == start.file and 0 <= start.offset - at.offset <= _MAX_SKIP


_KEPT: list[_Kept] = []


def live_batches(
    source: SourceOptions,
    start: Position,
    stop: Position | None,
    number: int,
    changes: Changes,
    keeps: bool = False,
    history: SchemaHistory | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of the transactions from ``start`` on that begin before ``stop``.

    A lost connection is opened again, and no transaction is delivered twice.

    Args:
        source: where to read.
        start: between two transactions.
        stop: likewise.
        number: of the partition; it gets a server id of its own.
        changes: makes the batches.
        keeps: reuse the connection of the range before, and keep it for the next one.
        history: the table definitions at the start; None: they are determined from the source.

    Raises:
        DataLossError: the source's binlog ends before ``stop``.
        ServerError: the source refuses.
        TransportError: it cannot be reached.
    """
    assert stop is not None
    kept = _taken(source, start) if keeps else None
    if kept is None:
        runner = asyncio.Runner()
        try:
            kept = _Kept(source, runner, runner.run(_open(source, start, number, history)))
        except BaseException:
            runner.close()
            raise
    ended = False
    try:
        if kept.stream.reached < start:
            for _ in _read(kept, start, _Ignored(source.decode)):
                pass
        yield from _read(kept, stop, changes)
        ended = True
    finally:
        if ended and keeps:
            _KEPT.append(kept)
            while len(_KEPT) > MAX_KEPT:
                _KEPT.pop(0).close()
        else:
            kept.close()


def close_kept() -> None:
    """Close the connections that this process keeps."""
    while _KEPT:
        _KEPT.pop().close()


def _taken(source: SourceOptions, start: Position) -> _Kept | None:
    """Take the kept connection of a source if it can continue at a start; close one that cannot."""
    for at, kept in enumerate(_KEPT):
        if kept.source == source:
            del _KEPT[at]
            if kept.is_near(start):
                return kept
            kept.close()
            break
    return None


async def _open(
    source: SourceOptions, start: Position, number: int, history: SchemaHistory | None
) -> RangeStream:
    assert source.connect is not None
    options = StreamOptions(
        start=Position(start.file, max(start.offset, FIRST_EVENT)),
        server_id=server_id(source, number),
        reconnect=_RECONNECT,
        assembly=source.assembly(),
        decode=source.decode,
        schema=history,
        transform=source.transformer,
        **source.following,
    )
    return await RangeStream(source.connect, options).__aenter__()


def _read(kept: _Kept, stop: Position, changes: Changes) -> Iterator[pa.RecordBatch]:
    batches = kept.stream.read(stop, changes)
    try:
        while True:
            try:
                yield kept.runner.run(_next(kept, batches, stop))
            except StopAsyncIteration:
                return
    finally:
        kept.runner.run(batches.aclose())


async def _next(
    kept: _Kept, batches: AsyncGenerator[pa.RecordBatch, None], stop: Position
) -> pa.RecordBatch:
    """Return the next batch. While the source sends nothing, check that its binlog still reaches ``stop``."""
    task = asyncio.ensure_future(anext(batches))
    try:
        while not (await asyncio.wait((task,), timeout=_STALLED))[0]:
            await _check_end(kept.source, stop)
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _check_end(source: SourceOptions, stop: Position) -> None:
    assert source.connect is not None
    async with asyncio.timeout(_STALLED):
        connection = await SourceConnection.open(source.connect)
        try:
            status = await connection.binlog_status()
        finally:
            await connection.close()
    if Position(status.file, status.position) < stop:
        raise DataLossError(
            f"the source's binlog ends at {status.file}:{status.position}, before {stop}, which it "
            "had reached: it lost changes that were read already; start over from a new snapshot"
        )
