"""Sinks by name, and wrong options named by key."""

from __future__ import annotations

import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec
from pathlib import Path

import pytest

from replica_client.errors import ConfigError, install_command
from replica_client.sinks import registry
from replica_client.sinks.line_sinks import FileSink
from replica_client.sinks.protocol import Sink
from replica_client.sinks.registry import make_sink, sink_kinds

NEEDED = {"clickhouse": "httpx", "duckdb": "duckdb", "http": "httpx", "nats": "nats"}
"""Packages that the environment of all tests has, and that of the quick ones has not."""


def skip_without(kind: str) -> None:
    if kind in NEEDED:
        pytest.importorskip(NEEDED[kind], reason=f"the package {NEEDED[kind]} is not installed")


@pytest.mark.parametrize(
    ("kind", "table", "message"),
    [
        ("file", {}, "sink file: path: this key is missing; give it"),
        (
            "file",
            {"path": "x", "rotate_bytes": "1"},
            "sink file: rotate_bytes: expected a whole number, got text",
        ),
        ("file", {"path": "x", "rotate_bytes": 0}, "rotate_bytes: expected a whole number >= 1"),
        ("file", {"path": "x", "nothing": 1}, "nothing: no such key; there are"),
        ("file", {"path": "x", "format": "csv"}, "format: 'csv' is not native, debezium"),
        (
            "file",
            {"path": "x", "format": "avro"},
            "format: 'avro' needs topics and a schema registry",
        ),
        ("file", {"path": "x", "format": "arrow"}, "format: 'arrow' needs messages"),
        ("file", {"path": "x", "name": "../y"}, "name: letters"),
        (
            "file",
            {"path": "x", "format": "debezium", "format_options": {"decimal_handling_mode": "no"}},
            "format_options: decimal_handling_mode: invalid enum value 'no'; there are double",
        ),
        ("file", {"path": "x", "format_options": {"a": 1}}, "the native format has none"),
        ("stdout", {"memory_bytes": 0}, "memory_bytes"),
        ("sqlite", {"path": ""}, "path: expected text that is not empty"),
        (
            "sqlite",
            {"path": "x", "missing_rows": "maybe"},
            "missing_rows: invalid enum value 'maybe'; there are",
        ),
        ("mysql", {"url": "http://x"}, "sink mysql: url"),
        ("postgres", {"url": "mysql://x"}, "sink postgres: url"),
        ("duckdb", {"path": ""}, "path: expected text that is not empty"),
        ("duckdb", {"path": "x", "threads": 0}, "threads: expected a whole number >= 1"),
        ("duckdb", {"path": "x", "memory_limit": "much"}, "memory_limit must be a size"),
        ("clickhouse", {"url": "clickhouse://h"}, "sink clickhouse: url must be https://"),
        ("clickhouse", {"url": "http://u:p@h/"}, "url: it has a password"),
        ("clickhouse", {"url": "http://h/?database=x"}, "url: it has parameters"),
        ("clickhouse", {"url": "http://h/", "user": "é"}, "user: it must be printable ASCII"),
        ("clickhouse", {"url": "http://h/", "timeout": 0}, "timeout: expected a number > 0.0"),
        ("parquet", {"path": "x", "roll_seconds": 0.0}, "roll_seconds"),
        ("parquet", {"path": "x", "compression": "zip"}, "compression: invalid enum value"),
        ("redis", {"url": "http://x"}, "sink redis: url"),
        ("redis", {"url": "redis://x", "maxlen": -1}, "maxlen"),
        ("kafka", {"bootstrap_servers": " "}, "sink kafka: bootstrap_servers"),
        (
            "kafka",
            {"bootstrap_servers": "h", "topic": "{name}"},
            "topic: {name} is unknown; known are {prefix}",
        ),
        ("kafka", {"bootstrap_servers": "h", "topic_prefix": "a b"}, "topic_prefix: letters"),
        ("kafka", {"bootstrap_servers": "h", "client": {"acks": 1}}, "client: acks is set by"),
        ("kafka", {"bootstrap_servers": "h", "format": "csv"}, "format: 'csv' is not native"),
        ("kafka", {"bootstrap_servers": "h", "format": "avro"}, "'registry' need each other"),
        (
            "kafka",
            {"bootstrap_servers": "h", "registry": {"url": "http://r:8081"}},
            "'registry' need each other",
        ),
        (
            "kafka",
            {"bootstrap_servers": "h", "format": "avro", "registry": {"url": "r:8081"}},
            "registry: url must be http://host:port",
        ),
        (
            "kafka",
            {"bootstrap_servers": "h", "format": "arrow", "format_options": {"max_rows": 1}},
            "max_rows: expected",
        ),
        (
            "kafka",
            {"bootstrap_servers": "h", "security_protocol": "SASL_SSL"},
            "sasl_mechanism must be PLAIN",
        ),
        ("http", {"url": "ftp://h"}, "sink http: url"),
        ("http", {"url": "http://u:p@h/"}, "url: it has a password"),
        ("http", {"url": "http://h/", "events": 0}, "events: expected a whole number >= 1"),
        ("http", {"url": "http://h/", "key": "whsec_?"}, "key must be base64"),
        ("http", {"url": "http://h/", "headers": {"Host": "x"}}, "headers: Host is set by"),
        (
            "http",
            {"url": "http://h/", "headers": {"A": "x\r\nB: y"}},
            "headers: 'A': it must be printable",
        ),
        ("nats", {"url": "http://h"}, "sink nats: url"),
        ("nats", {"url": "nats://h", "stream": "a.b"}, "stream: letters"),
        ("nats", {"url": "nats://h", "subject": "a.*"}, "subject: letters"),
        ("nats", {"url": "nats://h", "messages": 0}, "messages: expected a whole number >= 1"),
        (
            "rabbit",
            {},
            "no sink is of the type 'rabbit'; there are clickhouse, duckdb, file, http, kafka",
        ),
    ],
)
def test_wrong_options_are_named(kind: str, table: dict[str, object], message: str) -> None:
    skip_without(kind)
    with pytest.raises(ConfigError) as caught:
        make_sink(kind, table)
    assert message in str(caught.value)


def test_no_secret_is_in_a_message() -> None:
    with pytest.raises(ConfigError) as caught:
        make_sink("mysql", {"url": "mysql://u:hush@h/", "database_prefix": 7})
    assert "hush" not in str(caught.value)


def test_all_of_ours_are_sinks(tmp_path: Path) -> None:
    tables = {
        "file": {"path": str(tmp_path)},
        "stdout": {},
        "sqlite": {"path": str(tmp_path / "x")},
        "mysql": {"url": "mysql://u:p@h/"},
        "postgres": {"url": "postgresql://u:p@h/d"},
        "duckdb": {"path": str(tmp_path / "y")},
        "clickhouse": {"url": "http://h:8123"},
        "parquet": {"path": str(tmp_path)},
        "redis": {"url": "redis://h"},
        "kafka": {"bootstrap_servers": "h"},
        "http": {"url": "https://h/"},
        "nats": {"url": "nats://h"},
    }
    assert sorted(tables) == sink_kinds()
    for kind, table in tables.items():
        if kind in NEEDED and find_spec(NEEDED[kind]) is None:
            continue
        assert isinstance(make_sink(kind, table), Sink)


def points(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    point = EntryPoint("theirs", value, registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: EntryPoints([point]))


def test_sinks_of_others_come_by_entry_point(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    points(monkeypatch, "replica_client.sinks.line_sinks:make_file")
    assert isinstance(make_sink("theirs", {"path": str(tmp_path)}), FileSink)
    assert "theirs" in sink_kinds()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_module_at_all:make", "cannot be loaded"),
        ("replica_client.sinks.registry:nothing", "cannot be loaded"),
        ("builtins:dict", "made a dict, no sink"),
    ],
)
def test_sinks_of_others_that_are_none(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str
) -> None:
    points(monkeypatch, value)
    with pytest.raises(ConfigError, match=message):
        make_sink("theirs", {})


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith("replica_client.sinks")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigError, match=re.escape(install_command("redis"))):
        make_sink("redis", {"url": "redis://h"})


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("rediss://h/0", True),
        ("rediss://h/0?ssl_check_hostname=false", False),
        ("redis://h/0", None),
        ("unix:///s?db=0", None),
    ],
)
def test_redis_compares_the_name_of_a_certificate(url: str, checked: bool | None) -> None:
    stream_sink = pytest.importorskip("replica_client.sinks.redis_sink")
    client = stream_sink._client(stream_sink.RedisOptions(url=url))
    assert client.connection_pool.connection_kwargs.get("ssl_check_hostname") == checked
