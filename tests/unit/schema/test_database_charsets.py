"""A session goes on with the default character set that its database had when it came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel

MARIADB, MYSQL = ServerFlavor.MARIADB, ServerFlavor.MYSQL
ALTERING, OTHER = 7, 8
CHANGES = (
    ("ALTER DATABASE d CHARACTER SET utf8mb4",),
    ("ALTER DATABASE CHARACTER SET utf8mb4",),
    ("DROP DATABASE d", "CREATE DATABASE d CHARACTER SET utf8mb4"),
    ("CREATE OR REPLACE DATABASE d CHARACTER SET utf8mb4",),
)


def _context(
    thread_id: int, database: str = "d", flavor: ServerFlavor = MARIADB, *, sets: bool = False
) -> StatementContext:
    return StatementContext(
        database, flavor, (10, 11, 0), thread_id=thread_id, sets_database_charset=sets
    )


def _charset(history: SchemaHistory, table: str = "t") -> str | None:
    state = history.table(("d", table))
    assert isinstance(state, TableModel)
    return state.columns[0].charset


def _history(changes: tuple[str, ...], flavor: ServerFlavor) -> SchemaHistory:
    history = SchemaHistory(lower_case_names=False)
    history.run("CREATE DATABASE d CHARACTER SET ucs2", _context(ALTERING, "", flavor))
    history.run("CREATE DATABASE x CHARACTER SET latin1", _context(ALTERING, "", flavor))
    for change in changes:
        history.run(change, _context(ALTERING, "d", flavor))
    return history


@pytest.mark.parametrize("changes", CHANGES)
@pytest.mark.parametrize(
    ("flavor", "thread", "database", "charset"),
    [
        (MARIADB, OTHER, "d", None),
        (MARIADB, ALTERING, "d", "utf8mb4"),
        (MARIADB, OTHER, "x", "utf8mb4"),
        (MARIADB, OTHER, "", "utf8mb4"),
        (MYSQL, OTHER, "d", "utf8mb4"),
    ],
)
def test_new_tables(
    changes: tuple[str, ...],
    flavor: ServerFlavor,
    thread: int,
    database: str,
    charset: str | None,
) -> None:
    if flavor == MYSQL and "OR REPLACE" in changes[0]:
        pytest.skip("MySQL has no OR REPLACE")
    history = SchemaHistory.from_state(_history(changes, flavor).to_state())
    history.run("CREATE TABLE d.t (v VARCHAR(9))", _context(thread, database, flavor))
    assert _charset(history) == charset
    history.run("CREATE TABLE d.u (v TEXT) CHARSET greek", _context(thread, database, flavor))
    assert _charset(history, "u") == "greek"


def test_a_default_that_did_not_change_is_certain() -> None:
    history = _history(
        ("ALTER DATABASE d CHARACTER SET ucs2", "ALTER DATABASE d COMMENT 'x'"), MARIADB
    )
    history.run("CREATE TABLE d.t (v VARCHAR(9))", _context(OTHER))
    assert _charset(history) == "ucs2"


def test_what_a_database_had_before_need_not_be_known() -> None:
    history = SchemaHistory(lower_case_names=False)
    history.run("ALTER DATABASE d CHARACTER SET utf8mb4", _context(ALTERING))
    history.run("CREATE TABLE d.t (v VARCHAR(9))", _context(OTHER))
    assert _charset(history) is None
    history.run("CREATE TABLE d.u (v VARCHAR(9))", _context(ALTERING))
    assert _charset(history, "u") == "utf8mb4"


@pytest.mark.parametrize(
    ("flavor", "thread", "database", "sets", "charset"),
    [
        # MySQL takes the default of the session's database.
        (MYSQL, OTHER, "x", False, "latin1"),
        (MYSQL, ALTERING, "d", False, "utf8mb4"),
        (MYSQL, OTHER, "d", False, None),
        (MYSQL, OTHER, "x", True, None),
        (MYSQL, OTHER, "", False, None),
        (MARIADB, OTHER, "x", False, "utf8mb4"),
        (MARIADB, ALTERING, "d", False, "utf8mb4"),
        (MARIADB, OTHER, "d", False, None),
    ],
)
def test_convert_to_default(
    flavor: ServerFlavor, thread: int, database: str, sets: bool, charset: str | None
) -> None:
    history = _history(CHANGES[0], flavor)
    history.run("CREATE TABLE d.t (v VARCHAR(9)) CHARSET cp1251", _context(ALTERING, "d", flavor))
    history.run(
        "ALTER TABLE d.t CONVERT TO CHARACTER SET DEFAULT",
        _context(thread, database, flavor, sets=sets),
    )
    state = history.table(("d", "t"))
    if charset is None:
        assert not isinstance(state, TableModel)
    else:
        assert isinstance(state, TableModel)
        assert (_charset(history), state.charset) == (charset, charset)


@pytest.mark.parametrize(
    ("flavor", "version", "charset"),
    [
        # 5.6 keeps one default for both until it restarts, which the binlog does not show.
        (MYSQL, (5, 6, 24), None),
        (MYSQL, (8, 0, 0), "latin1"),
        (MARIADB, (10, 11, 18), "latin1"),
    ],
)
@pytest.mark.parametrize(
    "statement", ["CREATE DATABASE D CHARSET cp1251", "ALTER DATABASE D CHARSET cp1251"]
)
def test_databases_whose_names_differ_in_letter_case(
    statement: str, flavor: ServerFlavor, version: tuple[int, int, int], charset: str | None
) -> None:
    history = SchemaHistory(lower_case_names=False)
    context = replace(_context(ALTERING, "", flavor), version=version)
    for text in ("CREATE DATABASE d CHARSET latin1", "CREATE DATABASE x CHARSET latin1", statement):
        history.run(text, context)
    for database, expected in (("d", charset), ("x", "latin1"), ("D", "cp1251")):
        history.run(f"CREATE TABLE {database}.t (v VARCHAR(9))", context)
        state = history.table((database, "t"))
        assert isinstance(state, TableModel)
        assert state.columns[0].charset == expected
