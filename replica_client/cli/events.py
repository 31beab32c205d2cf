"""``replica-client events``: every event of binlog files or of a live source."""

from __future__ import annotations

from typing import Annotated

import typer

from replica_client.cli.decode_options import KeyFile, decode_options
from replica_client.cli.event_output import EventOutput, write_file_events
from replica_client.cli.sources import binlog_paths, live_source
from replica_client.readers.files.binlog_file import open_binlog

EXAMPLE = "replica-client events --json binlog.000024"


def events(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    start: Annotated[
        str | None,
        typer.Option(metavar="START", help="earliest, latest, FILE:OFFSET, a GTID set, or a time."),
    ] = None,
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="End where a live source's binlog ends now.")
    ] = False,
    key_file: KeyFile = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print every event, those inside compressed transactions too: header and own fields."""
    url = live_source(sources)
    output = EventOutput(json=json)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.interruption import run_async

        run_async(_from_source(url, start, stop_at_end, output))
        return
    options = decode_options(key_file)
    write_file_events(open_binlog(binlog_paths(sources), start=start, options=options), output)


async def _from_source(url: str, start: str | None, stop_at_end: bool, output: EventOutput) -> None:
    from replica_client.readers.live.connect import connect
    from replica_client.readers.live.reconnect import ReconnectPolicy

    policy = ReconnectPolicy(first_attempts=1)
    async with connect(url, start=start, stop_at_end=stop_at_end, reconnect=policy) as stream:
        async for event in stream.events():
            output.write(event)
            output.flush()
