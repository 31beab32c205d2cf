"""``replica-client stats``: where the volume of an archive comes from."""

from __future__ import annotations

import json as json_lines
from typing import Any

from replica_client.archive.statistics import ArchiveStatistics
from replica_client.cli.archive_options import Sources, opened
from replica_client.cli.flags import Html, Json, with_archive
from replica_client.cli.output import Column, Lines, commit_clock
from replica_client.errors import ConfigError

EXAMPLE = "replica-client stats /backup/db1 --html stats.html"

_TABLES = (
    Column("table", 32),
    Column("inserted", 12, True),
    Column("updated", 12, True),
    Column("deleted", 12, True),
    Column("bytes", 14, True),
)


@with_archive
def stats(
    sources: Sources,
    json: Json = False,
    html: Html = None,
    **archived: Any,
) -> None:
    """Show rows and bytes by table and hour, large and long transactions, DDL and gaps.

    Bytes are those of rows events as they stand in the file; of a compressed transaction, decompressed.
    """
    if json and html is not None:
        raise ConfigError("give one of --json and --html")
    with opened(sources, **archived) as archive:
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


def _write(found: ArchiveStatistics, lines: Lines) -> None:
    period = f"{commit_clock(found.first_time)} to {commit_clock(found.last_time)} UTC"
    lines.line(f"{found.files} files, {found.size} bytes, {period}")
    for gap in found.gaps:
        lines.line(f"transactions are missing {gap}")
    lines.heading()
    for name, one in found.tables.items():
        lines.row([name, *map(str, (one.inserted, one.updated, one.deleted, one.size))])
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
        lines.line(f"  {where}  {commit_clock(statement.time)}  {text}")
