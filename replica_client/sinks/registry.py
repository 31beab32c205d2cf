"""Sinks by name: built-in sinks, and those of other packages by entry point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from replica_client.errors import ConfigError
from replica_client.sinks.protocol import Sink

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

ENTRY_POINT_GROUP = "replica_client.sinks"
"""Entry point group of other packages: callables that take the sink's table and return a sink."""

SinkFactory = Callable[[Mapping[str, object]], Sink]

_OWN = {
    "file": "replica_client.sinks.json_lines.file_sink:make",
    "stdout": "replica_client.sinks.json_lines.stdout_sink:make",
    "sqlite": "replica_client.sinks.mirror.sqlite_sink:make",
    "mysql": "replica_client.sinks.mirror.mysql_sink:make",
    "postgres": "replica_client.sinks.mirror.postgres_sink:make",
    "duckdb": "replica_client.sinks.mirror.duckdb_sink:make",
    "clickhouse": "replica_client.sinks.mirror.clickhouse_sink:make",
    "parquet": "replica_client.sinks.parquet.parquet_sink:make",
    "redis": "replica_client.sinks.redis_streams.stream_sink:make",
    "kafka": "replica_client.sinks.kafka.kafka_sink:make",
    "http": "replica_client.sinks.webhook.webhook_sink:make",
    "nats": "replica_client.sinks.nats_jetstream.nats_sink:make",
}
_EXTRAS = {
    "pyarrow": "arrow",
    "redis": "redis",
    "confluent_kafka": "kafka",
    "psycopg": "postgres",
    "duckdb": "duckdb",
    "httpx": "http",
    "nats": "nats",
    "msgspec": "daemon",
}


def sink_kinds() -> list[str]:
    """Return the names of all available sinks."""
    return sorted({*_OWN, *(point.name for point in _entry_points())})


def make_sink(kind: str, table: Mapping[str, object]) -> Sink:
    """Build a sink, not yet opened.

    Args:
        kind: name of the sink: ``file``, ``stdout``, ``sqlite``, ``mysql``, ``postgres``,
            ``duckdb``, ``clickhouse``, ``parquet``, ``redis``, ``kafka``, ``http``, ``nats``, or an
            entry point's.
        table: options of the sink, with secrets resolved.

    Raises:
        ConfigError: no such sink, a package that it needs is missing, or an option is wrong; the
            message names the option.
    """
    factory = _own(kind) if kind in _OWN else _of_others(kind)
    sink = factory(table)
    if not isinstance(sink, Sink):
        raise ConfigError(f"sink {kind!r}: its entry point made a {type(sink).__name__}, no sink")
    return sink


def _own(kind: str) -> SinkFactory:
    module, _, name = _OWN[kind].partition(":")
    try:
        factory: SinkFactory = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if kind == "clickhouse" and extra is not None:
            extra = kind
        if extra is None:
            raise
        raise ConfigError(
            f"sink {kind!r} needs {error.name}: install replica-client[{extra}]"
        ) from error
    return factory


def _of_others(kind: str) -> SinkFactory:
    for point in _entry_points().select(name=kind):
        try:
            factory: SinkFactory = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"sink {kind!r}: {point.value} cannot be loaded: {error}") from error
        return factory
    raise ConfigError(f"no sink is called {kind!r}; there are {', '.join(sink_kinds())}")


def _entry_points() -> EntryPoints:
    # Called only if needed, as searching for entry points delays the start.
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINT_GROUP)
