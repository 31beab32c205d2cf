"""A sink is asked before it is used, and lets not everybody read what it writes."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from replica_client.errors import SinkError
from replica_client.rows.selection import Selection
from replica_client.sinks.protocol import ProbedSink
from replica_client.sinks.registry import make_sink
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.assembler import AssemblyOptions

KINDS = ("file", "parquet", "sqlite")
DATA = Path(make_sink.__code__.co_filename).parents[1] / "testing" / "data"


def probe(kind: str, path: Path) -> None:
    async def run() -> None:
        sink = make_sink(kind, {"path": str(path)})
        assert isinstance(sink, ProbedSink)
        try:
            await sink.probe()
        finally:
            await sink.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_makes_nothing(kind, tmp_path):
    probe(kind, tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_probe_says_what_is_in_the_way(kind, tmp_path):
    (tmp_path / "plain").write_text("not a directory")
    with pytest.raises(SinkError, match="plain is not a directory"):
        probe(kind, tmp_path / "plain" / "data")


def test_a_probe_reads_the_database(tmp_path):
    (tmp_path / "mirror.db").write_text("no database" * 100)
    with pytest.raises(SinkError, match="not a database"):
        probe("sqlite", tmp_path / "mirror.db")


@pytest.mark.parametrize("kind", ["mysql", "redis"])
def test_a_probe_tells_that_a_server_is_away(kind):
    url = {"mysql": "mysql://root@127.0.0.1:1/", "redis": "redis://127.0.0.1:1/0"}[kind]

    async def run() -> None:
        sink = make_sink(kind, {"url": url})
        try:
            await sink.probe()
        finally:
            await sink.close()

    with pytest.raises(SinkError, match=r"127\.0\.0\.1:1") as caught:
        asyncio.run(run())
    assert caught.value.retriable


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_not_for_everybody(kind, tmp_path):
    path = tmp_path / "data" / "mirror.db" if kind == "sqlite" else tmp_path / "data"
    own = {"unknown_tables": "create"} if kind == "sqlite" else {}
    modes = {}

    async def run() -> None:
        sink = make_sink(kind, {"path": str(path), **own})
        await sink.open()
        options = AssemblyOptions(Selection(None, None, None))
        for transaction in open_binlog(DATA, assembly=options).transactions():
            await sink.write(transaction)
            await sink.commit(Checkpoint(transaction.position, {"a": 1}))
        for one in tmp_path.rglob("*"):
            modes[one.name] = stat.S_IMODE(one.stat().st_mode)
        await sink.close()
        sink = make_sink(kind, {"path": str(path), **own})
        await sink.open()  # publishes what waits
        await sink.close()

    old = os.umask(0o022)
    try:
        asyncio.run(run())
    finally:
        os.umask(old)
    files = [one for one in tmp_path.rglob("*") if one.is_file()]
    modes |= {one.name: stat.S_IMODE(one.stat().st_mode) for one in files}
    found = {name: mode for name, mode in modes.items() if name in {one.name for one in files}}
    assert len(found) >= (1 if kind == "sqlite" else 3)
    assert set(found.values()) == {0o640}, found


def test_mirrors_of_old_keep_their_names(tmp_path):
    """Tables that were made before names were escaped are found again."""
    import sqlite3

    from replica_client.schema.model import ColumnModel, TableModel
    from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
    from replica_client.sinks.mirror.table_store import TableStore

    model = TableModel("a.b%", "c", (ColumnModel("id", "int"),))
    store = TableStore(SqliteDatabase(tmp_path / "m.db"))
    store.prepare()
    store.close()
    with sqlite3.connect(tmp_path / "m.db") as connection:
        # As the releases before had it.
        connection.execute('CREATE TABLE "a.b%.c" (id INTEGER)')
        connection.execute('INSERT INTO "a.b%.c" VALUES (5)')
        connection.execute(
            "INSERT INTO _replica_client_tables VALUES ('a.b%', 'c', ?)",
            ('{"columns": [{"name": "id", "kind": "int"}]}',),
        )
    connection.close()
    store = TableStore(SqliteDatabase(tmp_path / "m.db"))
    store.prepare()
    assert list(store.rows(model, ["id"])) == [(5,)]
    store.close()
