"""A range of a live source's binlog, read by an executor as a replica of its own."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Iterator

from replica_client.errors import DataLossError, TransportError
from replica_client.position.position import Position
from replica_client.readers.assembler import TransactionAssembler
from replica_client.readers.event_feed import EventFeed
from replica_client.readers.reconnect import ReconnectPolicy
from replica_client.readers.transaction import Transaction
from replica_client.spark.options import SourceOptions
from replica_client.transport.connection import SourceConnection
from replica_client.transport.request import DumpRequest

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

    A connection that is lost is opened again behind the last transaction that was given.

    Raises:
        DataLossError: the source's binlog ends before ``stop``.
        ServerError: the source refuses.
        TransportError: it cannot be reached.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        delays = _RECONNECT.delays()
        while True:
            stream = read_range(source, start, stop, number)
            try:
                while True:
                    try:
                        transaction = loop.run_until_complete(anext(stream))
                    except StopAsyncIteration:
                        return
                    yield transaction
                    # Parts of a transaction that are followed by a loss cannot be taken back.
                    start = transaction.position if transaction.complete else start
                    if not transaction.complete:
                        delays = iter(())
                    else:
                        delays = _RECONNECT.delays()
            except TransportError:
                delay = next(delays, None)
                if delay is None:
                    raise
                loop.run_until_complete(asyncio.sleep(delay))
            finally:
                loop.run_until_complete(stream.aclose())


async def read_range(
    source: SourceOptions, start: Position, stop: Position | None, number: int
) -> AsyncIterator[Transaction]:
    """As :func:`live_transactions`, over one connection."""
    assert source.connect is not None
    start = Position(start.file, max(start.offset, FIRST_EVENT))
    connection = await SourceConnection.open(source.connect)
    try:
        dump = await connection.start_dump(
            DumpRequest(start.file, start.offset, non_block=True),
            server_id=server_id(source, number),
            replica_uuid=str(uuid.uuid4()),
            heartbeat_period=source.heartbeat_period,
        )
    except BaseException:
        await connection.close()
        raise
    feed = EventFeed(source.decode, start)
    assembler = TransactionAssembler(source.assembly(), source.decode)
    async with dump:
        while packets := await dump.read():
            for data in packets:
                for placed in feed.feed_stream(data):
                    for transaction in assembler.feed(placed, feed.decoder, feed.tracker):
                        if stop is not None and transaction.start >= stop:
                            return
                        yield transaction
                tracker = feed.tracker
                if stop is not None and not tracker.in_transaction:
                    if Position(tracker.file, tracker.offset) >= stop:
                        return
    if stop is not None:
        tracker = feed.tracker
        raise DataLossError(
            f"the source's binlog ends at {tracker.file}:{tracker.offset}, before {stop}, which it had "
            "reached: it lost changes that were read already; start anew from a new snapshot"
        )
