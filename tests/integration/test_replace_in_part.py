"""REPLACE under row images that leave columns out: MariaDB logs an UPDATE without those that got their defaults."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pymysql
import pytest

from replica_client import ABSENT, open_binlog
from replica_client.errors import SinkError
from replica_client.schema.history import SchemaHistory
from replica_client.sinks.mirror.collector import ApplyRows, Collector, NewTable


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB", "FULL"])
def test_what_the_binlog_has_is_delivered(any_server, new_database, image: str) -> None:
    server = any_server
    database = new_database(server)
    start = server.binlog_position()
    session = server.connect()
    session.query(f"SET binlog_row_image = {image}")
    table = f"{database}.t"
    session.query(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, g INT UNIQUE, x TEXT) CHARSET utf8mb4"
    )
    session.query(f"INSERT INTO {table} VALUES (1, 10, 'old')")
    session.query(f"REPLACE INTO {table} (id, g) VALUES (2, 10)")
    assert server.query(f"SELECT x FROM {table}") == [(None,)]
    files = [server.binlog_path(one) for one in server.binlog_files()]
    last = list(
        open_binlog(
            files,
            start=f"{start[0]}:{start[1]}",
            tables=table,
            schema=SchemaHistory(lower_case_names=False),
        ).changes()
    )[-1]
    lacks = server.flavor == "mariadb" and image != "FULL"
    assert last.after["x"] is (ABSENT if lacks else None)


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB", "FULL_NODUP", "FULL"])
def test_mirrors_take_no_update_that_may_be_a_replace(any_server, new_database, image: str) -> None:
    server = any_server
    database = new_database(server)
    start = server.binlog_position()
    session = server.connect()
    try:
        session.query(f"SET binlog_row_image = {image}")
    except pymysql.err.MySQLError:
        assert image == "FULL_NODUP"
        return  # MariaDB has it since 11.4
    table = f"{database}.t"
    session.query(f"CREATE TABLE {table} (id INT PRIMARY KEY, g INT UNIQUE, x TEXT, y INT)")
    session.query(f"INSERT INTO {table} VALUES (1, 10, 'old', 7)")
    session.query(f"REPLACE INTO {table} (id, g) VALUES (2, 10)")
    session.query(f"UPDATE {table} SET g = 11")
    steps = Collector({}, lambda column: None, create=True, strict=True, copies={})

    def mirrored() -> list[Any]:
        rows = []
        for transaction in open_binlog(
            [server.binlog_path(one) for one in server.binlog_files()],
            start=f"{start[0]}:{start[1]}",
            tables=table,
            schema=SchemaHistory(lower_case_names=False),
        ).transactions():
            for step in chain(steps.take(transaction), steps.flush()):
                if isinstance(step, NewTable):
                    steps.tables[database, "t"] = step.model
                if isinstance(step, ApplyRows):
                    rows.append(step)
        return rows

    if server.flavor == "mariadb" and image in ("MINIMAL", "NOBLOB"):
        with pytest.raises(SinkError, match="binlog_row_image=FULL"):
            mirrored()
    else:
        assert len(mirrored()) == 3
