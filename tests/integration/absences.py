"""A source that is restarted after minutes, under each way to follow it: nothing may be lost, nothing may end."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import replica_client as rc
from replica_client.protocol.constants.event_types import EventType
from tests import processes
from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

TABLE = "absence.t"
_COMMITS = {EventType.XID_EVENT}


class Follower:
    """One way to follow the source, in a thread or a process.

    Attributes:
        name: of the way.
        seen: the ids that came, in order.
        ended: why it ended; None while it goes on.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen: list[int] = []
        self.ended: str | None = None


class Threaded(Follower):
    """A way of the Python API."""

    def __init__(self, name: str, read: Callable[[Follower, threading.Event], None]) -> None:
        super().__init__(name)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(read,), daemon=True)
        self._thread.start()

    def _run(self, read: Callable[[Follower, threading.Event], None]) -> None:
        try:
            read(self, self._stopping)
            if not self._stopping.is_set():
                self.ended = "the iterator ended"
        except Exception as error:
            self.ended = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """Stop the way."""
        self._stopping.set()
        self._thread.join(30)


class Written(Follower):
    """A process that writes changes as lines of JSON."""

    def __init__(self, name: str, process: subprocess.Popen[Any], directory: Path) -> None:
        super().__init__(name)
        self._process, self._directory = process, directory

    def read(self) -> None:
        """Read again what was written."""
        lines: list[int] = []
        for file in sorted(self._directory.rglob("*")):
            if file.is_file():
                for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                    if line.startswith("{") and '"after"' in line:
                        with suppress(ValueError):
                            lines.append(json.loads(line)["after"]["id"])
        self.seen = lines
        if self._process.poll() is not None:
            self.ended = f"status {self._process.returncode}"


def _asynchronous(
    url: str, read: Callable[[Any, list[int]], Coroutine[Any, Any, None]]
) -> Callable[[Follower, threading.Event], None]:
    def run(follower: Follower, stopping: threading.Event) -> None:
        async def main() -> None:
            async with rc.connect(url, tables=[TABLE]) as stream:
                reading = asyncio.ensure_future(read(stream, follower.seen))
                while not reading.done() and not stopping.is_set():  # noqa: ASYNC110
                    await asyncio.sleep(0.2)
                if stopping.is_set():
                    reading.cancel()
                    await asyncio.gather(reading, return_exceptions=True)
                else:
                    await reading

        asyncio.run(main())

    return run


async def _transactions(stream: Any, seen: list[int]) -> None:
    async for transaction in stream.transactions():
        seen += [change.after["id"] for change in transaction.changes]


async def _changes(stream: Any, seen: list[int]) -> None:
    async for change in stream.changes():
        seen.append(change.after["id"])


async def _batches(stream: Any, seen: list[int]) -> None:
    async for batch in stream.batches(max_seconds=0.2):
        seen += batch.column("id").to_pylist()


async def _events(stream: Any, seen: list[int]) -> None:
    async for event in stream.events():
        if event.header.type_code in _COMMITS:
            seen.append(len(seen) + 1)


async def _with_timeouts(stream: Any, seen: list[int]) -> None:
    changes = stream.changes()
    while True:
        try:
            async with asyncio.timeout(0.5):
                seen.append((await anext(changes)).after["id"])
        except TimeoutError:
            continue


def _close_when(stopping: threading.Event, stream: rc.FollowedSource) -> None:
    stopping.wait()
    stream.close()


def _plain(
    url: str, read: Callable[[Any, list[int], threading.Event], None]
) -> Callable[[Follower, threading.Event], None]:
    def run(follower: Follower, stopping: threading.Event) -> None:
        with rc.follow(url, tables=[TABLE]) as stream:
            threading.Thread(target=_close_when, args=(stopping, stream), daemon=True).start()
            read(stream, follower.seen, stopping)

    return run


def _plain_transactions(stream: Any, seen: list[int], stopping: threading.Event) -> None:
    for transaction in stream.transactions():
        seen += [change.after["id"] for change in transaction.changes]


def _plain_timeouts(stream: Any, seen: list[int], stopping: threading.Event) -> None:
    for change in stream.changes(timeout=0.5):
        if change is not None:
            seen.append(change.after["id"])


def _plain_get(stream: Any, seen: list[int], stopping: threading.Event) -> None:
    while not stopping.is_set():
        change = stream.get(timeout=0.5)
        if change is not None:
            seen.append(change.after["id"])


ASYNCHRONOUS = {
    "connect().transactions()": _transactions,
    "connect().changes()": _changes,
    "connect().batches()": _batches,
    "connect().events()": _events,
    "connect().changes(), asyncio.timeout": _with_timeouts,
}
PLAIN = {
    "follow().transactions()": _plain_transactions,
    "follow().changes(timeout=)": _plain_timeouts,
    "follow().get(timeout=)": _plain_get,
}


class Absence:
    """All ways at one source.

    Args:
        server: a server of the test's own.
        directory: for output.
    """

    def __init__(self, server: LocalServer, directory: Path) -> None:
        self._server, self._next = server, 1
        self._closing = ExitStack()
        server.execute("CREATE DATABASE absence")
        server.execute(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY)")
        url = server.url()
        self.followers: list[Follower] = []
        for name, read in ASYNCHRONOUS.items():
            self._add(Threaded(name, _asynchronous(url, read)))
        for name, plain in PLAIN.items():
            self._add(Threaded(name, _plain(url, plain)))
        written = directory / "changes"
        written.mkdir()
        with (written / "out").open("w") as out, (directory / "said").open("w") as said:
            command = [sys.executable, "-m", "replica_client", "changes", url, "--json"]
            command += ["--table", TABLE, "--position-file", str(directory / "position")]
            process = processes.Popen(command, stdout=out, stderr=said)
        self._closing.callback(process.wait)
        self._closing.callback(process.kill)
        self.followers.append(Written("replica-client changes", process, written))
        daemon = DaemonProcess(
            directory,
            {"name": "shop", "url": url, "tables": [TABLE]},
            [{"type": "file", "path": directory / "file"}],
        )
        daemon.start()
        self._closing.callback(daemon.close)
        assert daemon.process is not None
        self.followers.append(Written("replica-client run", daemon.process, directory / "file"))
        self._wait(self._all_connected, 240, "not all connected")

    def _add(self, follower: Threaded) -> None:
        self.followers.append(follower)
        self._closing.callback(follower.close)

    def _all_connected(self) -> bool:
        dumps = self._server.query(
            "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%%'"
        )
        return int(dumps[0][0]) >= len(self.followers)

    def _wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"{what}: {self.state()}")
            time.sleep(0.1)

    def state(self) -> dict[str, object]:
        """Return the number of ids of each way, or why it ended."""
        return {one.name: one.ended or len(one.seen) for one in self.followers}

    def write(self, count: int) -> None:
        """Write rows, and wait until each way has them."""
        for _ in range(count):
            self._server.execute(f"INSERT INTO {TABLE} VALUES ({self._next})")
            self._next += 1
        wanted = list(range(1, self._next))

        def complete() -> bool:
            for one in self.followers:
                if isinstance(one, Written):
                    one.read()
                assert one.ended is None, f"{one.name}: {one.ended}"
                assert one.seen == wanted[: len(one.seen)], f"{one.name}: {one.seen}"
            return all(one.seen == wanted for one in self.followers)

        self._wait(complete, 120, "not all there")

    def restart(self, seconds: float, *, kill: bool) -> None:
        """Take the source down, and start it after a time."""
        if kill:
            self._server.kill()
        else:
            self._server.execute("SHUTDOWN")
            self._server.disconnect()
        # No other server may take the port meanwhile: what is bound and does not listen refuses connections.
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._wait(lambda: self._holds(held), 60, "the server does not end")
            time.sleep(seconds)
        self._server.restart()

    def _holds(self, held: socket.socket) -> bool:
        try:
            held.bind((self._server.host, self._server.port))
        except OSError:
            return False
        return True

    def freeze(self, seconds: float) -> None:
        """Freeze the source: connections stay open, and nothing comes."""
        self._server.suspend()
        time.sleep(seconds)
        self._server.resume()

    def close(self) -> None:
        """Stop all ways."""
        self._closing.close()
