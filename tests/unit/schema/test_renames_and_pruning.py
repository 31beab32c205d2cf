"""What renames under conditions leave known, and what a history forgets."""

from __future__ import annotations

import pytest

from replica_client.schema import history as history_module
from replica_client.schema.catalog import Absent, Unverified
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import NotUnderstood
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import ColumnModel, DatabaseModel, TableModel
from tests.unit.schema.tables import MARIADB, MYSQL, columns, history_of


def known(history: SchemaHistory, name: str) -> str:
    state = history.table(("d", name))
    if isinstance(state, TableModel):
        return columns(history, name)
    return {type(None): "-", Absent: "absent", Unverified: "?"}[type(state)]


@pytest.mark.parametrize(
    ("complete", "statement", "states"),
    [
        (True, "RENAME TABLE t TO u", "absent, a int, absent"),
        (True, "RENAME TABLE IF EXISTS t TO u", "absent, a int, absent"),
        (True, "RENAME TABLE IF EXISTS x TO u", "a int, absent, absent"),
        (False, "RENAME TABLE IF EXISTS t TO u", "absent, a int, -"),
        (False, "RENAME TABLE IF EXISTS x TO u", "a int, ?, ?"),
        (False, "RENAME TABLE x TO u", "a int, ?, absent"),
    ],
)
def test_renames_under_a_condition(complete: bool, statement: str, states: str) -> None:
    history = SchemaHistory(lower_case_names=False)
    history.set_database("d", DatabaseModel("latin1", complete))
    history.run("CREATE TABLE t (a INT)", MARIADB, "b.000001", 100)
    history.run(statement, MARIADB, "b.000001", 110)
    shown = ", ".join(known(history, name) for name in "tux")
    assert shown.replace("-", "absent" if complete else "-") == states


def test_a_table_that_is_known_to_be_gone_is_not_renamed() -> None:
    history = history_of("CREATE TABLE t (a INT)", "DROP TABLE t", context=MARIADB)
    revision = history.revision
    history.run("RENAME TABLE IF EXISTS t TO u", MARIADB, "binlog.000001", 500)
    assert history.known_tables("d") == []
    assert history.revision >= revision


def test_known_tables_are_those_of_the_database() -> None:
    history = history_of("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", "DROP TABLE u")
    history.run("CREATE DATABASE e", MYSQL, "binlog.000001", 500)
    history.run("CREATE TABLE e.v (a INT)", MYSQL, "binlog.000001", 510)
    assert history.known_tables() == [("d", "t"), ("e", "v")]
    assert history.known_tables("e") == [("e", "v")]
    assert history.known_tables("f") == []
    assert history.databases() == ["d", "e"]


def test_only_so_many_tables_are_remembered_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_module, "KEPT_GONE", 3)
    history = SchemaHistory(lower_case_names=False)
    history.set_database("d", DatabaseModel("utf8mb4"))
    for number in range(5):
        history.run(f"CREATE TABLE t{number} (a INT)", MYSQL, "b.000001", 100 + 10 * number)
        history.run(f"DROP TABLE t{number}", MYSQL, "b.000001", 105 + 10 * number)
        history.prune("b.000001", 106 + 10 * number)
        gone = [name for _, name in history.tables()]
        assert gone == [f"t{one}" for one in range(max(0, number - 2), number + 1)]


@pytest.mark.parametrize("keep", [1, 2, 3, 20])
def test_so_many_versions_before_the_acknowledged_one_are_kept(keep: int) -> None:
    history = history_of(
        "CREATE TABLE t (a INT)", *[f"ALTER TABLE t ADD c{n} INT" for n in range(6)]
    )
    offsets = [version.since.offset for version in history.versions(("d", "t"))]
    assert offsets == [110, 120, 130, 140, 150, 160, 170]
    history.prune("binlog.000001", 145, keep=keep)
    kept = [version.since.offset for version in history.versions(("d", "t"))]
    # 140 is the one of the position; what came later stays whatever keep is.
    assert kept == [one for one in offsets if one > 140 or one > 140 - 10 * keep]


def test_definitions_of_databases_before_the_acknowledged_one_are_forgotten() -> None:
    history = history_of()
    for number, charset in enumerate(("latin1", "utf8mb3", "ascii")):
        history.run(
            f"ALTER DATABASE d CHARACTER SET {charset}", MYSQL, "binlog.000001", 200 + number
        )
    history.prune("binlog.000001", 202)
    assert history.database("d").charset == "ascii"
    history.rewind("binlog.000001", 202)
    assert history.database("d").charset == "utf8mb3"


@pytest.mark.parametrize(
    ("statement", "tables", "databases", "anything"),
    [
        ("MANGLE TABLE IF EXISTS x.t", (("x", "t"),), (), False),
        ("MANGLE TABLE IF NOT EXISTS t", (("d", "t"),), (), False),
        ("ALTER TABLE t RENAME TO u, FROB", (("d", "t"), ("d", "u")), (), False),
        ("ALTER TABLE t RENAME AS x.u, FROB", (("d", "t"), ("x", "u")), (), False),
        ("MANGLE DATABASE IF NOT EXISTS x", (), ("x",), False),
        ("MANGLE SCHEMA x FROB 5", (), ("x",), False),
        ("MANGLE", (), (), None),
    ],
)
def test_what_a_statement_that_is_not_understood_names(
    statement: str, tables: tuple, databases: tuple, anything: bool | None
) -> None:
    meaning = read_statement(statement, MYSQL)
    if anything is None:
        assert not isinstance(meaning, NotUnderstood) or meaning.anything
        return
    assert isinstance(meaning, NotUnderstood)
    assert (meaning.tables, meaning.databases, meaning.anything) == (tables, databases, anything)


def test_text_without_a_character_set_is_reported() -> None:
    text, number = ColumnModel("a", "text"), ColumnModel("b", "int")
    latin = ColumnModel("c", "enum", labels=("é", "λ"), charset="latin1")
    assert text.needs_charset and not number.needs_charset and not latin.needs_charset
    assert TableModel("d", "t", (number, text)).needs_charset
    assert not TableModel("d", "t", (number, latin)).needs_charset
    filled = TableModel("d", "t", (number, text), charset=None).with_charset("latin1")
    assert (filled.charset, [one.charset for one in filled.columns]) == ("latin1", [None, "latin1"])
    kept = TableModel("d", "t", (text,), charset="utf8mb4").with_charset("latin1")
    assert (kept.charset, kept.columns[0].charset) == ("utf8mb4", "latin1")
    assert latin.in_charset("latin1").labels == ("é", "?")


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ORDER BY a, b", "a int, b int"),
        ("ORDER BY a DESC, b ASC, ADD c INT", "a int, b int, c int"),
        ("ORDER BY a, t.b, ADD c INT", "a int, b int, c int"),
        ("ORDER BY `add`, b", "a int, b int"),
        ("ORDER BY a, ADD c INT, DROP b", "a int, c int"),
        ("DROP PARTITION p, q", "a int, b int"),
        ("ADD c INT, ORDER BY c", "a int, b int, c int"),
        ("DROP INDEX i, DROP b", "a int"),
        ("DROP b, LOCK = NONE", "a int"),
    ],
)
def test_lists_inside_of_alter_table(clauses: str, expected: str) -> None:
    history = history_of("CREATE TABLE t (a INT, b INT)", f"ALTER TABLE t {clauses}")
    assert columns(history) == expected
