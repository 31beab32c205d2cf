"""README's loop on a real server: how far behind it is, and what SIGKILL and SIGTERM leave.

Used by scripts/proofs/saving (long) and by test_saving.py (short). The server itself writes the rows, at a
rate, in a procedure: the load is one session of it and the client.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

import replica_client as rc
from tests import processes
from tests.integration.kills import wait_for_output
from tests.servers.local import LocalServer

SERVER_OPTIONS = ("binlog-row-metadata=FULL", "sync-binlog=0", "innodb-flush-log-at-trx-commit=0")
_CHUNK = 20


class Writer(threading.Thread):
    """One-row transactions at a rate, until told to stop; rows have the time at which they were written.

    Args:
        server: that writes.
        database: made anew.
        rate: transactions a second; 0 for as many as there can be.
    """

    def __init__(self, server: LocalServer, database: str, rate: int) -> None:
        super().__init__(daemon=True)
        self.server, self.database, self.rate = server, database, rate
        self.halt = threading.Event()
        self.error: BaseException | None = None
        server.execute(f"CREATE DATABASE {database}")
        server.execute(
            f"CREATE TABLE {database}.t (id BIGINT PRIMARY KEY AUTO_INCREMENT, at DOUBLE NOT NULL, n INT, "
            "t VARCHAR(40))"
        )
        server.execute(
            f"CREATE PROCEDURE {database}.work(IN seconds DOUBLE, IN rate INT) BEGIN "
            "DECLARE begun, ahead DOUBLE; DECLARE done INT DEFAULT 0; DECLARE i INT; "
            "SET begun = UNIX_TIMESTAMP(SYSDATE(6)); "
            "WHILE UNIX_TIMESTAMP(SYSDATE(6)) < begun + seconds DO "
            f"SET i = 0; WHILE i < {_CHUNK} DO "
            f"INSERT INTO {database}.t (at, n, t) VALUES (UNIX_TIMESTAMP(SYSDATE(6)), i, 'some text'); "
            "SET i = i + 1; END WHILE; "
            f"SET done = done + {_CHUNK}; "
            "IF rate > 0 THEN SET ahead = begun + done / rate - UNIX_TIMESTAMP(SYSDATE(6)); "
            "IF ahead > 0 THEN DO SLEEP(ahead); END IF; END IF; END WHILE; END"
        )

    def run(self) -> None:
        try:
            with self.server.connected() as connection, connection.cursor() as cursor:
                while not self.halt.is_set():
                    cursor.execute(f"CALL {self.database}.work(0.5, {self.rate})")
        except BaseException as error:
            self.error = error

    def doings(self) -> str:
        """What the source does, where a loop gets nothing for a minute: whose fault that is."""
        first = self._rows()
        time.sleep(1)
        second = self._rows()
        sessions = self.server.query("SHOW FULL PROCESSLIST")
        return (
            f"the writer is {'alive' if self.is_alive() else 'gone'} ({self.error!r}) and wrote {first} rows, "
            f"{second} a second later; the binlog is at {self.server.binlog_position()}; sessions: {sessions}"
        )

    def _rows(self) -> int:
        return int(self.server.query(f"SELECT COUNT(*) FROM {self.database}.t")[0][0])

    def stop(self) -> None:
        """Stop, and raise what went wrong."""
        self.halt.set()
        self.join(60)
        if self.error is not None:
            raise self.error


@dataclass
class Lags:
    """How far behind a loop was, in seconds, for each transaction."""

    name: str
    seconds: float
    lags: list[float] = field(repr=False)
    cpu: float

    def __str__(self) -> str:
        if len(self.lags) < 2:
            return f"{self.name}: {len(self.lags)} transactions"
        cuts = statistics.quantiles(self.lags, n=100)
        half = len(self.lags) // 2
        return (
            f"{self.name}: {len(self.lags) / self.seconds:,.0f} transactions a second, lag p50 "
            f"{cuts[49] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, most {max(self.lags) * 1e3:.0f} ms; median of "
            f"the first half {statistics.median(self.lags[:half]) * 1e3:.1f} ms, of the second "
            f"{statistics.median(self.lags[half:]) * 1e3:.1f} ms; {self.cpu / self.seconds:.0%} of a processor"
        )

    @property
    def p99(self) -> float:
        """The lag that one in a hundred exceeds, in seconds."""
        return statistics.quantiles(self.lags, n=100)[98]


async def readme_loop(url: str, tables: str, store: Path, seconds: float) -> Lags:
    """README's loop for some seconds."""
    lags: list[float] = []
    async with rc.connect(url, tables=[tables], position_store=store) as stream:
        begun, cpu = time.time(), time.process_time()
        async for transaction in stream.transactions():
            now = time.time()
            for change in transaction.changes:
                lags.append(now - change.after["at"])
            await stream.acknowledge(transaction.position)
            if now - begun >= seconds:
                break
        done, cpu = time.time() - begun, time.process_time() - cpu
    return Lags("connect", done, lags, cpu)


def followed_loop(url: str, tables: str, store: Path, seconds: float) -> Lags:
    """The same without asyncio."""
    lags: list[float] = []
    with rc.follow(url, tables=[tables], position_store=store) as stream:
        begun, cpu = time.time(), time.process_time()
        for transaction in stream.transactions():
            now = time.time()
            for change in transaction.changes:
                lags.append(now - change.after["at"])
            stream.acknowledge(transaction.position)
            if now - begun >= seconds:
                break
        done, cpu = time.time() - begun, time.process_time() - cpu
    return Lags("follow", done, lags, cpu)


def measure_lags(
    server: LocalServer, directory: Path, *, rate: int, seconds: float
) -> tuple[Lags, ...]:
    """README's two loops while the server writes at a rate."""
    found = []
    for number, name in enumerate(("connect", "follow")):
        writer = Writer(server, f"lag_{name}_{rate}", rate)
        writer.start()
        try:
            time.sleep(0.5)
            store, tables = directory / f"{name}-{rate}.position", f"{writer.database}.*"
            if number:
                found.append(followed_loop(server.url(), tables, store, seconds))
            else:
                found.append(asyncio.run(readme_loop(server.url(), tables, store, seconds)))
        finally:
            writer.stop()
    return tuple(found)


@dataclass
class KilledLoops:
    """What a proof with SIGKILL saw.

    Attributes:
        kills: SIGKILLs sent.
        delivered: transactions that all loops got together.
        again: of these, how many came again after they were acknowledged.
        oldest: seconds between the acknowledgement of the oldest of these and the kill.
        last: of the last transaction.
    """

    kills: int = 0
    delivered: int = 0
    again: int = 0
    oldest: float = 0.0
    last: int = 0


def prove_kills(
    server: LocalServer,
    directory: Path,
    *,
    kills: int,
    seed: int,
    save_interval: float,
    bound: float,
    rate: int = 1000,
) -> KilledLoops:
    """Kill README's loop again and again, and compare what it acknowledged with where the next one begins.

    Args:
        server: that writes.
        directory: for positions and what the loops say.
        kills: how often.
        seed: of the moments.
        save_interval: of the loops.
        bound: seconds; what was acknowledged longer before the kill must not come again.
        rate: transactions a second.

    Raises:
        AssertionError: a transaction was lost, or came again that must not.
    """
    chance, found = random.Random(seed), KilledLoops()
    writer = Writer(server, f"killed_{seed}", rate)
    store, said = directory / "killed.position", directory / "said"
    start = server.binlog_position()
    writer.start()
    acknowledged: dict[int, float] = {}
    try:
        for number in range(kills + 1):
            followed = number % 3 == 2
            if followed:
                client = _started(
                    _say_followed, server.url(), writer.database, start, store, said, save_interval
                )
            else:
                client = _started(
                    _say_loop, server.url(), writer.database, start, store, said, save_interval
                )
            deadline = time.monotonic() + 60
            while not said.exists() or not said.stat().st_size:
                assert time.monotonic() < deadline, f"run {number}: nothing came: {writer.doings()}"
                assert client.is_alive(), "the loop ended by itself"
                time.sleep(0.002)
            time.sleep(chance.random() * 0.4)
            assert client.is_alive(), "the loop ended by itself"
            killed_at = time.time()
            client.kill()
            client.join()
            found.kills += 1
            lines = said.read_text(encoding="ascii").split("\n")[:-1]
            said.unlink()
            rows = [(int(one), float(at)) for one, at in map(str.split, lines)]
            ids = [one for one, _ in rows]
            first = ids[0]
            assert ids == list(range(first, first + len(ids))), f"run {number}: not in order"
            assert first <= found.last + 1, (
                f"run {number}: {found.last + 1} to {first - 1} are lost"
            )
            again = [one for one in acknowledged if one >= first]
            found.again += len(again)
            for one in again:
                found.oldest = max(found.oldest, acknowledged[one])
                assert acknowledged[one] <= bound, (
                    f"run {number}: {one} came again, though it was acknowledged {acknowledged[one]:.2f} s "
                    "before the kill"
                )
            found.delivered += len(ids)
            found.last = max(found.last, ids[-1])
            acknowledged = {one: killed_at - at for one, at in rows}
    finally:
        writer.stop()
    return found


def _started(work: Callable[..., None], *arguments: object) -> BaseProcess:
    """A process that does something; it is forked from one that has the modules already, and no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "replica_client.stream.live.follow"])
    client = context.Process(target=_watched, args=(work, *arguments), daemon=True)
    client.start()
    return client


def _watched(work: Callable[..., None], *arguments: object) -> None:
    faulthandler.dump_traceback_later(45)  # where it is when it gets nothing
    work(*arguments)


def _options(
    database: str, start: tuple[str, int], store: Path, interval: float
) -> dict[str, object]:
    return {
        "tables": [f"{database}.*"],
        "start": rc.Position(*start),
        "position_store": store,
        "save_interval": interval,
    }


def _say_loop(
    url: str, database: str, start: tuple[str, int], store: Path, said: Path, interval: float
) -> None:
    async def loop() -> None:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        async with rc.connect(url, **_options(database, start, store, interval)) as stream:
            async for transaction in stream.transactions():
                for change in transaction.changes:
                    os.write(out, b"%d %.6f\n" % (change.after["id"], time.time()))
                await stream.acknowledge(transaction.position)

    asyncio.run(loop())


def _say_followed(
    url: str, database: str, start: tuple[str, int], store: Path, said: Path, interval: float
) -> None:
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with rc.follow(url, **_options(database, start, store, interval)) as stream:
        for transaction in stream.transactions():
            for change in transaction.changes:
                os.write(out, b"%d %.6f\n" % (change.after["id"], time.time()))
            stream.acknowledge(transaction.position)


def prove_stops(
    server: LocalServer, directory: Path, *, stops: int, seed: int, rate: int = 1000
) -> tuple[int, dict[int, int]]:
    """SIGTERM `changes --position-file` again and again, at any moment of its saves.

    Returns:
        how many lines all runs wrote, and how often which status came.

    Raises:
        AssertionError: a status is none of 0 and 130, something was said, or the position is not the newest.
    """
    chance = random.Random(seed)
    writer = Writer(server, f"stopped_{seed}", rate)
    position_file, output = directory / "stopped.position", directory / "run.jsonl"
    start = server.binlog_position()
    command = [
        *(sys.executable, "-m", "replica_client", "changes", server.url(), "--json"),
        *("--tables", f"{writer.database}.*", "--start", f"{start[0]}:{start[1]}"),
        *("--position-file", str(position_file)),
    ]
    writer.start()
    lines, last, statuses = 0, 0, {}
    try:
        for number in range(stops):
            with output.open("wb") as stream:
                client = processes.Popen(command, stdout=stream, stderr=subprocess.PIPE)
                wait_for_output(client, output)
                time.sleep(chance.random() * 0.45)
                client.send_signal(signal.SIGTERM)
                said = client.communicate(timeout=60)[1].decode(errors="replace")
            assert client.returncode in (0, 130), (
                f"run {number}: {client.returncode}: {said[-500:]}"
            )
            assert "error" not in said.lower(), f"run {number}: {said[-500:]}"
            statuses[client.returncode] = statuses.get(client.returncode, 0) + 1
            rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
            ids = [row["after"]["id"] for row in rows]
            assert ids == list(range(last + 1, last + 1 + len(ids))), (
                f"run {number}: begins with {ids[:1]}, and {last} was the last before"
            )
            last += len(ids)
            lines += len(ids)
    finally:
        writer.stop()
    return lines, statuses
