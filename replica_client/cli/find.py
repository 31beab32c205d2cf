"""``replica-client find``: the changes of a row, a column, a table."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from replica_client.archive.archive import Found, FoundChange, make_question
from replica_client.archive.known_names import check_answer, check_question
from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.flags import (
    AllowEmpty,
    Html,
    Json,
    Last,
    Limit,
    RowKey,
    Since,
    Tables,
    Until,
    Where,
    check_one_end,
    with_archive_texts,
)
from replica_client.cli.output import Column, Lines, commit_clock
from replica_client.cli.reading import tell_losses
from replica_client.cli.row_output import row_text
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable

EXAMPLE = "replica-client find /backup/db1 --table shop.orders --key 42"

_MOST_SHOWN = 200
_COLUMNS = (
    Column("position", 28),
    Column("committed (UTC)", 26),
    Column("thread", 8, True),
    Column("kind", 6),
    Column("table", 24),
    Column("row"),
)


@with_archive_texts
def find(
    sources: Sources,
    table: Tables = None,
    key: RowKey = None,
    column: Annotated[
        str | None, typer.Option("--column", metavar="NAME", help="Only changes of this column.")
    ] = None,
    from_value: Annotated[
        str | None, typer.Option("--from", metavar="VALUE", help="… that had this value.")
    ] = None,
    to_value: Annotated[
        str | None, typer.Option("--to", metavar="VALUE", help="… that got this value.")
    ] = None,
    where: Where = None,
    since: Since = None,
    until: Until = None,
    gtid: Annotated[
        str | None, typer.Option(metavar="SET", help="Only these transactions.")
    ] = None,
    thread: Annotated[
        int | None, typer.Option(metavar="N", help="Only those of this connection of the source.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="insert, update, delete; repeatable.")
    ] = None,
    count: Annotated[bool, typer.Option("--count", help="Only how many there are.")] = False,
    json: Json = False,
    html: Html = None,
    limit: Limit = None,
    last: Last = None,
    statement: Annotated[
        bool, typer.Option("--statement/--no-statement", help="Print statements, where logged.")
    ] = True,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Find changes in binlog files: position, GTID, time, thread, statement, the row before and after.

    Only the parts of the files that may hold such changes are read, by indexes that are made when they are missing.
    Texts are equal where every character is, whatever the column's collation. TIMESTAMP values are in UTC, and so are
    commit times. On a terminal long statements are cut.
    """
    check_one_output(count=count, json=json, html=html)
    check_one_end(limit, last)
    with opened(sources, **archived) as archive:
        asked = make_question(
            table,
            key_of(key),
            column=column,
            before=from_value,
            after=to_value,
            where=where,
            since=since,
            until=until,
            gtid=gtid,
            thread=thread,
            kind=kind,
        )
        if not allow_empty:
            check_question(archive, asked)
        found = Found(archive, [asked], statement and not count)
        if thread is not None and not allow_empty and next(iter(found), None) is None:
            check_answer(archive, asked)
        chosen = chosen_ones(found, limit, last)
        write_found(chosen, count=count, json=json, html=html, title=" ".join(table or ["changes"]))
        tell_losses(found.losses)


def chosen_ones(
    found: Iterable[FoundChange], limit: int | None, last: int | None
) -> Iterator[FoundChange]:
    """Return the first of what was found, or the last, the newest first."""
    if last is not None:
        return reversed(deque(found, last))
    return islice(found, limit)


def check_one_output(*, count: bool, json: bool, html: Path | None) -> None:
    """Refuse two forms of output.

    Raises:
        ConfigError: more than one is asked for.
    """
    if count + json + (html is not None) > 1:
        raise ConfigError("give one of --count, --json and --html")


def write_found(
    found: Iterable[FoundChange],
    *,
    count: bool,
    json: bool,
    html: Path | None,
    title: str,
) -> None:
    """Write changes as the options say.

    Raises:
        OSError: standard output or the page cannot be written.
    """
    lines = Lines(_COLUMNS, crops=True)
    if count:
        lines.data(str(sum(1 for _ in found)))
    elif html is not None:
        from replica_client.cli.archive_options import write_timeline

        write_timeline(html, title, found)
    elif json:
        for one in found:
            lines.json_text(one.to_json())
    else:
        lines.heading()
        for one in found:
            change = one.change
            statement = "" if one.statement is None else f"  -- {_shown(one.statement)}"
            lines.row(
                [
                    f"{change.file}:{change.offset}",
                    commit_clock(one.transaction.commit_us),
                    "" if one.thread_id is None else str(one.thread_id),
                    change.kind,
                    f"{change.database}.{change.table}",
                    printable(row_text(change) + statement),
                ]
            )
    lines.flush()


def _shown(statement: str) -> str:
    """Return a statement in one line, which is cut on a terminal."""
    text = " ".join(statement.split())
    if len(text) > _MOST_SHOWN and sys.stdout.isatty():
        return f"{text[:_MOST_SHOWN]} … ({len(text)} characters)"
    return text
