"""Values of every type, altered into every other and joined by new columns: what a lake and a mirror make of them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from replica_client.errors import SinkError
from replica_client.sinks.registry import make_sink
from tests.integration.sink_comparison import compare_sink
from tests.integration.sink_driver import drive
from tests.integration.test_lake_row_images import log_batch, server_rows, shown
from tests.integration.test_lake_unmerged import run as run_lake

STRICT = "STRICT_TRANS_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE"

_WHOLE = (
    *("int not null", "varchar(20)", "char(3)", "decimal(10,2)", "double", "float", "bigint unsigned"),
    *("smallint", "text", "bit(8)", "year", "enum('1','70000')", "datetime", "varbinary(9)", "json", "blob"),
)  # fmt: skip
_TEXT = (
    *("char(10)", "varchar(3)", "text", "varchar(10) character set latin1", "int", "varchar(10) not null"),
    *("varbinary(40)", "binary(40)", "enum('a','é')", "json", "date", "varchar(20) character set utf16"),
)  # fmt: skip
_NEW_COLUMNS = (
    *("int not null", "varchar(5) not null", "char(3) not null", "binary(3) not null", "date not null"),
    *("varbinary(3) not null", "datetime not null", "timestamp not null", "time not null", "year not null"),
    *("enum('x','y') not null", "set('x','y') not null", "bit(3) not null", "decimal(5,2) not null"),
    *("double not null", "json not null", "text not null", "blob not null", "point not null", "timestamp"),
    *("datetime default now()", "timestamp null default now()", "datetime(3) default now(3)", "serial"),
    *("date default (current_date)", "int default (1+1)", "varchar(40) default (uuid())", "int default '7'"),
    *("varchar(9) default 'é😀'", "decimal(5,1) default 1.26", "float default 0.1", "bit(4) default b'101'"),
    *("varbinary(4) default x'00ff'", "varchar(4) default x'41'", "int default 0x10", "varbinary(4) default 'é'"),
    *("year default 26", "year default '0'", "year default 2026", "time default '10:11:12.6'"),
    *("datetime default '2026-01-02'", "enum('x','y') default 'y'", "enum('x','y') default 'Y'"),
    *("set('x','y') default 'y,x'", "boolean default true", "bigint unsigned default 18446744073709551615"),
    *("char(4) default 'a  '", "binary(4) default 'a'", "timestamp default '2026-01-02 03:04:05'"),
    *("date default '2026-1-2'", "varchar(9) as (concat(v, 'x'))", "int unique auto_increment"),
    *("int default 5 first", "uuid default '123e4567-e89b-12d3-a456-426614174000'", "double default 1e2"),
    *("enum('2','1') default 1", "char(9) default 1e3", "varchar(9) default 007", "double(9,2) default 1.239"),
    *("bit(8) default '5'", "double default -0e0"),
)  # fmt: skip
_ALTERED: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("int", ("1", "-5", "70000", "null"), _WHOLE),
    ("int(6) zerofill", ("1", "70000"), ("varchar(9)", "int", "int(3) zerofill", "decimal(9,1)", "text")),
    ("float", ("0.1", "1e20", "-3.25", "null"), ("double", "decimal(30,5)", "varchar(30)", "int", "float not null")),
    ("double", ("0.1", "1e20", "1e-7", "null"), ("float", "decimal(40,5)", "varchar(40)", "bigint", "double not null")),
    ("decimal(10,3)", ("1.005", "-2.500", "null"),
     ("decimal(10,2)", "double", "varchar(20)", "int", "decimal(12,4)", "decimal(12,3) not null")),
    ("varchar(10) character set utf8mb4", ("'a'", "'a  '", "''", "'12'", "'é'", "'😀'", "null"), _TEXT),
    ("char(5) character set latin1", ("'a'", "'b '", "'é'"),
     ("varchar(5)", "varchar(5) character set utf8mb4", "binary(5)", "varbinary(5)", "text", "char(3)")),
    ("varbinary(10)", ("'a'", "x'00ff'", "'a '"),
     ("binary(10)", "varchar(10) character set latin1", "varchar(10) character set utf8mb4", "blob", "varbinary(2)")),
    ("binary(4)", ("'a'", "x'00ff'"), ("varbinary(9)", "binary(6)", "binary(2)", "char(4) character set latin1")),
    ("enum('a','b','c') character set utf8mb4", ("'a'", "'c'", "null"),
     ("enum('a','b','c','d')", "enum('c','b','a')", "enum('a','b')", "varchar(5)", "int", "set('a','b','c')",
      "enum('a','b','c') not null")),
    ("set('a','b','c') character set utf8mb4", ("'a,c'", "''", "null"),
     ("set('a','b','c','d')", "set('c','a','b')", "varchar(9)", "int", "set('a','b','c') not null")),
    ("date", ("'2026-01-02'", "null"), ("datetime", "varchar(20)", "timestamp null", "int", "date not null")),
    ("datetime(3)", ("'2026-01-02 03:04:05.678'", "null"),
     ("datetime", "datetime(6)", "date", "timestamp(3) null", "varchar(30)", "time", "datetime(3) not null")),
    ("timestamp(2) null", ("'2026-01-02 03:04:05.67'", "null"),
     ("datetime(2)", "timestamp null", "varchar(30)", "timestamp(4) null", "timestamp(2) not null", "timestamp(2)")),
    ("time", ("'-10:11:12'", "'100:00:00'"), ("time(3)", "varchar(20)", "int", "datetime")),
    ("year", ("2026", "1901"), ("int", "varchar(9)", "date", "smallint")),
    ("bit(9)", ("b'101'", "b'100000000'"), ("bit(20)", "bit(3)", "int", "varbinary(9)", "bigint unsigned")),
    ("json", ("'{\"b\": 1, \"a\": [1.50, null]}'", "null"), ("text", "longtext character set utf8mb4", "longblob")),
    ("text character set utf8mb4", ("'{\"b\":1}'", "'[1]'"), ("json", "mediumtext", "varchar(50)", "tinytext")),
    ("bigint unsigned", ("18446744073709551615", "1"), ("varchar(30)", "decimal(30,0)", "double", "bigint")),
    ("uuid", ("'123e4567-e89b-12d3-a456-426614174000'",), ("varchar(40)", "binary(16)", "char(36)")),
    ("inet6", ("'::1'",), ("varchar(40)", "varbinary(16)")),
)  # fmt: skip
CASES = [(old, values, new) for old, values, news in _ALTERED for new in news] + [
    ("int", ("1", "2"), f"int, add n {new}") for new in _NEW_COLUMNS
]


@dataclass
class Proof:
    """What became of tables that a server altered.

    Attributes:
        lake: tables of the lake by whether they are current.
        mirrors: mirrors by whether they went on.
        wrong: what was shown as current and is not what the source has.
    """

    lake: Counter[str] = field(default_factory=Counter)
    mirrors: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"lake {dict(self.lake)}, mirrors {dict(self.mirrors)}, {len(self.wrong)} wrong {self.wrong}"


def prove(
    server: Any, database: str, directory: Path, *, sql_mode: str, count: int, seed: int
) -> Proof:
    """Alter columns of every type, and compare what a lake and SQLite mirrors made of it.

    Args:
        server: the source.
        database: an empty one.
        directory: an empty one.
        sql_mode: of the session that alters.
        count: how many of the alterations, chosen by the seed; all where there are fewer.
        seed: see there.
    """
    chosen = random.Random(seed).sample(CASES, min(count, len(CASES)))
    server.rotate()
    start = f"{server.binlog_files()[-1]}:4"
    done = _alter(server, database, chosen, sql_mode)
    proof = Proof()
    log_batch(directory, 0, server.url(), start, database)
    engine = run_lake(directory, "always")
    for name, case in done.items():
        entry = engine.catalog.tables[database, name]
        proof.lake[entry.status] += 1
        if entry.status == "current":
            _compare_lake(server, engine, (database, name), case, proof)
        asyncio.run(
            _mirror(server, f"{database}.{name}", directory / f"{name}.db", start, case, proof)
        )
    return proof  # fmt: skip


def _alter(server: Any, database: str, cases: list[Any], sql_mode: str) -> dict[str, Any]:
    done: dict[str, Any] = {}
    with server.connected(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("set time_zone = '+05:00'")
        for number, case in enumerate(cases):
            old, values, new = case
            name = f"t{number}"
            try:
                cursor.execute("set sql_mode = ''")
                cursor.execute(f"create table {name} (id int primary key, v {old})")
                for key, value in enumerate(values):
                    cursor.execute(f"insert into {name} values ({key}, {value})")
                cursor.execute(f"set sql_mode = '{sql_mode}'")
                cursor.execute(f"alter table {name} modify v {new}")
            except pymysql.err.MySQLError:
                continue  # the server has no such type, or refuses what becomes of the values
            done[name] = case
    return done


def _compare_lake(
    server: Any, engine: Any, table: tuple[str, str], case: Any, proof: Proof
) -> None:
    state = engine.tables.of(engine.catalog.tables[table])
    # FLOAT is shown with six digits otherwise.
    names = ", ".join(
        f"{name} + 0e0" if name == "v" and case[2].startswith("float") else name
        for name in (column.name for column in state.shape.columns)
    )
    theirs = server_rows(server.query(f"select {names} from {table[0]}.{table[1]}"))
    mine = shown(state.dataset().to_table())
    if mine != theirs:
        proof.wrong.append(f"lake, {case}: {dict(mine - theirs)} instead of {dict(theirs - mine)}")


async def _mirror(server: Any, table: str, path: Path, start: str, case: Any, proof: Proof) -> None:
    options = {"path": str(path)}
    sink = make_sink("sqlite", options)
    try:
        await drive(sink, server, [table], start, commit_every=1)
    except SinkError:
        proof.mirrors["refused"] += 1
        await sink.close()
        return
    try:
        compare_sink("sqlite", options, server, tables=[table])
    except AssertionError as error:
        proof.wrong.append(f"mirror, {case}: {error}")
    else:
        proof.mirrors["equal"] += 1
