"""Row changes of a live source, written to an output and acknowledged by its position store."""

from __future__ import annotations

import asyncio
import math

from replica_client.cli.acknowledging import SAVE_INTERVAL, Delivery
from replica_client.cli.chosen_changes import ChosenChanges
from replica_client.cli.interruption import run_async
from replica_client.cli.loss_report import tell_losses, tell_unmatched
from replica_client.errors import ConfigError
from replica_client.readers.live.source_stream import SourceStream


def write_source_changes(stream: SourceStream, chosen: ChosenChanges) -> None:
    """Write the changes that a stream gives.

    Args:
        stream: of the source.
        chosen: which, and where they go.
    """
    refused = False
    try:
        try:
            run_async(_from_source(stream, chosen))
        except ConfigError:
            refused = True
            raise
    finally:
        tell_losses(stream.losses)
        if stream.generation and not refused:  # of a source that never answered nothing was read
            tell_unmatched(stream.unmatched_patterns)


async def _from_source(stream: SourceStream, chosen: ChosenChanges) -> None:
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
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            if output.finish():
                await commit()
            await stream.flush()
