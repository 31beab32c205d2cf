"""``replica-client redo``: SQL that makes changes again."""

from __future__ import annotations

from typing import Any

from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.flags import AllowEmpty, RowKey, Since, Tables, Until, Where, with_archive
from replica_client.cli.undo import (
    Apply,
    DryRun,
    Gtids,
    SkipChanged,
    StatementRows,
    Thread,
    checked_statements,
    give,
)

EXAMPLE = "replica-client redo /backup/db1 --since binlog.000007:4"


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
