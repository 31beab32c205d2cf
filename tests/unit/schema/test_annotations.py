"""What definitions say beyond how rows are read: defaults, comments, widths, AUTO_INCREMENT."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.information_schema import read_tables
from replica_client.schema.model import ColumnModel, TableModel

_CONTEXT = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0))


def _table(*statements: str) -> TableModel:
    history = SchemaHistory()
    for text in statements:
        history.run(text, _CONTEXT)
    state = history.table(("d", "t"))
    assert isinstance(state, TableModel)
    return state


def _column(definition: str) -> ColumnModel:
    return _table(f"CREATE TABLE t (c {definition})").columns[0]


@pytest.mark.parametrize(
    "words", ["GENERATED ALWAYS AS (1 + 1)", "AS (1) STORED", "AS (2) PERSISTENT"]
)
def test_generated(words: str) -> None:
    column = _column(f"INT {words}")
    assert column.generated
    assert ColumnModel.from_json(column.to_json()).generated


def test_what_is_not_generated() -> None:
    for words in ("AUTO_INCREMENT PRIMARY KEY", "DEFAULT (1 + 1)", "NOT NULL"):
        assert not _column(f"INT {words}").generated


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("INT(11) UNSIGNED ZEROFILL DEFAULT 5", ("INT UNSIGNED ZEROFILL", 11, None, False, False, "5", "")),
        ("INTEGER AUTO_INCREMENT PRIMARY KEY", ("INTEGER", None, None, True, False, None, "")),
        ("SERIAL", ("", None, None, True, False, None, "")),
        ("TINYINT(1) NOT NULL DEFAULT -1 COMMENT 'it''s'", ("", 1, None, False, False, "-1", "it's")),
        ("FLOAT(10,2)", ("", 10, 2, False, False, None, "")),
        ("DOUBLE PRECISION DEFAULT 1e3", ("DOUBLE PRECISION", None, None, False, False, "1e3", "")),
        ("BOOL DEFAULT FALSE", ("BOOL", None, None, False, False, "FALSE", "")),
        ("POINT SRID 4326", ("POINT", None, None, False, False, None, "")),
        ("VARCHAR(5) DEFAULT NULL", ("", None, None, False, False, None, "")),
        ("VARCHAR(5) DEFAULT _utf8mb4'x'", ("", None, None, False, False, "x", "")),
        ("VARCHAR(5) DEFAULT x'616263'", ("", None, None, False, False, "abc", "")),
        ("VARCHAR(5) DEFAULT 'x''61'''", ("", None, None, False, False, "x'61'", "")),
        ("VARCHAR(5) CHARACTER SET utf16 DEFAULT 0x0061", ("", None, None, False, False, None, "")),
        ("VARCHAR(5) CHARACTER SET latin1 DEFAULT 0xE9", ("", None, None, False, False, None, "")),
        ("INT DEFAULT 0x10", ("", None, None, False, False, "16", "")),
        ("BIGINT DEFAULT X'ff'", ("", None, None, False, False, "255", "")),
        ("VARBINARY(5) DEFAULT x'00FF'", ("", None, None, False, False, "0x00FF", "")),
        ("BINARY(5) DEFAULT 0xabc", ("", None, None, False, False, "0x0abc", "")),
        ("JSON DEFAULT (JSON_ARRAY())", ("", None, None, False, False, None, "")),
        ("TIMESTAMP(3) DEFAULT NOW(3) ON UPDATE NOW(3)",
         ("", None, None, False, True, "CURRENT_TIMESTAMP", "")),
    ],
)  # fmt: skip
def test_of_statements(definition: str, expected: tuple[object, ...]) -> None:
    assert _column(definition).annotations == (*expected, False)


@pytest.mark.parametrize(
    ("clauses", "default"),
    [
        ("ALTER c SET DEFAULT 7", "7"),
        ("ALTER COLUMN c DROP DEFAULT", None),
        ("MODIFY c INT DEFAULT 3", "3"),
        ("MODIFY c INT", None),
        ("ADD COLUMN e INT", "5"),
        ("ALTER nothing SET DEFAULT 7", "5"),
        ("ALTER c SET DEFAULT 0x1F", "31"),
    ],
)
def test_of_alter_table(clauses: str, default: str | None) -> None:
    table = _table("CREATE TABLE t (c INT DEFAULT 5)", f"ALTER TABLE t {clauses}")
    assert table.columns[0].default == default


@pytest.mark.parametrize(
    ("flavor", "of_type", "extra", "default", "expected"),
    [
        (ServerFlavor.MYSQL, "varchar(5)", "", "now()", "now()"),
        (ServerFlavor.MYSQL, "varchar(5)", "DEFAULT_GENERATED", "concat(1,2)", None),
        (ServerFlavor.MYSQL, "datetime", "DEFAULT_GENERATED", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        (ServerFlavor.MYSQL, "timestamp", "on update CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        (ServerFlavor.MARIADB, "varchar(5)", "", "'it''s'", "it's"),
        (ServerFlavor.MARIADB, "int(11)", "", "NULL", None),
        (ServerFlavor.MARIADB, "int(11)", "", "-5", "-5"),
        (ServerFlavor.MARIADB, "datetime(3)", "", "current_timestamp(3)", "CURRENT_TIMESTAMP"),
    ],
)  # fmt: skip
def test_defaults_of_listings(
    flavor: ServerFlavor, of_type: str, extra: str, default: str, expected: str | None
) -> None:
    row = ("d", "t", "c", of_type, None, "YES", extra, "", default, "said")
    [model] = read_tables([("d", "t", "BASE TABLE", "")], [row], [], flavor, (11, 8, 0))
    column = model.columns[0]
    assert (column.default, column.comment) == (expected, "said")
    assert column.on_update == ("on update" in extra)


def test_they_do_not_count() -> None:
    column = _column("INT DEFAULT 5 COMMENT 'x'")
    other = replace(column, type_name="INTEGER", display_width=3)
    assert column == other
    first, second = TableModel("d", "t", (column,)), TableModel("d", "t", (other,))
    # Texts of equal columns are kept, and those of these two differ.
    assert first.json_text() != second.json_text()
    loaded = TableModel.from_json("d", "t", second.to_json())
    assert loaded.columns[0].type_name == "INTEGER"
    assert loaded.columns[0].display_width == 3


def test_defaults_and_comments_are_not_saved() -> None:
    """A transform may hide what they tell; a position file is read by others."""
    table = _table("CREATE TABLE t (c CHAR(9) DEFAULT 'hidden' COMMENT 'hidden')")
    assert table.columns[0].annotations[-3:-1] == ("hidden", "hidden")
    assert "hidden" not in table.json_text()
    assert "hidden" not in str(table.to_json())
    assert "hidden" not in str(table)
