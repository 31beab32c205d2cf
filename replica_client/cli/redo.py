"""``replica-client redo``: SQL that makes changes again."""

from __future__ import annotations

from typing import Any

from replica_client.cli.archive_options import Sources, key_of, opened
from replica_client.cli.flags import AllowEmpty, RowKey, Since, Tables, Until, Where, with_archive
from replica_client.cli.undo import Check, Gtids, Thread, print_statements

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
    check: Check = None,
    allow_empty: AllowEmpty = False,
    **archived: Any,
) -> None:
    """Print SQL that makes changes again, in order, each transaction between its BEGIN and COMMIT.

    Nothing is applied. What undo refuses is refused here, too, but for DDL before the first and behind the last
    change. It makes row changes only, not DDL.
    """
    from replica_client.archive.archive import make_question
    from replica_client.archive.known_names import check_question

    asked = make_question(
        table, key_of(key), where=where, since=since, until=until, gtid=gtid, thread=thread
    )
    with opened(sources, **archived) as archive:
        if not allow_empty:
            check_question(archive, asked)
        print_statements(archive, asked, "redo", check, allow_empty=allow_empty)
