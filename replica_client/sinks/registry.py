"""The sinks by kind, and options that several have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, TypeVar, get_args

import msgspec
from msgspec import Meta

from replica_client.errors import ConfigError, install_command
from replica_client.sinks.protocol import Sink
from replica_client.storage.toml_file import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints


ENTRY_POINT_GROUP = "replica_client.sinks"
"""Entry point group of other packages: callables that take the sink's table and return a sink."""

SinkFactory = Callable[[Mapping[str, object]], Sink]

_OWN = {
    "file": "replica_client.sinks.line_sinks:make_file",
    "stdout": "replica_client.sinks.line_sinks:make_stdout",
    "sqlite": "replica_client.sinks.mirror.sqlite_store:make",
    "mysql": "replica_client.sinks.mirror.mysql_sink:make",
    "postgres": "replica_client.sinks.mirror.postgres_sink:make",
    "duckdb": "replica_client.sinks.mirror.duckdb_store:make",
    "clickhouse": "replica_client.sinks.mirror.clickhouse_store:make",
    "parquet": "replica_client.sinks.parquet_sink:make",
    "redis": "replica_client.sinks.redis_sink:make",
    "kafka": "replica_client.sinks.kafka.kafka_sink:make",
    "http": "replica_client.sinks.webhook_sink:make",
    "nats": "replica_client.sinks.nats_sink:make",
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
        raise ConfigError(f"sink {kind!r} needs {error.name}: {install_command(extra)}") from error
    return factory


def _of_others(kind: str) -> SinkFactory:
    for point in _entry_points().select(name=kind):
        try:
            factory: SinkFactory = point.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"sink {kind!r}: {point.value} cannot be loaded: {error}") from error
        return factory
    raise ConfigError(f"no sink is of the type {kind!r}; there are {', '.join(sink_kinds())}")


def _entry_points() -> EntryPoints:
    # Called only if needed, as searching for entry points delays the start.
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINT_GROUP)


Count = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
Period = Annotated[float, Meta(gt=0)]
PathText = Annotated[str, Meta(min_length=1)]
Options = TypeVar("Options", bound=msgspec.Struct)


def read_options(kind: type[Options], table: Mapping[str, object], what: str) -> Options:
    """Return the table as an object of a class.

    Args:
        kind: the class, which should forbid unknown fields.
        table: keys and values.
        what: part of the configuration, for messages.

    Raises:
        ConfigError: a key is missing, unknown, or has a wrong value; the message names it.
    """
    try:
        return msgspec.convert(dict(table), kind)
    except msgspec.ValidationError as error:
        inside, text = plain_error(error, kind)
        raise ConfigError(
            ": ".join((what, ".".join(inside), text) if inside else (what, text))
        ) from None


def plain_error(
    error: msgspec.ValidationError, kind: type[msgspec.Struct]
) -> tuple[tuple[str, ...], str]:
    """Return the key that an error of msgspec is about, and the error in TOML's terms, without values."""
    text, _, where = str(error).partition(" - at `$.")
    inside = tuple(part for part in where.rstrip("`").split("[")[0].split(".") if part)
    for begin in ("Object missing required field `", "Object contains unknown field `"):
        if text.startswith(begin):
            key = text.removeprefix(begin).rstrip("`")
            names = [field.encode_name for field in msgspec.structs.fields(kind)]
            # Keys of a table inside are not known here.
            unknown = "no such key" + (f"; {nearest(key, names)}" if not inside else "")
            return (
                (*inside, key),
                unknown if "unknown" in begin else "this key is missing; give it",
            )
    if text.startswith("Invalid enum value"):
        kinds = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
        if choices := get_args(kinds.get(inside[0] if len(inside) == 1 else "")):
            text += f"; there are {', '.join(sorted(map(str, choices)))}"
    for python, plain in (
        ("`str` of length >= 1", "text that is not empty"),
        ("`str`", "text"),
        ("`int`", "a whole number"),
        ("`float`", "a number"),
        ("`bool`", "true or false"),
        ("`array`", "a list"),
        ("`object`", "a table"),
    ):
        text = text.replace(python, plain)
    return inside, text[:1].lower() + text[1:]
