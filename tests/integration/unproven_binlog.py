"""Gigabytes of rows of tables whose CREATE TABLE is in no binlog file: how long the first row takes.

Used by scripts/proofs/earliest. The client is a process of its own, so that its memory and processor count alone.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import replica_client as rc
from tests.servers.local import LocalServer

OPTIONS = (
    *("binlog-row-metadata=MINIMAL", "sync-binlog=0", "innodb-flush-log-at-trx-commit=0"),
    *("max-binlog-size=268435456", "binlog-cache-size=33554432"),
)
_ROOT = Path(__file__).resolve().parents[2]
_DOUBLINGS = 14


@dataclass(frozen=True)
class FirstRow:
    """What the client saw.

    Attributes:
        seconds: from the beginning of ``connect`` to the first row.
        cpu: seconds of its processor for that.
        all_seconds: to the last of the tables.
        memory: MiB at most.
        tables: that rows came of.
    """

    seconds: float
    cpu: float
    all_seconds: float
    memory: float
    tables: int

    def __str__(self) -> str:
        return (
            f"first row {self.seconds:.2f} s ({self.cpu:.2f} s of processor), a row of each of {self.tables} "
            f"tables {self.all_seconds:.2f} s, {self.memory:.0f} MiB"
        )


def write(server: LocalServer, database: str, size: int, tables: int, row_size: int) -> int:
    """Have so many bytes in the binlog, rows of each table at its beginning; returns how many there are.

    The tables keep nothing (BLACKHOLE on MariaDB and MySQL): what is measured is the binlog.
    """
    modern = server.flavor == "mysql" and server.version >= (8, 2)
    server.execute("RESET BINARY LOGS AND GTIDS" if modern else "RESET MASTER")
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"CREATE DATABASE {database}")
        for number in range(tables):
            cursor.execute(
                f"CREATE TABLE {database}.t{number} (id INT, t MEDIUMTEXT) ENGINE=BLACKHOLE"
            )
        cursor.execute(f"CREATE TABLE {database}.seed (id INT PRIMARY KEY)")
        cursor.execute(f"INSERT INTO {database}.seed VALUES (0)")
        for doubling in range(_DOUBLINGS):
            cursor.execute(
                f"INSERT INTO {database}.seed SELECT id + {1 << doubling} FROM {database}.seed"
            )
        cursor.execute("SET SESSION sql_log_bin = 1")
        for number in range(tables):
            cursor.execute(f"INSERT INTO {database}.t{number} VALUES ({number}, 'first')")
        count = max(1, min(1 << _DOUBLINGS, (16 << 20) // row_size))
        while binlog_size(server) < size:
            cursor.execute(
                f"INSERT INTO {database}.t0 SELECT id, REPEAT('x', {row_size}) FROM {database}.seed "
                f"WHERE id < {count}"
            )
    return binlog_size(server)


def binlog_size(server: LocalServer) -> int:
    """Bytes of all files."""
    return sum(int(row[1]) for row in server.query("SHOW BINARY LOGS"))


def measure(server: LocalServer, database: str, tables: int) -> FirstRow:
    """Follow from the earliest position until each table had a row."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, server.url(), database, str(tables)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return FirstRow(**json.loads(done.stdout))


async def _follow(url: str, database: str, tables: int) -> FirstRow:
    begun, before = time.perf_counter(), time.process_time()
    seconds = cpu = 0.0
    seen = set()
    async with rc.connect(url, tables=[f"{database}.*"], start="earliest") as stream:
        async for change in stream.changes():
            if not seen:
                seconds, cpu = time.perf_counter() - begun, time.process_time() - before
            seen.add((change.table, change.after["t"][:1]))
            if len(seen) == tables:
                break
        done = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return FirstRow(seconds, cpu, done, memory, len(seen))


if __name__ == "__main__":
    found = asyncio.run(_follow(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    print(json.dumps(found.__dict__))
