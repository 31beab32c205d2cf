"""Partitioned tables: since MySQL 8.0.16 each of their rows events says which partition it is of."""

from __future__ import annotations

import pytest

import replica_client as rc
from replica_client.stream.files import file_batches
from tests.unit.stream.transactions.test_fast_path import Counting

pytestmark = pytest.mark.integration


async def test_rows_of_partitions(any_server, new_database, monkeypatch) -> None:
    database = new_database(any_server)
    start = rc.Position(*any_server.binlog_position())
    any_server.execute(
        f"CREATE TABLE {database}.p (id INT PRIMARY KEY, v VARCHAR(20)) CHARACTER SET utf8 "
        "PARTITION BY HASH (id) PARTITIONS 4"
    )
    expected = []
    for number in range(8):
        any_server.execute(f"INSERT INTO {database}.p VALUES (%s, %s)", (number, f"row {number}"))
        expected.append(("insert", None, (number, f"row {number}")))
    for number in range(8):  # to the next partition
        any_server.execute(f"UPDATE {database}.p SET id = {number + 101} WHERE id = {number}")
        row = f"row {number}"
        expected.append(("update", (number, row), (number + 101, row)))
    any_server.execute(f"DELETE FROM {database}.p WHERE id = 101")
    expected.append(("delete", (101, "row 0"), None))

    path = any_server.binlog_path(start.file)
    reader = rc.open_binlog(path, start=start, tables=f"{database}.*")
    assert [(c.kind, c.before, c.after) for c in reader.changes()] == expected
    monkeypatch.setattr(file_batches, "ColumnFastPath", Counting)
    Counting.taken = 0
    images = [row for _, *pair in expected for row in pair if row is not None]
    table = [row for batch in reader.batches() for row in batch.to_pylist()]
    assert [(row["id"], row["v"]) for row in table] == images
    if any_server.version >= (8, 0):
        assert Counting.taken >= 4 * 16
    async with rc.connect(
        any_server.url(), start=start, tables=[f"{database}.*"], stop_at_end=True
    ) as stream:
        assert [(c.kind, c.before, c.after) async for c in stream.changes()] == expected
