"""A workload with DDL on a real server, and the full comparison of its tables with the lake."""

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pymysql

from replica_client.lake import open_lake
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.storage.files import names_in
from replica_client.storage.location import Location

DATABASE = "shop"
_TWINS = ("first", "second")
_TWIN_STATEMENTS = (
    "rename table first to third, second to first, third to second",
    "rename table first to third, second to first, third to second",
    "alter table first modify v bigint",
    "alter table second modify v int",
)


class Workload:
    """Changes tables until it is stopped; a server that is gone is waited for.

    `pause` is the time between two transactions in seconds; with `whole` an INSERT gives all columns a value.
    """

    def __init__(
        self, server: Any, seed: int, pause: float = 0.02, ddl: float = 0.01, *, whole: bool = False
    ) -> None:
        self._server = server
        self._rng = random.Random(seed)
        self._pause = pause
        self._ddl = ddl
        self._whole = whole
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._twins: tuple[str, ...] = ()
        self._copy_wanted = threading.Event()
        self._types = itertools.cycle(("varchar(20)", "int"))
        self.statements: Counter[str] = Counter()
        self.failures = 0

    def prepare(self) -> None:
        """Makes and fills the tables."""
        for sql in (
            f"create database {DATABASE}",
            f"create table {DATABASE}.orders (id int primary key auto_increment, v int, name varchar(40), "
            "price decimal(12,3), made datetime(3), ratio double)",
            f"create table {DATABASE}.lines (shop varchar(9), nr int, v int, primary key (shop, nr))",
            f"create table {DATABASE}.notes (a int, b varchar(20))",
            f"create table {DATABASE}.parts (id bigint unsigned primary key, v int, doc json)",
        ):
            self._server.execute(sql)
        for at in range(0, 4000, 500):
            rows = ", ".join(
                f"({n}, {n}, 'é{n}', {n}.5, '2026-01-01 00:00:00.{n % 1000:03}', {n} / 7)"
                for n in range(at + 1, at + 501)
            )
            self._server.execute(f"insert into {DATABASE}.orders values {rows}")
        rows = ", ".join(f"('s{n % 5}', {n}, 0)" for n in range(300))
        self._server.execute(f"insert into {DATABASE}.lines values {rows}")
        rows = ", ".join(f"({n % 9}, 'x')" for n in range(200))
        self._server.execute(f"insert into {DATABASE}.notes values {rows}")

    def make_twins(self) -> None:
        """Two tables more, whose names are exchanged, and whose columns get types that copy them again."""
        for name in _TWINS:
            self._server.execute(f"create table {DATABASE}.{name} (id int primary key, v int)")
            rows = ", ".join(f"({n}, {n})" for n in range(1, 1500))
            self._server.execute(f"insert into {DATABASE}.{name} values {rows}")
        self._twins = _TWINS

    def again(self, seed: int) -> "Workload":
        """Another one, of the same tables."""
        other = Workload(self._server, seed, self._pause, self._ddl, whole=self._whole)
        other._twins = self._twins
        return other

    def want_copy(self) -> None:
        """Let the next statement be one that has a table copied again."""
        self._copy_wanted.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(120)

    def _run(self) -> None:
        connection = None
        while not self._stop.is_set():
            try:
                if connection is None:
                    connection = self._server.connect(autocommit=False, read_timeout=20)
                with connection.cursor() as cursor:
                    self._transaction(cursor)
                connection.commit()
            except pymysql.err.MySQLError as error:
                self.failures += 1
                if error.args and error.args[0] in (1062, 1213, 1205, 1054, 1060, 1091, 1146, 1136):
                    if connection is not None and connection.open:
                        connection.rollback()
                    continue
                if connection is not None:
                    connection._force_close()
                connection = None
                time.sleep(0.3)
            time.sleep(self._pause)
        if connection is not None and connection.open:
            connection.close()

    def _transaction(self, cursor: Any) -> None:
        rng = self._rng
        if self._copy_wanted.is_set():
            self._do(
                cursor, "ddl", f"alter table {rng.choice(self._twins)} modify v {next(self._types)}"
            )
            self._copy_wanted.clear()
            return
        if rng.random() < self._ddl:
            self._do(cursor, "ddl", self._statement())
            return
        for _ in range(rng.randrange(1, 4)):
            at, v = rng.randrange(1, 5000), rng.randrange(1000)
            for twin in self._twins:
                self._do(cursor, "update", f"replace into {twin} values ({at}, {v})")
            kind, sql = rng.choice(
                (
                    ("update", f"update orders set v = {v} where id = {at}"),
                    ("update", f"update orders set v = v + 1 where id between {at} and {at + 5}"),
                    ("delete", f"delete from orders where id = {at}"),
                    ("insert", self._insert(cursor, "orders", v=v, name=f"'n{v}'", made="now(3)")),
                    ("key", f"update ignore orders set id = id + 10000 where id = {at}"),
                    ("insert", self._insert(cursor, "lines", shop=f"'s{v % 5}'", nr=at % 400, v=v)),
                    ("delete", f"delete from lines where nr = {at % 400}"),
                    ("key", f"update ignore lines set shop = 'z' where nr = {at % 400}"),
                    ("insert", f"insert into notes (a, b) values ({v % 9}, 'x')"),
                    ("delete", f"delete from notes where a = {v % 9} limit 1"),
                    ("update", f"update notes set b = 'y{v % 3}' where a = {v % 9} limit 2"),
                    ("insert", f"replace into parts (id, v, doc) values ({at}, {v}, '[{v}, null]')"),
                )
            )  # fmt: skip
            self._do(cursor, kind, sql)

    def _insert(self, cursor: Any, table: str, **values: Any) -> str:
        if self._whole:
            cursor.execute(
                "select column_name from information_schema.columns where table_schema = %s and table_name = %s",
                (DATABASE, table),
            )
            values = {row[0]: values.get(row[0], "default") for row in cursor.fetchall()}
        given = ", ".join(map(str, values.values()))
        return f"replace into `{table}` ({', '.join(values)}) values ({given})"

    def _statement(self) -> str:
        rng = self._rng
        number = rng.randrange(3)
        return str(
            rng.choice(
                (
                    *(_TWIN_STATEMENTS if self._twins else ()),
                    f"alter table orders add column c{number} varchar(20)",
                    f"alter table orders drop column c{number}",
                    f"alter table orders rename column c{number} to d{number}",
                    f"alter table orders drop column d{number}",
                    "alter table orders modify name varchar(60)",
                    f"alter table lines add column n{number} int not null default {number}",
                    f"alter table lines drop column n{number}",
                    "truncate table parts",
                    "drop table parts",
                    "create table if not exists parts (id bigint unsigned primary key, v int, doc json)",
                    "rename table parts to tmp, tmp to parts",
                    f"alter table parts add index i{number} (v)",
                )
            )
        )

    def _do(self, cursor: Any, kind: str, sql: str) -> None:
        cursor.execute(f"use {DATABASE}")
        cursor.execute(sql)
        self.statements[kind] += 1


def compare(
    server: Any,
    lake: Location,
    without: tuple[str, ...] = (),
    read: Callable[[str], pa.Table] | None = None,
) -> dict[str, int]:
    """Every row of every other table, read with the driver and from Delta, or by a reader; returns rows by table.

    Fails with the first rows that differ.
    """
    found = {}
    names = [str(row[0]) for row in server.query(
        "select table_name from information_schema.tables where table_schema = %s", (DATABASE,))]  # fmt: skip
    names = [name for name in names if name not in without]
    found_there = open_lake(lake)
    there = sorted(name for database, name in found_there.names() if database == DATABASE)
    assert sorted(names) == there, (names, there)
    catalog = LakeCatalog.load(lake)
    assert catalog is not None
    kept = sum(len(catalog.history_homes(entry)) for entry in catalog.tables.values())
    directories = names_in(lake / "tables")
    assert len(directories) == len(found_there.names()) + kept, "there are directories of no table"
    for name in names:
        with server.connected() as connection, connection.cursor() as cursor:
            cursor.execute(f"select * from {DATABASE}.`{name}`")
            columns = [one[0] for one in cursor.description]
            theirs = Counter(tuple(map(repr, map(_plain, row))) for row in cursor.fetchall())
        table = read(name) if read else found_there.table((DATABASE, name)).arrow()
        if catalog.tables[DATABASE, name].soft_deletes and "_deleted" in table.column_names:
            table = table.filter(pc.invert(table["_deleted"]))
        kept = [one for one in table.column_names if not one.startswith("_")]
        assert sorted(kept) == sorted(columns), (name, kept, columns)
        mine = Counter(
            tuple(repr(_plain(row[one])) for one in columns) for row in table.to_pylist()
        )
        assert mine == theirs, (
            name,
            list((mine - theirs).items())[:3],
            list((theirs - mine).items())[:3],
        )
        if catalog.tables[DATABASE, name].history:
            versions = found_there.history((DATABASE, name))[-1].arrow()
            valid = versions.filter(pc.is_null(versions["_valid_to"]))
            assert valid.num_rows == table.num_rows, (name, valid.num_rows, table.num_rows)
            shown = Counter(
                tuple(repr(_plain(row[one])) for one in columns) for row in valid.to_pylist()
            )
            assert shown == theirs, (name, "versions")
        found[name] = sum(theirs.values())
    return found


def _plain(value: Any) -> Any:
    # BIGINT UNSIGNED is a decimal there.
    whole = isinstance(value, Decimal) and value.as_tuple().exponent == 0
    return int(value) if whole else value
