"""Row changes and events of a live source, written to an output; changes are acknowledged by its position store."""

from __future__ import annotations

import asyncio
import math
import sys
from contextlib import suppress
from typing import Final

from replica_client.cli.acknowledging import SAVE_INTERVAL, ChosenChanges, Delivery
from replica_client.cli.event_output import ChosenEvents, EventOutput
from replica_client.cli.interruption import run_async
from replica_client.cli.output import message
from replica_client.cli.reading import tell_losses, tell_unmatched
from replica_client.errors import ConfigError
from replica_client.stream.live.connect import connect
from replica_client.stream.live.source_stream import SourceStream
from replica_client.stream.live.stream_options import ReconnectPolicy
from replica_client.stream.transactions.arguments import ReadingEnd
from replica_client.stream.transport.connect_options import parse_hosts

_GRACE: Final = 2.0
"""Seconds for transactions that were committed just before a time to arrive."""


def say_what_is_followed(stream: SourceStream, url: str) -> None:
    """Say on a terminal which source is followed, and from where."""
    server, position = stream.server, stream.position
    if server is None or not (sys.stdout.isatty() and sys.stderr.isatty()):
        return
    hosts = ", ".join(f"{one.host}:{one.port}" for one in parse_hosts(url))
    begin = f"{position.file}:{position.offset}" if position.file else "the start of its binlog"
    message(
        f"following {hosts} ({server.flavor} {server.version_text}) from {begin}; Ctrl-C ends it"
    )


def write_source_changes(
    stream: SourceStream, chosen: ChosenChanges, url: str, end: ReadingEnd | None = None
) -> None:
    """Write the changes that a stream gives.

    Args:
        stream: of the source.
        chosen: which, and where they go.
        end: where to stop; None: nowhere.
        url: of the source.
    """
    refused = False
    try:
        try:
            run_async(_from_source(stream, chosen, url, end or ReadingEnd()))
        except ConfigError:
            refused = True
            raise
    finally:
        tell_losses(stream.losses)
        if stream.generation and not refused:  # of a source that never answered nothing was read
            tell_unmatched(stream.unmatched_patterns)


async def _from_source(
    stream: SourceStream, chosen: ChosenChanges, url: str, end: ReadingEnd
) -> None:
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
                if end.excludes(transaction):
                    break
                delivery.delivered(chosen.write(transaction))
                if delivery.is_due:
                    await commit()
                if chosen.done or (end.stop is not None and end.is_reached(transaction.position)):
                    break
            saver.cancel()

    async with stream:
        chosen.begin(stream.position)
        say_what_is_followed(stream, url)
        seconds = end.seconds_left
        try:
            if not end.is_reached(stream.position):
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if seconds is None else seconds + _GRACE):
                        await deliver()
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        finally:
            if chosen.finish():
                await commit()
            await stream.flush()


async def write_source_events(
    url: str,
    start: str | None,
    until: str | None,
    stop_at_end: bool,
    output: EventOutput,
    chosen: ChosenEvents | None,
) -> None:
    """Write the events of a source.

    Raises:
        ReplicaClientError: the source cannot be followed, or a pattern matched no table.
    """
    end = ReadingEnd.of(start, until)
    end.check_for_events()
    seconds = end.seconds_left
    policy = ReconnectPolicy(first_attempts=1)
    at_end = stop_at_end or end.is_past
    async with connect(url, start=start, stop_at_end=at_end, reconnect=policy) as stream:
        say_what_is_followed(stream, url)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if seconds is None else seconds + _GRACE):
                async for event in stream.events():
                    if end.is_excluded_event(event):
                        break
                    if chosen is not None:
                        if not chosen.write(event, output):
                            break
                    else:
                        output.write(event)
                    output.flush()
    if chosen is not None:
        chosen.finish(output)
