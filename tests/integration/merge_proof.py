"""Many shards with colliding keys become one table of mirrors, whatever dies; deletes of one table become marks.

Used by scripts/proofs/transforms --shards (long) and by test_merged_tables.py (short).
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

ONE = "shop"
TRANSFORMS: list[dict[str, Any]] = [
    {"tables": ["shop_*.orders"], "route": f"{ONE}.orders", "shard": {"shard": "{database}"}},
    {
        "tables": ["shop_*.visits"],
        "route": f"{ONE}.visits",
        "shard": {"shard": "{database}"},
        "soft_delete": "gone",
    },
]
_ORDERS = "(id INT PRIMARY KEY, state VARCHAR(20), amount DECIMAL(10,2), note TEXT)"
_VISITS = "(page VARCHAR(20), id INT, hits INT, PRIMARY KEY (page, id))"
_MOST = 40
"""Keys of each table; all shards have the same."""


@dataclass
class MergeReport:
    """What a proof saw.

    Attributes:
        changes: of rows.
        kills: of the daemon.
        compared: rows of mirrors that were compared with those of all shards.
        marked: among them rows that the source has deleted.
    """

    changes: int = 0
    kills: int = 0
    compared: int = 0
    marked: int = 0


class Shards:
    """Databases that look alike, and a random workload of colliding keys.

    Args:
        server: the source.
        count: of databases.
        seed: of the changes.
    """

    def __init__(self, server: LocalServer, count: int, seed: int, report: MergeReport) -> None:
        self.server, self.report = server, report
        self.names = [f"shop_{number:02}" for number in range(count)]
        self._chance = random.Random(seed)
        self._halt = threading.Event()
        self._error: BaseException | None = None

    def prepare(self) -> None:
        for name in self.names:
            self.add(name)
        self.change(20 * len(self.names))

    def add(self, name: str) -> None:
        run = self.server.execute
        run(f"CREATE DATABASE {name}")
        run(f"CREATE TABLE {name}.orders {_ORDERS}")
        run(f"CREATE TABLE {name}.visits {_VISITS}")

    def change(self, count: int) -> None:
        """So many changes of all shards."""
        goal, chance = self.report.changes + count, self._chance
        with self.server.connected(autocommit=False) as connection:
            with connection.cursor() as cursor:
                while self.report.changes < goal and not self._halt.is_set():
                    for name in chance.choices(self.names, k=chance.choice((1, 1, 4))):
                        self._one(cursor, name)
                    connection.rollback() if chance.random() < 0.05 else connection.commit()
                connection.commit()

    def during(self, work: Callable[[], None]) -> None:
        """Do something while rows change."""

        def change() -> None:
            try:
                self.change(10**9)
            except BaseException as error:
                self._error = error

        thread = threading.Thread(target=change, daemon=True)
        thread.start()
        try:
            work()
        finally:
            self._halt.set()
            thread.join()
            self._halt.clear()
        if self._error is not None:
            raise self._error

    def _one(self, cursor: Any, name: str) -> None:
        chance, key = self._chance, self._chance.randrange(_MOST)
        what = chance.randrange(7)
        if what < 2:
            sql = "REPLACE INTO {}.orders (id, state, amount, note) VALUES (%s, %s, %s, %s)"
            values: tuple[Any, ...] = (key, name, key / 4, f"{name} {chance.random()}")
        elif what == 2:
            sql, values = "DELETE FROM {}.orders WHERE id = %s", (key,)
        elif what == 3:
            # Keys change, too, where none is in the way.
            sql = "UPDATE IGNORE {}.orders SET id = %s, amount = amount + 1 WHERE id = %s"
            values = (chance.randrange(_MOST), key)
        elif what == 4:
            sql, values = "DELETE FROM {}.visits WHERE id = %s", (key,)
        else:
            sql = "INSERT INTO {}.visits VALUES (%s, %s, 1) ON DUPLICATE KEY UPDATE hits = hits + 1"
            values = (chance.choice("abc"), key)
        self.report.changes += cursor.execute(sql.format(name), values)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a table of all shards, each with its shard before it."""
        return sorted(
            (name, *row)
            for name in self.names
            for row in self.server.query(f"SELECT * FROM {name}.{table}")
        )


def daemon_of(source: LocalServer, directory: Path, target: LocalServer | None) -> DaemonProcess:
    sinks: list[dict[str, Any]] = [
        {"name": "mirror", "type": "sqlite", "path": "mirror.db", "snapshot": True},
        {"name": "native", "type": "file", "path": str(directory / "native")},
    ]
    if target is not None:
        url = target.url("root")
        sinks.append({"name": "server", "type": "mysql", "url": url, "snapshot": True})
    return DaemonProcess(
        directory,
        {
            "url": source.url(),
            "tables": ["shop_*.*"],
            "heartbeat": 1.0,
            "transform": TRANSFORMS,
            "record_losses": ["statement"],
        },
        [
            {"snapshot_rows": 10, "retry_seconds": 1, **one} if "snapshot" in one else one
            for one in sinks
        ],
    )


def prove_merging(
    source: LocalServer,
    directory: Path,
    *,
    shards: int,
    changes: int,
    kills: int,
    seed: int,
    target: LocalServer | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> MergeReport:
    """Merge, kill, alter and drop shards, and compare.

    Raises:
        AssertionError: a row of a mirror is not that of its shard.
    """
    report, chance = MergeReport(), random.Random(seed)
    made = Shards(source, shards, seed, report)
    made.prepare()
    daemon = daemon_of(source, directory, target)

    def kill() -> None:
        for _ in range(kills):
            threading.Event().wait(chance.uniform(0.3, 2.5))
            daemon.kill()
            report.kills += 1
            daemon.start()

    with daemon:
        made.during(kill)
        made.change(changes)
        daemon.until_level(300)
        _compare(made, directory, target)
        say(f"{report.changes} changes of {shards} shards, {report.kills} kills: equal")
        # All shards get a column, one after the other, with changes between.
        for name in made.names:
            source.execute(f"ALTER TABLE {name}.orders ADD COLUMN more INT NOT NULL DEFAULT 7")
            made.change(2)
        made.add("shop_new")
        source.execute("ALTER TABLE shop_new.orders ADD COLUMN more INT NOT NULL DEFAULT 7")
        made.names.append("shop_new")
        made.change(changes // 4)
        daemon.until_level(300)
        _compare(made, directory, target)
        say("a column added in all shards, and a shard that joined: equal")
        # A shard loses its rows, another one its table.
        source.execute(f"TRUNCATE TABLE {made.names[0]}.orders")
        source.execute(f"DROP TABLE {made.names[1]}.orders")
        source.execute(f"CREATE TABLE {made.names[1]}.orders LIKE {made.names[2]}.orders")
        made.change(changes // 4)
        daemon.until_level(300)
        report.compared = _compare(made, directory, target)
        report.marked = _deleted(directory)
        assert daemon.metric("replica_client_losses_total", sink="native", kind="statement") >= 2
        daemon.stop()
    return report


def _deleted(directory: Path) -> int:
    with closing(sqlite3.connect(f"file:{directory / 'mirror.db'}?mode=ro", uri=True)) as mirror:
        return int(mirror.execute(f'SELECT count(*) FROM "{ONE}.visits" WHERE gone').fetchone()[0])


def _compare(made: Shards, directory: Path, target: LocalServer | None) -> int:
    """Mirrors have the rows of all shards, and those that were deleted with a mark; returns how many were compared."""
    compared = 0
    expected = {
        "orders": made.rows("orders"),
        "visits": [(*row, 0) for row in made.rows("visits")],
    }
    found: list[dict[str, list[tuple[Any, ...]]]] = []
    with closing(sqlite3.connect(f"file:{directory / 'mirror.db'}?mode=ro", uri=True)) as mirror:
        found.append(
            {name: mirror.execute(f'SELECT * FROM "{ONE}.{name}"').fetchall() for name in expected}
        )
    if target is not None:
        found.append({name: target.query(f"SELECT * FROM {ONE}.{name}") for name in expected})
    for one in found:
        for table, rows in expected.items():
            shown = sorted(_plain(row) for row in one[table])
            if table == "visits":
                keys = {row[:3] for row in rows}
                # What was deleted while it was copied was never there.
                shown = [row for row in shown if row[-1] == "0" or _key(row) in keys]
            expected_rows = sorted(_plain(row) for row in rows)
            assert shown == expected_rows, (one[table][:3], expected_rows[:3])
            compared += len(shown)
    return compared


def _key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (row[0], row[1], int(row[2]))


def _plain(row: tuple[Any, ...]) -> tuple[str, ...]:
    """SQLite stores a DECIMAL as its text."""
    return tuple(str(value) for value in row)
