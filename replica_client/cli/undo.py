"""``replica-client undo`` and ``redo``: SQL that takes changes back, and SQL that makes them again."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.flags import AllowEmpty, RowKey, Since, Tables, Until, Where, with_archive
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, commit_clock, message
from replica_client.cli.program import FaultFoundError
from replica_client.errors import ConfigError
from replica_client.protocol.codec.printable import printable

if TYPE_CHECKING:
    from replica_client.archive.archive import Archive
    from replica_client.archive.question import Question
    from replica_client.archive.undo import Direction, LaterChange, Reversal


Gtids = Annotated[
    str | None, typer.Option("--gtid", metavar="SET", help="Only these transactions.")
]
Thread = Annotated[
    int | None, typer.Option("--thread", metavar="N", help="Only those of this connection.")
]


Apply = Annotated[
    str | None,
    typer.Option(
        "--apply",
        metavar="URL",
        help="Print no SQL: compare the rows with this server, and report; with --no-dry-run change them there, in "
        "one transaction.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run/--no-dry-run", help="With --apply: write nothing (the default).")
]
SkipChanged = Annotated[
    bool,
    typer.Option(
        "--skip-changed",
        help="With --apply: leave out the rows that were changed since, and say who changed them.",
    ),
]
StatementRows = Annotated[
    int,
    typer.Option("--statement-rows", metavar="N", min=1, max=500, help="Rows of one statement."),
]


@with_archive
def undo(
    sources: Sources,
    table: Tables = None,
    key: RowKey = None,
    since: Since = None,
    until: Until = None,
    gtid: Gtids = None,
    where: Where = None,
    thread: Thread = None,
    apply: Apply = None,
    dry_run: DryRun = True,
    skip_changed: SkipChanged = False,
    statement_rows: StatementRows = 500,
    whole_rows: Annotated[
        bool,
        typer.Option(
            "--whole-rows",
            help="Take an UPDATE back only where no column of the row was changed since.",
        ),
    ] = False,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Print SQL that takes changes back, the last one first, each transaction between its BEGIN and COMMIT.

    Nothing is applied without --apply and --no-dry-run. All changes are looked at before the first line is printed:
    incomplete row images, changes that were logged as statements, DDL on the tables since, and foreign keys that
    cascade are refused.

    Generated columns are left out, and cascades are known, as far as CREATE TABLE and ALTER TABLE are in the archive.
    Run it on a server whose tables have no triggers. Of an UPDATE the changed columns go back to their old values;
    others keep what was written since. It ends with an error at a row whose columns are not as the transaction left
    them.
    """
    from replica_client.archive.archive import make_question
    from replica_client.archive.known_names import check_question

    asked = make_question(
        table, key_of(key), where=where, since=since, until=until, gtid=gtid, thread=thread
    )
    with opened(sources, **archived) as archive:
        if not allow_empty:
            check_question(archive, asked)
        with checked_statements(
            archive, asked, "undo", allow_empty=allow_empty, whole_rows=whole_rows
        ) as statements:
            give(statements, apply, dry_run, skip_changed, statement_rows)


def checked_statements(
    archive: Archive,
    asked: Question,
    direction: Direction,
    *,
    allow_empty: bool,
    whole_rows: bool = False,
) -> Reversal:
    """Return the script of a question's changes.

    Raises:
        DataLossError: it cannot be exact.
        ConfigError: the archive has no such change, and that is not expected.
    """
    from replica_client.archive.known_names import check_answer
    from replica_client.archive.undo import make_statements

    statements = make_statements(archive, asked, direction, whole_rows=whole_rows)
    if not statements.changes and not allow_empty:
        with ExitStack() as closed_after_error:
            closed_after_error.enter_context(statements)
            check_answer(archive, asked)
            closed_after_error.pop_all()
    return statements


def give(
    statements: Reversal, url: str | None, dry_run: bool, skip_changed: bool, statement_rows: int
) -> None:
    """Print a script, or compare and apply it.

    Raises:
        ConfigError: an option needs another one.
        FaultFoundError: rows of the server are not as the script expects.
    """
    if url is not None:
        _apply(statements, url, dry_run=dry_run, skip_changed=skip_changed)
        return
    if skip_changed or not dry_run:
        raise ConfigError("--skip-changed and --no-dry-run are for --apply URL")
    lines = Lines()
    for line in statements.lines(statement_rows):
        lines.data(line)
    lines.flush()
    message(f"{statements.changes} changes of {statements.transactions} transactions")


def _apply(statements: Reversal, url: str, *, dry_run: bool, skip_changed: bool) -> None:
    """Compare a script with a server, show the rows that differ, and apply it if that is asked for.

    Raises:
        FaultFoundError: there are such rows, and nothing was written.
    """
    from replica_client.archive.row_checks import Applied, apply, conflicts, side_effects
    from replica_client.archive.undo import SESSION

    done = Applied(False, {}, [], 0)

    async def compare() -> None:
        nonlocal done
        for warning in await side_effects(statements.tables, url):
            message(f"warning: {warning}")
        writes = statements.writes()
        if dry_run:
            done = done._replace(conflicts=await conflicts(writes, url, SESSION))
        else:
            done = await apply(writes, url, SESSION, skip_changed=skip_changed)

    run_async(compare())
    rows = {(one.write.name, one.row): one.what for one in done.conflicts}
    lines = Lines()
    if rows:
        later = statements.later_changes(rows)
        for (name, row), what in rows.items():
            table = ".".join(name)
            lines.line(f"{what}: {table} where {row}: {_who(later.get((name, row)))}")
    for (verb, name), count in sorted(done.counts.items()) if done.committed else ():
        lines.line(f"{'.'.join(name)}: {count} {verb.removesuffix('e')}ed")
    lines.flush()
    summary = f"{statements.changes} changes of {statements.transactions} transactions"
    if done.committed:
        message(f"{summary}: committed by thread {done.thread}; {len(rows)} rows left out")
    elif rows and not (dry_run and skip_changed):
        raise FaultFoundError(
            f"{len(rows)} rows are not as the script expects; nothing was written (--skip-changed leaves them out)"
        )
    elif dry_run:
        left = f"; {len(rows)} rows would be left out" if rows else " fit"
        message(f"{summary}{left}; nothing was written (--no-dry-run applies it)")
    else:
        message(f"{summary}: nothing to write")


def _who(later: LaterChange | None) -> str:
    """Return who changed a row last, for people."""
    if later is None:
        return "by no change that the archive has"
    one = later.change
    parts = [f"{later.changes} changes, the last" if later.changes > 1 else "changed"]
    parts.append(f"at {commit_clock(one.transaction.commit_us)}")
    if one.thread_id is not None:
        parts.append(f"by thread {one.thread_id}")
    if one.change.gtid:
        parts.append(f"in {one.change.gtid}")
    parts.append(f"({one.change.file}:{one.change.offset})")
    text = "" if one.statement is None else f": {' '.join(one.statement.split())[:200]}"
    return printable(" ".join(parts) + text)


@with_archive
def redo(
    sources: Sources,
    table: Tables = None,
    key: RowKey = None,
    since: Since = None,
    until: Until = None,
    gtid: Gtids = None,
    where: Where = None,
    thread: Thread = None,
    apply: Apply = None,
    dry_run: DryRun = True,
    skip_changed: SkipChanged = False,
    statement_rows: StatementRows = 500,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Print SQL that makes changes again, in order, each transaction between its BEGIN and COMMIT.

    Nothing is applied without --apply and --no-dry-run. What undo refuses is refused here, too, except for DDL
    before the first and after the last change. It makes row changes only, not DDL.
    """
    from replica_client.archive.archive import make_question
    from replica_client.archive.known_names import check_question

    asked = make_question(
        table, key_of(key), where=where, since=since, until=until, gtid=gtid, thread=thread
    )
    with opened(sources, **archived) as archive:
        if not allow_empty:
            check_question(archive, asked)
        with checked_statements(archive, asked, "redo", allow_empty=allow_empty) as statements:
            give(statements, apply, dry_run, skip_changed, statement_rows)
