"""Kill a daemon, its source and its sinks' servers again and again, and compare every sink with the source.

Used by scripts/proofs/daemon (long) and by test_daemon_kills.py (short).
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pymysql

from replica_client.errors import ConfigError
from replica_client.service.order_socket import ask
from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import Compared
from tests.servers.local import LocalServer

DATABASE = "killed"
STDOUT = "stdout.jsonl"
"""Where the daemon's standard output goes, in its directory."""
TABLES = ("a", "b", "c")
_GONE = (pymysql.err.OperationalError, pymysql.err.InterfaceError, ConnectionError)


class Killable(Protocol):
    """A server that a sink writes to."""

    def kill(self) -> None: ...

    def restart(self) -> None: ...


@dataclass
class ProvedSink:
    """A sink that is under proof.

    Attributes:
        name: also of its route.
        options: of the configuration, ``type`` among them.
        compare: raises AssertionError where it does not hold what the source has.
        server: what may be killed, if it has one.
    """

    name: str
    options: dict[str, Any]
    compare: Callable[[LocalServer], Compared]
    server: Killable | None = None


@dataclass
class KillReport:
    """What a proof saw.

    Attributes:
        kills: by what was killed: ``daemon``, ``source``, or a sink with a server.
        orders: by the command that the daemon got.
        transactions: that the workload committed.
        comparisons: how often every sink was compared with the source.
        found: what the last comparison of each sink was of.
    """

    kills: Counter[str] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    comparisons: int = 0
    found: dict[str, Compared] = field(default_factory=dict)
    seconds: float = 0.0

    def lines(self) -> Iterator[str]:
        """A line for each sink."""
        for name, compared in self.found.items():
            kills = {"daemon": self.kills["daemon"], "source": self.kills["source"]}
            if self.kills[name]:
                kills[name] = self.kills[name]
            yield (
                f"{name}: {sum(kills.values())} kills {kills}, {self.transactions} transactions, "
                f"{compared.rows} rows or lines, {compared.repeated} repeated, 0 lost, "
                f"compared {self.comparisons} times"
            )


class KillWorkload(threading.Thread):
    """Random transactions, DDL and rotations on a source that may die at any moment."""

    def __init__(
        self,
        server: LocalServer,
        seed: int,
        pause: float = 0.01,
        before: KillWorkload | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.chance = random.Random(seed)
        self.pause = pause
        self.halt = threading.Event()
        self.error: BaseException | None = None
        self.transactions = 0
        self._next_id: int = 1 if before is None else before._next_id + 1000
        self._columns: int = 0 if before is None else before._columns

    def run(self) -> None:
        try:
            while not self.halt.is_set():
                with contextlib.suppress(*_GONE):
                    with self.server.connected(connect_timeout=2, read_timeout=20) as connection:
                        self._work(connection)
                self._next_id += 1000  # whether the last one was committed is not known
                self.halt.wait(0.1)
        except BaseException as error:
            self.error = error

    def _work(self, connection: Any) -> None:
        connection.autocommit(False)
        with connection.cursor() as cursor:
            while not self.halt.is_set():
                self._transaction(connection, cursor)
                self.transactions += 1
                time.sleep(self.chance.random() * 2 * self.pause)

    def _transaction(self, connection: Any, cursor: Any) -> None:
        chance = self.chance
        what = chance.random()
        if what < 0.01:
            cursor.execute("FLUSH BINARY LOGS")
        elif what < 0.02:
            self._ddl(cursor)
        else:
            for _ in range(chance.choice((1, 1, 2, 5))):
                self._change(cursor)
            if what < 0.03:
                self._large(cursor)
            connection.rollback() if chance.random() < 0.05 else connection.commit()

    def _change(self, cursor: Any) -> None:
        chance, table = self.chance, self.chance.choice(TABLES)
        what = chance.random()
        if what < 0.6 or self._next_id < 20:
            count = chance.choice((1, 1, 3, 20))
            rows = [
                (self._next_id + at, chance.randrange(1 << 31), "ä" * chance.randrange(40))
                for at in range(count)
            ]
            self._next_id += count
            cursor.executemany(
                f"INSERT INTO {DATABASE}.{table} (id, n, t) VALUES (%s, %s, %s)", rows
            )
        elif what < 0.9:
            low = chance.randrange(self._next_id)
            cursor.execute(
                f"UPDATE {DATABASE}.{table} SET n = n + 1, t = %s WHERE id BETWEEN %s AND %s",
                (str(chance.random()), low, low + 20),
            )
        else:
            cursor.execute(
                f"DELETE FROM {DATABASE}.{table} WHERE id = %s", (chance.randrange(self._next_id),)
            )

    def _large(self, cursor: Any) -> None:
        """Enough for several parts of 64 KiB."""
        rows = [(self._next_id + at, at, "x" * 200) for at in range(1500)]
        self._next_id += len(rows)
        cursor.executemany(f"INSERT INTO {DATABASE}.a (id, n, t) VALUES (%s, %s, %s)", rows)

    def _ddl(self, cursor: Any) -> None:
        if self.chance.random() < 0.3:
            cursor.execute(f"TRUNCATE TABLE {DATABASE}.c")
        else:
            self._columns += 1
            name = f"c{self._next_id}"
            cursor.execute(
                f"ALTER TABLE {DATABASE}.b ADD COLUMN {name} INT DEFAULT {self._columns}"
            )
            if self._columns > 5:
                cursor.execute(f"ALTER TABLE {DATABASE}.b DROP COLUMN {name}")


def prepare(server: LocalServer) -> None:
    server.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    for table in TABLES:
        server.execute(
            f"CREATE TABLE {DATABASE}.{table} (id INT PRIMARY KEY, n BIGINT, t VARCHAR(200))"
        )


def prove(
    source: LocalServer,
    directory: Path,
    sinks: list[ProvedSink],
    *,
    kills: int,
    seed: int,
    compare_every: int = 100,
    pause: float = 0.01,
    minutes: float = 1e9,
    orders: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> KillReport:
    """Run the workload, kill one of all ``kills`` times, and compare each sink with the source.

    Args:
        source: without tables.
        directory: of the daemon and the sinks.
        sinks: all in one daemon.
        kills: how many.
        seed: of the workload and the kills.
        compare_every: after so many kills the workload rests, and all sinks are compared.
        pause: mean seconds between two transactions.
        minutes: no kill after this time.
        orders: whether sinks are paused, resumed and restarted between the kills.
        say: takes a line about what is being done.

    Raises:
        AssertionError: a change was lost, repeated beyond the guarantee, reordered or wrong.
    """
    chance = random.Random(seed)
    report = KillReport()
    begun = time.monotonic()
    daemon = _daemon(source, directory, sinks)
    prepare(source)
    workload = KillWorkload(source, seed, pause)
    servers: list[tuple[str, Any]] = [("source", source)]
    servers += [(sink.name, sink.server) for sink in sinks if sink.server is not None]
    with contextlib.ExitStack() as stack:
        if any(sink.options["type"] == "stdout" for sink in sinks):
            output = stack.enter_context((directory / STDOUT).open("ab"))
            daemon.output = output.fileno()
        stack.callback(daemon.close)
        daemon.start()
        done = 0
        while done < kills and time.monotonic() - begun < minutes * 60:
            workload.start()
            try:
                for _ in range(min(compare_every, kills - done)):
                    if time.monotonic() - begun > minutes * 60:
                        break
                    if orders and chance.random() < 0.3:
                        _order(chance, daemon, sinks, report)
                    _kill(chance, daemon, servers, report)
                    done += 1
                    assert workload.error is None, workload.error
                    if done % 25 == 0:
                        say(
                            f"{done} kills {dict(report.kills)}, "
                            f"{report.transactions + workload.transactions} transactions, "
                            f"{time.monotonic() - begun:.0f} s"
                        )
            finally:
                workload.halt.set()
                workload.join(60)
            assert workload.error is None, workload.error
            report.transactions += workload.transactions
            _compare(source, daemon, sinks, report)
            say(
                f"{done} kills, {report.transactions} transactions: {len(sinks)} sinks equal to the "
                f"source, {time.monotonic() - begun:.0f} s"
            )
            workload = KillWorkload(source, seed + done, pause, workload)
        assert daemon.stop() == 0, daemon.tail()
    report.seconds = time.monotonic() - begun
    return report


def _daemon(source: LocalServer, directory: Path, sinks: list[ProvedSink]) -> DaemonProcess:
    settings = {
        "url": source.url(),
        "tables": [f"{DATABASE}.*"],
        "start": f"{source.binlog_files()[0]}:4",
        "heartbeat": 1.0,
        "part_size": "64k",
    }
    common = {"batch_seconds": 0.05, "retry_seconds": 1.0}
    tables = [{"name": sink.name, **common, **sink.options} for sink in sinks]
    return DaemonProcess(directory, settings, tables)


def _kill(
    chance: random.Random,
    daemon: DaemonProcess,
    servers: list[tuple[str, Any]],
    report: KillReport,
) -> None:
    if chance.random() < 0.8:
        _until_progress(daemon)
    time.sleep(chance.random() * 0.4)
    if chance.random() < 0.75:
        daemon.kill()
        daemon.start()
        report.kills["daemon"] += 1
        return
    name, server = chance.choice(servers)
    server.kill()
    report.kills[name] += 1
    if chance.random() < 0.3:  # both at once
        daemon.kill()
        daemon.start()
        report.kills["daemon"] += 1
    server.restart()


def _order(
    chance: random.Random, daemon: DaemonProcess, sinks: list[ProvedSink], report: KillReport
) -> None:
    """Give the daemon an order; what is paused stays so, also after a kill, until it is resumed."""
    command = chance.choice(("pause", "pause", "restart", "reload"))
    name = chance.choice(sinks).name
    _ask(daemon, command, name)
    report.orders[command] += 1
    if command != "pause":
        return
    daemon.until(lambda one: one.route(name)["state"] == "paused", 600)
    commits = daemon.route(name)["commits"]
    time.sleep(chance.random() * 0.5)
    assert daemon.route(name)["commits"] == commits
    if chance.random() < 0.5:
        daemon.kill()
        daemon.start()
        report.kills["daemon"] += 1
        daemon.until(lambda one: one.route(name)["state"] == "paused", 600)
    _ask(daemon, "resume", name)


def _ask(daemon: DaemonProcess, command: str, sink: str) -> None:
    """Give an order, also to a daemon that is just starting."""
    order = {"command": command, "sinks": [f"source.{sink}"]}
    deadline = time.monotonic() + 120
    while True:
        try:
            ask(daemon.directory / "state", order, 120)
            return
        except ConfigError as error:
            if time.monotonic() > deadline or "is the service running" not in str(error):
                raise
        time.sleep(0.1)


def _compare(
    source: LocalServer, daemon: DaemonProcess, sinks: list[ProvedSink], report: KillReport
) -> None:
    source.execute(
        f"INSERT INTO {DATABASE}.a (id, n) VALUES ({2_000_000_000 + report.comparisons}, 1)"
    )
    # Sinks that were behind at the last kill catch up; on a busy machine that may take long.
    daemon.until_level(600)
    for sink in sinks:
        report.found[sink.name] = sink.compare(source)
    report.comparisons += 1


def _until_progress(daemon: DaemonProcess) -> None:
    """Let every sink commit something, so that kills fall into work and not only into starts."""
    seen: dict[str, int] = {}

    def moved(process: DaemonProcess) -> bool:
        routes = process.status()["routes"]
        for route in routes:
            seen.setdefault(route["name"], route["commits"])
        return all(route["commits"] > seen[route["name"]] for route in routes)

    daemon.until(moved, 600)
