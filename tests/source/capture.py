"""Binlogs of about 200 kB, captured from a real server for the proofs of cuts."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.servers.server import Server

FIRST_FILE_SIZE = 190_000


def capture(server: Server, directory: Path, seed: int = 1) -> list[Path]:
    """Two files: one of about 190 kB with transactions of every kind, and a small one after it."""
    chance = random.Random(seed)
    server.rotate()
    first = server.binlog_files()[-1]
    database = server.create_database("cuts")
    server.execute(
        f"CREATE TABLE {database}.t (id INT PRIMARY KEY, n DECIMAL(20,4), s VARCHAR(200), b BLOB, "
        "at DATETIME(3)) CHARSET utf8mb4"
    )
    server.execute(
        f"CREATE TABLE {database}.u (id INT PRIMARY KEY AUTO_INCREMENT, s TEXT) CHARSET utf8mb4"
    )
    number = 0
    with server.connected(autocommit=False) as connection, connection.cursor() as cursor:
        while server.binlog_position()[1] < FIRST_FILE_SIZE:
            compressed = chance.random() < 0.15
            if server.flavor == "mysql" and server.version >= (8, 0, 20):
                cursor.execute(f"SET SESSION binlog_transaction_compression = {int(compressed)}")
            for _ in range(chance.choice((1, 1, 2, 5))):
                number = _statement(cursor, database, chance, number)
            if chance.random() < 0.1:
                connection.rollback()
            else:
                connection.commit()
            if chance.random() < 0.05:
                cursor.execute(f"ALTER TABLE {database}.u COMMENT = 'c{number}'")
    server.rotate()
    server.execute(f"INSERT INTO {database}.u (s) VALUES ('behind the rotation')")
    server.execute(f"UPDATE {database}.t SET n = n + 1 WHERE id % 7 = 0")
    names = server.binlog_files()
    names = names[names.index(first) :]
    copies = [Path(shutil.copy(server.binlog_path(name), directory)) for name in names]  # type: ignore[attr-defined]
    server.drop_database(database)
    return copies


def _statement(cursor: object, database: str, chance: random.Random, number: int) -> int:
    execute = cursor.execute  # type: ignore[attr-defined]
    kind = chance.randrange(5)
    if kind < 2 or number < 10:
        rows = chance.choice((1, 3, 20))
        values = [
            (
                number + i,
                f"{chance.randrange(10**9)}.{chance.randrange(10**4):04d}",
                "wört " * chance.randrange(20),
                chance.randbytes(chance.randrange(120)),
            )
            for i in range(rows)
        ]
        for row in values:
            execute(f"INSERT INTO {database}.t VALUES (%s, %s, %s, %s, NOW(3))", row)
        return number + rows
    if kind == 2:
        execute(
            f"UPDATE {database}.t SET s = CONCAT(s, 'x') WHERE id %% 13 = %s",
            (chance.randrange(13),),
        )
    elif kind == 3:
        execute(f"DELETE FROM {database}.t WHERE id %% 29 = %s", (chance.randrange(29),))
    else:
        execute(f"INSERT INTO {database}.u (s) VALUES (%s)", ("y" * chance.randrange(2000),))
    return number
