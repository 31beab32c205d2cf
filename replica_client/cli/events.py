"""``replica-client events``: every event of binlog files or of a live source."""

from __future__ import annotations

from typing import Annotated

import typer

from replica_client.cli.decode_options import AllowEmptyTables, KeyFile, decode_options
from replica_client.cli.event_output import ChosenEvents, EventOutput, write_file_events
from replica_client.cli.sources import binlog_paths, live_source
from replica_client.readers.files.binlog_file import open_binlog

EXAMPLE = "replica-client events --json binlog.000024"


def events(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    tables: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Table maps and rows of these tables only: database.table with * and ?; repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN",
            help="Not these tables; repeatable. mysql and sys are left out, too, unless --tables names them.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="START", help="earliest, latest, FILE:OFFSET, a GTID set, or a time."),
    ] = None,
    stop_at_end: Annotated[
        bool, typer.Option("--stop-at-end", help="End where a live source's binlog ends now.")
    ] = False,
    key_file: KeyFile = None,
    allow_empty: AllowEmptyTables = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Print every event, those inside compressed transactions too: header and own fields.

    With --tables or --exclude table maps and rows of other tables are left out; all other events stay. A pattern of
    --tables that matches no table is an error at the end, if there is one.
    """
    url = live_source(sources)
    output = EventOutput(json=json)
    chosen = None
    if tables or exclude:
        chosen = ChosenEvents(tables, exclude, allow_empty=allow_empty)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.interruption import run_async

        run_async(_from_source(url, start, stop_at_end, output, chosen))
        return
    options = decode_options(key_file)
    reader = open_binlog(binlog_paths(sources), start=start, options=options)
    write_file_events(reader, output, chosen)


async def _from_source(
    url: str,
    start: str | None,
    stop_at_end: bool,
    output: EventOutput,
    chosen: ChosenEvents | None,
) -> None:
    from replica_client.readers.live.connect import connect
    from replica_client.readers.live.reconnect import ReconnectPolicy

    policy = ReconnectPolicy(first_attempts=1)
    async with connect(url, start=start, stop_at_end=stop_at_end, reconnect=policy) as stream:
        async for event in stream.events():
            if chosen is None or chosen.takes(event):
                output.write(event)
                output.flush()
        if chosen is not None:
            chosen.check()
