"""Hours of README's loop and of the service: rows at a rate, DDL, rotations, cut connections and kills.

Used by scripts/proofs/soak (hours) and by test_soak.py (seconds). One loop lives from the beginning to the end and
one is killed again and again; the service lives, too. Memory counts for those that live.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from replica_client import FilePositionStore
from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

SERVER_OPTIONS = (
    *("binlog-row-metadata=MINIMAL", "sync-binlog=0", "innodb-flush-log-at-trx-commit=0"),
    "binlog-expire-logs-seconds=0",
)
_ROOT = Path(__file__).resolve().parents[2]
_CHUNK = 20
_KEPT_ROWS = 100_000
_TABLES = 10
_FIRST_SECONDS = 300.0


@dataclass(frozen=True)
class Pace:
    """How often what happens; seconds between two, 0 for never.

    Attributes:
        rate: transactions a second.
        ddl: a table is made, altered or dropped.
        rotation: the source begins a new file, and the oldest is purged.
        cut: the source ends all dumps.
        kill: one of the loops is killed, and begins again.
        sample: memory, descriptors, lag and checkpoints are looked at.
        warm: schema changes before the clock starts, one every 50 ms: caches are bounded, and full behind them.
    """

    rate: int = 1000
    ddl: float = 2.0
    rotation: float = 60.0
    cut: float = 90.0
    kill: float = 20.0
    sample: float = 10.0
    warm: int = 0


@dataclass
class Sample:
    """What one process was at one time.

    Attributes:
        hours: since the beginning.
        name: ``loop``, ``killed`` or ``service``.
        memory: resident, in MiB.
        descriptors: that are open.
        lag: in milliseconds: of half of the transactions of the last second, of 99 of 100, at most.
        checkpoint: bytes of the position's files.
        cpu: seconds of processor so far.
        done: number of the last row of the loops, rows of the service.
    """

    hours: float
    name: str
    memory: float
    descriptors: int
    lag: tuple[int, int, int]
    checkpoint: int
    cpu: float
    done: int

    FIELDS = "hours,name,memory_mib,descriptors,lag_p50_ms,lag_p99_ms,lag_most_ms,checkpoint_bytes,cpu_s,done"

    def line(self) -> str:
        """As a line of CSV."""
        lags = ",".join(map(str, self.lag))
        return (
            f"{self.hours:.5f},{self.name},{self.memory:.2f},{self.descriptors},{lags},"
            f"{self.checkpoint},{self.cpu:.2f},{self.done}"
        )


@dataclass
class Soaked:
    """What a soak saw.

    Attributes:
        hours: that it took.
        samples: of all processes.
        rows: of the table ``t``, of which the loops got each.
        counts: how often what happened.
    """

    hours: float = 0.0
    samples: list[Sample] = field(default_factory=list)
    rows: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def of(self, name: str) -> list[Sample]:
        """The samples of a process."""
        return [one for one in self.samples if one.name == name]

    def slope(self, name: str) -> float:
        """Growth of a process's memory behind the first quarter, in MiB an hour, by least squares."""
        points = [(one.hours, one.memory) for one in self.of(name) if one.hours >= self.hours / 4]
        if len(points) < 2:
            return 0.0
        middle_x = sum(x for x, _ in points) / len(points)
        middle_y = sum(y for _, y in points) / len(points)
        square = sum((x - middle_x) ** 2 for x, _ in points)
        return sum((x - middle_x) * (y - middle_y) for x, y in points) / square

    def __str__(self) -> str:
        counted = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        lines = [
            f"{self.hours:.3f} hours: {self.rows} rows, each once and in order; {counted}",
        ]
        for name in ("loop", "service", "killed"):
            found = self.of(name)
            if not found:
                continue
            late = [one for one in found if one.hours >= self.hours / 4] or found
            memory = [one.memory for one in late]
            descriptors = [one.descriptors for one in late]
            p99 = sorted(one.lag[1] for one in late)
            checkpoints = [one.checkpoint for one in late]
            text = (
                f"{name}: behind the first quarter resident memory {min(memory):.1f} to "
                f"{max(memory):.1f} MiB, descriptors {min(descriptors)} to {max(descriptors)}, p99 of the lag "
                f"in a second {p99[len(p99) // 2]} ms in the middle and {p99[-1]} ms at most, checkpoint "
                f"{min(checkpoints)} to {max(checkpoints)} bytes"
            )
            if name != "killed":
                text += f"; slope of the memory {self.slope(name):+.2f} MiB an hour"
            lines.append(text)
        return "\n".join(lines)


class _Rows(threading.Thread):
    """One-row transactions at a rate, most of them inserts; old rows go."""

    def __init__(self, server: LocalServer, rate: int) -> None:
        super().__init__(daemon=True)
        self.server, self.rate = server, rate
        self.halt = threading.Event()
        self.error: BaseException | None = None
        server.execute("CREATE DATABASE soak")
        server.execute(
            "CREATE TABLE soak.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, at DOUBLE NOT NULL, n INT, "
            "t VARCHAR(40))"
        )
        server.execute(
            "CREATE PROCEDURE soak.work(IN seconds DOUBLE, IN rate INT) BEGIN "
            "DECLARE begun, ahead DOUBLE; DECLARE done INT DEFAULT 0; DECLARE i INT; "
            "DECLARE last BIGINT DEFAULT 0; SET begun = UNIX_TIMESTAMP(SYSDATE(6)); "
            "WHILE UNIX_TIMESTAMP(SYSDATE(6)) < begun + seconds DO "
            f"SET i = 0; WHILE i < {_CHUNK} - 2 DO "
            "INSERT INTO soak.t (at, n, t) VALUES (UNIX_TIMESTAMP(SYSDATE(6)), i, 'some text'); "
            "SET i = i + 1; END WHILE; SET last = LAST_INSERT_ID(); "
            "UPDATE soak.t SET n = n + 1, t = CONCAT('text ', last) WHERE id = last; "
            f"DELETE FROM soak.t WHERE id < last - {_KEPT_ROWS} ORDER BY id LIMIT {2 * _CHUNK}; "
            f"SET done = done + {_CHUNK}; "
            "SET ahead = begun + done / rate - UNIX_TIMESTAMP(SYSDATE(6)); "
            "IF ahead > 0 THEN DO SLEEP(ahead); END IF; END WHILE; END"
        )

    def run(self) -> None:
        try:
            with self.server.connected() as connection, connection.cursor() as cursor:
                while not self.halt.is_set():
                    cursor.execute(f"CALL soak.work(1, {self.rate})")
        except BaseException as error:
            self.error = error

    def stop(self) -> int:
        """Stop, raise what went wrong, and say the number of the last row."""
        self.halt.set()
        self.join(60)
        if self.error is not None:
            raise self.error
        return int(self.server.query("SELECT MAX(id) FROM soak.t")[0][0])


class _Loop:
    """README's loop in a process, which may be killed and begun again."""

    def __init__(self, name: str, url: str, start: tuple[str, int], directory: Path) -> None:
        self.name = name
        self._store, self._status = directory / f"{name}.position", directory / f"{name}.json"
        self._log, self._last = directory / f"{name}.log", directory / f"{name}.last"
        self._command = [
            *(sys.executable, "-m", "tests.integration.soak_client", url, "soak"),
            *(f"{start[0]}:{start[1]}", str(self._store), str(self._status), str(self._last)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._stated: list[tuple[float, int]] = []
        # The next one must begin behind the one and at the other or before.
        self._least, self._next = 0, 1
        self._begun = False
        self.start()

    def start(self) -> None:
        """Begin, or begin again."""
        self._status.unlink(missing_ok=True)
        self._begun = False
        # What one process told says nothing of how long the next one has had it.
        self._stated = []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    @property
    def pid(self) -> int:
        """Of the process, which runs."""
        assert self._process is not None
        assert self._process.poll() is None, (
            f"{self.name} ended by itself: {self._log.read_text(errors='replace')[-2000:]}"
        )
        return self._process.pid

    def look(self) -> Mapping[str, Any]:
        """What it told last, {} before it got something; where it began is looked at.

        Raises:
            AssertionError: something was lost, or came again that must not.
        """
        try:
            said: dict[str, Any] = json.loads(self._status.read_text(encoding="ascii"))
        except FileNotFoundError:
            return {}
        first = said["first"]
        if not first:
            return {}
        if not self._begun:
            self._begun = True
            assert first <= self._next, f"{self.name}: {self._next} to {first - 1} are lost"
            assert first > self._least, (
                f"{self.name}: {first} came again, though {self._least} was acknowledged long before the kill"
            )
        self._stated = [*self._stated[-100:], (time.monotonic(), said["last"])]
        return said

    def kill(self, bound: float) -> None:
        """SIGKILL, and begin again; what was acknowledged longer ago than the bound must not come again."""
        self.look()
        ended = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        assert self._process is not None
        self._process.wait()
        self.look()
        self._next = max(self._next, self._delivered() + 1)
        self._least = max(
            (last for at, last in self._stated if at < ended - bound), default=self._least
        )
        self.start()

    def _delivered(self) -> int:
        """The last row that it got."""
        data = self._last.read_bytes() if self._last.exists() else b""
        return int.from_bytes(data, "little")

    def reach(self, last: int) -> None:
        """Wait until it got a row, and let it end."""
        deadline = time.monotonic() + 120
        while self._delivered() < last:
            assert time.monotonic() < deadline, f"{self.name} is at {self._delivered()} of {last}"
            time.sleep(0.1)
            os.kill(self.pid, 0)
        time.sleep(1.5)
        self.look()
        os.kill(self.pid, signal.SIGTERM)
        assert self._process is not None
        status = self._process.wait(60)
        assert status == 0, f"{self.name}: {status}: {self._log.read_text()[-2000:]}"
        assert self._delivered() == last

    @property
    def file(self) -> str:
        """The binlog file of the saved position, "" where there is none."""
        position = FilePositionStore(self._store).load()
        return position.file if position is not None else ""

    def close(self) -> None:
        """End it, whatever it does."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def checkpoint(self) -> int:
        """Bytes of the position's files."""
        return _size(self._store.parent, self._store.name)


def _size(directory: Path, prefix: str) -> int:
    total = 0
    for path in directory.glob(f"{prefix}*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def _processor(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Soak:
    """A soak on a server.

    Args:
        server: with :data:`SERVER_OPTIONS`; it is used for nothing else.
        directory: for positions and logs.
        pace: how often what happens.
        seed: of what happens.
        bound: seconds; what was acknowledged longer before a kill must not come again.
        service: whether the service follows, too.
    """

    def __init__(
        self,
        server: LocalServer,
        directory: Path,
        pace: Pace,
        *,
        seed: int = 1,
        bound: float = 5.0,
        service: bool = True,
    ) -> None:
        self._server, self._directory, self._pace = server, directory, pace
        self._chance, self._bound = random.Random(seed), bound
        self._has_service = service
        self._altered = 0
        self._loops: list[_Loop] = []
        self._daemon: DaemonProcess | None = None
        self._writer: _Rows | None = None
        self._begun = 0.0
        self.found = Soaked(
            counts=dict.fromkeys(("schema changes", "rotations", "cuts", "SIGKILLs"), 0)
        )

    def run(
        self,
        hours: float,
        halt: threading.Event,
        sampled: Callable[[Soaked], None] = lambda found: None,
    ) -> Soaked:
        """Run for some hours, or until told to stop.

        Raises:
            AssertionError: a row was lost, came twice, or a process ended by itself.
        """
        with ExitStack() as stack:
            self._start(stack)
            self._warm(halt)
            self._begun = time.monotonic()
            pace = self._pace
            steps: dict[Callable[[], None], float] = {
                self._change_schema: pace.ddl,
                self._rotate: pace.rotation,
                self._cut: pace.cut,
                self._kill: pace.kill,
                lambda: self._sample(sampled): pace.sample,
            }
            due = {step: every for step, every in steps.items() if every}
            while not halt.is_set() and self._now() < hours * 3600:
                step = min(due, key=due.__getitem__)
                if halt.wait(max(0.0, min(due[step], hours * 3600) - self._now())):
                    break
                if self._now() < hours * 3600:
                    step()
                    due[step] = max(due[step] + steps[step], self._now())
            self._sample(sampled)
            self._end()
        return self.found

    def _warm(self, halt: threading.Event) -> None:
        """Fill caches with schema changes; files change meanwhile as they will in as many hours."""
        for number in range(1, self._pace.warm + 1):
            self._change_schema()
            if number % 30 == 0:
                self._rotate()
            if halt.wait(0.05):
                return

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _start(self, stack: ExitStack) -> None:
        server = self._server
        # What the tables are is in the binlog: by the time at which one is asked for it may have been altered.
        start = server.binlog_position()
        self._writer = _Rows(server, self._pace.rate)
        for number in range(_TABLES):
            server.execute(
                f"CREATE TABLE soak.side{number} (id INT PRIMARY KEY AUTO_INCREMENT, c0 INT)"
            )
        for name in ("loop", "killed"):
            loop = _Loop(name, server.url(), start, self._directory)
            stack.callback(loop.close)
            self._loops.append(loop)
        if self._has_service:
            state = self._directory / "service"
            state.mkdir()
            self._daemon = DaemonProcess(
                state,
                {"url": server.url(), "start": f"{start[0]}:{start[1]}", "tables": ["soak.*"]},
                [{"type": "stdout"}],
            )
            self._daemon.output = subprocess.DEVNULL
            self._daemon.start()
            stack.callback(self._daemon.close)
        self._writer.start()
        stack.callback(self._writer.halt.set)
        deadline = time.monotonic() + _FIRST_SECONDS
        for loop in self._loops:
            while not loop.look():
                assert time.monotonic() < deadline, f"{loop.name} got nothing"
                assert loop.pid
                time.sleep(0.1)
        if self._daemon is not None:
            self._daemon.until(lambda one: one.status()["routes"][0]["rows"] > 0)

    def _change_schema(self) -> None:
        """Alter a table, or drop it and make it anew; and write to it."""
        server, number = self._server, self._chance.randrange(_TABLES)
        table = f"soak.side{number}"
        names = [str(row[0]) for row in server.query(f"SHOW COLUMNS FROM {table}")]
        self._altered += 1
        if self._chance.random() < 0.1:
            server.execute(f"DROP TABLE {table}")
            server.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY AUTO_INCREMENT, c0 INT)")
        elif len(names) > 8:
            server.execute(f"ALTER TABLE {table} DROP COLUMN {self._chance.choice(names[1:])}")
        else:
            server.execute(f"ALTER TABLE {table} ADD COLUMN c{self._altered} INT")
        server.execute(f"INSERT INTO {table} () VALUES ()")
        self.found.counts["schema changes"] += 1

    def _rotate(self) -> None:
        """Begin a file; the oldest go, which nobody reads any more."""
        self._server.execute("FLUSH BINARY LOGS")
        needed = [loop.file for loop in self._loops]
        if self._daemon is not None:
            needed.append(self._daemon.status()["routes"][0]["file"] or "")
        if all(needed):
            self._server.execute(f"PURGE BINARY LOGS TO '{min(needed)}'")
        self.found.counts["rotations"] += 1

    def _cut(self) -> None:
        """End every dump, as a source or a network does."""
        rows = self._server.query("SHOW PROCESSLIST")
        for row in rows:
            if str(row[4]).startswith("Binlog Dump"):
                with contextlib.suppress(pymysql.err.Error):  # it ended by itself
                    self._server.execute(f"KILL {row[0]}")
        self.found.counts["cuts"] += 1

    def _kill(self) -> None:
        killed = self._loops[1]
        killed.kill(self._bound)
        self.found.counts["SIGKILLs"] += 1

    def _sample(self, sampled: Callable[[Soaked], None]) -> None:
        hours = self._now() / 3600
        self.found.hours = hours
        assert self._writer is not None and (self._writer.is_alive() or self._writer.error is None)
        for loop in self._loops:
            said = loop.look()
            if said:
                lag, last = tuple(said["lags"]), int(said["last"])
                self._add(hours, loop.name, loop.pid, lag, loop.checkpoint, last)
        daemon = self._daemon
        if daemon is not None and daemon.process is not None:
            assert daemon.process.poll() is None, daemon.tail()
            route = daemon.status()["routes"][0]
            lag = (int(route["lag_seconds"] * 1000),) * 3
            size = _size(daemon.directory / "state", "")
            self._add(hours, "service", daemon.process.pid, lag, size, int(route["rows"]))
        sampled(self.found)

    def _add(
        self, hours: float, name: str, pid: int, lag: tuple[int, ...], size: int, done: int
    ) -> None:
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        lags = lag[0], lag[1], lag[2]
        memory, cpu = _resident(pid), _processor(pid)
        self.found.samples.append(Sample(hours, name, memory, descriptors, lags, size, cpu, done))

    def _end(self) -> None:
        """Everything that was written came everywhere."""
        assert self._writer is not None
        self.found.rows = self._writer.stop()
        for loop in self._loops:
            loop.reach(self.found.rows)
        if self._daemon is not None:
            assert self._daemon.stop() == 0, self._daemon.tail()
