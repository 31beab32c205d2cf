"""``replica-client undo``: SQL that takes changes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.failures import FaultFoundError
from replica_client.cli.flags import AllowEmpty, RowKey, Since, Tables, Until, Where, with_archive
from replica_client.cli.interruption import run_async
from replica_client.cli.output import Lines, message

if TYPE_CHECKING:
    from replica_client.archive.archive import Archive
    from replica_client.archive.question import Question
    from replica_client.archive.undo import Direction, Reversal

EXAMPLE = "replica-client undo /backup/db1 --table shop.orders --gtid 0-1-9"

Gtids = Annotated[
    str | None, typer.Option("--gtid", metavar="SET", help="Only these transactions.")
]
Thread = Annotated[
    int | None, typer.Option("--thread", metavar="N", help="Only those of this connection.")
]


Check = Annotated[
    str | None,
    typer.Option(
        "--against",
        metavar="URL",
        help="Print no SQL: show which rows of this server differ from what the script expects.",
    ),
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
    check: Check = None,
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

    Nothing is applied. All changes are looked at before the first line is printed: incomplete row images, changes
    that were logged as statements, DDL on the tables since, and foreign keys that cascade are refused.

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
        print_statements(
            archive, asked, "undo", check, allow_empty=allow_empty, whole_rows=whole_rows
        )


def print_statements(
    archive: Archive,
    asked: Question,
    direction: Direction,
    check: str | None = None,
    *,
    allow_empty: bool = False,
    whole_rows: bool = False,
) -> None:
    """Print the script of a question's changes, or what a server has that it does not want.

    Raises:
        DataLossError: it cannot be exact; nothing was printed.
        FaultFoundError: rows of the server are not as the script wants them.
    """
    from replica_client.archive.known_names import check_answer
    from replica_client.archive.undo import make_statements

    with make_statements(
        archive, asked, direction, expects=check is not None, whole_rows=whole_rows
    ) as statements:
        if not statements.changes and not allow_empty:
            check_answer(archive, asked)
        if check is not None:
            _check(statements, check)
            return
        lines = Lines()
        for line in statements.lines():
            lines.data(line)
        lines.flush()
        message(f"{statements.changes} changes of {statements.transactions} transactions")


def _check(statements: Reversal, url: str) -> None:
    """Show the rows of a server that are not as a script wants them.

    Raises:
        FaultFoundError: there are some.
    """
    from replica_client.archive.sql_values import conflicts
    from replica_client.archive.undo import SESSION

    lines, found = Lines(), 0

    async def look() -> None:
        nonlocal found
        async for one in conflicts(statements.expected(), url, SESSION):
            found += 1
            lines.line(f"{one.what}: {one.table} where {one.row}")

    run_async(look())
    lines.flush()
    if found:
        raise FaultFoundError(
            f"{found} rows differ from what the script expects; nothing was written"
        )
    message(
        f"{statements.changes} changes of {statements.transactions} transactions fit; nothing was written"
    )
