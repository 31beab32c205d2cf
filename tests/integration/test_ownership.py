"""Who owns a position and a table: two sinks and two services at one destination, lost state, take-over and fencing."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.integration.event_receiver import KEY, EventReceiver
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.postgres_server import PostgresServer
from tests.integration.redis_server import RedisServer
from tests.integration.takeover import prove
from tests.object_stores import access_to, new_bucket
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(300)

ROWS = 15
Read = Callable[[str], list[int]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = PostgresServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with tempfile.TemporaryDirectory() as directory:
        server = RedisServer(Path(directory))
        yield server
        server.stop()


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaBroker]:
    pytest.importorskip("confluent_kafka", reason="the package confluent-kafka is not installed")
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory))
        yield broker
        broker.stop()


@pytest.fixture
def source(server: Callable[[str], LocalServer]) -> LocalServer:
    found = server("mysql-9.7")
    for statement in (
        "DROP DATABASE IF EXISTS own",
        "CREATE DATABASE own",
        "CREATE TABLE own.a (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE own.b (id INT PRIMARY KEY, v INT)",
    ):
        found.execute(statement)
    return found


@contextmanager
def service(
    directory: Path, source: LocalServer, sinks: list[dict[str, Any]], **keys: Any
) -> Iterator[DaemonProcess]:
    directory.mkdir(exist_ok=True)
    start = keys.pop("start", "latest")
    given = {"url": source.url(), "start": start, "heartbeat": 1.0}
    common = {"batch_seconds": 0.02, "retry_seconds": 1.0}
    tables = [{**common, **sink} for sink in sinks]
    process = DaemonProcess(directory, given, tables, **keys)
    try:
        yield process
    finally:
        if process.process is not None and process.process.poll() is None:
            process.process.send_signal(signal.SIGCONT)
        process.close()


def streams(daemon: DaemonProcess) -> bool:
    return all(route["state"] == "streaming" for route in daemon.status()["routes"])


def state(daemon: DaemonProcess, at: int = 0) -> str:
    return str(daemon.status()["routes"][at]["state"])


def error(daemon: DaemonProcess, at: int = 0) -> str:
    return str(daemon.status()["routes"][at]["error"])


def check(daemon: DaemonProcess, *more: str) -> str:
    """Return what ``--check`` finds."""
    command = [sys.executable, "-m", "replica_client", "run", str(daemon.config), "--check", *more]
    done = processes.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return str(done.stderr)


def fill(source: LocalServer, table: str, begin: int, count: int = ROWS) -> None:
    for at in range(begin, begin + count):
        source.execute(f"INSERT INTO own.{table} VALUES ({at}, {at})")


@pytest.fixture(params=["postgres", "mysql", "sqlite", "duckdb", "redis", "kafka"])
def destination(
    request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer
) -> tuple[dict[str, Any], Read]:
    """Keys of a sink, and what reads the numbers of a table there."""
    kind = request.param
    if kind == "postgres":
        url = request.getfixturevalue("postgres").url
        with psycopg.connect(url, autocommit=True) as connection:
            for schema in ("_replica_client", "own"):
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

        def rows(table: str) -> list[int]:
            with psycopg.connect(url) as one:
                return [row[0] for row in one.execute(f"SELECT id FROM own.{table} ORDER BY id")]

        return {"type": kind, "url": url}, rows
    if kind == "mysql":
        target = request.getfixturevalue("server")("mariadb-11.8")
        for name in ("own", "replica_client"):
            target.execute(f"DROP DATABASE IF EXISTS {name}")
        return {"type": kind, "url": target.url("root")}, lambda table: [
            int(row[0]) for row in target.query(f"SELECT id FROM own.{table} ORDER BY id")
        ]
    if kind == "kafka":
        broker = request.getfixturevalue("kafka")
        prefix = f"own-{time.monotonic_ns()}"

        def messages(table: str) -> list[int]:
            found = broker.read(f"{prefix}.own.{table}")
            texts = [str(value) for records in found.values() for _, value in records]
            return sorted(int(json.loads(text)["after"]["id"]) for text in texts)

        keys = {"type": kind, "bootstrap_servers": broker.servers, "topic_prefix": prefix}
        return {**keys, "partitions": 1}, messages
    if kind == "redis":
        with redis.client() as client:
            client.flushall()

        def entries(table: str) -> list[int]:
            with redis.client() as one:
                found = [json.loads(entry[1][b"value"]) for entry in one.xrange("replica_client")]
            return sorted(
                int(entry["after"]["id"]) for entry in found if entry.get("table") == table
            )

        return {"type": kind, "url": redis.url}, entries
    path = tmp_path / f"mirror.{kind}"

    def of_file(table: str) -> list[int]:
        if kind == "sqlite":
            with closing(sqlite3.connect(path)) as one:
                return [row[0] for row in one.execute(f'SELECT id FROM "own.{table}" ORDER BY id')]
        import duckdb

        with closing(duckdb.connect(str(path))) as two:
            return [
                row[0] for row in two.execute(f"SELECT id FROM own.{table} ORDER BY id").fetchall()
            ]

    return {"type": kind, "path": str(path)}, of_file


def test_two_sinks_with_tables_that_do_not_meet_share_a_destination(
    destination, source: LocalServer, tmp_path: Path
) -> None:
    keys, rows = destination
    if keys["type"] not in ("redis", "kafka"):
        keys = {**keys, "unknown_tables": "create"}
    sinks = [
        {"name": "one", "tables": ["own.a"], **keys},
        {"name": "two", "tables": ["own.b"], **keys},
    ]
    if keys["type"] == "kafka":  # a position topic is of one sink
        sinks[1] |= {"position_topic": "{prefix}.two", "transactional_id": "{prefix}.two"}
    with service(tmp_path / "s", source, sinks) as daemon:
        daemon.start()
        daemon.until(streams)
        for round_ in range(2):
            fill(source, "a", round_ * ROWS)
            fill(source, "b", round_ * ROWS)
            daemon.until_level()
            if not round_:
                daemon.kill()
                daemon.start()
                daemon.until(streams)
        assert "took" not in daemon.log.read_text()
        assert daemon.stop() == 0
    wanted = list(range(2 * ROWS))
    assert (rows("a"), rows("b")) == (wanted, wanted)


def test_a_second_service_waits_and_takes_over(
    destination, source: LocalServer, tmp_path: Path
) -> None:
    """The first is killed, then the second is frozen and wakes: no row is lost or twice, and it writes nothing more."""
    keys, rows = destination
    if keys["type"] == "duckdb":
        pytest.skip("a DuckDB file is open in one process: the second waits for it")
    if keys["type"] not in ("redis", "kafka"):
        keys = {**keys, "unknown_tables": "create"}
    sinks = [{"name": "one", "tables": ["own.a"], **keys}]
    with (
        service(tmp_path / "1", source, sinks) as first,
        service(tmp_path / "2", source, sinks) as second,
    ):
        first.start()
        first.until(streams)
        second.start()
        second.until(lambda one: state(one) == "standby")
        assert "standby" in second.get("/readyz")[1].decode()
        assert second.get("/readyz")[0] == 503
        fill(source, "a", 0)
        first.until_level()
        first.kill()
        fill(source, "a", ROWS)
        assert second.until(streams, 20) < 10
        second.until_level()
        assert rows("a") == list(range(2 * ROWS))
        first.start()
        first.until(lambda one: state(one) == "standby")
        if keys["type"] == "sqlite":
            return  # who is frozen while it writes keeps the file's lock
        assert second.process is not None
        second.process.send_signal(signal.SIGSTOP)
        fill(source, "a", 2 * ROWS)
        assert first.until(streams, 20) < 12
        second.process.send_signal(signal.SIGCONT)
        fill(source, "a", 3 * ROWS)
        second.until(lambda one: state(one) == "standby")
        first.until_level()
    assert rows("a") == list(range(4 * ROWS))


def test_a_foreign_owner_is_named_and_can_be_taken_over_from(
    destination, source: LocalServer, tmp_path: Path
) -> None:
    keys, rows = destination
    if keys["type"] not in ("redis", "kafka"):
        keys = {**keys, "unknown_tables": "create"}
    of_first = [{"name": "wh", "tables": ["own.a"], **keys}]
    of_second = [{"name": "other", "tables": ["own.*"], **keys}]
    with service(tmp_path / "1", source, of_first, daemon={"name": "shop-eu"}) as first:
        first.start()
        first.until(streams)
        fill(source, "a", 0)
        first.until_level()
        first.kill()
    with service(tmp_path / "2", source, of_second) as second:
        second.write_config()
        checked = check(second, "--connect")
        assert "`wh` of service `shop-eu`" in checked and "sink source.other" in checked, checked
        second.start()
        second.until(lambda one: state(one) == "failed")
        text = error(second)
        assert "`wh` of service `shop-eu`" in text and "take-over" in text, text
        second.stop()
        fill(source, "a", ROWS)
        done = processes.run(
            [sys.executable, "-m", "replica_client", "position", "take-over", str(second.config)]
            + ["--sink", "source.other"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "shop-eu" in done.stdout
        second.start()
        second.until(streams)
        second.until_level()
        second.stop()
    assert rows("a") == list(range(2 * ROWS))


def test_a_position_is_shown_without_being_taken(
    destination, source: LocalServer, tmp_path: Path
) -> None:
    keys, rows = destination
    if keys["type"] not in ("redis", "kafka"):
        keys = {**keys, "unknown_tables": "create"}
    with service(tmp_path / "1", source, [{"name": "one", "tables": ["own.*"], **keys}]) as daemon:
        daemon.start()
        daemon.until(streams)
        fill(source, "a", 0)
        daemon.until_level()
        if keys["type"] == "duckdb":
            daemon.stop()
        command = [sys.executable, "-m", "replica_client", "position", "show", str(daemon.config)]
        for _ in range(3):
            done = processes.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            assert "binlog." in done.stdout
        if keys["type"] == "duckdb":
            return
        fill(source, "a", ROWS)
        daemon.until_level()
        assert daemon.route("one")["retries"] == 0
    assert rows("a") == list(range(2 * ROWS))


def test_a_table_that_comes_back_is_copied_again(source: LocalServer, tmp_path: Path) -> None:
    path = tmp_path / "m.db"

    def sinks(*tables: str) -> list[dict[str, Any]]:
        found = {"name": "one", "type": "sqlite", "path": str(path), "snapshot": True}
        return [{**found, "tables": list(tables), "batch_seconds": 0.02}]

    fill(source, "a", 0)
    fill(source, "b", 0)
    with service(tmp_path / "s", source, sinks("own.a", "own.b")) as daemon:
        for tables in (("own.a", "own.b"), ("own.a",), ("own.a", "own.b")):
            daemon.sinks = sinks(*tables)
            daemon.start()
            daemon.until(streams)
            daemon.until_level()
            assert daemon.stop() == 0
            source.execute("UPDATE own.b SET v = v + 100")
            source.execute("INSERT INTO own.b SELECT MAX(id) + 1, 0 FROM own.b")
        daemon.start()
        daemon.until(streams)
        daemon.until_level()
        daemon.stop()
    wanted = [tuple(map(int, row)) for row in source.query("SELECT id, v FROM own.b ORDER BY id")]
    with closing(sqlite3.connect(path)) as one:
        assert one.execute('SELECT id, v FROM "own.b" ORDER BY id').fetchall() == wanted


def test_a_redis_that_lost_its_data_is_no_first_run(
    redis: RedisServer, source: LocalServer, tmp_path: Path
) -> None:
    with redis.client() as client:
        client.flushall()
    sinks = [{"name": "one", "type": "redis", "url": redis.url, "tables": ["own.a"]}]
    with service(tmp_path / "s", source, sinks) as daemon:
        daemon.start()
        daemon.until(streams)
        fill(source, "a", 0, 1)
        daemon.until_level()
        with redis.client() as client:
            client.flushall()
        fill(source, "a", 1, 1)
        daemon.until(lambda one: state(one) == "failed")
        assert "the destination has no position" in error(daemon)
        assert "position set" in error(daemon)


def test_a_file_that_is_removed_is_told_at_the_next_commit(
    source: LocalServer, tmp_path: Path
) -> None:
    sinks = [{"name": "one", "type": "file", "path": str(tmp_path / "out"), "tables": ["own.a"]}]
    with service(tmp_path / "s", source, sinks) as daemon:
        daemon.start()
        daemon.until(streams)
        fill(source, "a", 0, 1)
        daemon.until_level()
        (tmp_path / "out" / "changes-000001.jsonl").unlink()
        fill(source, "a", 1, 1)
        daemon.until(lambda one: state(one) == "failed")
        assert "bring it back" in error(daemon)


def test_a_first_run_begins_at_the_start_of_the_service(
    redis: RedisServer, source: LocalServer, tmp_path: Path
) -> None:
    with redis.client() as client:
        client.flushall()
    redis.kill()
    sinks = [{"name": "one", "type": "redis", "url": redis.url, "tables": ["own.a"]}]
    try:
        with service(tmp_path / "s", source, sinks) as daemon:
            daemon.start()
            daemon.until(lambda one: state(one) == "retrying")
            fill(source, "a", 0, 5)
            daemon.kill()
            daemon.start()
            daemon.until(lambda one: state(one) == "retrying")
            redis.start()
            fill(source, "a", 5, 1)
            daemon.until(streams)
            daemon.until_level()
    finally:
        redis.start() if redis._process.poll() is not None else None  # type: ignore[union-attr]
    with redis.client() as client:
        assert client.xlen("replica_client") == 6


@pytest.fixture(params=["mysql", "sqlite", "file", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Keys of ``[store]``, which two services share, and the environment that they need."""
    kind = request.param
    if kind == "mysql":
        target = request.getfixturevalue("server")("mariadb-11.8")
        target.execute("DROP DATABASE IF EXISTS positions")
        target.execute("CREATE DATABASE positions")
        return {"type": kind, "url": f"{target.url('root').rstrip('/')}/positions"}, {}
    if kind == "s3":
        endpoint = request.getfixturevalue("s3_endpoint")
        return {"type": "file", "path": new_bucket(endpoint)}, access_to(endpoint)
    path = tmp_path / ("positions.db" if kind == "sqlite" else "positions")
    return {"type": kind, "path": str(path)}, {}


def test_services_that_share_a_store_take_turns(store, source: LocalServer, tmp_path: Path) -> None:
    """The second waits, takes over from one that was killed or frozen, and who wakes sends nothing more."""
    keys, environment = store
    receiver = EventReceiver()
    sinks = [{"name": "one", "type": "http", "url": receiver.url, "key": KEY, "tables": ["own.a"]}]

    def sent() -> list[int]:
        lines = [json.loads(line) for one in receiver.lines.values() for line in one]
        return sorted(int(line["after"]["id"]) for line in lines)

    given = {"store": keys, "environment": environment}
    locked = keys["type"] == "file" and not keys["path"].startswith("s3:")
    try:
        with (
            service(tmp_path / "1", source, sinks, **given) as first,
            service(tmp_path / "2", source, sinks, **given) as second,
        ):
            first.start()
            first.until(streams)
            second.start()
            second.until(lambda one: state(one) == "standby")
            assert second.get("/readyz")[0] == 503
            fill(source, "a", 0)
            first.until_level()
            first.kill()
            fill(source, "a", ROWS)
            assert second.until(streams, 20) < 10
            second.until_level()
            assert sent() == list(range(2 * ROWS))
            first.start()
            first.until(lambda one: state(one) == "standby")
            if locked:
                return  # who is frozen keeps the lock of its file
            assert second.process is not None
            second.process.send_signal(signal.SIGSTOP)
            fill(source, "a", 2 * ROWS)
            assert first.until(streams, 20) < 12
            first.until_level()
            second.process.send_signal(signal.SIGCONT)
            fill(source, "a", 3 * ROWS)
            second.until(lambda one: state(one) == "standby")
            first.until_level()
        assert sent() == list(range(4 * ROWS))
    finally:
        receiver.close()


@pytest.mark.parametrize("kind", ["postgres", "kafka"])
def test_a_standby_loses_nothing(kind: str, server: Callable[[str], LocalServer]) -> None:
    """The short form of ``scripts/proofs/takeover``."""
    report = prove(kind, server("mysql-9.7"), server("mariadb-11.8"), 2, 3)
    assert (report.lost, report.twice) == ([], []), report
    assert report.p99 < 10, report


@pytest.mark.parametrize(
    ("start", "text"),
    [
        ("binlog.000999:4", "start: the source has no binlog.000999; it has binlog.000001 to "),
        ("binlog.000001:99999999", "start: binlog.000001 of the source ends at "),
        ("2999-01-01T00:00:00Z", "is in the future"),
    ],
)
def test_a_start_that_does_not_exist_is_refused(
    source: LocalServer, tmp_path: Path, start: str, text: str
) -> None:
    sinks = [{"name": "one", "type": "file", "path": str(tmp_path / "out"), "tables": ["own.a"]}]
    with service(tmp_path / "s", source, sinks, start=start) as daemon:
        daemon.write_config()
        found = check(daemon, "--connect")
    assert text in found and "source source" in found, found


def test_paths_that_cannot_be_written_are_refused(source: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    inside = str(tmp_path / "plain" / "out")
    sinks = [
        {"name": "one", "type": "file", "path": inside, "tables": ["own.a"]},
        {"name": "two", "type": "sqlite", "path": f"{inside}/m.db", "tables": ["own.a"]},
        {
            "name": "three",
            "type": "file",
            "path": str(tmp_path / "ok"),
            "tables": ["own.a"],
            "dead_letters": f"{inside}/letters.jsonl",
        },
    ]
    store = {"type": "sqlite", "path": f"{inside}/positions.db"}
    with service(tmp_path / "s", source, sinks, daemon={"state": inside}, store=store) as daemon:
        daemon.write_config()
        found = check(daemon)
    named = ("daemon: state: ", "store: path: ", "source.one: path: ", "source.two: path: ")
    for one in (*named, "source.three: dead_letters: "):
        assert one in found and "is not a directory" in found, found
