"""Statements on temporary tables, which may have the names of others, and leave those as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.events.format_description import FormatDescriptionEvent
from replica_client.binlog.header import EventHeader
from replica_client.readers.schema_tracking import SchemaTracker
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import ABSENT, Unverified
from replica_client.schema.ddl.context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from tests.unit.schema.tables import MARIADB, MYSQL, columns, history_of

BASE = ("CREATE TABLE t (a INT)", "CREATE TABLE u (b INT)")
OLD = replace(MYSQL, version=(5, 6, 24))


def run(
    history: SchemaHistory,
    *statements: str,
    context: StatementContext,
    used: bool | None,
) -> list[str]:
    """The kinds of changes that statements of one session are."""
    context = replace(context, thread_id=7, uses_temporary=used)
    found = []
    for number, text in enumerate(statements):
        changes = history.run(text, context, "binlog.000002", 100 + number)
        found += [f"{change.kind} {change.table[1]}" for change in changes]
    return found


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("context", [OLD, MARIADB])
@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD z INT FIRST",
        "TRUNCATE TABLE t",
        "TRUNCATE t",
        "ALTER TABLE t RENAME TO w",
    ],
)
def test_the_event_tells_whose_table_it_is(
    context: StatementContext, statement: str, known: bool
) -> None:
    history = history_of(*BASE, context=context)
    if known:
        run(history, "CREATE TEMPORARY TABLE t (x INT)", context=context, used=True)
    assert run(history, statement, context=context, used=True) == []
    assert columns(history) == "a int"
    # Not flagged: the temporary table is gone, as after a crash of the server.
    assert len(run(history, statement, context=context, used=False)) == 1


@pytest.mark.parametrize(
    ("statements", "expected", "changes"),
    [
        # One that is not known, and whose name or new name another table has.
        (["RENAME TABLE zz TO u"], {"u": "b int"}, []),
        (["RENAME TABLE zz TO yy"], {"yy": None, "zz": None}, []),
        (["RENAME TABLE t TO u"], {"t": "?", "u": "?"}, ["not_understood t", "not_understood u"]),
        # One that is known.
        (["CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO u"], {"t": "a int", "u": "b int"}, []),
        (["CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO w, u TO v"],
         {"t": "a int", "v": "b int", "w": None}, ["rename_table u"]),
        # Tools that alter tables online.
        (["RENAME TABLE t TO _old, u TO t"], {"t": "b int", "_old": "a int"}, ["rename_table t", "rename_table u"]),
        (["RENAME TABLE t TO w"], {"t": None, "w": "a int"}, ["rename_table t"]),
    ],
)  # fmt: skip
def test_renamed_by_mariadb(
    statements: list[str], expected: dict[str, str | None], changes: list[str]
) -> None:
    history = history_of(*BASE, context=MARIADB)
    found = []
    for text in statements:
        used = "TEMPORARY" in text
        found += run(history, text, context=MARIADB, used=used)
    assert found == changes
    for table, text in expected.items():
        state = history.table(("d", table))
        if text == "?":
            assert isinstance(state, Unverified)
        elif text is None:
            assert not isinstance(state, TableModel | Unverified)
        else:
            assert columns(history, table) == text


def test_mysql_renames_no_temporary_table() -> None:
    history = history_of(*BASE, context=OLD)
    run(history, "CREATE TEMPORARY TABLE t (x INT)", context=OLD, used=True)
    assert run(history, "RENAME TABLE t TO w", context=OLD, used=False) == ["rename_table t"]
    assert history.table(("d", "t")) is ABSENT
    assert columns(history, "w") == "a int"


def test_the_renaming_of_a_view_changes_no_table() -> None:
    history = history_of(*BASE)
    assert run(history, "RENAME TABLE v TO w", context=MYSQL, used=False) == []
    assert history.table(("d", "w")) is None


@pytest.mark.parametrize(
    ("file", "created", "left"),
    [
        ("binlog.000003", 1_700_000_000, 0),
        ("binlog.000003", 0, 1),
        ("binlog.000002", 1_700_000_000, 1),
    ],
)
def test_sessions_end_with_their_server(file: str, created: int, left: int) -> None:
    """Not where a reader begins inside of the server's first file again."""
    history = history_of(*BASE, context=OLD)
    run(history, "CREATE TEMPORARY TABLE t (x INT)", context=OLD, used=True)
    tracker = SchemaTracker(history, Selection("*.*"))
    body = FormatDescriptionEvent(server_version="5.6.24", create_timestamp=created)
    tracker.server_began(BinlogEvent(EventHeader(0, 15, 1, 120, 124, 0), body, file, 4))
    assert len(history.to_json()["temporary"]) == left
