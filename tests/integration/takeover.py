"""Two services of one configuration: the active one is killed or frozen, the standby takes over, nothing is lost."""

from __future__ import annotations

import json
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.integration.apache_kafka import PlainBroker
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_receiver import KEY, EventReceiver
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.postgres_server import PostgresServer
from tests.integration.redis_server import RedisServer
from tests.object_stores import access_to, new_bucket, object_store
from tests.servers.local import LocalServer

Found = Callable[[], Counter[int]]
MOST_SECONDS = 60.0


@dataclass
class Destination:
    """Where both services write.

    Attributes:
        sink: keys of the sink.
        found: gives how often each number is there.
        store: keys of ``[store]``.
        environment: of the services.
    """

    sink: dict[str, Any]
    found: Found
    store: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Report:
    """What a proof saw.

    Attributes:
        kind: of the destination.
        seconds: from each kill or freeze until the standby streamed.
        kinds: how many kills and freezes there were.
        rows: that the source has.
        lost: numbers that are not there.
        twice: numbers that are there more than once.
    """

    kind: str
    seconds: list[float] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    lost: list[int] = field(default_factory=list)
    twice: list[int] = field(default_factory=list)

    @property
    def p99(self) -> float:
        """The time that 99 of 100 take at most."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]

    def __str__(self) -> str:
        return (
            f"{self.kind}: {dict(self.kinds)}, {self.rows} rows: {len(self.lost)} lost, {len(self.twice)} twice; "
            f"taken over within {self.p99:.1f} s (99 of 100), {sum(self.seconds) / len(self.seconds):.1f} s on average"
        )


def prove(kind: str, source: LocalServer, other: LocalServer, count: int, seed: int) -> Report:
    """Kill and freeze the active service.

    Args:
        kind: of :data:`KINDS`.
        source: whose changes are written.
        other: a server for positions.
        count: how often.
        seed: of when and how.
    """
    chance, report = random.Random(seed), Report(kind)
    for statement in (
        "DROP DATABASE IF EXISTS taken",
        "CREATE DATABASE taken",
        "CREATE TABLE taken.k (n INT NOT NULL)",  # without a key a row that comes twice is there twice
    ):
        source.execute(statement)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        destination = stack.enter_context(KINDS[kind](directory, other))
        both = [_service(directory / name, source, destination) for name in ("1", "2")]
        for one in both:
            stack.callback(_end, one)
        active, standby = both
        active.start()
        active.until(lambda one: _state(one) == "streaming")
        standby.start()
        writer = stack.enter_context(_Writer(source))
        for _ in range(count):
            standby.until(lambda one: _state(one) == "standby")
            active.until(lambda one: _state(one) == "streaming")
            time.sleep(chance.uniform(0, 1.0))
            way = chance.choice(("killed", "killed", "killed" if kind == "duckdb" else "frozen"))
            report.kinds[way] += 1
            assert active.process is not None
            if way == "killed":
                active.kill()
            else:
                active.process.send_signal(signal.SIGSTOP)
            seconds = standby.until(lambda one: _state(one) == "streaming", MOST_SECONDS)
            report.seconds.append(seconds)
            if way == "killed":
                active.start()
            else:
                time.sleep(chance.uniform(0, 2.0))
                active.process.send_signal(signal.SIGCONT)
            active, standby = standby, active
        writer.stop()
        standby.until(lambda one: _state(one) == "standby")
        active.until_level()
        rows = [int(row[0]) for row in source.query("SELECT n FROM taken.k")]
        found = destination.found()
        report.rows = len(rows)
        report.lost = [one for one in rows if not found[one]]
        report.twice = [one for one, times in found.items() if times > 1]
    return report


def _service(directory: Path, source: LocalServer, destination: Destination) -> DaemonProcess:
    directory.mkdir()
    keys = {"url": source.url(), "start": "latest", "heartbeat": 1.0}
    sink = {"name": "one", "batch_seconds": 0.02, "retry_seconds": 1.0, "tables": ["taken.k"]}
    return DaemonProcess(
        directory,
        keys,
        [{**sink, **destination.sink}],
        store=destination.store,
        environment=destination.environment,
    )


def _end(service: DaemonProcess) -> None:
    if service.process is not None and service.process.poll() is None:
        service.process.send_signal(signal.SIGCONT)
    service.close()


def _state(service: DaemonProcess) -> str:
    return str(service.status()["routes"][0]["state"])


class _Writer:
    """Inserts rows until it is stopped."""

    def __init__(self, source: LocalServer) -> None:
        self._source = source
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(0.05):
            self._source.execute(f"INSERT INTO taken.k VALUES ({number}), ({number + 1})")
            number += 2


def numbers(lines: list[str]) -> Counter[int]:
    """Count numbers of rows; statements have none."""
    found = map(json.loads, lines)
    return Counter(int(one["after"]["n"]) for one in found if "after" in one)


@contextmanager
def _receiver() -> Iterator[tuple[dict[str, Any], Found]]:
    """A receiver that honours the keys of requests: what comes again is not kept twice."""
    receiver = EventReceiver()
    try:
        keys = {"type": "http", "url": receiver.url, "key": KEY}
        yield (
            keys,
            lambda: numbers([line for one in receiver.lines.values() for line in one]),
        )
    finally:
        receiver.close()


@contextmanager
def _mysql_store(directory: Path, other: LocalServer) -> Iterator[Destination]:
    other.execute("DROP DATABASE IF EXISTS positions")
    other.execute("CREATE DATABASE positions")
    store = {"type": "mysql", "url": f"{other.url('root').rstrip('/')}/positions"}
    with _receiver() as (sink, found):
        yield Destination(sink, found, store)


@contextmanager
def _s3_store(directory: Path, other: LocalServer) -> Iterator[Destination]:
    with object_store() as endpoint, _receiver() as (sink, found):
        store = {"type": "file", "path": new_bucket(endpoint)}
        yield Destination(sink, found, store, access_to(endpoint))


@contextmanager
def _postgres(directory: Path, other: LocalServer) -> Iterator[Destination]:
    with tempfile.TemporaryDirectory() as own:  # PostgreSQL's user must reach it
        server = PostgresServer(Path(own))

        def found() -> Counter[int]:
            with psycopg.connect(server.url) as connection:
                return Counter(int(row[0]) for row in connection.execute("SELECT n FROM taken.k"))

        try:
            keys = {"type": "postgres", "url": server.url, "unknown_tables": "create"}
            yield Destination(keys, found)
        finally:
            server.stop()


@contextmanager
def _duckdb(directory: Path, other: LocalServer) -> Iterator[Destination]:
    import duckdb

    path = directory / "taken.duckdb"

    def found() -> Counter[int]:
        with duckdb.connect(str(path), read_only=True) as connection:
            rows = connection.execute("SELECT n FROM taken.taken.k").fetchall()
        return Counter(int(row[0]) for row in rows)

    # Not frozen: its lock is that of a file.
    yield Destination({"type": "duckdb", "path": path, "unknown_tables": "create"}, found)


@contextmanager
def _redis(directory: Path, other: LocalServer) -> Iterator[Destination]:
    (directory / "r").mkdir()
    server = RedisServer(directory / "r")

    def found() -> Counter[int]:
        with server.client() as client:
            return numbers([entry[1][b"value"] for entry in client.xrange("replica_client")])

    try:
        yield Destination({"type": "redis", "url": server.url}, found)
    finally:
        server.stop()


@contextmanager
def _kafka(directory: Path, other: LocalServer) -> Iterator[Destination]:
    (directory / "k").mkdir()
    with _of_broker(KafkaBroker(directory / "k")) as destination:
        yield destination


@contextmanager
def _apache_kafka(directory: Path, other: LocalServer) -> Iterator[Destination]:
    with _of_broker(PlainBroker()) as destination:
        yield destination


@contextmanager
def _of_broker(broker: KafkaBroker | PlainBroker) -> Iterator[Destination]:
    def found() -> Counter[int]:
        topics = broker.read_from(broker.servers, "taken.taken.k")
        return numbers([str(value) for records in topics.values() for _, value in records])

    keys = {"bootstrap_servers": broker.servers, "topic_prefix": "taken", "partitions": 1}
    try:
        yield Destination({"type": "kafka", **keys}, found)
    finally:
        broker.stop()


KINDS = {
    "mysql-store": _mysql_store,
    "s3-store": _s3_store,
    "postgres": _postgres,
    "duckdb": _duckdb,
    "redis": _redis,
    "kafka": _kafka,
    "apache-kafka": _apache_kafka,
}
"""Makes each destination, in a directory, with a server for positions."""
