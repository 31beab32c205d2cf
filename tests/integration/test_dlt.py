"""A dlt destination has what the source has, after copies, changes, kills and ALTERs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.integration.postgres_server import PostgresServer
from tests.servers.local import LocalServer

dlt = pytest.importorskip("dlt", reason="pip install '.[dlt]'")

ROOT = Path(__file__).parents[2]
Rows = list[tuple[Any, ...]]
Read = Callable[[str], Rows]

TABLES = (
    "CREATE TABLE orders (id BIGINT UNSIGNED PRIMARY KEY, note VARCHAR(40), total DECIMAL(12,2), at DATETIME(6),"
    " changed TIMESTAMP NULL, day DATE, kind ENUM('new','old'), doc JSON, raw_data BLOB, ratio DOUBLE,"
    " took TIME(3), flags SET('a','b')) CHARACTER SET utf8mb4",
    "CREATE TABLE pairs (a INT, b VARCHAR(10) CHARACTER SET utf8mb4, n INT, PRIMARY KEY (a, b))",
    "CREATE TABLE empty_one (id INT PRIMARY KEY, n INT)",
)
COLUMNS = {
    "orders": "id note total at changed day kind doc raw_data ratio took flags".split(),
    "pairs": ["a", "b", "n"],
    "empty_one": ["id", "n"],
}


@pytest.fixture(params=["duckdb", "postgres"])
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str, Read]]:
    if request.param == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        file = str(tmp_path / "target.duckdb")

        def read_duckdb(sql: str) -> Rows:
            with duckdb.connect(file) as connection:
                connection.execute("SET TimeZone = 'UTC'")
                return list(connection.execute(sql).fetchall())

        yield "duckdb", file, read_duckdb
        return
    psycopg2 = pytest.importorskip("psycopg2")
    with tempfile.TemporaryDirectory(prefix="pg") as directory:
        server = PostgresServer(Path(directory))

        def read_postgres(sql: str) -> Rows:
            connection = psycopg2.connect(server.url)
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SET TIME ZONE 'UTC'")
                    cursor.execute(sql)
                    return list(cursor.fetchall())
            finally:
                connection.close()

        try:
            yield "postgres", server.url, read_postgres
        finally:
            server.stop()


def plain(value: Any) -> Any:
    """A value as both sides have it."""
    if isinstance(value, (bytes, memoryview)):
        return bytes(value)
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.dumps(json.loads(value), sort_keys=True)
    return Decimal(value) if isinstance(value, int) else value


def assert_equal(source: LocalServer, read: Read, columns: dict[str, list[str]]) -> None:
    for table, names in columns.items():
        quoted = ", ".join(f'"{name}"' for name in names)
        shown = [f"CAST({n} AS CHAR) AS {n}" if n == "took" else n for n in names]
        with source.connected(init_command="SET time_zone = '+00:00'") as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(shown)} FROM shop.{table}")
                wanted = [tuple(map(plain, row)) for row in cursor.fetchall()]
        found = [tuple(map(plain, row)) for row in read(f"SELECT {quoted} FROM lake.{table}")]
        if table == "orders":
            took = names.index("took")
            found = [
                tuple(v[:-3] if at == took and v else v for at, v in enumerate(row))
                for row in found
            ]
        for one, other in zip(sorted(found, key=repr), sorted(wanted, key=repr), strict=True):
            differing = [n for n, x, y in zip(names, one, other, strict=True) if x != y]
            assert not differing, (table, differing, one, other)


def write(source: LocalServer, rng: random.Random, count: int) -> None:
    def text(value: Any) -> str:
        return "NULL" if value is None else json.dumps(value, ensure_ascii=False)

    with source.connected(database="shop", autocommit=False) as connection:
        for _ in range(count):
            with connection.cursor() as cursor:
                number = rng.choice((rng.randrange(60), (1 << 64) - 1 - rng.randrange(3)))
                note = rng.choice((None, "", "Grüße 日本", "x' y"))
                doc = rng.choice((None, '{"a": [1, 2.5, null]}', "[]"))
                total = rng.choice(("NULL", "10.25", "-1"))
                values = (
                    f"({number}, %s, {total}, '2026-01-0{rng.randint(1, 9)} 01:02:03.000004',"
                    f" '2026-05-01 00:00:0{rng.randrange(9)}', '1999-12-31', {rng.randint(1, 2)}, %s,"
                    f" 0x00ff{rng.randrange(10, 99)}, {rng.random()},"
                    f" '-12:34:56.{rng.randrange(100, 999)}', {rng.randrange(4)})"
                )
                cursor.execute(
                    f"REPLACE INTO orders ({', '.join(COLUMNS['orders'])}) VALUES {values}",
                    (note, doc),
                )
                if rng.random() < 0.4:
                    cursor.execute("DELETE FROM orders WHERE id = %s", (rng.randrange(60),))
                if rng.random() < 0.4:
                    # Another key: a row goes and one comes.
                    cursor.execute(
                        "UPDATE IGNORE orders SET id = %s, note = 'moved' WHERE id = %s",
                        (rng.randrange(60), rng.randrange(60)),
                    )
                cursor.execute(
                    "REPLACE INTO pairs VALUES (%s, %s, %s)",
                    (rng.randrange(5), rng.choice("ab") + "é", rng.randrange(1000)),
                )
            if rng.random() < 0.15:
                connection.rollback()
            else:
                connection.commit()


@pytest.mark.timeout(600)
def test_copy_follow_kill_resume_and_alter(
    fresh_server: Callable[..., LocalServer], destination: tuple[str, str, Read], tmp_path: Path
) -> None:
    kind, target, read = destination
    if kind == "duckdb":
        options = ["binlog-row-metadata=FULL", "gtid-mode=ON", "enforce-gtid-consistency=ON"]
        source = fresh_server("mysql-9.7", options)
    else:
        source = fresh_server("mariadb-11.8", ["binlog-row-metadata=FULL"])
    rng = random.Random(20)
    source.execute("CREATE DATABASE shop")
    with source.connected(database="shop") as connection, connection.cursor() as cursor:
        for statement in TABLES:
            cursor.execute(statement)
    write(source, rng, 200)
    command = [
        *(sys.executable, "-m", "tests.integration.dlt_program"),
        *(source.url("root"), kind, target, str(tmp_path / "pipelines")),
    ]

    def run() -> None:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]

    began = time.monotonic()
    run()
    seconds = time.monotonic() - began
    assert_equal(source, read, COLUMNS)
    for number in (0, 2):
        write(source, rng, 60)
        killed = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(seconds * (number + 1.5) / 5)
        killed.kill()
        killed.wait()
    run()
    assert_equal(source, read, COLUMNS)
    source.execute("INSERT INTO shop.empty_one VALUES (1, 1), (2, 2)")
    run()
    assert_equal(source, read, COLUMNS)
    # Rows that were there have the default, of which the binlog does not say a word.
    source.execute(
        "ALTER TABLE shop.orders ADD COLUMN region VARCHAR(9) NOT NULL DEFAULT 'north' AFTER id"
    )
    write(source, rng, 30)
    source.execute("TRUNCATE TABLE shop.empty_one")
    source.execute("CREATE TABLE shop.later (id INT PRIMARY KEY, n INT)")
    source.execute("INSERT INTO shop.later VALUES (1, 2)")
    run()
    columns = {**COLUMNS, "orders": [*COLUMNS["orders"], "region"], "later": ["id", "n"]}
    assert_equal(source, read, columns)
    write(source, rng, 30)
    run()
    assert_equal(source, read, columns)
