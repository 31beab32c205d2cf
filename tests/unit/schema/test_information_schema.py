"""Answers of information_schema as definitions."""

from __future__ import annotations

import pytest

from replica_client.constants.flavor import ServerFlavor
from replica_client.errors import SchemaError
from replica_client.schema.information_schema import (
    columns_query,
    keys_query,
    read_databases,
    read_tables,
    tables_query,
)
from replica_client.schema.model import describe

MYSQL, MARIADB = ServerFlavor.MYSQL, ServerFlavor.MARIADB


def _read(columns, kind="BASE TABLE", keys=(), flavor=MARIADB):
    rows = [
        ("d", "t", name, of, charset, null, extra, expr)
        for name, of, charset, null, extra, expr in columns
    ]
    tables = [("d", "t", kind, "latin1_swedish_ci")]
    [model] = read_tables(tables, rows, keys, flavor, (10, 11, 8))
    return model


def test_types() -> None:
    model = _read(
        [
            ("a", "int(10) unsigned zerofill", None, "NO", "auto_increment", None),
            ("e", b"enum('a','b''c','d\\\\e')", "latin1", "YES", "", None),
            ("v", "varchar(100) /*M!100301 COMPRESSED*/", "utf8mb3", "YES", "INVISIBLE", None),
            ("j", "longtext", "utf8mb4", "YES", "", None),
            ("b", "varbinary(5)", None, "YES", "STORED GENERATED", "x"),
            ("t", "datetime(3)", None, "YES", "", None),
        ],
        keys=[("d", "t", "e", 3), ("d", "t", "a", None)],
    )
    assert [describe(column) for column in model.columns] == [
        "int unsigned not null",
        "enum('a','b''c','d\\e') charset latin1",
        "varchar(100) charset utf8mb3 invisible",
        "longtext charset utf8mb4",
        "varbinary(5)",
        "datetime(3)",
    ]
    assert model.columns[2].compressed
    assert model.primary_key == (("e", 3), ("a", 0))
    assert model.charset == "latin1"


def test_versioned_tables() -> None:
    columns = [("a", "int(11)", None, "YES", "", None)]
    assert _read(columns, "SYSTEM VERSIONED").column_names == ("a", "row_start", "row_end")
    own = [
        *columns,
        ("s", "timestamp(6)", None, "NO", "STORED GENERATED", "ROW START"),
        ("e", "timestamp(6)", None, "NO", "STORED GENERATED", "ROW END"),
    ]
    assert _read(own, "SYSTEM VERSIONED").column_names == ("a", "s", "e")


def test_unknown_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="hyperint"):
        _read([("a", "hyperint", None, "YES", "", None)])


def test_databases() -> None:
    found = read_databases([("d", "utf8"), (b"e", b"latin1")])
    assert found["d"].charset == "utf8mb3"
    assert found["e"].charset == "latin1"
    assert found["e"].complete


def test_queries() -> None:
    assert "GENERATION_EXPRESSION" in columns_query(MARIADB)
    assert "GENERATION_EXPRESSION" not in columns_query(MYSQL)
    for query in (
        columns_query(MYSQL, one_table=True),
        keys_query(one_table=True),
        tables_query(one_table=True),
    ):
        assert query.count("%s") == 2
