"""What may happen to a source while it is followed, on real servers.

Used by scripts/proofs/failures and by test_failures.py. Each scene writes to a table all the time,
follows it, lets something happen to the source, and compares at the end: the rows that were delivered
are the table's, each once.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import os
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pymysql

import replica_client as rc
from tests.servers.local import LocalServer

HEARTBEAT = 0.7
DETECTION = 3 * HEARTBEAT
POLICY = rc.ReconnectPolicy(first_delay=0.1, max_delay=0.5, attempts=200)
DATABASE = "scene"
_GONE = (pymysql.err.Error, OSError)


class Writer:
    """Inserts rows with growing ids, some as transactions of several, until it is stopped."""

    def __init__(self, server: LocalServer) -> None:
        self.server = server
        self.next_id = 1
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        connection: Any = None
        while not self._stop.is_set():
            try:
                if connection is None:
                    connection = self.server.connect(
                        autocommit=False, connect_timeout=1, read_timeout=5
                    )
                with connection.cursor() as cursor:
                    for _ in range(1 + self.next_id % 3):
                        cursor.execute(
                            f"INSERT INTO {DATABASE}.t VALUES (%s, %s)",
                            (self.next_id, f"row {self.next_id}"),
                        )
                        self.next_id += 1
                connection.commit()
            except _GONE:
                # Whether the last one was committed is not known: its ids are not used again.
                self.next_id += 10
                connection = None
                self._stop.wait(0.1)
            self._stop.wait(0.01)


@dataclass
class Follower:
    """A stream in a task of its own, and what it delivered.

    Attributes:
        rows: ids in the order of delivery.
        error: what ended it.
        times: when connections were lost and others begun, by the loop's clock.
    """

    url: Any
    options: dict[str, Any] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)
    error: BaseException | None = None
    stream: rc.SourceStream | None = None
    task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Follower:
        ready = asyncio.Event()
        self.task = asyncio.create_task(self._run(ready))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((self.task, waiting), return_when=asyncio.FIRST_COMPLETED, timeout=30)
        waiting.cancel()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self, ready: asyncio.Event) -> None:
        settings = {
            "start": "latest",
            "tables": f"{DATABASE}.t",
            "heartbeat_period": HEARTBEAT,
            "reconnect": POLICY,
            **self.options,
        }
        try:
            async with rc.connect(self.url, **settings) as self.stream:
                ready.set()
                async for transaction in self.stream.transactions():
                    self.rows += [change.after[0] for change in transaction.changes]
        except asyncio.CancelledError:
            raise
        except rc.ReplicaClientError as error:
            self.error = error

    @property
    def generation(self) -> int:
        return self.stream.generation if self.stream is not None else 0

    async def until(self, condition: Callable[[], bool], seconds: float) -> float:
        """Wait; says how long it took."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while not condition():
            if loop.time() - begun > seconds:
                raise AssertionError(
                    f"not within {seconds} s; {len(self.rows)} rows, generation {self.generation}, "
                    f"error {self.error!r}"
                )
            await asyncio.sleep(0.02)
        return loop.time() - begun

    async def has_all(self, server: LocalServer, seconds: float = 60) -> None:
        """Wait until the last row of the table is here, then compare all."""
        ids = [row[0] for row in await asyncio.to_thread(_ids, server)]
        await self.until(lambda: bool(self.error) or self.rows[-1:] == ids[-1:], seconds)
        if self.error is not None:
            raise self.error
        assert self.rows == ids, _difference(self.rows, ids)


def _ids(server: LocalServer) -> list[tuple[Any, ...]]:
    server.disconnect()
    return server.query(f"SELECT id FROM {DATABASE}.t ORDER BY id")


def _difference(got: list[int], wanted: list[int]) -> str:
    lost = sorted(set(wanted) - set(got))
    more = sorted(set(got) - set(wanted))
    return (
        f"lost {lost[:10]}, not in the table {more[:10]}, twice {len(got) - len(set(got))}, "
        f"{len(got)} rows instead of {len(wanted)}"
    )


def prepare(server: LocalServer) -> None:
    server.execute(f"CREATE DATABASE {DATABASE}")
    server.execute(f"CREATE TABLE {DATABASE}.t (id INT PRIMARY KEY, s VARCHAR(40)) CHARSET utf8mb4")


Scene = Callable[[LocalServer], Awaitable[str]]


async def _disturbed(
    server: LocalServer, disturb: Callable[[Follower], Awaitable[float]], what: str
) -> str:
    """Writes and follows, disturbs, and compares; ``disturb`` says how long detection took."""
    prepare(server)
    async with Follower(server.url()) as follower:
        with Writer(server) as writer:
            await follower.until(lambda: len(follower.rows) > 50, 60)
            before = follower.generation
            detected = await disturb(follower)
            seen = len(follower.rows)
            await follower.until(lambda: bool(follower.error) or len(follower.rows) > seen + 50, 60)
            await asyncio.to_thread(writer.stop)
        await follower.has_all(server)
        assert follower.generation > before
        return (
            f"{what}: noticed after {detected:.1f} s (heartbeat {HEARTBEAT} s), {follower.generation} "
            f"connections, {len(follower.rows)} rows, all of the table's, each once"
        )


async def stopped(server: LocalServer) -> str:
    """SIGSTOP: the connection stays open and nothing comes."""

    async def disturb(follower: Follower) -> float:
        loop = asyncio.get_running_loop()
        assert follower.stream is not None
        link = follower.stream._link
        await asyncio.to_thread(server.suspend)
        begun = loop.time()
        try:
            await follower.until(lambda: link.dump is None, DETECTION + 10)
            return loop.time() - begun
        finally:
            await asyncio.sleep(1)
            server.resume()

    return await _disturbed(server, disturb, "SIGSTOP and SIGCONT")


async def killed(server: LocalServer) -> str:
    """SIGKILL, and started again."""

    async def disturb(follower: Follower) -> float:
        assert follower.stream is not None
        link = follower.stream._link
        await asyncio.to_thread(server.kill)
        took = await follower.until(lambda: link.dump is None, DETECTION + 10)
        await asyncio.to_thread(server.restart)
        return took

    return await _disturbed(server, disturb, "SIGKILL and start")


async def restarted(server: LocalServer) -> str:
    """An orderly shutdown, and started again."""

    async def disturb(follower: Follower) -> float:
        before = follower.generation
        begun = time.monotonic()
        await asyncio.to_thread(server.restart)
        await follower.until(lambda: bool(follower.error) or follower.generation > before, 60)
        return time.monotonic() - begun

    return await _disturbed(server, disturb, "shutdown and start (time until it was back)")


async def connection_killed(server: LocalServer) -> str:
    """KILL of our dump by an administrator."""

    async def disturb(follower: Follower) -> float:
        before = follower.generation
        begun = time.monotonic()
        for number in dumps(server):
            await asyncio.to_thread(server.execute, f"KILL {number}")
        await follower.until(lambda: bool(follower.error) or follower.generation > before, 60)
        return time.monotonic() - begun

    return await _disturbed(server, disturb, "KILL of the dump")


def dumps(server: LocalServer) -> list[int]:
    """Connection ids of the dump threads on a server."""
    rows = server.query("SHOW PROCESSLIST")
    return [int(row[0]) for row in rows if str(row[4]).startswith("Binlog Dump")]


async def purged(server: LocalServer) -> str:
    """While there is no connection, the files that are needed next are purged."""
    prepare(server)
    uuid = str(server.query("SELECT @@server_uuid")[0][0]) if server.flavor == "mysql" else "domain"
    async with rc.connect(server.url(), start="latest") as stream:
        at = stream.position
    server.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 'lost')")
    server.rotate()
    server.execute(f"INSERT INTO {DATABASE}.t VALUES (2, 'kept')")
    if server.flavor == "mariadb" and server.version >= (11, 4):
        server.execute("SET GLOBAL slave_connections_needed_for_purge = 0")
    for _ in range(100):  # a file is kept while the dump that was closed reads it
        for number in dumps(server):
            server.execute(f"KILL {number}")
        server.execute(f"PURGE BINARY LOGS TO '{server.binlog_files()[-1]}'")
        if len(server.binlog_files()) == 1:
            break
        await asyncio.sleep(0.1)
    for start in (at, rc.Position(at.file, at.offset)):
        async with Follower(server.url(), {"start": start}) as follower:
            await follower.until(lambda: follower.error is not None, 60)
            assert isinstance(follower.error, rc.ServerError), follower.error
            assert not follower.rows
            text = str(follower.error)
            if start is at and server.flavor == "mysql":
                assert uuid in text, text
    return f"purged: stopped, nothing delivered: {text[:140]}"


def _begin_binlog_anew(server: LocalServer) -> None:
    time.sleep(1.1)  # marks of files count seconds
    server.reset_binlog()


async def reset(server: LocalServer) -> str:
    """The binlog is restarted while it is followed."""
    prepare(server)
    async with Follower(server.url()) as follower:
        server.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 'before')")
        server.execute(f"INSERT INTO {DATABASE}.t VALUES (2, 'before')")
        await follower.until(lambda: len(follower.rows) == 2, 60)
        await asyncio.to_thread(_begin_binlog_anew, server)
        for number in dumps(server):
            with contextlib.suppress(pymysql.err.Error):  # it ended by itself
                server.execute(f"KILL {number}")
        await follower.until(lambda: follower.error is not None, 60)
        error = follower.error
        assert isinstance(error, rc.ReplicaClientError), error
        assert not isinstance(error, rc.TransportError), error
        assert follower.rows == [1, 2]
        return f"reset: stopped with {type(error).__name__}: {error!s:.150}"


async def reset_away(server: LocalServer, *, by_gtid: bool) -> str:
    """Nobody follows while the binlog is restarted and grows beyond where the reader was."""
    prepare(server)
    server.rotate()
    server.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 'before')")
    file, offset = server.binlog_position()
    store = rc.MemoryPositionStore()
    options: dict[str, Any] = {"position_store": store, "heartbeat_period": HEARTBEAT}
    start = "latest" if by_gtid else f"{file}:{offset}"
    async with rc.connect(server.url(), start=start, **options) as stream:
        server.execute(f"INSERT INTO {DATABASE}.t VALUES (2, 'before')")
        async for transaction in stream.transactions():
            await stream.acknowledge(transaction.position)
            at = transaction.position
            break
    assert bool(at.gtid_set) == by_gtid, at
    await asyncio.to_thread(_begin_binlog_anew, server)
    # As many files and transactions as before, and more.
    for number in range(3, 60):
        server.execute(f"INSERT INTO {DATABASE}.t VALUES ({number}, 'after')")
        if number % 10 == 0:
            server.rotate()
            server.execute(f"INSERT INTO {DATABASE}.t VALUES ({1000 + number}, '{'x' * 40}')")
    async with Follower(server.url(), options) as follower:
        await follower.until(lambda: follower.error is not None or bool(follower.rows), 60)
        error = follower.error
        assert not follower.rows, follower.rows
        assert isinstance(error, rc.SourceChangedError), error
    return f"reset and grown while away: refused with {type(error).__name__}: {error!s:.150}"


async def failover(source: LocalServer, replica: LocalServer) -> str:
    """The source dies for good, its replica is promoted and written to."""
    prepare(source)
    replica.execute(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST=%s, SOURCE_PORT=%s, SOURCE_USER=%s, "
        "SOURCE_PASSWORD=%s, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, "
        "SOURCE_CONNECT_RETRY=1",
        (source.host, source.port, source.user, source.password),
    )
    replica.execute("START REPLICA")
    url = [source.url(), replica.url()]
    async with Follower(url) as follower:
        with Writer(source) as writer:
            await follower.until(lambda: len(follower.rows) > 200, 60)
            await asyncio.to_thread(writer.stop)
        executed = source.query("SELECT @@global.gtid_executed")[0][0]
        waited = replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", (executed,))
        assert waited[0][0] == 0, replica.query("SHOW REPLICA STATUS")
        await asyncio.to_thread(source.kill)
        begun = time.monotonic()
        replica.execute("STOP REPLICA")
        replica.execute("RESET REPLICA ALL")
        with Writer(replica) as writer:
            writer.next_id = 100_000
            await follower.until(lambda: follower.rows[-1] >= 100_100, 60)
            took = time.monotonic() - begun
            await asyncio.to_thread(writer.stop)
        await follower.has_all(replica)
        assert follower.stream is not None
        assert follower.stream.server is not None
        uuid = replica.query("SELECT @@server_uuid")[0][0]
        assert follower.stream.server.server_uuid == uuid
        return (
            f"failover: followed the promoted replica after {took:.1f} s, {len(follower.rows)} rows, all of "
            "its table, each once"
        )


async def lagging(source: LocalServer, replica: LocalServer) -> str:
    """The source dies before its replica has everything that we have."""
    prepare(source)
    replica.execute(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST=%s, SOURCE_PORT=%s, SOURCE_USER=%s, "
        "SOURCE_PASSWORD=%s, SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1",
        (source.host, source.port, source.user, source.password),
    )
    replica.execute("START REPLICA")
    executed = source.query("SELECT @@global.gtid_executed")[0][0]
    assert replica.query("SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30)", (executed,))[0][0] == 0
    policy = rc.ReconnectPolicy(first_delay=0.1, max_delay=0.2, attempts=4)
    url = [source.url(), replica.url()]
    async with Follower(url, {"reconnect": policy}) as follower:
        replica.execute("STOP REPLICA")
        uuid = source.query("SELECT @@server_uuid")[0][0]
        last = rc.GtidSet.parse(str(executed)).count if executed else 0
        for number in range(1, 6):
            source.execute(f"INSERT INTO {DATABASE}.t VALUES ({number}, 'only here')")
        await follower.until(lambda: len(follower.rows) == 5, 60)
        await asyncio.to_thread(source.kill)
        await follower.until(lambda: follower.error is not None, 60)
        error = follower.error
        missing = getattr(error, "missing", "")
        assert missing == f"{uuid}:{last + 1}-{last + 5}", (error, missing, executed)
        return f"lagging replica: refused, missing {missing}"


# Namespaces.

_CLONE_NEWNET = 0x40000000
_HOST_SIDE, _INNER_SIDE = "10.231.77.1", "10.231.77.2"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


@contextmanager
def network_namespace() -> Iterator[str]:
    """A network namespace joined to this one by a pair of interfaces; gone at the end."""
    name = f"rc{os.getpid()}"
    outside, inside = f"{name}a", f"{name}b"
    _ip("netns", "add", name)
    try:
        _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", name)
        _ip("addr", "add", f"{_HOST_SIDE}/30", "dev", outside)
        _ip("link", "set", outside, "up")
        for command in (
            ("addr", "add", f"{_INNER_SIDE}/30", "dev", inside),
            ("link", "set", inside, "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", name, *command)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=10)
        subprocess.run(["ip", "link", "del", outside], check=False, capture_output=True, timeout=10)


@contextmanager
def black_hole() -> Iterator[None]:
    """Packets from here to the namespace are dropped without a word."""
    route = ("route", "add", "blackhole", f"{_INNER_SIDE}/32")
    _ip(*route)
    try:
        yield
    finally:
        _ip("route", "del", "blackhole", f"{_INNER_SIDE}/32")


def run_inside(namespace: str, work: Callable[[], Any]) -> Any:
    """Call something in a thread whose sockets are in a network namespace."""
    result: list[Any] = []

    def enter() -> None:
        library = ctypes.CDLL(None, use_errno=True)
        with open(f"/var/run/netns/{namespace}") as handle:
            if library.setns(handle.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        try:
            result.append((work(), None))
        except BaseException as error:
            result.append((None, error))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(180)
    if not result:
        raise TimeoutError("the work in the network namespace did not end")
    value, error = result[0]
    if error is not None:
        raise error
    return value


def black_holed(server: LocalServer) -> str:
    """The route drops packets for a while; the server must listen on all addresses."""
    prepare(server)
    # Threads are in the namespace of those that begin them, so this one is begun here.
    with (
        network_namespace() as namespace,
        ThreadPoolExecutor(1) as outside,
        Writer(server) as writer,
    ):
        outside.submit(server.query, "SELECT 1").result()
        url = server.url().replace(f"@{server.host}:", f"@{_HOST_SIDE}:") + "?connect_timeout=1"
        work = functools.partial(_black_holed_inside, server, url, writer, outside)
        return str(run_inside(namespace, lambda: asyncio.run(work())))


async def _black_holed_inside(
    server: LocalServer, url: str, writer: Writer, outside: ThreadPoolExecutor
) -> str:
    asyncio.get_running_loop().set_default_executor(outside)
    async with Follower(url) as follower:
        await follower.until(lambda: len(follower.rows) > 50, 60)
        assert follower.stream is not None
        link = follower.stream._link
        before = follower.generation
        hole = black_hole()
        await asyncio.to_thread(hole.__enter__)
        try:
            took = await follower.until(lambda: link.dump is None, DETECTION + 10)
            await asyncio.sleep(2)
            seen = len(follower.rows)
        finally:
            await asyncio.to_thread(hole.__exit__, None, None, None)
        await follower.until(lambda: bool(follower.error) or len(follower.rows) > seen + 50, 60)
        await asyncio.to_thread(writer.stop)
        first = follower.rows[0]
        ids = [row[0] for row in await asyncio.to_thread(_ids, server) if row[0] >= first]
        await follower.until(lambda: bool(follower.error) or follower.rows[-1] == ids[-1], 60)
        assert follower.rows == ids, _difference(follower.rows, ids)
        assert follower.generation > before
        await asyncio.sleep(0.5)
        threads = len(await asyncio.to_thread(dumps, server))
        assert threads == 1, f"{threads} dump threads"
        return (
            f"black-holed route: noticed after {took:.1f} s (heartbeat {HEARTBEAT} s), "
            f"{len(follower.rows)} rows, all of the table's, each once; one dump thread at the end"
        )
