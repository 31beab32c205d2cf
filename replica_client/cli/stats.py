"""``replica-client stats``: where the volume of an archive comes from."""

from __future__ import annotations

import json as json_lines
import sys
from typing import Annotated, Any, Literal

import typer

from replica_client.archive.archive import make_question
from replica_client.archive.known_names import check_question
from replica_client.archive.range_statistics import statistics_between
from replica_client.archive.statistics import ArchiveStatistics, TableVolume
from replica_client.cli.archive_options import Sources, opened
from replica_client.cli.flags import AllowEmpty, Html, Json, Since, Tables, Until, with_archive
from replica_client.cli.output import Column, Lines, clock, commit_clock, cropped, terminal_width
from replica_client.errors import ConfigError

_TABLES = (
    Column("table", 28),
    Column("inserted", 10, True),
    Column("updated", 10, True),
    Column("deleted", 10, True),
    Column("bytes", 14, True),
)


_VOLUMES = _TABLES[1:]
_TIMES = (Column("from (UTC)", 19), *_TABLES)


@with_archive
def stats(
    sources: Sources,
    table: Tables = None,
    since: Since = None,
    until: Until = None,
    by: Annotated[
        Literal["hour", "minute", "thread"] | None,
        typer.Option("--by", metavar="WHAT", help="Also by hour, minute or thread."),
    ] = None,
    allow_empty: AllowEmpty = False,
    json: Json = False,
    html: Html = None,
    **archived: Any,
) -> None:
    """Show rows and bytes by table and hour, large and long transactions, DDL and gaps.

    It comes from the indexes. With --table, --since, --until, --by minute or --by thread, the files are read.
    Bytes are those of rows events as they stand in the file; of a compressed transaction, decompressed.
    """
    if json and html is not None:
        raise ConfigError("give one of --json and --html")
    with opened(sources, **archived) as archive:
        if table or since or until or by in ("minute", "thread"):
            asked = make_question(table, since=since, until=until)
            if not allow_empty:
                check_question(archive, asked)
            found = statistics_between(archive, asked)
        else:
            found = archive.stats()
    if html is not None:
        from replica_client.cli.archive_options import write_statistics

        write_statistics(html, found)
        return
    lines = Lines(_TABLES)
    if json:
        lines.json_text(json_lines.dumps(found.as_dict()))
    else:
        _write(found, lines)
        lines.flush()
        _write_parts(found, by)
    lines.flush()


def _write(found: ArchiveStatistics, lines: Lines) -> None:
    period = f"{commit_clock(found.first_time)} to {commit_clock(found.last_time)} UTC"
    lines.line(f"{found.files} files, {found.size} bytes, {period}")
    for gap in found.gaps:
        lines.line(f"transactions are missing {gap}")
    lines.heading()
    for name, one in found.tables.items():
        lines.row([name, *_cells(one)])
    titles = ("largest transactions", "most rows", "longest transactions")
    for title, ones in zip(titles, (found.largest, found.most_rows, found.longest), strict=True):
        lines.line(f"{title}:")
        for each in ones[:5]:
            where = f"{each.file}:{each.position}"
            lines.line(
                f"  {where}  {commit_clock(each.time)}  {each.size} bytes, {each.rows} rows, {each.seconds} s"
            )
    if found.statements:
        lines.line("statements that may have changed tables:")
    for statement in found.statements:
        text = " ".join(statement.text.split())[:120]
        where = f"{statement.file}:{statement.position}"
        line = f"  {where}  {commit_clock(statement.time)}  {text}"
        lines.line(cropped(line, terminal_width(sys.stdout)) if sys.stdout.isatty() else line)


def _write_parts(found: ArchiveStatistics, by: str | None) -> None:
    if by == "thread":
        lines = Lines((Column("thread", 12, True), *_VOLUMES))
        lines.heading()
        for thread, one in found.threads.items():
            lines.row([thread or "not logged", *_cells(one)])
    else:
        lines = Lines(_TIMES)
        seconds, parts = (60, found.minutes) if by == "minute" else (3600, found.hours)
        if by is not None:
            lines.heading()
            for number, tables in sorted(parts.items()):
                for name, one in tables.items():
                    lines.row([clock(number * seconds), name, *_cells(one)])
    lines.flush()


def _cells(one: TableVolume) -> list[str]:
    return list(map(str, (one.inserted, one.updated, one.deleted, one.size)))
