"""Rows with values of many megabytes: stored as others are, and not copied more often than need be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror import sqlite_store
from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
from replica_client.sinks.mirror.table_store import TableStore
from replica_client.stream.tables.net_changes import DivergedError, NetChanges

_ID = ColumnModel("id", "int", nullable=False)
_KEY = ColumnModel("key", "varchar", nullable=False)
_BYTES, _TEXT = ColumnModel("v", "longblob"), ColumnModel("w", "longtext")
_LONG = bytes(range(256)) * 3
_ROOT = Path(__file__).parents[3]


def _model(*columns: ColumnModel, key: str = "") -> TableModel:
    return TableModel("big", "a `t`", columns, ((key, 0),) if key else ())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TableStore]:
    monkeypatch.setattr(sqlite_store, "_LONG", 100)
    monkeypatch.setattr(sqlite_store, "_PIECE", 64)
    found = TableStore(SqliteDatabase(tmp_path / "mirror.db"))
    found.prepare()
    found.begin()
    yield found
    found.close()


@pytest.mark.parametrize(
    ("columns", "key", "row"),
    [
        ((_BYTES,), "", (_LONG,)),
        ((_ID, _BYTES), "id", (7, _LONG)),
        ((_KEY, _BYTES), "key", ("k", _LONG)),
        ((_BYTES, _ID, _BYTES, _TEXT), "", (_LONG, 1, _LONG[::-1], "x" * 1000)),
    ],
)
def test_a_long_value_is_stored_as_it_is(
    store: TableStore, columns: tuple[ColumnModel, ...], key: str, row: tuple[object, ...]
) -> None:
    named = tuple(
        ColumnModel(f"c{at}" if not key else column.name, column.kind, nullable=column.nullable)
        for at, column in enumerate(columns)
    )
    model = _model(*named, key=key)
    store.create(model)
    changes = NetChanges(model, strict=True)
    changes.insert(row)
    store.apply(changes)
    assert list(store.rows(model, model.column_names)) == [row]
    types = next(store._database.rows(f'SELECT typeof({named[-1].name}) FROM "big.a `t`"'))
    assert types == ("text" if isinstance(row[-1], str) else "blob",)


def test_a_long_value_of_a_row_that_is_there_is_refused_as_others_are(store: TableStore) -> None:
    model = _model(_ID, _BYTES, key="id")
    store.create(model)
    store._database.put_rows(model, (0,), [(1, b"short")])
    with pytest.raises(DivergedError, match="same new key"):
        store.rebuild(model, model, iter([(1, _LONG), (1, _LONG)]))


def test_an_update_replaces_a_long_value_by_another(store: TableStore) -> None:
    model = _model(_ID, _BYTES, key="id")
    store.create(model)
    for value in (_LONG, _LONG[::-1]):
        store._database.put_rows(model, (0,), [(1, value), (2, b"short")])
    assert sorted(store.rows(model, ("id", "v"))) == [(1, _LONG[::-1]), (2, b"short")]


def test_a_table_that_is_made_anew_keeps_its_long_values(store: TableStore) -> None:
    model, wider = _model(_ID, _BYTES, key="id"), _model(_ID, _BYTES, _TEXT, key="id")
    store.create(model)
    store._database.put_rows(model, (0,), [(1, _LONG)])
    rows = [(number, value, None) for number, value in store.rows(model, ("id", "v"))]
    store.rebuild(model, wider, iter(rows))
    assert list(store.rows(wider, ("id", "v", "w"))) == [(1, _LONG, None)]


_HEAD = """
import sys
from pathlib import Path

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

SIZE = 64 << 20
directory = Path(sys.argv[1])
"""
_SQLITE = """
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
from replica_client.sinks.mirror.table_store import TableStore
store = TableStore(SqliteDatabase(directory / "mirror.db"))
store.prepare()
model = TableModel("big", "t", (ColumnModel("v", "longblob"),))
store.begin()
store.create(model)
value = b"x" * SIZE
before = peak()
store._insert(model, [(value,)])
store._database.commit()
"""
_PARQUET = """
import time
import pyarrow as pa
from replica_client.sinks.parquet_segments import Journal, read_journal
from replica_client.sinks.parquet_segments import SegmentWriter
names = {b"database": b"big", b"table": b"t"}
batch = pa.record_batch([pa.array([b"x" * SIZE])], schema=pa.schema([("v", pa.binary())], names))
(directory / "_open").mkdir()
before = peak()
journal = Journal(directory / "_open" / "00000001.journal", 0)
journal.append(batch)
assert peak() - before < SIZE // 4, "the journal holds a copy of the batch"
SegmentWriter(directory, 1, time.time(), "zstd", 1000).publish(read_journal(journal.path, journal.length))
"""


@pytest.mark.parametrize(
    ("code", "copies"), [(_SQLITE, 0), (_PARQUET, 2)], ids=["sqlite", "parquet"]
)
def test_memory_of_a_long_value(tmp_path: Path, code: str, copies: int) -> None:
    end = "print((peak() - before) / SIZE)"
    run = subprocess.run(
        [sys.executable, "-c", _HEAD + code + end, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=_ROOT,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    # A quarter for what the libraries have beside it.
    assert float(run.stdout) <= copies + 0.25, run.stdout


def test_long_and_short_values_of_one_table_come_back(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    from replica_client.sinks.parquet_segments import SegmentWriter

    schema = pa.schema(
        [("id", pa.int64()), ("v", pa.binary())], {b"database": b"big", b"table": b"t"}
    )
    values = [b"short", b"x" * (5 << 20), b"again"]
    batches = [
        pa.record_batch([pa.array([at]), pa.array([value])], schema=schema)
        for at, value in enumerate(values)
    ]
    (tmp_path / "_open").mkdir()
    SegmentWriter(tmp_path, 1, 0.0, "zstd", 1000).publish(batches)
    files = sorted((tmp_path / "big").rglob("*.parquet"))
    found = [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
    assert found == [{"id": at, "v": value} for at, value in enumerate(values)]
    long = parquet.ParquetFile(files[-1]).metadata.row_group(0)
    assert "RLE_DICTIONARY" not in long.column(1).encodings
    assert long.column(0).is_stats_set
    assert not long.column(1).is_stats_set
