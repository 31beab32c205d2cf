"""Answers of information_schema as definitions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import SchemaError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.information_schema import (
    columns_query,
    keys_query,
    read_databases,
    read_tables,
    tables_query,
    where_patterns,
    where_table,
)
from replica_client.schema.model import describe

MYSQL, MARIADB = ServerFlavor.MYSQL, ServerFlavor.MARIADB


def _read(columns, kind="BASE TABLE", keys=(), flavor=MARIADB):
    rows = [
        ("d", "t", name, of, charset, null, extra, expr, *(rest or (None, "")))
        for name, of, charset, null, extra, expr, *rest in columns
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
    assert "GENERATION_EXPRESSION" in columns_query(MARIADB)[0]
    assert "GENERATION_EXPRESSION" not in columns_query(MYSQL)[0]
    for where in (None, where_table(("a%", "b_")), where_patterns([("a%", "b"), ("c|_", "d")])):
        for text, arguments in (
            columns_query(MYSQL, where),
            keys_query(where),
            tables_query(where),
        ):
            assert text.count("%s") == len(arguments)
    assert where_patterns([("a", "b")] * 65) is None


NAMES = st.text(alphabet="ab%_|*?.`\\", min_size=1, max_size=4)


def _as_pattern(parts: list[tuple[str, bool]]) -> str:
    """Pieces in backquotes stand for themselves."""
    return "".join(
        "`" + text.replace("`", "``") + "`" if quoted else text for text, quoted in parts
    )


PATTERNS = st.lists(
    st.one_of(
        st.tuples(NAMES, st.just(True)),
        st.tuples(st.text(alphabet="ab%_|*?", min_size=1, max_size=3), st.just(False)),
    ),
    min_size=1,
    max_size=3,
).map(_as_pattern)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(PATTERNS, PATTERNS).map(".".join), min_size=1, max_size=3),
    st.lists(st.tuples(NAMES, NAMES), max_size=20),
)
def test_what_is_asked_for_is_what_the_patterns_match(
    patterns: list[str], names: list[tuple[str, str]]
) -> None:
    """SQLite's LIKE with ESCAPE is that of the servers."""
    selection = Selection(patterns)
    where = where_patterns(selection.like_patterns())
    assert where is not None
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute("CREATE TABLE t (TABLE_SCHEMA TEXT, TABLE_NAME TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", names)
        found = database.execute(f"SELECT * FROM t WHERE {where[0].replace('%s', '?')}", where[1])
        assert sorted(found) == sorted(name for name in names if selection.wants(*name))
