"""The sinks that the daemon's proofs run with, and how each is compared."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.daemon_kills import DATABASE, STDOUT, ProvedSink
from tests.integration.sink_comparison import (
    Compared,
    compare_lines,
    compare_sink,
    expected_transactions,
    without_clock,
)
from tests.servers.local import LocalServer, LocalServers

_FILES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "file": lambda folder: {"type": "file", "path": folder, "rotate_bytes": 1 << 20},
    "debezium": lambda folder: {"type": "file", "path": folder, "format": "debezium"},
    "maxwell": lambda folder: {"type": "file", "path": folder, "format": "maxwell"},
    "canal": lambda folder: {"type": "file", "path": folder, "format": "canal"},
    "parquet": lambda folder: {"type": "parquet", "path": folder, "roll_rows": 5000},
    "sqlite": lambda folder: {"type": "sqlite", "path": folder.with_suffix(".db")},
    "duckdb": lambda folder: {"type": "duckdb", "path": folder.with_suffix(".duckdb")},
}
_KAFKA: dict[str, dict[str, Any]] = {
    "kafka": {},
    "kafka-debezium": {"format": "debezium"},
    "kafka-maxwell": {"format": "maxwell", "headers": True},
    "kafka-apache": {"format": "debezium"},
}
"""On an emulation of the broker, but for the last."""
SINKS = (*_FILES, "stdout", "mysql", "postgres", "clickhouse", "redis", "http", "nats", *_KAFKA)


@contextmanager
def proved_sinks(
    names: list[str], directory: Path, servers: LocalServers
) -> Iterator[list[ProvedSink]]:
    """The sinks with some names, with the servers that they need, which end with the block."""
    with contextlib.ExitStack() as stack:
        yield [_sink(name, directory, servers, stack) for name in names]


def _sink(
    name: str, directory: Path, servers: LocalServers, stack: contextlib.ExitStack
) -> ProvedSink:
    if name == "mysql":
        target = servers.fresh("mysql-9.7", ["skip-log-bin"])
        return _proved(name, {"type": "mysql", "url": target.url("root")}, target)
    if name == "stdout":
        return _proved(name, {"type": "stdout"}, output=directory / STDOUT)
    if name == "redis":
        from tests.integration.redis_server import RedisServer

        class KilledRedis(RedisServer):
            def restart(self) -> None:
                self.start()

        # Not below the directory: a socket's path is short.
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        redis = KilledRedis(Path(folder))
        stack.callback(redis.stop)
        return _proved(name, {"type": "redis", "url": redis.url}, redis)
    if name == "postgres":
        return _postgres(name, stack)
    if name == "clickhouse":
        return _clickhouse(name, stack)
    if name in _KAFKA:
        return _kafka(name, stack)
    if name == "http":
        return _http(name, stack)
    if name == "nats":
        return _nats(name, stack)
    return _proved(name, _FILES[name](directory / name))


def _postgres(name: str, stack: contextlib.ExitStack) -> ProvedSink:
    from tests.integration.postgres_server import PostgresServer

    postgres = PostgresServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    stack.callback(postgres.stop)
    return _proved(name, {"type": "postgres", "url": postgres.url}, postgres)


def _clickhouse(name: str, stack: contextlib.ExitStack) -> ProvedSink:
    from tests.integration.clickhouse_server import ClickhouseServer

    server = ClickhouseServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    stack.callback(server.stop)
    return _proved(name, {"type": "clickhouse", "url": server.url}, server)


def _http(name: str, stack: contextlib.ExitStack) -> ProvedSink:
    from tests.integration.event_receiver import KEY, EventReceiver

    receiver = EventReceiver(faults=0.02)
    stack.callback(receiver.close)
    options = {"type": "http", "url": f"{receiver.url}/changes", "key": KEY}
    return _lines(name, options, lambda: receiver.lines.get("/changes", []))


def _nats(name: str, stack: contextlib.ExitStack) -> ProvedSink:
    from tests.integration.nats_server import NatsServer

    server = NatsServer(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    stack.callback(server.stop)
    # No pause of the proof is longer than this.
    options = {"type": "nats", "url": server.url, "stream": "changes", "duplicate_window": 3600.0}
    return _lines(
        name, options, lambda: [data.decode() for _, data in server.messages("changes")], server
    )


def _lines(
    name: str, options: dict[str, Any], read: Callable[[], list[str]], server: Any = None
) -> ProvedSink:
    """A sink of events, which shows each once."""

    def compare(source: LocalServer) -> Compared:
        return compare_lines(read(), options, source, [f"{DATABASE}.*"], None, None, exactly=True)

    return ProvedSink(name, options, compare, server)


def _kafka(name: str, stack: contextlib.ExitStack) -> ProvedSink:
    from tests.integration.apache_kafka import PlainBroker
    from tests.integration.kafka_broker import FaultyBroker
    from tests.integration.kafka_watcher import KafkaWatcher, check_watched

    broker: FaultyBroker | PlainBroker
    if name == "kafka-apache":
        broker = PlainBroker()
    else:
        broker = FaultyBroker(Path(stack.enter_context(tempfile.TemporaryDirectory())))
    stack.callback(broker.stop)
    watcher = KafkaWatcher(broker.direct, "all")
    stack.callback(watcher.close)
    options = {"type": "kafka", "bootstrap_servers": broker.servers, "timeout": 10.0}
    # One topic with one partition: there is one order.
    options |= {"topic": "all", "schema_topic": "all", "partitions": 1} | _KAFKA[name]
    options |= {"tombstones_on_delete": False, "topic_config": {"retention.ms": "-1"}}

    def compare(source: LocalServer) -> Compared:
        transactions = [
            list(lines) for lines in expected_transactions(options, source, [f"{DATABASE}.*"])
        ]
        clean = without_clock(options.get("format", "native"))
        try:
            count = check_watched(watcher, transactions, clean)
        except AssertionError as error:
            for topic, records in broker.read_from(broker.direct, "").items():
                if topic != "all":
                    error.add_note(f"{name}: topic {topic}, {len(records)} records: {records[-6:]}")
            raise
        return Compared(1, count)

    return ProvedSink(name, options, compare, broker)


def _proved(
    name: str, options: dict[str, Any], server: Any = None, output: Path | None = None
) -> ProvedSink:
    def compare(source: LocalServer) -> Compared:
        own = {key: value for key, value in options.items() if key != "type"}
        return compare_sink(options["type"], own, source, tables=[f"{DATABASE}.*"], output=output)

    return ProvedSink(name, options, compare, server)
