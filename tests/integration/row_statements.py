"""Statements that change rows, or may, of which no row event tells, and others that look alike."""

from __future__ import annotations

from typing import Any, NamedTuple

import pymysql

RANGES = "partition by range (id) (partition p0 values less than (10), partition p1 values less than (99))"
TABLE = "id int primary key, v int"


class Case(NamedTuple):
    """Tables with rows, and what is done to them.

    Attributes:
        before: statements that make them.
        after: statements; those that the server does not know are left out.
        same: whether a lake and a mirror must go on, because no row changes but by events.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    same: bool = False


def _tables(options: str = "", *, rows: str = "(1, 1), (20, 2)") -> tuple[str, ...]:
    return (f"create table t ({TABLE}) {options}", f"insert into t values {rows}")


_TWO = (*_tables(RANGES), f"create table u ({TABLE})")
CASES = {
    "drop partition": Case(_tables(RANGES), ("alter table t drop partition p0",)),
    "truncate partition": Case(_tables(RANGES), ("alter table t truncate partition p1",)),
    "exchange partition": Case(
        (*_TWO, "insert into u values (5, 5)"), ("alter table t exchange partition p0 with table u",)
    ),
    "exchange with an empty table": Case(_TWO, ("alter table t exchange partition p0 with table u",)),
    "exchange with an empty partition": Case(
        (*_TWO, "delete from t", "insert into u values (5, 5)"),
        ("alter table t exchange partition p0 with table `u`",),
    ),
    "partition becomes a table": Case(
        _tables(RANGES), ("alter table t convert partition p0 to table n", "insert into n values (3, 3)")
    ),
    "table becomes a partition": Case(
        (*_TWO, "insert into u values (150, 5)"),
        ("alter table t convert table u to partition p2 values less than (200)",),
    ),
    "add and reorganize partitions": Case(
        _tables(RANGES),
        ("alter table t add partition (partition p2 values less than (200))",
         "alter table t reorganize partition p0 into (partition p0 values less than (5), "
         "partition p5 values less than (10))",
         "insert into t values (150, 3)", "alter table t remove partitioning", "delete from t where id = 1"),
        same=True,
    ),
    "partitioned later": Case(_tables(), (f"alter table t {RANGES}", "update t set v = 7"), same=True),
    "duplicates go": Case(
        _tables(rows="(1, 1), (20, 1)"), ("alter ignore table t add unique (v)",)
    ),
    "an engine without rows": Case(_tables(), ("alter table t engine = blackhole",)),
    "another engine": Case(_tables(), ("alter table t engine = myisam", "delete from t where id = 1"), same=True),
    "a tablespace goes": Case(_tables(), ("alter table t discard tablespace", "drop table t")),
    "another expression": Case(
        ("create table t (id int primary key, v int, g int as (v + 1) stored)", "insert into t (id, v) values (1, 1)"),
        ("alter table t modify g int as (v + 2) stored",),
    ),
    "another type below an expression": Case(
        ("create table t (id int primary key, v int, g varchar(9) as (concat(v)) stored)",
         "insert into t (id, v) values (1, 1)"),
        ("alter table t modify v decimal(5, 1)",),
    ),
    "a foreign key that deletes": Case(
        ("create table p (id int primary key)", *_tables(), "insert into p values (1), (2)"),
        ("alter table t add foreign key (v) references p (id) on delete cascade", "delete from p where id = 1"),
    ),
    "a new table with a foreign key that deletes": Case(
        ("create table p (id int primary key)", "insert into p values (1), (2)"),
        ("create table t (id int primary key, v int, foreign key (v) references p (id) on delete set null)",
         "insert into t values (1, 1)", "delete from p where id = 1"),
    ),
    "a foreign key that refuses": Case(
        ("create table p (id int primary key)", *_tables(), "insert into p values (1), (2)"),
        ("alter table t add foreign key (v) references p (id) on delete restrict", "delete from t"),
        same=True,
    ),
    "replaced": Case(
        _tables(), ("create or replace table t (id int primary key, w int)", "insert into t values (3, 4)"), same=True
    ),
    "exchanged names": Case(
        (*_TWO, "insert into u values (5, 5)"),
        ("rename table t to x, u to t, x to u", "insert into t values (6, 6)"),
        same=True,
    ),
    "exchanged columns": Case(
        ("create table t (id int primary key, a int, b int)", "insert into t values (1, 1, 2)"),
        ("alter table t change a b int, change b a int", "insert into t (id, a, b) values (2, 3, 4)"),
        same=True,
    ),
    "names in another letter case": Case(
        _tables(),
        ("update t set v = 7 where id = 20", "alter table t change id ID int, change v V int",
         "insert into t values (3, 3)", "update t set v = 9 where id = 1"),
        same=True,
    ),
}  # fmt: skip


_OF_OTHER_SERVERS = (1005, 1031, 1064, 1146, 1215, 1235, 1286, 1478, 1504, 1506, 4140)


def run(server: Any, database: str, statements: tuple[str, ...]) -> bool:
    """Run statements in a database; False where one is of another kind of server: it is left out."""
    done = True
    with server.connected(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        for statement in statements:
            try:
                cursor.execute(statement)
            except pymysql.err.MySQLError as error:
                assert error.args[0] in _OF_OTHER_SERVERS, error
                done = False
    return done
