"""A range of a live source's binlog that an executor reads as a replica of its own.

The connection that read the end of the binlog stays in the worker's process. The next micro-batch
begins at its position, or a little later when another worker had a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass

import pyarrow as pa

from replica_client.errors import DataLossError, ReplicaClientError
from replica_client.lake.source.envelope import MAX_ROWS
from replica_client.lake.source.file_partition import Changes, KeepingAssembler
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.position import Position
from replica_client.rows.batching import BatchAssembler
from replica_client.schema.history import SchemaHistory
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import ReconnectPolicy, StreamOptions
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import random_server_id

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
