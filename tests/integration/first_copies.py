"""A daemon that begins with a copy of tables, killed while it copies and catches up, under a workload.

Used by scripts/proofs/daemon --snapshot (long) and by test_daemon_snapshot.py (short).
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from tests.integration.daemon_process import DaemonProcess
from tests.integration.sink_comparison import Compared, compare_sink
from tests.integration.slow_commits import slow_commits
from tests.servers.local import LocalServer

DATABASE = "copied"
TABLES = ("a", "b", "c", "keyless")
_SMALL = tuple(f"_{number}" for number in range(4))
"""Tables of a few rows that are copied first and that half of all transactions change: when the first copy begins, some
are being committed."""
_SMALL_ROWS = 20
_OTHERS_WON = {
    1205,  # ER_LOCK_WAIT_TIMEOUT
    1213,  # ER_LOCK_DEADLOCK
    1020,  # ER_CHECKREAD of MariaDB >= 11.6: innodb_snapshot_isolation
    1412,  # ER_TABLE_DEF_CHANGED
}


class CopyWorkload(threading.Thread):
    """Changes everywhere in the tables, keys among them, and now and then a definition.

    Args:
        server: the source.
        seed: of the changes.
        rows: highest id.
        pause: mean seconds between two transactions of a session.
        sessions: that write at the same time.

    Attributes:
        rests: set while nothing is to be written: who follows is far behind.
    """

    def __init__(
        self, server: LocalServer, seed: int, rows: int, *, pause: float, sessions: int = 1
    ) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.seed = seed
        self.rows = rows
        self.pause = pause
        self.sessions = sessions
        self.halt = threading.Event()
        self.rests = threading.Event()
        self.error: BaseException | None = None
        self.transactions = 0

    def run(self) -> None:
        others = [
            threading.Thread(target=self._write, args=(self.seed * 1000 + number,), daemon=True)
            for number in range(1, self.sessions)
        ]
        for other in others:
            other.start()
        self._write(self.seed)
        for other in others:
            other.join()

    def _write(self, seed: int) -> None:
        chance = random.Random(seed)
        try:
            with self.server.connected(autocommit=False) as connection:
                with connection.cursor() as cursor:
                    while not self.halt.is_set():
                        try:
                            self._transaction(cursor, chance)
                            if chance.random() < 0.05:
                                connection.rollback()
                            else:
                                connection.commit()
                        except pymysql.Error as error:
                            if error.args[0] not in _OTHERS_WON:
                                raise
                            connection.rollback()
                        self.transactions += 1
                        time.sleep(chance.random() * 2 * self.pause)
                        while self.rests.is_set() and not self.halt.is_set():
                            time.sleep(0.05)
        except BaseException as error:
            self.error = error

    def _transaction(self, cursor: Any, chance: random.Random) -> None:
        if chance.random() < 0.01:
            cursor.execute("FLUSH BINARY LOGS")
        if chance.random() < 0.004:
            self._define(cursor, chance)
        for _ in range(chance.choice((1, 1, 2, 5))):
            table = f"{DATABASE}.{chance.choice(TABLES[:3])}"
            at = chance.randrange(self.rows)
            cursor.execute(
                chance.choice(
                    (
                        f"UPDATE {table} SET n = n + 1 WHERE id BETWEEN {at} AND {at + 10}",
                        f"DELETE FROM {table} WHERE id = {at}",
                        f"INSERT IGNORE INTO {table} (id, n, t) VALUES ({at}, 1, 'ü{at}')",
                        f"UPDATE IGNORE {table} SET id = id + 1, t = 'moved' WHERE id = {at}",
                        f"REPLACE INTO {table} (id, n, t) VALUES ({at}, 2, NULL)",
                    )
                )
            )
        if self.sessions > 1:
            for table in chance.sample(_SMALL, 2):
                at = chance.randrange(_SMALL_ROWS)
                cursor.execute(f"UPDATE {DATABASE}.{table} SET n = n + 1 WHERE id = {at}")
        if chance.random() < 0.02:
            cursor.execute(f"INSERT INTO {DATABASE}.keyless VALUES ({chance.randrange(9)}, 'x')")

    def _define(self, cursor: Any, chance: random.Random) -> None:
        cursor.execute(
            chance.choice(
                (
                    f"ALTER TABLE {DATABASE}.b ADD COLUMN c{chance.randrange(1 << 30)} INT DEFAULT 5",
                    f"TRUNCATE TABLE {DATABASE}.c",
                    f"CREATE TABLE {DATABASE}.new{chance.randrange(1 << 30)} (id INT PRIMARY KEY) "
                    "SELECT 1 AS id",
                    f"RENAME TABLE {DATABASE}.a TO {DATABASE}.z, {DATABASE}.b TO {DATABASE}.a, "
                    f"{DATABASE}.z TO {DATABASE}.b",
                )
            )
        )


@dataclass
class CopyReport:
    """What a proof saw.

    Attributes:
        kills: of the daemon.
        while_copying: those of them that fell into copying.
        compared: the comparison at the end.
    """

    kills: int = 0
    while_copying: int = 0
    transactions: int = 0
    seconds: float = 0.0
    compared: Compared | None = None


def fill(server: LocalServer, rows: int, *, has_small: bool = False) -> None:
    """Tables with rows, made before the daemon's time: their changes are not in the binlog."""
    server.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
    server.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    for table in TABLES[:3]:
        server.execute(
            f"CREATE TABLE {DATABASE}.{table} (id INT PRIMARY KEY, n BIGINT, t VARCHAR(200), "
            "d DECIMAL(10,2), at DATETIME(3))"
        )
        with server.connected() as connection, connection.cursor() as cursor:
            for low in range(0, rows, 5000):
                values = ", ".join(
                    f"({at}, {at * 7}, 'ä{at}', {at}.25, '2026-01-02 03:04:05.678')"
                    for at in range(low, min(low + 5000, rows), 2)
                )
                cursor.execute(f"INSERT INTO {DATABASE}.{table} VALUES {values}")
    values = ", ".join(f"({at}, 0)" for at in range(_SMALL_ROWS)) if has_small else ""
    for table in _SMALL if has_small else ():
        server.execute(f"CREATE TABLE {DATABASE}.{table} (id INT PRIMARY KEY, n BIGINT)")
        server.execute(f"INSERT INTO {DATABASE}.{table} VALUES {values}")
    server.execute(f"CREATE TABLE {DATABASE}.keyless (n INT, t TEXT)")
    server.execute(f"INSERT INTO {DATABASE}.keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    # What was before is gone, as on any source that is older than its binlog.
    server.rotate()
    with contextlib.suppress(Exception):
        server.execute(f"PURGE BINARY LOGS TO '{server.binlog_files()[-1]}'")


def _streams(daemon: DaemonProcess) -> bool:
    route = daemon.route("mirror")
    assert route["state"] != "failed", route["error"]
    return bool(route["state"] == "streaming")


def prove_copies(
    source: LocalServer,
    directory: Path,
    options: dict[str, Any],
    *,
    kills: int,
    seed: int,
    rows: int,
    pause: float = 0.005,
    sessions: int = 1,
    commit_seconds: float = 0.0,
    say: Callable[[str], None] = lambda text: None,
) -> CopyReport:
    """Copy, kill the daemon again and again, and compare the mirror with the source.

    Args:
        source: where the tables are made.
        directory: of the daemon.
        options: of the sink: a mirror.
        kills: how many.
        seed: of workload and kills.
        rows: half as many are in each table at first.
        pause: mean seconds between two transactions of a session.
        sessions: that write at the same time.
        commit_seconds: that each commit takes between the binlog and the engine, by semi-synchronous replication.
        say: takes a line about what is being done.

    Raises:
        AssertionError: the mirror is not the source.
    """
    chance = random.Random(seed)
    begun = time.monotonic()
    report = CopyReport()
    fill(source, rows, has_small=sessions > 1)
    daemon = DaemonProcess(
        directory,
        {"url": source.url(), "tables": [f"{DATABASE}.*"], "heartbeat": 1.0, "part_size": "64k"},
        [
            {
                "name": "mirror",
                "snapshot": True,
                "snapshot_rows": max(50, rows // 40),
                "batch_seconds": 0.05,
                "retry_seconds": 1.0,
                **options,
            }
        ],
    )
    workload = CopyWorkload(source, seed, rows, pause=pause, sessions=sessions)
    slow = slow_commits(source, commit_seconds) if commit_seconds else contextlib.nullcontext()
    with slow, daemon:
        workload.start()
        try:
            for number in range(kills):
                daemon.until(lambda one: bool(one.status()["routes"]), 120)
                if not number:
                    daemon.until(lambda one: one.route("mirror")["copied_rows"] > 0, 120)
                elif chance.random() < 0.4:
                    # Into the changes that are merged with the copy.
                    daemon.until(_streams, 120)
                    time.sleep(chance.random() * 0.2)
                else:
                    time.sleep(chance.random() * chance.choice((0.1, 0.4, 1.5)))
                state = daemon.route("mirror")["state"]
                report.while_copying += state == "copying tables"
                daemon.kill()
                daemon.start()
                report.kills += 1
                assert workload.error is None, workload.error
            daemon.until(_streams, 180)
            time.sleep(1)
        finally:
            workload.halt.set()
            workload.join(60)
        assert workload.error is None, workload.error
        source.execute(f"INSERT INTO {DATABASE}.keyless VALUES (99, 'end')")
        daemon.until_level(180)
        # Strict again: the window of the copies was passed.
        assert daemon.stop() == 0, daemon.tail()
    own = {key: value for key, value in options.items() if key != "type"}
    report.compared = compare_sink(options["type"], own, source, tables=[f"{DATABASE}.*"])
    report.transactions = workload.transactions
    report.seconds = time.monotonic() - begun
    say(
        f"{options['type']} from {source.name}: {report.kills} kills, {report.while_copying} of them while it "
        f"copied, {report.transactions} transactions, {report.compared.rows} rows in "
        f"{report.compared.tables} tables equal to the source, {report.seconds:.0f} s"
    )
    return report
