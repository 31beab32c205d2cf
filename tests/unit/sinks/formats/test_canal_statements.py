"""Types of statements, and of columns, as Canal names them."""

from __future__ import annotations

import pytest

from replica_client.schema.history import SchemaChange
from replica_client.schema.model import ColumnModel
from replica_client.sinks.column_models import listed_type
from replica_client.sinks.formats.canal import _ddl_type, _index_statement
from replica_client.stream.transactions.transaction import Statement


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE INDEX i ON t (a)", ("CINDEX", "d", "t")),
        ("create unique index i using btree on `x`.`t t` (a)", ("CINDEX", "x", "t t")),
        ("DROP INDEX i ON t", ("DINDEX", "d", "t")),
        ("CREATE FULLTEXT INDEX `on` ON t (a)", ("CINDEX", "d", "t")),
        ("CREATE VIEW v AS SELECT 1", None),
        ("CREATE TABLE indexes (a INT)", None),
    ],
)
def test_index_statements(text: str, expected: object) -> None:
    assert _index_statement(Statement("d", text)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ALTER TABLE t ADD INDEX i (a)", "CINDEX"),
        ("ALTER TABLE t ADD UNIQUE KEY i (a)", "CINDEX"),
        ("ALTER TABLE t DROP KEY i", "DINDEX"),
        ("ALTER TABLE t RENAME TO u", "RENAME"),
        ("ALTER TABLE t RENAME COLUMN a TO b", "ALTER"),
        ("ALTER TABLE t ADD COLUMN indexed INT", "ALTER"),
        ("ALTER TABLE t ADD keyed INT", "ALTER"),
    ],
)
def test_alter_table(text: str, expected: str) -> None:
    change = SchemaChange("alter_table", "d", "t", None, None, True, text)
    assert _ddl_type(change) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (ColumnModel("x", "int", display_width=11, unsigned=True), "int(11) unsigned"),
        (ColumnModel("x", "int"), "int"),
        (ColumnModel("x", "tinyint", type_name="BOOLEAN"), "tinyint(1)"),
        (ColumnModel("x", "geometry", type_name="POINT"), "point"),
        (ColumnModel("x", "float", display_width=10, display_scale=2), "float(10,2)"),
        (
            ColumnModel("x", "int", unsigned=True, type_name="INT UNSIGNED ZEROFILL"),
            "int unsigned zerofill",
        ),
        (ColumnModel("x", "varchar", 20), "varchar(20)"),
    ],
)
def test_types_as_listings_have_them(column: ColumnModel, expected: str) -> None:
    assert listed_type(column) == expected
