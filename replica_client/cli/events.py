"""``replica-client events``: every event of binlog files or of a live source."""

from __future__ import annotations

from typing import Annotated

import typer

from replica_client.cli.event_output import ChosenEvents, EventOutput, write_file_events
from replica_client.cli.flags import (
    AllowEmpty,
    Begin,
    Exclude,
    Json,
    KeyFile,
    Last,
    Limit,
    StopAtEnd,
    Tables,
    Until,
    check_one_end,
    decode_options,
)
from replica_client.cli.sources import binlog_paths, live_source
from replica_client.errors import ConfigError
from replica_client.stream.files.binlog_file import open_binlog


def events(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Binlog paths in order, or one URL.")
    ],
    tables: Tables = None,
    exclude: Exclude = None,
    start: Begin = None,
    until: Until = None,
    stop_at_end: StopAtEnd = False,
    limit: Limit = None,
    last: Last = None,
    key_file: KeyFile = None,
    allow_empty: AllowEmpty = False,
    json: Json = False,
) -> None:
    """Print every event, those inside compressed transactions too: header and own fields.

    With --table or --exclude table maps and rows of other tables are left out; all other events stay. A pattern of
    --table that matches no table is an error at the end, if there is one.
    """
    url = live_source(sources)
    check_one_end(limit, last)
    if last is not None and url is not None and not (stop_at_end or until):
        raise ConfigError("--last of a live source needs an end: add --stop-at-end or --until")
    output = EventOutput(json=json)
    chosen = None
    if tables or exclude or limit or last:
        chosen = ChosenEvents(tables, exclude, limit, last, allow_empty=allow_empty)
    if url is not None:
        # What connects takes long to import.
        from replica_client.cli.interruption import run_async
        from replica_client.cli.source_changes import write_source_events

        run_async(write_source_events(url, start, until, stop_at_end, output, chosen))
        return
    options = decode_options(key_file)
    reader = open_binlog(binlog_paths(sources), start=start, stop=until, options=options)
    if until is not None:
        from replica_client.stream.transactions.arguments import ReadingEnd

        end = ReadingEnd.of(start or "earliest", until)
        end.check_for_events()
        chosen = chosen or ChosenEvents(None, None, allow_empty=True)
        chosen.excludes = end.is_excluded_event
    write_file_events(reader, output, chosen)
