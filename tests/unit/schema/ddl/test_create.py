"""Statements that differ in the table's name only mean the same, whether they are read again or not."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.ddl.create import TableHead, read_alike
from replica_client.schema.ddl.statement_context import MODE_ANSI_QUOTES, StatementContext
from replica_client.schema.ddl.statements import general_meaning, read_statement
from replica_client.schema.ddl.steps import CreateTable
from tests.unit.schema.tables import history_of

MYSQL = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0))
MARIADB = StatementContext("d", ServerFlavor.MARIADB, (11, 8, 0))
HEADS = (
    *(
        "CREATE TABLE t",
        "create table\n`a``b`",
        "CREATE TABLE IF NOT EXISTS d.t ",
        "CREATE TABLE d.`x y`",
    ),
    *(
        "CREATE OR REPLACE TABLE t",
        "CREATE TEMPORARY TABLE t",
        " CREATE TABLE `(`",
        "CREATE TABLE `a(b`.c",
    ),
    *(
        "CREATE /* ( */ TABLE t",
        "CREATE TABLE t # (\n",
        'CREATE TABLE "(" ',
        "CREATE TABLE db.1t",
        "CREATE TABLE",
    ),
    *(
        "SET STATEMENT x=1 FOR CREATE TABLE t",
        "CREATE TABLE t -- (\n",
        "CREATE VIEW v",
        "CREATE /*!99999 ( */ TABLE t",
    ),
    *(
        "CREATE TABLE t SELECT",
        "CREATE INDEX i ON t",
        "CREATE TABLE '('",
        "CREATE /*!50000 TABLE t */",
    ),
)
BODIES = (
    *(
        "(id INT PRIMARY KEY, b VARCHAR(30))",
        "(e ENUM('a','b(') DEFAULT 'a', PRIMARY KEY (e)) CHARSET=latin1;",
    ),
    *(
        "(LIKE other)",
        "LIKE other",
        "(SELECT 1)",
        "(a INT) SELECT * FROM x",
        "(a INT",
        ")",
        "(a NOTYPE)",
        "",
    ),
    *(
        "(a INT, /*!80023 b INT INVISIBLE, */ c INT) WITH SYSTEM VERSIONING",
        "(a INT) COMMENT='(' ; ;",
    ),
    *(
        "(a INT REFERENCES t(a), CHECK (a > 0))",
        "(a INT -- )\n)",
        '(a CHAR(3) DEFAULT "x")',
        "(a INT, a INT)",
    ),
)
CONTEXTS = (
    *(MYSQL, MARIADB, replace(MYSQL, sql_mode=MODE_ANSI_QUOTES), replace(MYSQL, database="other")),
    replace(MYSQL, client_charset="latin1", connection_charset="latin1", thread_id=7),
)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("head", HEADS)
def test_the_meaning_is_that_of_the_whole_text(head: str, body: str) -> None:
    for context in CONTEXTS:
        for text in (f"{head} {body}", head + body):
            found = read_alike(text, context)
            assert found is None or found == general_meaning(text, context), text


@given(
    st.lists(
        st.sampled_from(
            (*HEADS, *BODIES, "(", ")", "`", "'", " ", "/*", "*/", "--", "CREATE TABLE ")
        ),
        max_size=6,
    )
)
@settings(max_examples=60, deadline=None)
def test_pieces_in_any_order(pieces: list[str]) -> None:
    text = "".join(pieces)
    for context in CONTEXTS[:3]:
        assert read_statement(text, context) == general_meaning(text, context)


def test_tables_that_look_alike_are_read_once() -> None:
    one, two = (read_alike(f"CREATE TABLE t{n} (id INT, b TEXT)", MYSQL) for n in (1, 2))
    assert isinstance(one, CreateTable) and isinstance(two, CreateTable)
    assert (one.table, two.table) == (("d", "t1"), ("d", "t2"))
    assert one.columns is two.columns


def test_databases_with_other_character_sets_make_other_tables() -> None:
    body = "(a VARCHAR(9), e ENUM('ä'))"
    history = history_of(
        *("CREATE DATABASE x CHARSET latin1", "CREATE DATABASE y CHARSET utf8mb4"),
        *(f"CREATE TABLE x.t {body}", f"CREATE TABLE y.t {body}", f"CREATE TABLE x.u {body}"),
    )
    x, y, u = (history.table(name) for name in (("x", "t"), ("y", "t"), ("x", "u")))
    assert [table.columns[0].charset for table in (x, y, u)] == ["latin1", "utf8mb4", "latin1"]  # type: ignore[union-attr]
    assert (u.database, u.name, u.columns) == ("x", "u", x.columns)  # type: ignore[union-attr]


def test_definitions_behind_another_head_lose_nothing() -> None:
    every: Any = [object() for _ in fields(CreateTable)]
    made = CreateTable(*every)
    head: dict[str, Any] = {
        "table": ("d", "t"),
        "if_not_exists": True,
        "or_replace": True,
        "temporary": True,
    }
    assert made.behind(**head) == replace(made, **head)
    assert tuple(head) == TableHead._fields
