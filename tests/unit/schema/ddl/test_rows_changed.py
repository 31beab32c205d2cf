"""Whose rows a statement changes."""

from __future__ import annotations

import pytest

from replica_client.schema.ddl.rows_changed import changed_tables
from replica_client.schema.ddl.statement_context import StatementContext

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
