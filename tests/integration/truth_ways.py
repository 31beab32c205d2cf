"""Ways to read a binlog, each of which gives the row changes of all tables in the order of their commits.

A way that holds rows instead (a mirror, a table as it was) gives the rows of moments.
"""

from __future__ import annotations

import asyncio
import functools
import json
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

import replica_client as rc
from replica_client import ABSENT, open_binlog, scan_binlog
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint, MemoryPositionStore
from tests import processes
from tests.integration.sink_comparison import stored_name
from tests.integration.truth_world import MARKER
from tests.servers.local import LocalServer

_PATIENCE = 60.0
_END = -1_000_000
"""The marker after all moments."""


@dataclass(frozen=True)
class Changed:
    """A change of a row as a way gives it; values are the way's own."""

    table: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


@dataclass
class Written:
    """A database whose binlog is complete.

    Attributes:
        files: copies of the binlog files.
    """

    server: LocalServer
    database: str
    directory: Path
    files: list[Path]
    rng: random.Random

    @property
    def tables(self) -> str:
        """Its tables as a pattern."""
        return f"{self.database}.*"


def copied_files(server: LocalServer, directory: Path) -> list[Path]:
    """Copy the binlog files after a rotation; the last is left out."""
    server.rotate()
    directory.mkdir()
    found = []
    for name in server.binlog_files()[:-1]:
        found.append(directory / name)
        shutil.copy(server.binlog_path(name), found[-1])
    return found


def _of_change(change: Any) -> Changed:
    return Changed(change.table, _row(change.before), _row(change.after))


def _row(row: Any) -> dict[str, Any] | None:
    return None if row is None else dict(zip(row.columns, row, strict=True))


# From files.


def files(written: Written) -> Iterator[Changed]:
    """Read changes from files."""
    for change in open_binlog(written.files, tables=written.tables).changes():
        yield _of_change(change)


def files_resumed(written: Written) -> Iterator[Changed]:
    """Read changes from files, again and again from where the last reader ended."""
    start, state = None, None
    while True:
        known = None if state is None else SchemaHistory.from_state(state)
        reader = open_binlog(written.files, tables=written.tables, start=start, schema=known)
        left = written.rng.randint(1, 40)
        for transaction in reader.transactions():
            for change in transaction.changes:
                yield _of_change(change)
            start, left = transaction.position, left - 1
            if not left:
                state = reader.state()[STATE_KEY]
                break
        else:
            return


def batches(written: Written) -> Iterator[Changed]:
    """Read Arrow batches from files."""
    return _of_batches(open_binlog(written.files, tables=written.tables).batches())


def scanned(written: Written) -> Iterator[Changed]:
    """Read the tables of ``scan_binlog``."""
    found = scan_binlog(list(map(str, written.files)), tables=written.tables)
    tables = [pa.table(found[name]) for name in found]
    return _of_batches(batch for table in tables for batch in table.to_batches())


def printed(written: Written) -> Iterator[Changed]:
    """Read what ``changes --json`` prints."""
    command = [sys.executable, "-m", "replica_client", "changes", *map(str, written.files)]
    command += ["--tables", written.tables, "--json"]
    done = processes.run(command, capture_output=True, check=False)
    for line in done.stdout.splitlines():
        one = json.loads(line)
        yield Changed(one["table"], one.get("before"), one.get("after"))
    if done.returncode:
        raise rc.ReplicaClientError(done.stderr.decode()[-1000:])


def parquet(written: Written) -> Iterator[Changed]:
    """Read the files of the sink ``parquet``."""
    import pyarrow.parquet as pq

    directory = written.directory / "parquet"
    sink = make_sink("parquet", {"path": str(directory)})

    async def write() -> None:
        await sink.open()
        try:
            position = None
            for transaction in open_binlog(written.files, tables=written.tables).transactions():
                await sink.write(transaction)
                position = transaction.position
                if transaction.complete and written.rng.random() < 0.05:
                    await sink.commit(Checkpoint(position))
            await sink.commit(Checkpoint(position))
            await sink.close()
        except BaseException:
            await sink.close()
            raise

    asyncio.run(write())
    from tests.integration.sink_comparison import read_journal

    saved = json.loads((directory / "parquet.checkpoint.json").read_text())["with"]
    found = []
    for path in sorted((directory / "_segments").glob("*.json")):
        if int(path.stem) < saved["segment"]:
            for file in json.loads(path.read_text())["files"]:
                found += pq.read_table(directory / file["path"], partitioning=None).to_batches()
    if saved["length"]:
        found += read_journal(
            directory / "_open" / f"{saved['segment']:08d}.journal", saved["length"]
        )
    return _of_batches(found)


def _of_batches(found: Iterable[pa.RecordBatch]) -> Iterator[Changed]:
    rows = []
    for batch in found:
        metadata = batch.schema.metadata
        if metadata is None or b"table" not in metadata or metadata[b"table"] == b"_schema_changes":
            continue
        name = metadata[b"table"].decode()
        own = [field.name for field in batch.schema if not field.name.startswith("_")]
        for row in batch.to_pylist():
            kept = dict(row.get("_lossless") or ())
            absent = set(row.get("_absent") or ())
            values = {
                one: ABSENT if one in absent else kept.get(one) if row[one] is None else row[one]
                for one in own
            }
            after = row["_change_type"] == "update_postimage"
            order = (row["_commit_version"], row["_event_index"], row["_row_index"], after)
            rows.append((order, row["_change_type"], name, values))
    rows.sort(key=lambda one: one[0])
    before = None
    for _, kind, name, values in rows:
        if kind == "update_preimage":
            before = values
        elif kind == "update_postimage":
            yield Changed(name, before, values)
        elif kind == "delete":
            yield Changed(name, values, None)
        else:
            yield Changed(name, None, values)


# From the live source.


def live(written: Written) -> Iterator[Changed]:
    """Follow the source from ``earliest`` to its end."""
    url = written.server.url()
    with rc.follow(url, tables=written.tables, start="earliest", stop_at_end=True) as stream:
        for change in stream.changes():
            yield _of_change(change)


def live_resumed(written: Written) -> Iterator[Changed]:
    """Follow the source with connections that end anywhere, each of which goes on where the last one ended."""
    store = MemoryPositionStore()
    url = written.server.url()
    while True:
        left = written.rng.randint(10, 200)
        with rc.follow(
            url, tables=written.tables, start="earliest", stop_at_end=True, position_store=store
        ) as stream:
            for transaction in stream.transactions():
                for change in transaction.changes:
                    yield _of_change(change)
                stream.acknowledge(transaction.position)
                left -= 1
                if not left:
                    break
            else:
                return


class Latest(threading.Thread):
    """A reader of the live source that begins at its end, while it is written."""

    def __init__(self, server: LocalServer, database: str) -> None:
        super().__init__(daemon=True)
        self.changes: list[Changed] = []
        self.error: Exception | None = None
        self._server, self._database = server, database
        self._seen = threading.Event()
        self._last = 0

    def run(self) -> None:
        try:
            with rc.follow(
                self._server.url(), tables=f"{self._database}.*", start="latest"
            ) as stream:
                for change in stream.changes():
                    self.changes.append(_of_change(change))
                    if (
                        change.table == MARKER
                        and change.after is not None
                        and change.after["id"] < 0
                    ):
                        self._seen.set()
                        if change.after["id"] == _END:
                            return
        except Exception as error:
            self.error = error
            self._seen.set()

    def begin(self, signal: Any) -> None:
        """Start, and wait until changes come."""
        self.start()
        end = time.monotonic() + _PATIENCE
        while not self._seen.wait(0.2):
            assert time.monotonic() < end, "the live reader is behind"
            self._last -= 1
            signal(self._last)

    def finish(self, signal: Any) -> list[Changed]:
        """Wait until all has come."""
        signal(_END)
        self.join(_PATIENCE)
        if self.error is not None:
            raise self.error
        assert not self.is_alive(), "the live reader is behind"
        return self.changes


ORDERED = {
    "files": files,
    "files, resumed": files_resumed,
    "batches": batches,
    "scan_binlog": scanned,
    "changes --json": printed,
    "parquet sink": parquet,
    "live, earliest": live,
    "live, resumed": live_resumed,
}


# Ways that hold rows.


def mirrored(
    written: Written, kind: str, wanted: set[int], without: list[str]
) -> Iterator[tuple[int, Any]]:
    """Write a mirror; give, at some moments, a function that reads a table from it."""
    path = written.directory / f"mirror.{kind}"
    loop = asyncio.new_event_loop()
    options = {"path": str(path)}
    if kind == "duckdb":
        options["unstorable_values"] = "null"  # it has no zero dates
    sink = make_sink(kind, options)
    try:
        loop.run_until_complete(sink.open())
        reader = open_binlog(written.files, tables=written.tables, exclude=without)
        for transaction in reader.transactions():
            loop.run_until_complete(sink.write(transaction))
            for change in transaction.changes:
                if change.table == MARKER and change.after["id"] in wanted:
                    loop.run_until_complete(sink.commit(Checkpoint(transaction.position)))
                    loop.run_until_complete(sink.close())
                    yield (
                        change.after["id"],
                        functools.partial(_READS[kind], path, written.database),
                    )
                    sink = make_sink(kind, options)
                    loop.run_until_complete(sink.open())
    finally:
        loop.run_until_complete(sink.close())
        loop.close()


def _sqlite(path: Path, database: str, table: str) -> list[dict[str, Any]]:
    import sqlite3

    with closing(sqlite3.connect(path)) as connection:
        name = stored_name(connection, database, table).replace('"', '""')
        cursor = connection.execute(f'SELECT * FROM "{name}"')
        names = [one[0] for one in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _duckdb(path: Path, database: str, table: str) -> list[dict[str, Any]]:
    import duckdb

    with duckdb.connect(str(path), read_only=True) as connection:
        cursor = connection.execute(f'FROM "{database}"."{table}"')
        names = [one[0] for one in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_READS = {"sqlite": _sqlite, "duckdb": _duckdb}


# A lake, whose Delta tables DuckDB reads: neither the log nor the files are read by code that wrote them.


def lake(written: Written) -> tuple[dict[str, list[dict[str, Any]]], dict[str, str]]:
    """Run the pipeline in this process, in two runs; return the rows of tables, and why others are left out."""
    from replica_client.lake.pipeline.runner import run_pipeline

    directory = written.directory / "pipeline"
    directory.mkdir()
    config = directory / "pipeline.toml"
    config.write_text(
        f"[source]\nurl = {json.dumps(written.server.url())}\ntables = [{json.dumps(written.tables)}]\n"
        'start = "earliest"\n[pipeline]\noutput = "lake"\nengine = "local"\ntrigger = "available-now"\n'
    )
    run_pipeline(config)
    result = run_pipeline(config)
    left_out = {
        one["table"].partition(".")[2]: str(one.get("reason", one)) for one in result.not_current
    }
    lake_directory = directory / "lake"
    # A renamed table keeps its directory: the lake's own list has today's names.
    listed = json.loads((lake_directory / "catalog.json").read_text())["tables"]
    found = {}
    for entry in listed:
        if not entry.get("files"):
            continue
        home = lake_directory / "tables" / entry["files"]
        files: set[str] = set()
        for path in sorted((home / "_delta_log").glob("*.json")):
            for line in path.read_text().splitlines():
                action = json.loads(line)
                if "add" in action:
                    files.add(unquote(action["add"]["path"]))
                elif "remove" in action:
                    files.discard(unquote(action["remove"]["path"]))
        found[entry["name"]] = _parquet_rows([home / one for one in sorted(files)])
    return found, left_out


def _parquet_rows(files: list[Path]) -> list[dict[str, Any]]:
    import duckdb

    if not files:
        return []
    with duckdb.connect() as connection:
        cursor = connection.execute(
            "FROM read_parquet(?, union_by_name=true)", [list(map(str, files))]
        )
        names = [one[0] for one in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    found = []
    for row in rows:
        kept = dict(row.get("_lossless") or ())
        found.append(
            {
                name: kept.get(name) if value is None else value
                for name, value in row.items()
                if not name.startswith("_")
            }
        )
    return found
