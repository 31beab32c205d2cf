"""A snapshot on request of a large table that changes at a rate: the stream's lag, a kill in the middle, the result.

Used by scripts/proofs/large_snapshot (long) and by test_event_snapshots.py (short).
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

DATABASE = "large"
SINK = "events"
CHUNK = 20_000
"""Rows that are copied at once."""
_OF_TRANSACTION = 10
_NONE = -1
_TIME = re.compile(rb'"table": "clock".*?"after": \{"at": ([0-9.]+)')
_LEVEL_SECONDS = 1.0


class ChangingTable(threading.Thread):
    """A table of many rows, and a session that changes ten of them in each transaction, at a rate.

    Args:
        server: the source.
        rows: of the table.
        rate: changes a second.
        seed: of the changes.
    """

    def __init__(self, server: LocalServer, rows: int, rate: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.rows, self.rate, self.seed = server, rows, rate, seed
        self.halt = threading.Event()
        self.error: BaseException | None = None

    def prepare(self) -> None:
        """Make the table; its rows are in no binlog."""
        run = self.server.execute
        run(f"CREATE DATABASE {DATABASE}")
        run(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, n BIGINT NOT NULL, t VARCHAR(60))")
        run(f"CREATE TABLE {DATABASE}.clock (at DOUBLE NOT NULL)")
        with self.server.connected() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0, SESSION cte_max_recursion_depth = 1000000")
            for low in range(0, self.rows, 100_000):
                count = min(100_000, self.rows - low)
                cursor.execute(
                    f"INSERT INTO {DATABASE}.t WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 "
                    f"FROM s WHERE i < {count}) SELECT {low} + i, i * 7, CONCAT('ä row ', {low} + i) FROM s"
                )
                connection.commit()
        # The binlog's clock is that of this machine: what waits is seen by the time of its statement.
        transactions = self.rate // _OF_TRANSACTION
        run(
            f"CREATE PROCEDURE {DATABASE}.work(IN seconds DOUBLE, INOUT next INT) BEGIN "
            "DECLARE begun, ahead DOUBLE; DECLARE done, x, y INT DEFAULT 0; "
            "SET begun = UNIX_TIMESTAMP(SYSDATE(6)); "
            "WHILE UNIX_TIMESTAMP(SYSDATE(6)) < begun + seconds DO START TRANSACTION; "
            f"INSERT INTO {DATABASE}.clock VALUES (UNIX_TIMESTAMP(SYSDATE(6))); "
            f"SET x = 1 + FLOOR(RAND() * {self.rows}); "
            f"UPDATE {DATABASE}.t SET n = n + 1, t = CONCAT('changed ', x) WHERE id BETWEEN x AND x + 7; "
            f"SET y = 1 + FLOOR(RAND() * {self.rows}); DELETE FROM {DATABASE}.t WHERE id = y; "
            f"INSERT INTO {DATABASE}.t VALUES ({self.rows} + next, x, NULL); "
            "SET next = next + 1; COMMIT; SET done = done + 1; "
            f"SET ahead = begun + done / {transactions} - UNIX_TIMESTAMP(SYSDATE(6)); "
            "IF ahead > 0 THEN DO SLEEP(ahead); END IF; END WHILE; END"
        )

    def run(self) -> None:
        try:
            with self.server.connected(autocommit=False) as connection:
                with connection.cursor() as cursor:
                    cursor.execute(f"SET @next = 1, @seed = RAND({self.seed})")
                    while not self.halt.is_set():
                        cursor.execute(f"CALL {DATABASE}.work(0.5, @next)")
        except BaseException as error:
            self.error = error


class Arrivals(threading.Thread):
    """Looks at the files of the sink as they grow, and keeps when the clock's rows came.

    Attributes:
        found: time of writing and of arrival.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder = folder
        self.halt = threading.Event()
        self.found: list[tuple[float, float]] = []
        self._read: dict[Path, int] = {}

    def run(self) -> None:
        while not self.halt.is_set():
            for path in sorted(self._folder.glob("*.jsonl")):
                at = self._read.get(path, 0)
                with path.open("rb") as file:
                    file.seek(at)
                    data = file.read()
                whole = data.rfind(b"\n") + 1
                self._read[path] = at + whole
                now = time.time()
                self.found += [(float(one[1]), now) for one in _TIME.finditer(data, 0, whole)]
            self.halt.wait(0.05)

    def worst(self, since: float, until: float) -> float:
        """The longest time that a row took which was written between two times."""
        return max((seen - at for at, seen in self.found if since <= at < until), default=0.0)


@dataclass
class LargeReport:
    """What a proof saw.

    Attributes:
        rows: of the table at the end, equal to the consumer's.
        copied: rows of the snapshot that came.
        again: those of them that came twice.
        changes: of rows that the stream brought.
        rate: of them a second while the snapshot went on.
        seconds: that the snapshot took.
        lag: the longest, in seconds, of the stream while the snapshot went on; without that of the kill.
        recovery: seconds from the kill until the stream was level again.
    """

    rows: int = 0
    copied: int = 0
    again: int = 0
    changes: int = 0
    rate: float = 0.0
    seconds: float = 0.0
    lag: float = 0.0
    recovery: float = 0.0


def prove_large_snapshot(
    source: LocalServer,
    directory: Path,
    *,
    rows: int,
    rate: int,
    seed: int,
    kill: bool = True,
    say: Callable[[str], None] = lambda text: None,
) -> LargeReport:
    """Ask for a snapshot under load, kill the daemon in its middle, and compare what a consumer has.

    Raises:
        AssertionError: a consumer of the events has not what the source has, or more than a chunk came twice.
    """
    report, table = LargeReport(), ChangingTable(source, rows, rate, seed)
    table.prepare()
    say(f"{rows} rows made")
    folder = directory / "out"
    settings = {"url": source.url(), "tables": [f"{DATABASE}.*"], "heartbeat": 1.0}
    sink = {"name": SINK, "type": "file", "path": folder, "snapshot_rows": CHUNK}
    daemon = DaemonProcess(directory, settings, [{**sink, "batch_seconds": 0.2}])
    arrivals = Arrivals(folder)
    with daemon:
        daemon.until(lambda one: bool(one.route(SINK)["state"] == "streaming"))
        table.start()
        arrivals.start()
        daemon.until(lambda _: len(arrivals.found) > 10)
        begun = time.time()
        _ask(daemon)
        daemon.until(lambda one: bool(one.route(SINK)["copying"]), 60)
        killed = level = time.time()
        if kill:
            daemon.until(lambda one: _copied(folder) >= rows // 2, 600)
            killed = time.time()
            daemon.kill()
            daemon.start()
            daemon.until(lambda _: _is_level(arrivals, killed), 120)
            level = time.time()
            say(f"killed at half, level again after {level - killed:.1f} s")
        daemon.until(_is_over, 1200)
        ended = time.time()
        time.sleep(2)
        table.halt.set()
        table.join(30)
        assert table.error is None, table.error
        daemon.until_level(120)
        arrivals.halt.set()
        arrivals.join(30)
        assert daemon.stop() == 0, daemon.tail()
    report.seconds, report.recovery = ended - begun, level - killed
    report.lag = max(arrivals.worst(begun, killed - 2), arrivals.worst(level, ended))
    say(f"copied in {report.seconds:.0f} s, longest lag {report.lag:.2f} s")
    _replay(source, folder, rows, report, begun, ended)
    assert report.again <= CHUNK, f"{report.again} rows came twice, a chunk has {CHUNK}"
    return report


def _ask(daemon: DaemonProcess) -> None:
    words = ["snapshot", str(daemon.config), "--sink", SINK, "--table", f"{DATABASE}.t"]
    subprocess.run([sys.executable, "-m", "replica_client", *words], check=True, timeout=60)


def _is_over(daemon: DaemonProcess) -> bool:
    route = daemon.route(SINK)
    assert route["state"] != "failed", route["error"]
    return not route["copying"] and route["state"] == "streaming" and route["snapshot_tables"] == 0


def _copied(folder: Path) -> int:
    """About how many rows are copied, by the size of the files."""
    return sum(path.stat().st_size for path in folder.glob("*.jsonl")) // _LINE


def _is_level(arrivals: Arrivals, since: float) -> bool:
    """Whether rows that were written since then come in time again."""
    at, seen = arrivals.found[-1]
    return at > since and seen - at < _LEVEL_SECONDS


_LINE = 250
"""Bytes of a line, about."""


def _lines(folder: Path) -> Iterator[Any]:
    decode = msgspec.json.Decoder().decode
    for path in sorted(folder.glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                yield decode(line)


def _replay(
    source: LocalServer, folder: Path, rows: int, report: LargeReport, begun: float, ended: float
) -> None:
    """Apply the lines, and compare with the source."""
    room = rows * 2 + 1_000_000
    numbers, texts = array("q", [_NONE]) * room, array("L", [0]) * room
    copied, during = bytearray(room), 0
    for one in _lines(folder):
        if one["table"] != "t" or one["kind"] not in ("insert", "update", "delete", "snapshot"):
            continue
        after = one["after"]
        if one["kind"] == "snapshot":
            report.copied += 1
            report.again += copied[after["id"]]
            copied[after["id"]] = 1
        else:
            report.changes += 1
            during += begun <= one["timestamp"] <= ended
        if after is None:
            numbers[one["before"]["id"]] = _NONE
        else:
            numbers[after["id"]] = after["n"]
            texts[after["id"]] = crc32((after["t"] or "").encode())
    report.rate = during / (ended - begun)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT id, n, CRC32(COALESCE(t, '')) FROM {DATABASE}.t")
        for key, number, text in cursor:
            assert (numbers[key], texts[key]) == (number, text), (
                f"row {key}: {numbers[key]}, {number}"
            )
            numbers[key] = _NONE
            report.rows += 1
    left = sum(1 for number in numbers if number != _NONE)
    assert not left, f"{left} rows are no more in the source"
