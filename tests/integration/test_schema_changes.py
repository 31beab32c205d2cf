"""DDL as typed schema changes, in order with the rows: every iterator, files and live, every server."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa

import replica_client as rc

STATEMENTS = (
    "INSERT INTO {d}.t VALUES (1, 'a')",
    "INSERT INTO {d}.t VALUES (2, 'b')",
    "ALTER TABLE {d}.t ADD c INT FIRST, DROP COLUMN word",
    "INSERT INTO {d}.t VALUES (7, 3)",
    "RENAME TABLE {d}.t TO {d}.swap, {d}.u TO {d}.t, {d}.swap TO {d}.u",
    "INSERT INTO {d}.t VALUES (4)",
    "TRUNCATE TABLE {d}.t",
    "CREATE INDEX i ON {d}.u (id)",
    "CREATE TABLE {d}.v LIKE {d}.u",
    "CREATE TABLE {other}.unwanted (a INT)",
    "INSERT INTO {d}.v VALUES (8, 5)",
    "DROP TABLE {d}.t, {d}.v",
    "ALTER DATABASE {d} CHARACTER SET latin1",
    "INSERT INTO {d}.u VALUES (9, 6)",
    "DROP DATABASE {d}",
)
# What comes of them: rows by table and id, schema changes by kind and table. An index is none.
EXPECTED = [
    ("t", 1),
    ("t", 2),
    ("alter_table", "t"),
    ("t", 3),
    ("rename_table", "t"),
    ("rename_table", "u"),
    ("rename_table", "swap"),
    ("t", 4),
    ("truncate_table", "t"),
    ("create_table", "v"),
    ("v", 5),
    ("drop_table", "t"),
    ("drop_table", "v"),
    ("alter_database", ""),
    ("u", 6),
    ("drop_database", ""),
]


def _of_changes(items: list[Any]) -> list[tuple[str, Any]]:
    return [
        (item.kind, item.table)
        if isinstance(item, rc.SchemaChange)
        else (item.table, item.after["id"])
        for item in items
    ]


def _of_batches(items: list[Any]) -> list[tuple[str, Any]]:
    """A batch's rows are of one table, which its metadata names."""
    found: list[tuple[str, Any]] = []
    for item in items:
        if isinstance(item, rc.SchemaChange):
            found.append((item.kind, item.table))
        else:
            assert isinstance(item, pa.RecordBatch)
            table = item.schema.metadata[b"table"].decode()
            found += [(table, value) for value in item.column("id").to_pylist()]
    return found


async def test_in_order_with_rows(any_server, new_database) -> None:
    server = any_server
    database, other = new_database(server), new_database(server)
    options: dict[str, Any] = {"tables": f"{database}.*", "stop_at_end": True}
    server.execute(f"CREATE TABLE {database}.t (id INT, word VARCHAR(9))")
    server.execute(f"CREATE TABLE {database}.u (id INT)")
    async with asyncio.timeout(60):
        async with rc.connect(server.url(), start="latest", **options) as stream:
            known, position = stream.history.copy(), stream.position
        for statement in STATEMENTS:
            server.execute(statement.format(d=database, other=other))
        options["start"], options["schema"] = position, known
        from_files = _reader(server, position, database, known)
        items = list(from_files.changes(notices=True))
        assert _of_changes(items) == EXPECTED
        assert _of_batches(list(from_files.batches(notices=True))) == EXPECTED
        assert _of_batches(list(from_files.batches(3, notices=True))) == EXPECTED
        rows = [entry for entry in EXPECTED if isinstance(entry[1], int)]
        assert _of_changes(list(from_files.changes())) == rows
        assert sorted(_of_batches(list(from_files.batches()))) == sorted(rows)
        async with rc.connect(server.url(), **options) as stream:
            live = [item async for item in stream.changes(notices=True)]
        assert live == items
        async with rc.connect(server.url(), **options) as stream:
            assert _of_batches([item async for item in stream.batches(notices=True)]) == EXPECTED
        async with rc.connect(server.url(), **options) as stream:
            whole = [transaction async for transaction in stream.transactions()]
    assert [change for transaction in whole for change in transaction.schema_changes] == [
        item for item in items if isinstance(item, rc.SchemaChange)
    ]
    altered = next(item for item in items if getattr(item, "kind", "") == "alter_table")
    assert altered.after.column_names == ("c", "id")
    assert altered.statement.startswith("ALTER TABLE")
    assert (altered.understood, altered.database) == (True, database)
    renamed = [item for item in items if getattr(item, "kind", "") == "rename_table"]
    assert [(one.table, one.after.name) for one in renamed] == [
        *(("t", "swap"), ("u", "t"), ("swap", "u")),
    ]
    dropped = [item for item in items if getattr(item, "kind", "") == "drop_table"]
    assert [one.after for one in dropped] == [None, None]


def _reader(
    server: Any, position: rc.Position, database: str, known: rc.SchemaHistory
) -> rc.BinlogFileReader:
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(position.file) :]]
    return rc.open_binlog(paths, start=position, tables=f"{database}.*", schema=known)
