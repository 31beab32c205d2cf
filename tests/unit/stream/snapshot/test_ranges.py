"""Ranges of keys: their conditions are asked of an SQL engine, for keys of one column and of several."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from replica_client.errors import ServerError
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.stream.snapshot import KeyRange, can_be_cut, key_ranges, read_chunk, snapshot
from replica_client.stream.snapshot.chunks import condition
from tests.unit.stream.snapshot.answers import Answers, Rows, _for_sqlite

SHOW_SNAPSHOT: dict[str, list[Rows | ServerError]] = {
    "binlog_snapshot": [
        [("Binlog_snapshot_file", "mariadb-bin.000002"), ("Binlog_snapshot_position", "1472")]
    ],
    "SHOW BINARY LOG STATUS": [[("mariadb-bin.000002", 2001)]],
}


def table(*kinds: str, key: int | None = None) -> TableModel:
    columns = tuple(ColumnModel(f"c{at}", kind) for at, kind in enumerate(kinds))
    names = [column.name for column in columns[: len(kinds) if key is None else key]]
    return TableModel("d", "t", columns, tuple((name, 0) for name in names))


Filled = Callable[[TableModel, list[tuple[Any, ...]]], sqlite3.Connection]


@pytest.fixture
def filled() -> Iterator[Filled]:
    """Makes a database with a table of these rows."""
    with closing(sqlite3.connect(":memory:")) as tables:

        def fill(model: TableModel, rows: list[tuple[Any, ...]]) -> sqlite3.Connection:
            names, key = ", ".join(model.column_names), ", ".join(n for n, _ in model.primary_key)
            tables.execute(f"CREATE TABLE t ({names}, PRIMARY KEY ({key}))")
            marks = ", ".join("?" * len(model.columns))
            tables.executemany(f"INSERT INTO t VALUES ({marks})", rows)
            return tables

        yield fill


@pytest.mark.parametrize("seed", range(20))
def test_a_condition_takes_the_rows_between_its_bounds(seed: int, filled: Filled) -> None:
    chance = random.Random(seed)
    width = 1 + seed % 3
    model = table(*["int", "varchar", "int"][:width])

    def key() -> tuple[Any, ...]:
        return (chance.randrange(4), chance.choice("abc'"), chance.randrange(3))[:width]

    rows = sorted({key() for _ in range(25)})
    tables = filled(model, rows)
    for _ in range(20):
        part = KeyRange(*(chance.choice((None, key())) for _ in range(2)))
        found = tables.execute(f"SELECT * FROM t{_for_sqlite(condition(model, part))}").fetchall()
        expected = [
            row
            for row in rows
            if (part.after is None or row > part.after) and (part.upto is None or row <= part.upto)
        ]
        assert sorted(found) == expected, part


def test_the_text_of_conditions() -> None:
    model = table("int", "varbinary")
    assert condition(model, KeyRange()) == ""
    assert condition(table("int"), KeyRange((1,), (5,))) == " WHERE `c0` > 1 AND `c0` <= 5"
    assert condition(model, KeyRange(upto=(1, b"\x00"))) == (
        " WHERE (`c0` <= 1 AND (`c0` < 1 OR (`c0` = 1 AND `c1` <= x'00')))"
    )


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6, 7])
@pytest.mark.parametrize("size", [1, 2, 3])
async def test_ranges_have_every_row_once(count: int, size: int, filled: Filled) -> None:
    model = table("int", "varchar", "int", key=2)
    rows = [(number // 2, "ab"[number % 2], number) for number in range(count)]
    connection = Answers(ServerFlavor.MYSQL, {}, filled(model, rows))
    parts = [part async for part in key_ranges(connection, model, size)]
    assert len(parts) == max(1, -(-count // size))
    assert parts[0].after is None
    assert parts[-1].upto is None
    assert [one.upto for one in parts[:-1]] == [one.after for one in parts[1:]]
    assert [one.upto for one in parts[:-1]] == [row[:2] for row in rows[size - 1 : -1 : size]]
    if len(parts) > 2:
        later = [part async for part in key_ranges(connection, model, size, after=parts[1].after)]
        assert later == parts[1:]


async def test_tables_that_cannot_be_cut_are_one_range() -> None:
    connection = Answers(ServerFlavor.MYSQL, {})
    for model in (table("int", key=0), table("double"), table("int", "enum"), table("json")):
        assert not can_be_cut(model)
        assert [part async for part in key_ranges(connection, model, 1)] == [KeyRange()]
    assert not connection.asked
    for kind in ("bigint", "decimal", "char", "varbinary", "date", "timestamp", "year"):
        assert can_be_cut(table("int", kind)), kind


async def test_bounds_are_selected_as_they_compare() -> None:
    connection = Answers(ServerFlavor.MYSQL, {"^SELECT": [[]]})
    _ = [part async for part in key_ranges(connection, table("date", "year", "int"), 10)]
    assert connection.asked == [
        "SELECT CAST(`c0` AS CHAR), `c1` + 0, `c2` FROM `d`.`t` ORDER BY `c0`, `c1`, `c2` LIMIT 2 OFFSET 9"
    ]


def test_ranges_as_json() -> None:
    for part in (
        KeyRange(),
        KeyRange((1, "é"), (2, "z")),
        KeyRange(None, (b"\x00\xff", Decimal("1.50"), -7)),
        KeyRange(("2026-01-01",)),
    ):
        again = KeyRange.from_json(json.loads(json.dumps(part.to_json())))
        assert again == part
        assert repr(again) == repr(part)


async def test_a_snapshot_has_all_rows_and_goes_on_where_it_was(filled: Filled) -> None:
    one = table("int", "varchar", key=1)
    rows = [(number, f"row {number}") for number in range(7)]
    tables = filled(one, rows)
    connection = Answers(ServerFlavor.MARIADB, SHOW_SNAPSHOT, tables)
    chunks = [chunk async for chunk in snapshot(connection, [one], chunk_rows=3)]
    assert [[tuple(row) for row in chunk.rows] for chunk in chunks] == [
        rows[:3],
        rows[3:6],
        rows[6:],
    ]
    assert {str(chunk.window.low) for chunk in chunks} == {"mariadb-bin.000002:1472"}
    assert all(chunk.window.exact for chunk in chunks)
    assert {str(chunk.window.named) for chunk in chunks} == {"mariadb-bin.000002:2001"}
    assert connection.asked.count("ROLLBACK") == 3
    # A statement about the table keeps others from altering it, until the transaction ends.
    begun, named, end, rows_asked = (
        next(at for at, sql in enumerate(connection.asked) if sql.startswith(words))
        for words in (
            "START TRANSACTION",
            "SELECT 1 FROM `d`.`t`",
            "SHOW BINARY LOG",
            "SELECT `c0`, `c1`",
        )
    )
    assert begun < named < end < rows_asked
    assert chunks[0].rows[0]["c1"] == "row 0"
    for done in range(3):
        after = ("d", "t", chunks[done].range)
        left = [chunk async for chunk in snapshot(connection, [one], chunk_rows=3, after=after)]
        assert left == chunks[done + 1 :]
    other = ("d", "gone", KeyRange((1,)))
    assert not [chunk async for chunk in snapshot(connection, [one], after=other)]


async def test_hidden_columns_are_not_read() -> None:
    model = TableModel("d", "t", (ColumnModel("a", "int"), ColumnModel("h", "int", hidden=True)))
    connection = Answers(ServerFlavor.MARIADB, {**SHOW_SNAPSHOT, "^SELECT": [[(1,), (None,)]]})
    chunk = await read_chunk(connection, model)
    assert [tuple(row) for row in chunk.rows] == [(1,), (None,)]
    assert "SELECT `a` FROM `d`.`t`" in connection.asked
