"""``replica-client find``, ``history`` and ``index``: changes in an archive, one row, indexes."""

from __future__ import annotations

import json as json_lines
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from replica_client.archive.archive import Found, FoundChange, make_question
from replica_client.archive.known_names import check_answer, check_question
from replica_client.archive.logged_statements import FoundStatement, find_statements
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
    with_archive,
    with_archive_texts,
)
from replica_client.cli.output import Column, Lines, commit_clock
from replica_client.cli.reading import tell_losses
from replica_client.cli.row_output import row_text
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable
from replica_client.storage.files import file_status

_MOST_SHOWN = 200
_COLUMNS = (
    Column("position", 28),
    Column("committed (UTC)", 26),
    Column("thread", 8, True),
    Column("kind", 6),
    Column("table", 24),
    Column("row"),
)
_STATEMENTS = (
    *_COLUMNS[:3],
    Column("user", 16),
    Column("GTID", 20),
    Column("statement"),
)
_THREADS = (
    Column("thread", 10, True),
    Column("transactions", 12, True),
    Column("inserted", 12, True),
    Column("updated", 12, True),
    Column("deleted", 12, True),
    Column("first commit (UTC)", 26),
    Column("last commit (UTC)", 26),
)
_Item = TypeVar("_Item")


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
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="insert, update, delete; repeatable. ddl: the statements that changed tables, instead of rows.",
        ),
    ] = None,
    by: Annotated[
        Literal["thread"] | None,
        typer.Option(
            "--by", metavar="WHAT", help="thread: a line for each connection, the busiest first."
        ),
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

    --kind ddl shows who created, altered, truncated or dropped the tables: thread, account where the source logs it,
    GTID and statement.
    """
    check_one_output(count=count, json=json, html=html)
    check_one_end(limit, last)
    is_ddl = kind == ["ddl"]
    if is_ddl and (key or column or from_value or to_value or where or html or by):
        raise ConfigError("--kind ddl takes no conditions on rows, no --by and no --html")
    if by and (json or html or count or limit or last):
        raise ConfigError("--by takes no --count, --json, --html, --limit and --last")
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
            kind=None if is_ddl else kind,
        )
        if not allow_empty:
            check_question(archive, asked)
        if is_ddl:
            _write_statements(
                chosen_ones(find_statements(archive, asked), limit, last), count, json
            )
            return
        found = Found(archive, [asked], statement and not count)
        if thread is not None and not allow_empty and next(iter(found), None) is None:
            check_answer(archive, asked)
        if by:
            _write_threads(found)
            tell_losses(found.losses)
            return
        chosen = chosen_ones(found, limit, last)
        write_found(chosen, count=count, json=json, html=html, title=" ".join(table or ["changes"]))
        tell_losses(found.losses)


def chosen_ones(found: Iterable[_Item], limit: int | None, last: int | None) -> Iterator[_Item]:
    """Return the first of what was found, or the last, the newest first."""
    if last is not None:
        return reversed(deque(found, last))
    return islice(found, limit)


def _write_statements(found: Iterable[FoundStatement], count: bool, json: bool) -> None:
    lines = Lines(_STATEMENTS, crops=True)
    if count:
        lines.data(str(sum(1 for _ in found)))
    elif json:
        for one in found:
            lines.json(one.as_dict())
    else:
        lines.heading()
        for one in found:
            lines.row(
                [
                    f"{one.transaction.start.file}:{one.position}",
                    commit_clock(one.transaction.commit_us),
                    str(one.thread_id),
                    one.user,
                    one.transaction.gtid,
                    printable(_shown(one.text)),
                ]
            )
    lines.flush()


def _write_threads(found: Found) -> None:
    """Write a line for each connection of the source that made changes."""
    kinds: dict[int | None, Counter[str]] = {}
    transactions: dict[int | None, list[FoundChange]] = {}
    for one in found:
        kinds.setdefault(one.thread_id, Counter())[one.change.kind] += 1
        known = transactions.setdefault(one.thread_id, [one, one])
        kinds[one.thread_id]["transactions"] += known[1].transaction.start != one.transaction.start
        known[1] = one
    lines = Lines(_THREADS, crops=True)
    lines.heading()
    order = ("insert", "update", "delete")
    for thread in sorted(kinds, key=lambda one: -sum(kinds[one][kind] for kind in order)):
        counts, (first, last) = kinds[thread], transactions[thread]
        lines.row(
            [
                "not logged" if thread is None else str(thread),
                str(counts["transactions"] + 1),
                *(str(counts[kind]) for kind in order),
                commit_clock(first.transaction.commit_us),
                commit_clock(last.transaction.commit_us),
            ]
        )
    lines.flush()


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


@with_archive_texts
def history(
    sources: Sources,
    table: Annotated[
        str, typer.Option(metavar="TABLE", help="database.table, its name at the archive's end.")
    ],
    key: Annotated[
        list[str],
        typer.Option(
            metavar="VALUE",
            help="The primary key at any time; repeat it for each of its columns, or give COLUMN=VALUE.",
        ),
    ],
    count: Annotated[bool, typer.Option("--count", help="Only how many changes.")] = False,
    json: Json = False,
    html: Html = None,
    limit: Limit = None,
    last: Last = None,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Show all changes of one row, in order, through changes of its key and RENAME TABLE."""
    check_one_output(count=count, json=json, html=html)
    check_one_end(limit, last)
    with opened(sources, **archived) as archive:
        asked = key_of(key)
        assert asked is not None
        found = chosen_ones(archive.history(table, asked, allow_empty=allow_empty), limit, last)
        title = f"{table} {', '.join(key)}"
        write_found(found, count=count, json=json, html=html, title=title)


@with_archive
def index(
    sources: Sources,
    json: Json = False,
    **archived: Any,
) -> None:
    """Make the indexes that find, history and stats use; those that are there and fit are kept.

    An index is a file NAME.rcindex beside the binlog file NAME. The other commands make it by themselves. With --schema
    the keys of tables are known whose CREATE TABLE is not in the archive, on sources without
    binlog_row_metadata=FULL.
    """
    lines = Lines(
        (
            Column("file", 24),
            Column("bytes", 14, True),
            Column("index", 12, True),
            Column("blocks", 8, True),
            Column("made"),
        )
    )
    with opened(sources, **archived) as archive:
        if not json:
            lines.heading()
        for file in archive.index():
            kept = file.where is not None and file.base >= 0
            size = file_status(file.where).size if kept and file.where is not None else None
            blocks = len(file.index.blocks)
            if json:
                entry = {
                    "file": file.listed.name,
                    "bytes": file.listed.size,
                    "index_bytes": size,
                    "blocks": blocks,
                    "made": file.made,
                    "unfiltered": sorted(
                        {f"{t.database}.{t.name}" for t in file.index.tables if t.unfiltered}
                    ),
                }
                lines.json_text(json_lines.dumps(entry))
                continue
            shown = "not kept" if size is None else str(size)
            made = "yes" if file.made else "no"
            lines.row([file.listed.name, str(file.listed.size), shown, str(blocks), made])
        lines.flush()
