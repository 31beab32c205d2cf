"""How far behind a real source each interface is: iterators, ``changes --json`` and the service's sinks.

Used by scripts/benchmarks/service_lag. The server writes rows at a rate, with the time. What an iterator gives is
timed where it is given; lines and rows of sinks are timed when another process of the machine sees them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration import lag_readers
from tests.integration.daemon_process import DaemonProcess
from tests.integration.saving_proof import Lags, Writer
from tests.servers.local import LocalServer

SINKS = ("file", "sqlite", "mysql")
READERS = ("transactions", "batches", "python-mysql-replication")
KINDS = ("transactions", "batches", "changes", *SINKS, "file+file", "file+sqlite", READERS[2])
_AFTER_SECONDS = 2.0


class Watch(threading.Thread):
    """Looks what arrived, again and again, and keeps when.

    Attributes:
        found: times of rows, with the time at which they were seen.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.halt = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.watch()
        except BaseException as error:
            self.error = error

    def watch(self) -> None:
        """Look until :attr:`halt` is set."""
        raise NotImplementedError

    def lags(self) -> list[float]:
        """Seconds between the writing of a row and its arrival."""
        raise NotImplementedError


class LineWatch(Watch):
    """Reads lines as they come, from a pipe or the files of a file sink.

    Args:
        pipe: of a process.
        directory: of a file sink.
    """

    def __init__(self, *, pipe: int | None = None, directory: Path | None = None) -> None:
        super().__init__()
        self._pipe, self._directory = pipe, directory
        self._chunks: list[tuple[float, bytes]] = []

    def watch(self) -> None:
        file, number, checked = self._pipe, 0, 0.0
        while not self.halt.is_set():
            data = b"" if file is None else os.read(file, 1 << 20)
            if data:
                self._chunks.append((time.time(), data))
                continue
            if self._directory is None:
                return
            if time.monotonic() - checked > 0.1:
                checked = time.monotonic()
                following = self._directory / f"changes-{number + 1:06d}.jsonl"
                if following.exists():
                    if file is not None:
                        os.close(file)
                    file, number = os.open(following, os.O_RDONLY), number + 1
            time.sleep(0.005)

    def lags(self) -> list[float]:
        found, rest = [], b""
        for came, data in self._chunks:
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            found += [came - json.loads(line)["after"]["at"] for line in lines]
        return found


class TableWatch(Watch):
    """Asks a mirror for the rows that are new."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[tuple[float, float]] = []
        self._last = 0

    def watch(self) -> None:
        with self.connected() as ask:
            while not self.halt.is_set():
                rows = ask(self._last)
                now = time.time()
                self._seen += [(now, at) for _, at in rows]
                if rows:
                    self._last = rows[-1][0]
                else:
                    time.sleep(0.01)

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """A function that gives the rows behind an id."""
        raise NotImplementedError

    def lags(self) -> list[float]:
        return [came - at for came, at in self._seen]


class SqliteWatch(TableWatch):
    """Of a SQLite mirror."""

    def __init__(self, path: Path, database: str) -> None:
        super().__init__()
        self._path = path
        self._sql = f'SELECT id, at FROM "{database}.t" WHERE id > ? ORDER BY id'

    @contextmanager
    def connected(self) -> Iterator[Any]:
        connection = sqlite3.connect(self._path, check_same_thread=False)

        def ask(last: int) -> Sequence[tuple[int, float]]:
            try:
                return connection.execute(self._sql, (last,)).fetchall()
            except sqlite3.OperationalError:
                return ()  # the table is not there yet

        try:
            yield ask
        finally:
            connection.close()


class MysqlWatch(TableWatch):
    """Of a mirror on a server."""

    def __init__(self, target: LocalServer, database: str) -> None:
        super().__init__()
        self._target, self._database = target, database

    @contextmanager
    def connected(self) -> Iterator[Any]:
        import pymysql

        with (
            self._target.connected(autocommit=True) as connection,
            connection.cursor() as cursor,
        ):

            def ask(last: int) -> Sequence[tuple[int, float]]:
                try:
                    cursor.execute(
                        f"SELECT id, at FROM {self._database}.t WHERE id > %s ORDER BY id", (last,)
                    )
                except pymysql.MySQLError:
                    return ()
                rows: Sequence[tuple[int, float]] = cursor.fetchall()
                return rows

            yield ask


def measure(
    server: LocalServer,
    directory: Path,
    kind: str,
    *,
    rate: int,
    seconds: float,
    target: LocalServer | None = None,
    peer_python: str = sys.executable,
    batch_seconds: float | None = None,
) -> list[Lags]:
    """Measure one interface while the server writes at a rate.

    Args:
        server: the source.
        directory: that is empty.
        kind: one of :data:`KINDS`.
        rate: transactions a second; 0 for as many as there can be.
        seconds: how long.
        target: where the ``mysql`` mirror is.
        peer_python: that has python-mysql-replication.
        batch_seconds: of the sinks.

    Returns:
        what each sink showed, or the one reader.
    """
    name = "".join(one if one.isalnum() else "_" for one in kind)
    writer = Writer(server, f"lag_{name}_{rate}", rate)
    if kind in READERS:
        python = peer_python if kind == READERS[2] else sys.executable
        return [_read(writer, kind, python, seconds)]
    if kind == "changes":
        return [_changes(writer, seconds)]
    return _serve(writer, directory, kind.split("+"), seconds, target, batch_seconds)


def _read(writer: Writer, kind: str, python: str, seconds: float) -> Lags:
    command = [python, lag_readers.__file__, kind, writer.server.url(), writer.database]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [*command, str(seconds)], stdout=subprocess.PIPE, env=environment, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
        # It reads no rows before there are some, and to their end where it is behind.
        writer.start()
        found = json.loads(reader.stdout.readline())
        writer.stop()
    return Lags(kind, seconds, found["lags"], found["cpu"])


def _changes(writer: Writer, seconds: float) -> Lags:
    command = [sys.executable, "-m", "replica_client", "changes", writer.server.url(), "--json"]
    with subprocess.Popen(
        [*command, "--tables", f"{writer.database}.t", "--start", "latest"], stdout=subprocess.PIPE
    ) as client:
        assert client.stdout is not None
        watch = LineWatch(pipe=client.stdout.fileno())
        watch.start()
        asked = "SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
        while not writer.server.query(asked):
            assert client.poll() is None, "it ended by itself"
            time.sleep(0.1)
        begun = _cpu(client.pid)
        _write(writer, seconds)
        cpu = _cpu(client.pid) - begun
        client.terminate()
        watch.join(10)
    return Lags("changes --json", seconds, _lags(watch), cpu)


def _serve(
    writer: Writer,
    directory: Path,
    types: list[str],
    seconds: float,
    target: LocalServer | None,
    batch_seconds: float | None,
) -> list[Lags]:
    source = {"name": "shop", "url": writer.server.url(), "tables": [f"{writer.database}.t"]}
    sinks: list[dict[str, Any]] = []
    watches: list[Watch] = []
    for number, kind in enumerate(types):
        sink: dict[str, Any] = {"name": f"{kind}{number}", "type": kind}
        if batch_seconds is not None:
            sink["batch_seconds"] = batch_seconds
        path = directory / f"sink{number}"
        if kind == "mysql":
            assert target is not None
            sink["url"] = target.url("root")
            # What a run before left is another source's position.
            sink["state_database"] = f"state_{writer.database}"
            watches.append(MysqlWatch(target, writer.database))
        else:
            sink["path"] = str(path)
            watches.append(
                LineWatch(directory=path) if kind == "file" else SqliteWatch(path, writer.database)
            )
        if kind != "file":
            sink["unknown_tables"] = "create"
        sinks.append(sink)
    service = DaemonProcess(directory, source, sinks)
    service.start()
    try:
        service.until(
            lambda one: all(route["state"] == "streaming" for route in one.status()["routes"])
        )
        assert service.process is not None
        begun = _cpu(service.process.pid)
        for watch in watches:
            watch.start()
        _write(writer, seconds)
        cpu = _cpu(service.process.pid) - begun
        for watch in watches:
            watch.halt.set()
            watch.join(10)
    finally:
        service.stop()
    with_others = " of " + "+".join(types) if len(types) > 1 else ""
    return [
        Lags(f"service, {kind} sink{with_others}", seconds, _lags(watch), cpu)
        for kind, watch in zip(types, watches, strict=True)
    ]


def _write(writer: Writer, seconds: float) -> None:
    writer.start()
    time.sleep(seconds)
    writer.stop()
    time.sleep(_AFTER_SECONDS)


def _lags(watch: Watch) -> list[float]:
    if watch.error is not None:
        raise watch.error
    return watch.lags()


def _cpu(pid: int) -> float:
    """Seconds of processor that a process took."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
