"""``replica-client events``: every event of binlog files or of a live source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from replica_client.binlog.event import BinlogEvent
from replica_client.cli.event_fields import event_fields, summary
from replica_client.cli.interruption import run_async
from replica_client.cli.keys import KeyFile, decode_options
from replica_client.cli.output import Column, Lines, clock
from replica_client.cli.sources import binlog_paths, live_source
from replica_client.constants.event_types import event_type_name
from replica_client.readers.binlog_file import open_binlog
from replica_client.readers.connect import connect

EXAMPLE = "replica-client events --json binlog.000024"

SUMMARY_SIZE = 120
COLUMNS = (
    Column("file", 16),
    Column("position", 10, right=True),
    Column("size", 8, right=True),
    Column("type", 26),
    Column("time (UTC)", 19),
    Column("server_id", 10, right=True),
    Column("next", 10, right=True),
    Column("fields"),
)


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
    lines = Lines(COLUMNS)
    write = _json_writer(lines) if json else _table_writer(lines)
    if url is not None:
        run_async(_from_source(url, start, stop_at_end, write, lines))
        return
    options = decode_options(key_file)
    for event in open_binlog(binlog_paths(sources), start=start, options=options).events():
        write(event)


async def _from_source(
    url: str,
    start: str | None,
    stop_at_end: bool,
    write: Callable[[BinlogEvent], None],
    lines: Lines,
) -> None:
    async with connect(url, start=start, stop_at_end=stop_at_end) as stream:
        async for event in stream.events():
            write(event)
            lines.flush()


def _json_writer(lines: Lines) -> Callable[[BinlogEvent], None]:
    def write(event: BinlogEvent) -> None:
        header = event.header
        record = {
            "file": event.file,
            "position": event.position,
            "size": header.event_size,
            "type": event_type_name(header.type_code),
            "type_code": header.type_code,
            "timestamp": header.timestamp,
            "server_id": header.server_id,
            "next_position": header.next_position,
            "flags": header.flags,
            "checksum": None if event.checksum is None else f"{event.checksum:08x}",
        }
        if event.inner_index is not None:
            record["inner_index"] = event.inner_index
        record["fields"] = event_fields(event)
        lines.json(record)

    return write


def _table_writer(lines: Lines) -> Callable[[BinlogEvent], None]:
    def write(event: BinlogEvent) -> None:
        header = event.header
        inner = "" if event.inner_index is None else f"/{event.inner_index}"
        text = " ".join(summary(event).split())
        if len(text) > SUMMARY_SIZE:
            text = text[: SUMMARY_SIZE - 1] + "…"
        lines.row(
            (
                event.file,
                f"{event.position}{inner}",
                header.event_size,
                event_type_name(header.type_code),
                clock(header.timestamp),
                header.server_id,
                header.next_position,
                text,
            )
        )

    return write
