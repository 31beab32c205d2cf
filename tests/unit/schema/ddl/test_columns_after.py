"""CREATE TABLE … SELECT: the columns that a query names, and queries that only a server understands."""

from __future__ import annotations

import pytest

from replica_client.schema.catalog import Unverified
from tests.unit.schema.tables import after, history_of

TABLES = (
    "CREATE TABLE t (a INT, b INT NOT NULL, hid INT INVISIBLE)",
    "CREATE TABLE v (b BIGINT, c INT, `select` INT, `current_date` INT)",
    "CREATE DATABASE o",
    "CREATE TABLE o.t (x INT, y INT)",
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM t", "a int, b int"),
        ("AS SELECT * FROM t;", "a int, b int"),
        ("AS ((SELECT a FROM t))", "a int"),
        ("SELECT a, t.b, d.t.a AS c FROM t", "a int, b int, c int"),
        ("SELECT A FROM t", "A int"),
        ("SELECT a x, b AS `y z`, hid 'h' FROM t", "x int, y z int, h int"),
        ("SELECT DISTINCT SQL_NO_CACHE a FROM t", "a int"),
        ("SELECT t.*, v.c FROM t, v", "a int, b int, c int"),
        ("SELECT x.*, c FROM t x JOIN v AS y ON x.b = y.b AND (c, a) IN (SELECT 1, 2 UNION SELECT 3, 4)",
         "a int, b int, c int"),
        ("SELECT c, a FROM t LEFT OUTER JOIN v ON t.b = v.b WHERE a > 1 ORDER BY c", "c int, a int"),
        ("SELECT c, a FROM t CROSS JOIN v", "c int, a int"),
        ("SELECT c, x FROM t INNER JOIN v ON t.b = v.b, o.t AS z", "c int, x int"),
        ("SELECT c, a FROM t STRAIGHT_JOIN v", "c int, a int"),
        ("SELECT o.t.x FROM o.t", "x int"),
        ("SELECT `select`, v.`current_date` FROM v", "select int, current_date int"),
        ("SELECT `current_date` FROM v", "current_date int"),
        ("SELECT a /* , b */ FROM t -- , v", "a int"),
        ("SELECT a FROM t GROUP BY a HAVING a > 1 LIMIT 3", "a int"),
        ("SELECT a FROM t FOR UPDATE", "a int"),
    ],
)  # fmt: skip
def test_columns_that_are_named(query: str, expected: str) -> None:
    assert after(*TABLES, f"CREATE TABLE n {query}", table="n") == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "SELECT 1 AS a FROM t",
        "SELECT a + b FROM t",
        "SELECT -a FROM t",
        "SELECT NULL AS a FROM t",
        "SELECT CURRENT_DATE FROM v",
        "SELECT MAX(a) FROM t",
        "SELECT a COLLATE binary FROM t",
        "SELECT b FROM t, v",
        "SELECT a, FROM t",
        "SELECT w.* FROM t",
        "SELECT no_such FROM t",
        "SELECT a FROM no_such",
        "SELECT t.a FROM t AS x",
        "SELECT d.x.a FROM t AS x",
        "SELECT e.d.t.a FROM t",
        "SELECT x FROM t",
        "SELECT a FROM t UNION SELECT b FROM t",
        "SELECT a FROM t WHERE a = 1 UNION SELECT b FROM t",
        "(SELECT a FROM t) UNION (SELECT b FROM t)",
        "WITH t AS (SELECT 1 AS a) SELECT a FROM t",
        "SELECT a FROM (SELECT 1 AS a) t",
        "SELECT a FROM (t)",
        "SELECT * FROM t NATURAL JOIN v",
        "SELECT * FROM t JOIN v USING (b)",
        "SELECT a FROM t PARTITION (p), v",
        "SELECT * FROM t FOR SYSTEM_TIME ALL, v",
        "SELECT * FROM t USE INDEX (i), v",
        "SELECT a FROM DUAL",
        "TABLE t",
        "VALUES ROW(1)",
        "SELECT",
        "SELECT a FROM",
        "SELECT a FROM t JOIN",
    ],
)
def test_queries_that_only_the_server_understands(query: str) -> None:
    history = history_of(*TABLES, f"CREATE TABLE n AS {query}")
    assert isinstance(history.table(("d", "n")), Unverified), query
