"""Row changes of a live source, written to standard output and acknowledged by its position store."""

from __future__ import annotations

import asyncio

from replica_client.cli.delivery import Delivery
from replica_client.cli.interruption import run_async
from replica_client.cli.losses import tell_losses, tell_unmatched
from replica_client.cli.row_output import RowOutput
from replica_client.readers.source_stream import SourceStream


def write_source_changes(stream: SourceStream, output: RowOutput) -> None:
    """Write all changes that a stream gives."""
    try:
        run_async(_from_source(stream, Delivery(output), output))
    finally:
        tell_losses(stream.losses)
        if stream.generation:  # of a source that never answered nothing was read
            tell_unmatched(stream.unmatched_patterns)


async def _from_source(stream: SourceStream, delivery: Delivery, output: RowOutput) -> None:
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
                output.write(transaction)
                delivery.delivered(transaction)
                if delivery.is_due:
                    await commit()
            saver.cancel()

    async with stream:
        try:
            await deliver()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            await commit()
            await stream.flush()
