"""Connections that are lost while a table's shape is being proven."""

from __future__ import annotations

import asyncio
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pymysql
import pytest

import replica_client as rc
from replica_client.errors import TransportError
from replica_client.stream.transport.connect_options import parse_url

FAST = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)


@dataclass
class Cuts:
    """What a proxy does to its connections, by number.

    Attributes:
        after: bytes from the server after which a connection is cut.
        gates: what connections wait for before they reach the server.
        seen: bytes that each connection got.
    """

    after: dict[int, int] = field(default_factory=dict)
    gates: dict[int, threading.Event] = field(default_factory=dict)
    seen: list[int] = field(default_factory=list)


@contextmanager
def _proxy(server: Any, cuts: Cuts) -> Iterator[str]:
    """A proxy of plain sockets in threads, each connection closed by its own."""
    lock = threading.Lock()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with lock:
                number = len(cuts.seen)
                cuts.seen.append(0)
            limit = cuts.after.get(number, 1 << 60)
            if number in cuts.gates:
                cuts.gates[number].wait(30)
            with socket.create_connection((server.host, server.port)) as up:
                sender = threading.Thread(target=_pump, args=(self.request, up, 1 << 60))
                sender.start()
                for size in _pump(up, self.request, limit):
                    cuts.seen[number] += size
                for one in (up, self.request):
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                sender.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = False
        thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
        thread.start()
        direct = parse_url(server.url())
        port = listener.server_address[1]
        try:
            yield server.url().replace(f"{direct.host}:{direct.port}", f"127.0.0.1:{port}")
        finally:
            listener.shutdown()
            thread.join()


def _pump(source: socket.socket, target: socket.socket, limit: int) -> list[int]:
    """Forward up to a limit of bytes, or to the end; the sizes of what went."""
    sizes = []
    with suppress(OSError):
        while limit > 0 and (data := source.recv(min(4096, limit))):
            target.sendall(data)
            limit -= len(data)
            sizes.append(len(data))
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)  # an idle dump would notice with its next heartbeat
    return sizes


async def _rows(url: str, **options: Any) -> list[dict[str, object]]:
    async with (
        asyncio.timeout(60),
        rc.connect(url, stop_at_end=True, reconnect=FAST, **options) as stream,
    ):
        return [change.after.as_dict() async for change in stream.changes()]


def _source(fresh_server: Any, name: str) -> tuple[Any, dict[str, str]]:
    """A server with a table that the binlog does not tell, and how to read its row."""
    option = {
        "mysql-9.7": ["binlog-row-metadata=MINIMAL"],
        "mariadb-11.8": ["binlog-row-metadata=MINIMAL"],
        "mariadb-10.11": ["binlog-row-metadata=NO_LOG"],
    }
    source = fresh_server(name, option.get(name, []))
    source.execute("CREATE DATABASE d")
    source.execute("CREATE TABLE d.t (id INT, word VARCHAR(9)) CHARSET utf8mb4")
    file, offset = source.binlog_position()
    source.execute("INSERT INTO d.t VALUES (1, 'ä')")
    return source, {"start": f"{file}:{offset}", "tables": "d.*"}


@pytest.mark.parametrize("name", ["mysql-9.7", "mysql-5.6", "mariadb-10.11", "mariadb-11.8"])
async def test_a_proof_is_tried_again(fresh_server, name: str) -> None:
    """Every connection of the proof is cut, at its login and in its midst."""
    source, options = _source(fresh_server, name)
    expected = [{"id": 1, "word": "ä"}]
    whole = Cuts()
    with _proxy(source, whole) as url:
        assert await _rows(url, **options) == expected
    # The first connection becomes the stream; the others look at the table, and read the binlog.
    assert len(whole.seen) >= 3
    for number in range(1, len(whole.seen)):
        size = whole.seen[number]
        for after in (1, size // 3, size * 2 // 3):
            cuts = Cuts({number: after})
            with _proxy(source, cuts) as url:
                assert await _rows(url, **options) == expected, (number, after)
            assert len(cuts.seen) > len(whole.seen)


async def test_a_proof_that_always_fails_ends_with_its_error(fresh_server) -> None:
    """Not with a wrong table, and not for ever."""
    source, options = _source(fresh_server, "mariadb-11.8")
    cuts = Cuts(dict.fromkeys(range(1, 100), 500))
    with _proxy(source, cuts) as url:
        with pytest.raises(TransportError):
            await _rows(url, **options, attempts=20)
    assert 20 <= len(cuts.seen) <= 50


async def test_a_killed_session_is_no_answer(fresh_server) -> None:
    """The source's administrator ends the session that looks at the table."""
    source, options = _source(fresh_server, "mariadb-10.11")
    killed: set[int] = set()

    async def kill() -> None:
        while len(killed) < 3:
            await asyncio.sleep(0.002)
            rows = await asyncio.to_thread(
                source.query,
                "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'repl' AND COMMAND = 'Query'",
            )
            for (number,) in rows:
                try:
                    source.execute(f"KILL {number}")
                except Exception:
                    continue
                killed.add(number)

    for _ in range(5):
        killer = asyncio.create_task(kill())
        try:
            rows = await _rows(source.url(), **options)
        except TransportError:
            continue  # the first connection was hit, before there is a stream
        finally:
            killer.cancel()
            await asyncio.gather(killer, return_exceptions=True)
        assert rows == [{"id": 1, "word": "ä"}]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
async def test_the_look_at_the_last_file_is_tried_again(server, new_database, name: str) -> None:
    """A dump by GTID that goes on in a later file makes sure that the file before is the same still."""
    source = server(name)
    database = new_database(source)
    source.execute(f"CREATE TABLE {database}.t (id INT)")
    for after in (1 << 60, 1, 700):
        ended = threading.Event()
        cuts = Cuts()
        with _proxy(source, cuts) as url:
            options = {"start": "latest", "tables": f"{database}.*", "reconnect": FAST}
            async with asyncio.timeout(60), rc.connect(url, **options) as stream:
                changes = stream.changes()
                source.execute(f"INSERT INTO {database}.t VALUES (1)")
                assert (await anext(changes)).after[0] == 1
                # A try that fails while the file ends, the next one, and the look.
                first = len(cuts.seen)
                cuts.after |= {first: 1, first + 2: after}
                cuts.gates[first + 1] = ended
                following = asyncio.ensure_future(anext(changes))
                for (number,) in source.query(
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%%'"
                ):
                    # The dump of an earlier round may end between the two.
                    with suppress(pymysql.err.OperationalError):
                        source.execute(f"KILL {number}")
                while len(cuts.seen) <= first:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                source.rotate()
                source.execute(f"INSERT INTO {database}.t VALUES (2)")
                ended.set()
                assert (await following).after[0] == 2
        later = len(cuts.seen) - first
        assert (later > 3) == (after < 1 << 60), (after, cuts.seen)
        assert later >= 3
