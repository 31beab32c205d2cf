"""A range of a live source's binlog, read by an executor as a replica of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Iterator

from replica_client.errors import DataLossError
from replica_client.position.position import Position
from replica_client.readers.reconnect import ReconnectPolicy
from replica_client.readers.source_stream import SourceStream, StreamOptions
from replica_client.readers.transaction import Transaction
from replica_client.spark.options import SourceOptions

FIRST_EVENT = 4
_RECONNECT = ReconnectPolicy(attempts=5)


def server_id(source: SourceOptions, number: int) -> int:
    """Our server id: the ``number``-th after the base, or a random one of the upper half."""
    if source.server_id_base is not None:
        return source.server_id_base + number
    return random.randrange(1 << 31, (1 << 32) - 1)


def live_transactions(
    source: SourceOptions, start: Position, stop: Position | None, number: int
) -> Iterator[Transaction]:
    """Transactions from ``start`` on that begin before ``stop``.

    A connection that is lost is opened again; no transaction is given twice.

    Raises:
        DataLossError: the source's binlog ends before ``stop``.
        ServerError: the source refuses.
        TransportError: it cannot be reached.
    """
    with asyncio.Runner() as runner:
        stream = read_range(source, start, stop, number)
        try:
            while True:
                try:
                    transaction = runner.run(_next(stream))
                except StopAsyncIteration:
                    return
                yield transaction
        finally:
            runner.run(stream.aclose())


async def _next(stream: AsyncGenerator[Transaction]) -> Transaction:
    return await anext(stream)


async def read_range(
    source: SourceOptions, start: Position, stop: Position | None, number: int
) -> AsyncGenerator[Transaction]:
    """As :func:`live_transactions`."""
    assert source.connect is not None
    options = StreamOptions(
        start=Position(start.file, max(start.offset, FIRST_EVENT)),
        stop_at_end=True,
        server_id=server_id(source, number),
        heartbeat_period=source.heartbeat_period,
        reconnect=_RECONNECT,
        assembly=source.assembly(),
        decode=source.decode,
    )
    async with SourceStream(source.connect, options) as stream:
        tracker = stream._live_feed().tracker
        async for transaction in stream.transactions():
            if stop is not None and transaction.start >= stop:
                return
            yield transaction
            if stop is not None and transaction.complete and transaction.position >= stop:
                return
        if stop is not None and Position(tracker.file, tracker.offset) < stop:
            raise DataLossError(
                f"the source's binlog ends at {tracker.file}:{tracker.offset}, before {stop}, which it "
                "had reached: it lost changes that were read already; start anew from a new snapshot"
            )
