"""Statements other than ALTER TABLE."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.schema.catalog import ABSENT, Unverified
from replica_client.schema.ddl.statement_context import MODE_ANSI_QUOTES
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import NotUnderstood, Unrelated
from tests.unit.schema.tables import MARIADB, MYSQL, after, columns, history_of

CREATE = "CREATE TABLE t (a INT)"


@pytest.mark.parametrize(
    ("statements", "table", "expected"),
    [
        (["CREATE TABLE u LIKE t"], "u", "a int"),
        (["CREATE TABLE u (LIKE d.t)"], "u", "a int"),
        (["CREATE TABLE IF NOT EXISTS t (z INT)"], "t", "a int"),
        (["DROP TABLE t", "CREATE TABLE IF NOT EXISTS t (z INT)"], "t", "z int"),
        (["CREATE TABLE u AS SELECT * FROM t"], "u", "a int"),
        (["CREATE TABLE u (z INT) SELECT x.a AS b, a FROM d.t AS x"], "u", "z int, b int, a int"),
        (["CREATE TABLE u (a BIGINT NOT NULL) IGNORE AS (SELECT a FROM t)"], "u", "a bigint not null"),
        (["RENAME TABLE t TO u"], "u", "a int"),
        (["CREATE TABLE u (b INT)", "RENAME TABLE t TO x, u TO t, x TO u"], "t", "b int"),
        (["CREATE TABLE u (b INT)", "RENAME TABLES t TO x, u TO t, x TO u"], "u", "a int"),
        (["ALTER TABLE t RENAME u, ADD b INT"], "u", "a int, b int"),
        (["ALTER TABLE t RENAME TO `u`"], "u", "a int"),
        (["ALTER TABLE t RENAME AS d.u"], "u", "a int"),
        (["TRUNCATE t", "TRUNCATE TABLE d.t"], "t", "a int"),
        (["CREATE TEMPORARY TABLE t (x INT)", "ALTER TABLE t ADD y INT", "DROP TABLE t"], "t", "a int"),
        (["DROP TABLE t", 'CREATE TABLE t (a INT, b CHAR(1) DEFAULT ")") /*, c INT*/'], "t", None),
        (["create /* gh-ost */ table d._t_gho like t", "alter table _t_gho add b int",
          "rename table t to _t_del, _t_gho to t", "drop table _t_del"], "t", "a int, b int"),
    ],
)  # fmt: skip
def test_tables(statements: list[str], table: str, expected: str | None) -> None:
    expected = "a int, b char(1) charset utf8mb4" if expected is None else expected
    assert after(CREATE, *statements, table=table) == expected


def test_default_character_sets_come_from_the_database() -> None:
    statements = [
        "CREATE DATABASE e CHARACTER SET = 'koi8r' COLLATE koi8r_bin",
        "CREATE TABLE e.t (a CHAR(1))",
        "ALTER DATABASE e CHARACTER SET greek",
        "CREATE TABLE e.u (a CHAR(1)) ENGINE=InnoDB",
        "CREATE TABLE e.v (a CHAR(1)) DEFAULT CHARSET=hebrew",
        "ALTER SCHEMA COLLATE latin5_bin",
        "CREATE TABLE w (a CHAR(1))",
        "ALTER TABLE e.v ADD b CHAR(1), DEFAULT CHARACTER SET DEFAULT",
    ]
    history = history_of(*statements)
    found = [columns(history, name, "e") for name in "tuv"]
    assert found == [
        "a char(1) charset koi8r",
        "a char(1) charset greek",
        "a char(1) charset hebrew, b char(1) charset greek",
    ]
    assert columns(history, "w") == "a char(1) charset latin5"


def test_databases_go_with_their_tables() -> None:
    history = history_of(CREATE, "CREATE TABLE keep.t (a INT)", "DROP DATABASE IF EXISTS d")
    assert history.table(("d", "t")) is ABSENT
    assert columns(history, "t", "keep") == "a int"


def test_what_may_have_been_there_before_is_not_trusted() -> None:
    history = history_of("CREATE TABLE IF NOT EXISTS elsewhere.t (a INT)")
    assert isinstance(history.table(("elsewhere", "t")), Unverified)
    history = history_of("RENAME TABLE elsewhere.x TO t")
    assert isinstance(history.table(("d", "t")), Unverified)


def test_mariadb() -> None:
    assert after(CREATE, "CREATE OR REPLACE TABLE t (b INT)", context=MARIADB) == "b int"
    assert (
        after(
            CREATE,
            "SET STATEMENT max_statement_time=1 FOR ALTER TABLE t ADD b INT",
            context=MARIADB,
        )
        == "a int, b int"
    )
    history = history_of(CREATE, "RENAME TABLE IF EXISTS t WAIT 5 TO u, no TO nay", context=MARIADB)
    assert columns(history, "u") == "a int"
    sequence = after("CREATE SEQUENCE s START WITH 5", context=MARIADB, table="s")
    assert sequence.startswith("next_not_cached_value bigint not null")
    assert sequence.count(",") == 7


def test_ansi_quotes() -> None:
    context = replace(MYSQL, sql_mode=MODE_ANSI_QUOTES)
    assert after('CREATE TABLE "t" ("a b" INT)', context=context) == "a b int"


def test_statements_that_failed_are_verified() -> None:
    history = history_of(CREATE)
    history.run("ALTER TABLE t ADD b INT", replace(MYSQL, error_code=1317), "binlog.000001", 900)
    assert isinstance(history.table(("d", "t")), Unverified)
    history = history_of(CREATE)
    history.run("DROP TABLE t, nothing", replace(MYSQL, error_code=1051), "binlog.000001", 900)
    assert history.table(("d", "t")) is ABSENT


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN",
        "CREATE VIEW v AS SELECT 1",
        "CREATE DEFINER=`root`@`%` PROCEDURE p() BEGIN DROP TABLE t; END",
        "CREATE DEFINER=`root`@`%` TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "CREATE UNIQUE INDEX i ON t (a)",
        "DROP INDEX i ON t",
        "DROP VIEW v",
        "ALTER VIEW v AS SELECT 1",
        "GRANT ALL ON *.* TO u",
        "RENAME USER a TO b",
        "ANALYZE TABLE t",
        "OPTIMIZE LOCAL TABLE t",
        "FLUSH TABLES t",
        "XA START 'x'",
        "ALTER USER u IDENTIFIED BY 'x'",
        "CREATE TABLESPACE ts ADD DATAFILE 'x'",
        "# nothing",
        "",
    ],
)
def test_unrelated(statement: str) -> None:
    assert isinstance(read_statement(statement, MYSQL), Unrelated)


@pytest.mark.parametrize(
    ("statement", "tables", "databases", "anything"),
    [
        ("CREATE TABLE x.y (a HYPERINT)", (("x", "y"),), (), False),
        ("ALTER TABLE t RENAME u, FROB", (("d", "t"), ("d", "u")), (), False),
        ("RENAME TABLE a ONTO b", (("d", "a"),), ("d",), False),
        ("MANGLE TABLE t", (("d", "t"),), (), False),
        ("ALTER TABLE t ADD c CHAR(1) DEFAULT 'x", (), (), True),
        ("ALTER DATABASE x UPGRADE DATA DIRECTORY NAME", (), ("x",), False),
    ],
)
def test_not_understood(statement, tables, databases, anything) -> None:
    meaning = read_statement(statement, MYSQL)
    assert isinstance(meaning, NotUnderstood)
    assert (meaning.tables, meaning.databases, meaning.anything) == (tables, databases, anything)


def test_a_column_may_be_named_as_a_kind_of_key() -> None:
    history = history_of(
        "create table t (id int, vector int, period int, `key` int, v int, vector key (v))"
    )
    assert columns(history) == "id int, vector int, period int, key int, v int"
