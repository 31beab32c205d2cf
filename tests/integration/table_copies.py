"""What the tests and the prover of the dlt source and the Singer tap write, and how copies are compared."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.servers.local import LocalServer

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


def assert_equal(
    source: LocalServer, database: str, read: Read, columns: dict[str, list[str]]
) -> None:
    """Compare the destination's tables with the source's."""
    for table, names in columns.items():
        quoted = ", ".join(f'"{name}"' for name in names)
        shown = [f"CAST({n} AS CHAR) AS {n}" if n == "took" else n for n in names]
        with source.connected(init_command="SET time_zone = '+00:00'") as connection:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(shown)} FROM {database}.{table}")
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


def write(source: LocalServer, database: str, rng: random.Random, count: int) -> None:
    """Commit transactions with inserts, updates, deletes and other keys."""

    def text(value: Any) -> str:
        return "NULL" if value is None else json.dumps(value, ensure_ascii=False)

    with source.connected(database=database, autocommit=False) as connection:
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


class DltRuns:
    """Runs of a dlt pipeline, each in a process of its own that can be killed.

    Args:
        arguments: of :mod:`tests.integration.dlt_program`.
    """

    def __init__(self, *arguments: str) -> None:
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.dlt_program", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seconds = 0.0

    def run(self, kill_after: float | None = None, *, die_behind: str = "") -> bool:
        """Run once; whether it came to its end.

        Args:
            kill_after: seconds after which it is killed, if it still runs then.
            die_behind: a table: it dies when rows of it are in the destination, and dlt does not know that yet.

        Raises:
            AssertionError: it failed.
        """
        pid, began = int(self._ask(f"run {die_behind}")), time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            self._ask("kill")
        status = int(self._ask(f"wait {pid}"))
        self.seconds = time.monotonic() - began
        assert status in (0, -signal.SIGKILL), f"a run ended with status {status}"
        assert status == 0 or kill_after is not None or die_behind
        return status == 0

    def _ask(self, words: str) -> str:
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.write(words + "\n")
        self._program.stdin.flush()
        answer = self._program.stdout.readline()
        assert answer, f"the program ended with status {self._program.wait()}"
        return answer

    def __enter__(self) -> DltRuns:
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._program.stdin is not None and self._program.stdout is not None
        self._program.stdin.close()
        self._program.wait(60)
        self._program.stdout.close()
