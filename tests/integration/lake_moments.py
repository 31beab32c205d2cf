"""Random transactions on a server, and what its tables were behind each: for tables of a lake as they were."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake import open_lake
from replica_client.lake.lake_past import LakePast
from replica_client.rows.selection import Selection
from tests.spark.change_logs import lake_of, typed_log

TABLES = {
    "orders": "id int primary key, v int, price decimal(12,2), t varchar(20), made datetime(3), d double",
    "pairs": "a varchar(9) character set latin1 collate latin1_bin, b date, v int, primary key (a, b)",
    "bag": "v int, t varchar(9)",
}

KEYED = [name for name in TABLES if name != "bag"]
"""Those with a primary key."""


def valid_at(versions: pa.Table, behind: str) -> Counter[str]:
    """The rows that were valid before a position."""
    begun = pc.less(versions["_valid_from_position"], behind)
    ended = pc.fill_null(pc.less(versions["_valid_to_position"], behind), False)
    rows = versions.filter(pc.and_(begun, pc.invert(ended)))
    kept = [name for name in rows.column_names if not name.startswith("_")]
    return Counter(repr(tuple(one.values())) for one in rows.select(kept).to_pylist())


class Moments:
    """Transactions of a seed.

    Attributes:
        seen: for each, its GTID and position behind it, and the rows of each table by their count.
    """

    def __init__(self, server: Any, database: str, seed: int) -> None:
        self._server, self._database, self._rng = server, database, random.Random(seed)
        self.seen: list[tuple[str, str, dict[str, Counter[Any]]]] = []

    def run(self, count: int, *, create: bool = True) -> None:
        """Make tables, and change them in so many transactions."""
        rng = self._rng
        with self._server.connected() as connection, connection.cursor() as cursor:
            cursor.execute(f"use {self._database}")
            for name, columns in TABLES.items() if create else ():
                cursor.execute(f"create table {name} ({columns}) character set utf8mb4")
            for _ in range(count):
                cursor.execute("begin")
                changed = sum(self._change(cursor) for _ in range(rng.randrange(1, 5)))
                if not changed:
                    cursor.execute(f"insert into bag values ({rng.randrange(99)}, null)")
                connection.commit()
                self.seen.append((self._gtid(cursor), self._position(), self._rows(cursor)))

    def _change(self, cursor: Any) -> int:
        rng = self._rng
        key, v = rng.randrange(30), rng.choice(["null", rng.randrange(5)])
        a, b = rng.choice("aAbBé"), f"2026-0{rng.randrange(1, 4)}-01"
        return int(cursor.execute(rng.choice((
            f"replace into orders values ({key}, {v}, {key}.{rng.randrange(10, 99)}, 't{v}', now(3), {v} / 7)",
            f"update orders set v = {v}, d = -0.0 where id > {key} limit 3",
            f"update ignore orders set id = id + 7 where id = {key}",
            f"delete from orders where id = {key}",
            f"replace into pairs values ('{a}', '{b}', {v})",
            f"update ignore pairs set b = '{b}', v = {v} where a = '{a}' limit 1",
            f"delete from pairs where a = '{a}' and v = {v}",
            f"insert into bag values ({v}, 'x'), ({v}, 'x'), ({key}, null)",
            f"update bag set t = 'y{v}' where v = {v} limit 2",
            f"delete from bag where v <=> {v} limit 3",
        ))))  # fmt: skip

    def _gtid(self, cursor: Any) -> str:
        if self._server.flavor == "mariadb":
            cursor.execute("select @@last_gtid")
            return str(cursor.fetchone()[0])
        cursor.execute("select @@server_uuid, @@global.gtid_executed")
        uuid, executed = cursor.fetchone()
        mine = next(one for one in executed.replace("\n", "").split(",") if one.startswith(uuid))
        return f"{uuid}:{mine.rpartition(':')[2].rpartition('-')[2]}"

    def _position(self) -> str:
        return ":".join(map(str, self._server.binlog_position()))

    def _rows(self, cursor: Any) -> dict[str, Counter[Any]]:
        found = {}
        for name in TABLES:
            cursor.execute(f"select * from {name}")
            found[name] = Counter(map(repr, cursor.fetchall()))
        return found


def prove_moments(
    server: Any, database: str, directory: Path, *, transactions: int, seed: int
) -> int:
    """Compare the tables, and the versions of their rows, at each GTID and position with what the server had then.

    Gives how many moments were compared.
    """
    start = ":".join(map(str, server.binlog_position()))
    moments = Moments(server, database, seed)
    moments.run(transactions)
    options = {"tables": f"{database}.*", "startingPosition": start}
    log = typed_log(directory / "log", server.url(), **options)
    lake_of(log, directory / "lake", history=Selection([f"{database}.*"]))
    lake = open_lake(directory / "lake")
    versions = {name: lake.history((database, name))[-1].arrow() for name in KEYED}
    past, compared = LakePast(directory / "lake", log), 0
    for at, (gtid, position, wanted) in enumerate(moments.seen):
        for when in (gtid, position) if at + 1 < len(moments.seen) else (gtid, "latest"):
            moment = past.moment(when)
            for name, rows in wanted.items():
                found = past.read((database, name), moment)
                kept = [one for one in found.column_names if not one.startswith("_")]
                lines = [repr(tuple(one.values())) for one in found.select(kept).to_pylist()]
                assert Counter(lines) == rows, (when, name)
            compared += 1
        behind = past.moment(gtid).behind
        for name in KEYED:
            assert valid_at(versions[name], behind) == wanted[name], (gtid, name, "versions")
    return compared
