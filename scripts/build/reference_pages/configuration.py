"""Keys of the configuration files."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any

import msgspec

from reference_pages.markdown import attributes, table
from replica_client.lake import config
from replica_client.options import OPTIONS, SURFACES, Surface, options_on
from replica_client.service import configuration, source_access
from replica_client.service.examples import EXAMPLE
from replica_client.sinks.kafka.kafka_options import KafkaOptions
from replica_client.sinks.line_sinks import FileOptions, StdoutOptions
from replica_client.sinks.mirror.mysql_sink import MysqlOptions
from replica_client.sinks.mirror.postgres_sink import PostgresOptions
from replica_client.sinks.mirror.sqlite_store import SqliteOptions
from replica_client.sinks.mirror.stored_values import ClickhouseOptions, DuckdbOptions
from replica_client.sinks.nats_sink import NatsOptions
from replica_client.sinks.parquet_sink import ParquetOptions
from replica_client.sinks.redis_sink import RedisOptions
from replica_client.sinks.registry import sink_kinds
from replica_client.sinks.webhook_sink import WebhookOptions

_SINKS: Mapping[str, type[msgspec.Struct]] = {
    "file": FileOptions,
    "stdout": StdoutOptions,
    "sqlite": SqliteOptions,
    "mysql": MysqlOptions,
    "postgres": PostgresOptions,
    "duckdb": DuckdbOptions,
    "clickhouse": ClickhouseOptions,
    "parquet": ParquetOptions,
    "redis": RedisOptions,
    "kafka": KafkaOptions,
    "http": WebhookOptions,
    "nats": NatsOptions,
}


def service() -> str:
    """The keys of the service's configuration, table by table."""
    tables: Mapping[str, type[msgspec.Struct]] = {
        "[daemon]": configuration.DaemonTable,
        "[store]": configuration.StoreTable,
        "[[source]]": configuration.SourceTable,
        "[[source.sink]]": configuration.SinkTable,
    }
    return "\n".join(
        f"## `{name}`\n\n{_keys(kind, 'service' if name == '[[source]]' else None)}"
        for name, kind in tables.items()
    )


def relay() -> str:
    """The keys of the relay's configuration, table by table."""
    tables: Mapping[str, type[msgspec.Struct]] = {
        "[relay]": source_access.RelayTable,
        "[source]": source_access.RelaySourceTable,
        "[[account]]": source_access.AccountTable,
        "[tls]": source_access.TlsTable,
    }
    return "\n".join(
        f"### `{name}`\n\n{_keys(kind, 'relay' if name == '[source]' else None)}"
        for name, kind in tables.items()
    )


def sinks() -> str:
    """The keys of each sink, beside those that all have."""
    own = [name for name in sink_kinds() if name in _SINKS]
    if set(own) != set(_SINKS):
        raise ValueError(f"the registry has {own}, this table {sorted(_SINKS)}")
    return "\n".join(f'### `type = "{name}"`\n\n{_keys(kind)}' for name, kind in _SINKS.items())


def _keys(kind: type[msgspec.Struct], surface: Surface | None = None) -> str:
    meanings = attributes(kind)
    rows = []
    fields = msgspec.structs.fields(kind)
    for field in sorted(fields, key=lambda one: one.name not in kind.__annotations__):
        if surface and field.name == "options":
            rows += [
                (f"`{name}`", _code(option.default), option.said(option.help, surface))
                for name, option in options_on(surface).items()
            ]
            continue
        if field.name not in meanings:
            raise ValueError(f"{kind.__name__}: the docstring does not tell of {field.name}")
        rows.append((f"`{field.encode_name}`", _default(field), meanings[field.name]))
    if set(meanings) != {field.name for field in msgspec.structs.fields(kind)}:
        raise ValueError(f"{kind.__name__}: the docstring tells of fields that are not there")
    return table(("key", "default", "meaning"), rows)


def _default(field: Any) -> str:
    value = field.default
    if value is msgspec.NODEFAULT:
        factory = field.default_factory
        if factory is msgspec.NODEFAULT:
            return "required"
        value = factory()
    return _code(value)


def _code(value: Any) -> str:
    return "" if value is None else f"`{json.dumps(value)}`"


def options() -> str:
    """The declared options: their meaning, and their names on each surface."""
    heads = ("keyword", "URL", "flag", "service", "relay", "pipeline", "Spark")
    shared = [
        option
        for option in OPTIONS.values()
        if len(option.surfaces) > 1 or "url" in option.surfaces
    ]
    names = [
        (
            f"`{option.name}`",
            *(f"`{option.surfaces[one]}`" if one in option.surfaces else "no" for one in SURFACES),
        )
        for option in shared
    ]
    meanings = [
        (
            f"`{option.name}`",
            option.said(option.kind.words, "service"),
            _code(option.default),
            option.said(option.help, "service"),
        )
        for option in shared
    ]
    return f"{table(('option', *heads), names)}\n{table(('option', 'value', 'default', 'meaning'), meanings)}"


def example() -> str:
    """What ``run --example`` prints."""
    return f"```toml\n{EXAMPLE}```\n"


def pipeline() -> str:
    """The example in the pipeline's own documentation, and every key that it takes."""
    text = inspect.cleandoc(config.__doc__ or "").split("::\n\n")[1].split("\nRelative paths")[0]
    meanings = {name: option.help for name, option in OPTIONS.items()}
    meanings |= attributes(config.PipelineConfig) | attributes(config.LakeConfig)
    sections = {
        "source": config.SOURCE_KEYS,
        "pipeline": config.PIPELINE_KEYS,
        "lake": config.LAKE_KEYS,
    }
    rows = [
        (
            f"`[{section}]`",
            f"`{key}`",
            option.said(option.kind.words, "pipeline"),
            meanings.get(key, "") if section != "source" else option.said(option.help, "pipeline"),
        )
        for section, keys in sections.items()
        for key, option in keys.items()
    ]
    lines = [line.removeprefix("    ") for line in text.strip("\n").splitlines()]
    head = "```toml\n" + "\n".join(lines).rstrip() + "\n```\n"
    return f"{head}\n{table(('section', 'key', 'value', 'meaning'), rows)}"
