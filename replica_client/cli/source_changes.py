"""Row changes of a live source, written to an output and acknowledged by its position store."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from replica_client.cli.acknowledging import SAVE_INTERVAL, Delivery
from replica_client.cli.chosen_changes import ChosenChanges
from replica_client.cli.interruption import run_async
from replica_client.cli.loss_report import ALLOW_EMPTY_HINT, tell_losses, tell_unmatched
from replica_client.errors import ConfigError, ServerError
from replica_client.readers.live.source_stream import SourceStream
from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url

_TABLES: Final = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"


def write_source_changes(stream: SourceStream, chosen: ChosenChanges, url: str = "") -> None:
    """Write the changes that a stream gives.

    Args:
        stream: of the source.
        chosen: which, and where they go.
        url: of the source; it is asked for its tables where a pattern matched none of those that were read.
    """
    refused = False
    try:
        try:
            run_async(_from_source(stream, chosen, url))
        except ConfigError:
            refused = True
            raise
    finally:
        tell_losses(stream.losses)
        if stream.generation and not refused:  # of a source that never answered nothing was read
            tell_unmatched(stream.unmatched_patterns)


async def _from_source(stream: SourceStream, chosen: ChosenChanges, url: str) -> None:
    output = chosen.output
    interval = math.inf if output.whole_at_end else SAVE_INTERVAL
    delivery = Delivery(output, interval=interval)
    lock = asyncio.Lock()

    async def commit() -> None:
        async with lock:
            position = delivery.flush()
            if position is not None:
                await stream.acknowledge(position)
                delivery.saved(position)

    async def commit_regularly() -> None:
        # A source that falls silent leaves nothing unsaved.
        while True:
            await asyncio.sleep(delivery.interval)
            await commit()

    async def deliver() -> None:
        async with asyncio.TaskGroup() as group:
            saver = group.create_task(commit_regularly())
            async for transaction in stream.transactions():
                delivery.delivered(chosen.write(transaction))
                if delivery.is_due:
                    await commit()
                if chosen.done:
                    break
            saver.cancel()

    async with stream:
        chosen.begin(stream.position)
        try:
            await deliver()
            if url and chosen.checks_tables and stream.unmatched_patterns:
                stream.check_tables(await _tables_of(url), ALLOW_EMPTY_HINT)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            if output.finish():
                await commit()
            await stream.flush()


async def _tables_of(url: str) -> list[tuple[str, str]]:
    """Return the names of the tables that a source shows; none where it does not answer, as a relay."""
    try:
        async with await SourceConnection.open(parse_url(url)) as connection:
            return [(str(one), str(two)) for one, two in await connection.query(_TABLES, columns=2)]
    except ServerError:
        return []
