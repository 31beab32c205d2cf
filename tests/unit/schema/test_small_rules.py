"""Rules of a line or two that histories and table maps rest on."""

from __future__ import annotations

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.character_sets import UNCONVERTED, Written, needed
from replica_client.schema.ddl.column_clause import read_default
from replica_client.schema.ddl.lexer import Cursor, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import AlterTable, NotUnderstood, tables_touched
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.resolve import hash_columns
from replica_client.schema.shape import ColumnShape, TableShape
from tests.unit.schema.tables import MARIADB, MYSQL, history_of


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("db.1t", ("db", "1t")),
        ("db.1e5", ("db", "1e5")),
        ("db.2", ("db", "2")),
        (".1t", ("d", "1t")),
        ("db . t", ("db", "t")),
        ("1db.t", ("1db", "t")),
    ],
)
def test_names_that_begin_with_digits(name: str, table: tuple[str, str]) -> None:
    meaning = read_statement(f"TRUNCATE TABLE {name}", MYSQL)
    assert getattr(meaning, "table", meaning) == table


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("CREATE TABLE t (a INT)", (("d", "t"),)),
        ("CREATE TEMPORARY TABLE t (a INT)", ()),
        ("CREATE TEMPORARY TABLE t LIKE u", ()),
        ("TRUNCATE TABLE t", ()),
        ("RENAME TABLE t TO e.u", (("d", "t"), ("e", "u"))),
        ("ALTER TABLE t ENGINE=InnoDB", ()),
        ("ALTER TABLE t ADD b INT", (("d", "t"),)),
        ("ALTER TABLE t RENAME TO u", (("d", "t"), ("d", "u"))),
    ],
)
def test_tables_whose_definitions_a_statement_may_change(
    statement: str, tables: tuple[tuple[str, str], ...]
) -> None:
    assert tables_touched(read_statement(statement, MYSQL))[0] == tables


def test_an_unknown_clause_is_not_taken_for_a_part_of_the_one_before() -> None:
    known = read_statement("ALTER TABLE t ENGINE=InnoDB, ADD b INT", MYSQL)
    assert isinstance(known, AlterTable)
    assert len(known.steps) == 1
    for clause in ("ENGINE=InnoDB", "FORCE", "ALGORITHM=INPLACE", "DISABLE KEYS"):
        unknown = read_statement(f"ALTER TABLE t {clause}, FROB", MYSQL)
        assert isinstance(unknown, NotUnderstood), clause


def test_hash_columns_are_told_by_the_definition() -> None:
    model = history_of("CREATE TABLE t (b TEXT, UNIQUE (b))", context=MARIADB).table(("d", "t"))
    assert isinstance(model, TableModel)
    surplus = ColumnShape("DB_ROW_HASH_1", 8, resolved=False)
    shape = TableShape("d", "t", (ColumnShape("b", 252, metadata=2), surplus))
    assert hash_columns(shape, model, ServerFlavor.MARIADB) == {"DB_ROW_HASH_1"}
    assert hash_columns(shape, model, ServerFlavor.MYSQL) == frozenset()
    assert hash_columns(shape, None, ServerFlavor.MARIADB) == frozenset()


@pytest.mark.parametrize(
    ("charset", "doubtful"),
    [(None, (1, 3)), ("utf8mb4", (1, 3)), ("latin1", ()), ("utf8mb3", ())],
)
def test_labels_with_a_question_mark_are_doubtful_beyond_utf8mb3(
    charset: str | None, doubtful: tuple[int, ...]
) -> None:
    column = ColumnModel("e", "enum", charset=charset, labels=("a?", "b", "?"))
    assert column.doubtful_labels == doubtful
    assert ColumnModel("c", "varchar", charset=charset).doubtful_labels == ()


@pytest.mark.parametrize("connection", ["latin1", "koi8r", "utf8mb4", None])
def test_labels_in_ascii_need_no_character_set(connection: str | None) -> None:
    written = Written("koi8r", connection)
    assert needed(("a", "b"), written) is UNCONVERTED
    assert needed((), written) is UNCONVERTED


@pytest.mark.parametrize("connection", ["latin1", "koi8r"])
def test_other_labels_need_it(connection: str) -> None:
    written = Written("utf8mb4", connection)
    assert needed(("a", "ж"), written) == written


@pytest.mark.parametrize("text", ["5 NOT NULL", "  'a b' NULL", "NOW(6) ON UPDATE NOW(6)", "-1"])
def test_where_a_default_stands_is_no_part_of_it(text: str) -> None:
    tokens = read_default(Cursor(tokenize(text, StatementContext("d"))))
    assert tokens
    assert {(token.start, token.end) for token in tokens} == {(0, 0)}
