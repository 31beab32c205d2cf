"""Names in another letter case: one table or two, or nobody knows."""

from __future__ import annotations

import pytest

from replica_client.errors import SourceChangedError
from replica_client.schema.catalog import Absent, TableState, Unverified
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_name

CONTEXT = StatementContext("d", thread_id=1)


def run(history: SchemaHistory, *statements: str) -> list[tuple[str, str, str]]:
    changes = []
    for at, text in enumerate(statements, 1):
        changes += history.run(text, CONTEXT, "binlog.000001", at * 100)
    return [(change.kind, *change.table) for change in changes]


def stated(state: TableState | None) -> str:
    match state:
        case TableModel():
            return ",".join(state.column_names)
        case Unverified():
            return "?"
        case Absent():
            return "absent"
    return "unknown"


DATABASE = "CREATE DATABASE d CHARSET latin1"
# Statements, a table; what is known of it where letter case counts, where it does not, and where nobody knows.
CASES = [
    (["CREATE TABLE Tt (a INT)"], "d.Tt", "a", "a", "a"),
    (["CREATE TABLE Tt (a INT)"], "d.tt", "unknown", "a", "unknown"),
    (["CREATE TABLE tt (a INT)", "ALTER TABLE TT ADD b INT"], "d.tt", "a", "a,b", "?"),
    (["CREATE TABLE tt (a INT)", "ALTER TABLE D.TT ADD b INT"], "d.tt", "a", "a,b", "?"),
    (["CREATE TABLE tt (a INT)", "ALTER TABLE TT ENGINE=InnoDB"], "d.tt", "a", "a", "a"),
    (["CREATE TABLE tt (a INT)", "DROP TABLE TT"], "d.tt", "a", "absent", "?"),
    (["CREATE TABLE tt (a INT)", "DROP TABLE IF EXISTS x, TT"], "d.tt", "a", "absent", "?"),
    (["CREATE TABLE tt (a INT)", "RENAME TABLE TT TO uu"], "d.tt", "a", "absent", "?"),
    (["CREATE TABLE tt (a INT)", "RENAME TABLE TT TO uu"], "d.uu", "unknown", "a", "?"),
    (["CREATE TABLE tt (a INT)", "RENAME TABLE xx TO TT"], "d.tt", "a", "?", "?"),
    (["CREATE TABLE tt (a INT)", "ALTER TABLE xx RENAME TO TT"], "d.tt", "a", "?", "?"),
    (["CREATE TABLE tt (a INT)", "TRUNCATE TABLE TT"], "d.tt", "a", "a", "a"),
    (["CREATE TABLE tt (a INT)", "CREATE TABLE xx LIKE TT"], "d.xx", "?", "a", "?"),
    (["CREATE TABLE tt (a INT)", "CREATE TABLE xx AS SELECT * FROM TT"], "d.xx", "?", "a", "?"),
    (["CREATE TABLE tt (a INT)", "CREATE TABLE IF NOT EXISTS TT (b INT)"], "d.tt", "a", "a", "?"),
    # With a complete database, the second is certain to be made where letter case counts.
    (["CREATE TABLE tt (a INT)", "CREATE TABLE IF NOT EXISTS TT (b INT)"], "d.TT", "b", "a", "?"),
    (
        ["CREATE TABLE tt (a INT)", "DROP TABLE tt", "CREATE TABLE IF NOT EXISTS TT (b INT)"],
        *("d.TT", "b", "b", "b"),
    ),
    (
        ["CREATE TABLE tt (a INT)", "DROP TABLE tt", "CREATE TABLE TT (b INT)"],
        *("d.tt", "absent", "b", "?"),
    ),
    (["CREATE TABLE tt (a INT)", "CREATE OR REPLACE TABLE TT (b INT)"], "d.tt", "a", "b", "?"),
    (["CREATE TABLE tt (a INT)", "CREATE OR REPLACE TABLE TT (b INT)"], "d.TT", "b", "b", "b"),
    (["CREATE TABLE tt (a INT)", "DROP DATABASE D"], "d.tt", "a", "absent", "?"),
    (["CREATE TABLE tt (a INT)", "CREATE DATABASE IF NOT EXISTS D"], "d.tt", "a", "a", "?"),
    # That both are made proves that letter case counts: nothing is left in doubt.
    (["CREATE TABLE tt (a INT)", "CREATE TABLE TT (b INT)"], "d.tt", "a", "b", "a"),
    (
        ["CREATE TABLE tt (a INT)", "CREATE TABLE TT (b INT)", "ALTER TABLE TT ADD c INT"],
        *("d.tt", "a", "b,c", "a"),
    ),
    # Temporary tables hide others of their name.
    (
        [
            "CREATE TABLE tt (a INT)",
            "CREATE TEMPORARY TABLE TT (x INT)",
            "ALTER TABLE tt ADD b INT",
        ],
        *("d.tt", "a,b", "a", "?"),
    ),
    (
        ["CREATE TABLE tt (a INT)", "CREATE TEMPORARY TABLE TT (x INT)", "DROP TEMPORARY TABLE tt"],
        *("d.tt", "a", "a", "a"),
    ),
    (
        ["CREATE TABLE Ä (a INT)", "ALTER TABLE ä ADD b INT"],
        *("d.ä", "?", "a,b", "?"),
    ),
    (["CREATE TABLE ı (a INT)", "ALTER TABLE i ADD b INT"], "d.ı", "a", "a", "a"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{'; '.join(case[0])}: {case[1]}")
def test_what_is_known(case: tuple[list[str], str, str, str, str]) -> None:
    statements, name, counts, casefolded, nobody_knows = case
    database, table = name.split(".")
    for casefolds, expected in ((False, counts), (True, casefolded), (None, nobody_knows)):
        history = SchemaHistory(lower_case_names=casefolds)
        run(history, DATABASE, *statements)
        assert stated(history.table((database, table))) == expected, casefolds


def test_other_letter_cases_are_reported() -> None:
    history = SchemaHistory()
    run(history, DATABASE, "CREATE TABLE tt (a INT)")
    assert run(history, "TRUNCATE TT") == [
        ("truncate_table", "d", "TT"),
        ("not_understood", "d", "tt"),
    ]
    assert ("not_understood", "d", "tt") in run(history, "DROP TABLE TT")


def test_where_names_are_casefolded_changes_have_them_in_lower_case() -> None:
    history = SchemaHistory(lower_case_names=True)
    assert run(
        history, "CREATE TABLE D.Tt (a INT)", "RENAME TABLE tT TO Uu", "DROP DATABASE D"
    ) == [
        ("create_table", "d", "tt"),
        ("rename_table", "d", "tt"),
        ("drop_database", "d", ""),
    ]


def test_a_server_that_casefolds_names_takes_over_what_is_known() -> None:
    history = SchemaHistory()
    run(
        history,
        DATABASE,
        "CREATE TABLE Tt (a INT)",
        "CREATE TABLE One (a INT)",
        "ALTER TABLE one ADD b INT",
    )
    history.casefold_names(True)
    assert stated(history.table(("d", "tt"))) == stated(history.table(("D", "TT"))) == "a"
    assert stated(history.table(("d", "one"))) == "?"


def test_another_server_that_casefolds_names_is_refused_where_that_would_change_them() -> None:
    history = SchemaHistory(lower_case_names=False)
    run(history, DATABASE, "CREATE TABLE tt (a INT)")
    history.copy().casefold_names(True)
    run(history, "CREATE TABLE Uu (a INT)")
    with pytest.raises(SourceChangedError, match=r"d\.Uu is now sent as d\.uu"):
        history.casefold_names(True)
    assert history.lower_case_names is False


@pytest.mark.parametrize("casefolds", [None, False, True])
def test_it_is_saved(casefolds: bool | None) -> None:
    history = SchemaHistory(lower_case_names=casefolds)
    run(history, DATABASE, "CREATE TABLE tt (a INT)")
    again = SchemaHistory.from_state(history.to_state())
    assert again.lower_case_names is casefolds
    run(again, "ALTER TABLE TT ADD b INT")
    assert stated(again.table(("d", "tt"))) == {None: "?", False: "a", True: "a,b"}[casefolds]


def test_histories_of_the_release_before() -> None:
    """They say ``false`` also where nobody asked the server."""
    old = SchemaHistory().to_json()
    del old["lower_case_table_names"]
    assert SchemaHistory.from_json({**old, "lower_case_names": False}).lower_case_names is None
    assert SchemaHistory.from_json({**old, "lower_case_names": True}).lower_case_names is True


@pytest.mark.parametrize(
    ("name", "casefolded"),
    [
        ("Orders", "orders"),
        ("ÄÖÜ", "äöü"),
        ("ΣΑΣ", "σασ"),
        ("İx", "ix"),
        ("ẞ", "ẞ"),
        ("ȺȠ", "ȺȠ"),
        ("Ა", "Ა"),
        ("ЖЁ", "жё"),
        ("\U00010400", "\U00010400"),
    ],
)
def test_letters_as_servers_casefold_them(name: str, casefolded: str) -> None:
    assert casefold_name(name) == casefolded
