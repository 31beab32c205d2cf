"""Statements other than ALTER TABLE."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from replica_client.schema.catalog import ABSENT, Unverified
from replica_client.schema.ddl.statement_context import MODE_ANSI_QUOTES, StatementContext
from replica_client.schema.ddl.statements import (
    cascading_references,
    changed_tables,
    read_statement,
)
from replica_client.schema.ddl.steps import CreateTable, NotUnderstood, Unrelated
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
        # Names that begin with digits, and U+FFFD, which is a character like others.
        (["CREATE TABLE d.12t3 (123a INT, 1e BIGINT)"], "12t3", "123a int, 1e bigint"),
        (["CREATE TABLE u (\ufffd INT, a\ufffd BIGINT)", "ALTER TABLE u DROP \ufffd"], "u", "a\ufffd bigint"),
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


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("REFERENCES p (a) ON DELETE CASCADE", [("d", "p")]),
        ("REFERENCES `x`.`p``q` (a, b) MATCH FULL ON UPDATE SET NULL", [("x", "p`q")]),
        ("REFERENCES p (a) ON DELETE NO ACTION ON UPDATE CASCADE", [("d", "p")]),
        ("REFERENCES p (a) ON UPDATE SET DEFAULT ON DELETE RESTRICT", [("d", "p")]),
        ("REFERENCES p (a) ON DELETE NO ACTION", []),
        ("REFERENCES p (a) ON DELETE RESTRICT, b INT COMMENT 'ON DELETE CASCADE'", []),
        ("REFERENCES p (a), FOREIGN KEY (a) REFERENCES q (a) ON DELETE CASCADE", [("d", "q")]),
        ("COMMENT 'REFERENCES p (a) ON DELETE CASCADE'", []),
    ],
)
def test_what_cascades(clause: str, found: list[tuple[str, str]]) -> None:
    for head in ("CREATE TABLE t (a INT ", "ALTER TABLE t ADD (a INT "):
        assert cascading_references(f"{head}{clause})", MYSQL, "d") == found


def test_which_columns_are_generated() -> None:
    text = (
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a DECIMAL(10, 2) DEFAULT 1, b INT AS (a + 1), "
        "`c``d` VARCHAR(9) CHARACTER SET latin1 GENERATED ALWAYS AS (concat('AS (', a)) STORED, e INT COMMENT 'AS (1)')"
    )
    made = read_statement(text, MYSQL)
    assert isinstance(made, CreateTable)
    assert [column.name for column in made.columns if column.generated] == ["b", "c`d"]


def test_long_statements_are_read_in_linear_time() -> None:
    began = time.process_time()
    for text in ("a " * 100_000, "a AS " * 50_000, "REFERENCES p (a) " * 20_000):
        cascading_references(f"CREATE TABLE t ({text})", MYSQL, "d")
    assert time.process_time() - began < 20  # below one on an idle machine


CONTEXT = StatementContext("d")


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("INSERT INTO t VALUES (1)", "d.t"),
        ("INSERT t (a) SELECT * FROM u", "d.t"),
        ("insert low_priority ignore into `x`.`t 1` set a = 1", "x.t 1"),
        ("REPLACE DELAYED t VALUES (1)", "d.t"),
        ("/* c */ UPDATE IGNORE t SET a = (SELECT max(b) FROM u)", "d.t"),
        ("UPDATE t, x.u AS v SET t.a = v.a", "d.t x.u"),
        ("UPDATE t JOIN x.u USING (id) SET a = 1", "d.t x.u"),
        ("UPDATE (t LEFT JOIN u ON t.a = u.a), (SELECT 1) AS q SET a = 1", "d.t d.u"),
        ("UPDATE t PARTITION (p0, p1) SET a = 1", "d.t"),
        ("DELETE FROM t", "d.t"),
        ("DELETE QUICK FROM x.t WHERE a = 1 LIMIT 3", "x.t"),
        ("DELETE FROM t AS v WHERE v.a = 1", "d.t"),
        ("DELETE FROM t PARTITION (p0) ORDER BY a", "d.t"),
        ("DELETE HISTORY FROM t BEFORE SYSTEM_TIME '2020-01-01'", "d.t"),
        ("DELETE a, b FROM t AS a JOIN u AS b WHERE a.i = b.i", "d.t d.u"),
        ("DELETE FROM a USING t AS a, x.u WHERE a.i = u.i", "d.t x.u"),
        ("WITH c AS (SELECT * FROM v) UPDATE t, c SET t.a = c.a", "d.t d.c"),
        ("WITH RECURSIVE c (n) AS (SELECT 1 UNION SELECT n + 1 FROM c) DELETE FROM t", "d.t"),
        ("LOAD DATA INFILE 'x' IGNORE INTO TABLE t FIELDS TERMINATED BY ','", "d.t"),
        ("LOAD XML LOCAL INFILE 'INTO TABLE z' INTO TABLE x.t", "x.t"),
        ("CREATE TABLE t (a INT) SELECT 1 AS a", "d.t"),
        ("CREATE TABLE x.t AS SELECT * FROM u", "x.t"),
        ("ANALYZE FORMAT=JSON UPDATE t SET a = 1", "d.t"),
        ("ANALYZE DELETE FROM x.t", "x.t"),
        ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO t VALUES (1)", "d.t"),
    ],
)
def test_tables_that_are_reported(text: str, tables: str) -> None:
    found = changed_tables(text, CONTEXT)
    assert found is not None
    names = [f"{database}.{table}" for database, table in found]
    assert names == ([tables] if tables.endswith(" 1") else tables.split())


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT)",
        "CREATE TEMPORARY TABLE t SELECT 1",
        "CREATE INDEX i ON t (a)",
        "CREATE PROCEDURE p() INSERT INTO t VALUES (1)",
        "CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW INSERT INTO u SELECT 1",
        "CREATE VIEW v AS SELECT * FROM t",
        "CREATE TABLE t LIKE u",
        "SET @x = 1",
        "SET STATEMENT lock_wait_timeout=10 FOR ALTER TABLE t ADD a INT",
        "SET STATEMENT a = (1), b = 2 FOR OPTIMIZE TABLE t",
        "BEGIN",
        "ANALYZE TABLE t",
        "ANALYZE NO_WRITE_TO_BINLOG TABLE t",
    ],
)
def test_no_table(text: str) -> None:
    assert changed_tables(text, CONTEXT) == ()


@pytest.mark.parametrize(
    "text",
    ["CALL p()", "DO f()", "SELECT `d`.`f`()", "DELETE a, b", "INSERT INTO 'x", ""],
)
def test_text_that_does_not_tell(text: str) -> None:
    assert changed_tables(text, CONTEXT) is None
