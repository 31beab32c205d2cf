"""The destinations of the composition proof: their servers, options of sinks, and what consumers of events have."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.integration.apache_kafka import PlainBroker
from tests.integration.clickhouse_server import ClickhouseServer
from tests.integration.event_receiver import KEY, EventReceiver
from tests.integration.nats_server import NatsServer
from tests.integration.postgres_server import PostgresServer
from tests.integration.redis_server import RedisServer
from tests.integration.sink_comparison import file_lines, parquet_batches
from tests.object_stores import access_to, new_bucket, object_store
from tests.servers.local import LocalServer

MIRRORS = ("mysql", "postgres", "sqlite", "duckdb", "clickhouse")
EVENTS = ("file", "parquet", "redis", "kafka", "http", "nats")
LAKES = ("lake", "s3-lake")
SHARED = ("mysql", "postgres", "redis")
"""Kinds whose destination several sinks write, each its own tables."""

Position = tuple[str, int]
Rows = dict[Any, dict[str, Any]]


@dataclass(frozen=True)
class Event:
    """An event as a consumer gets it.

    Attributes:
        kind: ``snapshot``, ``insert``, ``update``, ``delete``, or of a statement.
        table: ``database.table``.
        at: file and position in the source's binlog.
        number: of the event in its transaction, and of the row in its event.
        before: the row before.
        after: the row after.
        renamed: the new name of a table.
    """

    kind: str
    table: str
    at: Position
    number: tuple[int, int]
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    renamed: str = ""


class Destinations:
    """Servers that start when the first sink needs them.

    Args:
        stack: ends the servers.
        directory: for files.
        target: a server for mirrors of kind ``mysql``.
    """

    def __init__(self, stack: contextlib.ExitStack, directory: Path, target: LocalServer) -> None:
        self._stack, self._directory, self.target = stack, directory, target
        self._made: dict[str, Any] = {}

    def _server(self, kind: str) -> Any:
        if kind not in self._made:
            if kind == "http":
                receiver = EventReceiver(faults=0.02)
                self._stack.callback(receiver.close)
                self._made[kind] = receiver
                return receiver
            # Not below the directory: a socket's path is short.
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
            makers: dict[str, Callable[[Path], Any]] = {
                "postgres": PostgresServer,
                "clickhouse": ClickhouseServer,
                "redis": RedisServer,
                "kafka": lambda _: PlainBroker(),
                "nats": lambda path: NatsServer(path, syncs=True),
            }
            made = self._made[kind] = makers[kind](folder)
            self._stack.callback(made.stop)
        return self._made[kind]

    @property
    def postgres(self) -> PostgresServer:
        """The server of the mirrors of kind ``postgres``."""
        found: PostgresServer = self._server("postgres")
        return found

    def options(self, kind: str, name: str) -> dict[str, Any]:
        """Return the options of a sink."""
        if kind in ("sqlite", "duckdb"):
            return {"path": self._directory / f"{name}.{kind}"}
        if kind in ("file", "parquet"):
            return {"path": self._directory / name}
        if kind == "mysql":
            return {"url": self.target.url("root"), "database_prefix": "m_"}
        if kind == "postgres":
            return {"url": self.postgres.url, "schema_prefix": "m_"}
        server = self._server(kind)
        if kind == "clickhouse":
            return {"url": server.url, "database_prefix": f"{name}_"}
        if kind == "redis":
            return {"url": server.url, "chunk_entries": 100}
        if kind == "kafka":
            return {
                "bootstrap_servers": server.servers,
                "topic_prefix": name,
                "partitions": 1,
                "tombstones_on_delete": False,
                "topic_config": {"retention.ms": "-1"},
            }
        if kind == "http":
            return {"url": f"{server.url}/{name}", "key": KEY}
        return {"url": server.url, "stream": name, "subject": name, "duplicate_window": 3600.0}

    def lake(self, kind: str, name: str) -> tuple[str, dict[str, str]]:
        """Return where a lake is, and the environment in which it is found."""
        if kind == "lake":
            return str(self._directory / f"{name}-lake"), {}
        if kind not in self._made:
            self._made[kind] = self._stack.enter_context(object_store())
        endpoint = self._made[kind]
        return f"{new_bucket(endpoint)}/{name}", access_to(endpoint)

    def restart(self, kind: str) -> None:
        """Restart a server as an operator does, or as a crash does where its data outlives it."""
        if kind == "mysql":
            self.target.restart()
            return
        server = self._server(kind)
        if kind == "redis":
            server.kill()
            server.start()
        else:
            server.kill()
            server.restart()

    @property
    def running(self) -> list[str]:
        """Kinds whose servers can be restarted."""
        lasting = (one for one in self._made if one not in ("http", *LAKES))
        return ["mysql", *lasting]

    def events(self, sink: Mapping[str, Any]) -> list[Event]:
        """Return what a consumer of a sink has, in the order of the binlog."""
        kind, name = sink["type"], sink["name"]
        if kind == "parquet":
            found = list(_of_batches(parquet_batches(Path(sink["path"]))))
        elif kind == "file":
            found = list(_of_lines(file_lines(Path(sink["path"]))))
        elif kind == "redis":
            with self._server(kind).client() as client:
                entries = client.xrange("replica_client")
            found = list(_of_lines(one[b"value"].decode() for _, one in entries))
        elif kind == "kafka":
            broker = self._server(kind)
            topics = broker.read_from(broker.servers, name)
            values = (
                value
                for topic, records in topics.items()
                if topic == name or topic.startswith(f"{name}.")  # the first has schema changes
                for _, value in records
                if value
            )
            # The topic of positions holds no events.
            found = list(_of_lines(str(one) for one in values if '"kind": ' in str(one)[:400]))
        elif kind == "http":
            found = list(_of_lines(self._server(kind).lines.get(f"/{name}", [])))
        else:
            found = list(_of_lines(data.decode() for _, data in self._server(kind).messages(name)))
        return sorted(found, key=lambda one: (one.at, one.kind != "snapshot", one.number))


def _of_lines(lines: Iterable[str]) -> Iterable[Event]:
    for line in lines:
        one = json.loads(line)
        renamed = f"{one['new_database']}.{one['new_table']}" if "new_table" in one else ""
        yield Event(
            one["kind"],
            f"{one['database']}.{one['table']}",
            (one["file"], one["position"]),
            (one["event_index"], one["row_index"]),
            one.get("before"),
            one.get("after"),
            renamed,
        )


def _of_batches(batches: Iterable[pa.RecordBatch]) -> Iterable[Event]:
    waiting: dict[Any, dict[str, Any]] = {}
    for batch in batches:
        metadata = batch.schema.metadata
        table = (metadata[b"database"] + b"." + metadata[b"table"]).decode()
        for row in batch.to_pylist():
            at = row["_file"], row["_offset"]
            if table == "._schema_changes":
                made = json.loads(row["definition"] or "{}")
                old, new = f"{row['database']}.{row['table']}", ""
                if made and (new := f"{made['database']}.{made['table']}") == old:
                    new = ""
                number = row["_event_index"], 0
                yield Event(row["kind"], old, at, number, renamed=new)
                continue
            own = {name: value for name, value in row.items() if not name.startswith("_")}
            number, kind = (row["_event_index"], row["_row_index"]), row["_change_type"]
            if kind == "update_preimage":
                waiting[table, at, number] = own
            elif kind == "update_postimage":
                yield Event("update", table, at, number, waiting.pop((table, at, number)), own)
            elif kind == "delete":
                yield Event(kind, table, at, number, own)
            else:
                yield Event("snapshot" if kind == "read" else kind, table, at, number, None, own)


def _agree(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[name] == other[name] for name in one.keys() & other.keys())


@dataclass
class Consumer:
    """What a consumer has that keeps the last state of each key.

    Attributes:
        tables: rows by table and key, with the position of their last event.
        twice: events that came more than once.
    """

    tables: dict[str, dict[Any, tuple[Position, dict[str, Any]]]] = field(default_factory=dict)
    twice: list[Event] = field(default_factory=list)

    def take(self, events: Iterable[Event], *, keyless: Iterable[str]) -> None:
        """Apply events in order.

        Args:
            events: of one sink.
            keyless: tables whose rows have no key: equal rows are counted, and a snapshot replaces all.
        """
        seen: set[tuple[Any, ...]] = set()
        whole: dict[str, Position] = {}
        serial = 0
        events = list(events)
        # Of copies at one position the last one counts: masks may have changed in between.
        copied = {
            (one.table, one.at, one.number): index
            for index, one in enumerate(events)
            if one.kind == "snapshot"
        }
        for index, one in enumerate(events):
            if one.kind == "snapshot" and copied[one.table, one.at, one.number] != index:
                continue
            rows = self.tables.setdefault(one.table, {})
            if one.kind not in ("snapshot", "insert", "update", "delete"):
                if one.renamed:
                    self.tables[one.renamed] = self.tables.pop(one.table)
                elif one.kind in ("truncate_table", "drop_table", "create_table"):
                    rows.clear()
                continue
            name = (one.table, one.at, one.number, one.kind)
            if name in seen:
                self.twice.append(one)
            seen.add(name)
            if one.table in keyless:
                if one.kind == "snapshot" and whole.get(one.table) != one.at:
                    rows.clear()
                    whole[one.table] = one.at
                if one.before is not None:
                    wanted = one.before  # an added column is not in older rows
                    gone = next((key for key, row in rows.items() if _agree(row[1], wanted)), None)
                    rows.pop(gone, None)
                if one.after is not None:
                    serial += 1
                    rows[serial] = one.at, one.after
                continue
            if one.before is not None:
                rows.pop(one.before["id"], None)
            if one.after is not None:
                rows[one.after["id"]] = one.at, one.after

    def rows(self, table: str, since: Position | None) -> list[dict[str, Any]]:
        """Return the rows of a table.

        Args:
            table: ``database.table``.
            since: where its last copy began: rows that nothing named since are not in it.
        """
        found = self.tables.get(table, {}).values()
        return [row for at, row in found if since is None or at >= since]
