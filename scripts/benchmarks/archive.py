"""Makes an archive of binlog files: several sysbench-like databases, and orders that an ALTER changes."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pymysql

from benchmarks.workloads import WORKLOADS
from tests.servers.local import LocalServer

FILE_SIZE = 128 << 20
_A_SIZE = 165_000_000
"""Bytes of binlog of workload a at scale 1, about."""
_SERVER = "mysql-9.7"


def make_archive(directory: Path, size: int, seed: int) -> list[Path]:
    """Write so many bytes of binlog, about, into a directory; which must be empty.

    The table ``orders_db.orders`` has rows before and behind an ALTER that adds a column, widens one and makes a
    number of an ENUM's text.
    """
    directory.mkdir(parents=True)
    options = (
        "binlog-row-metadata=FULL",
        f"max-binlog-size={min(FILE_SIZE, max(size // 8, 4096))}",
    )
    server = LocalServer(_SERVER, options)
    try:
        scale = min(1.0, size / _A_SIZE)
        with server.connected(autocommit=False, read_timeout=600) as connection:
            _orders(connection, scale, seed)
            made, number = _written(server), 0
            while made < size:
                number += 1
                _database(connection, f"sysbench_{number}")
                WORKLOADS["a"].write(connection, min(scale, (size - made) / _A_SIZE + 0.01))
                made = _written(server)
        server.rotate()
        files = [server.binlog_path(name) for name in server.binlog_files()[:-1]]
        return [Path(shutil.copy(file, directory / file.name)) for file in files]
    finally:
        server.close()


def _written(server: LocalServer) -> int:
    return sum(int(row[1]) for row in server.query("SHOW BINARY LOGS"))


def _database(connection: pymysql.connections.Connection, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection.select_db(name)


def _orders(connection: pymysql.connections.Connection, scale: float, seed: int) -> None:
    _database(connection, "orders_db")
    WORKLOADS["b"].write(connection, 0.5 * scale)
    rng = random.Random(seed)
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE orders ADD COLUMN region VARCHAR(20) NULL AFTER customer,"
            " MODIFY customer BIGINT NOT NULL, MODIFY priority INT NULL, DROP COLUMN bits"
        )
        cursor.execute("SELECT id FROM orders ORDER BY id")
        ids = [row[0] for row in cursor.fetchall()]
        for number in rng.sample(ids, len(ids) // 20):
            cursor.execute(
                "UPDATE orders SET region = %s, customer = %s WHERE id = %s",
                (rng.choice(("north", "south", None)), rng.randrange(1 << 40), number),
            )
        connection.commit()
