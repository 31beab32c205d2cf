"""Sequences, versioned tables, generated and invisible columns of MariaDB: what events and lakes have of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("deltalake")

import replica_client as rc
from replica_client.lake.lake_table import cannot_hold
from replica_client.schema.model import TableModel
from replica_client.snapshot.present_definitions import read_definitions
from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url


async def _definitions(server: Any, database: str) -> dict[str, TableModel]:
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        found = await read_definitions(connection)
    return {name: model for (schema, name), model in found.items() if schema == database}


@pytest.mark.parametrize("name", ["mariadb-10.11", "mariadb-11.8"])
def test_special_tables(server, new_database, name):
    source = server(name)
    database = new_database(source)
    start = rc.Position(*source.binlog_position())
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("create sequence s cache 2")
        cursor.execute("create table t (id int primary key default nextval(s), v int)")
        for number in range(6):
            cursor.execute(f"insert into t (v) values ({number})")
        cursor.execute("create table v (id int primary key, a int) with system versioning")
        cursor.execute("insert into v values (1, 1)")
        cursor.execute("update v set a = 2")
        cursor.execute("delete from v")
        cursor.execute("create table i (id int primary key, a int invisible default 3)")
        cursor.execute("insert into i (id) values (1)")
        cursor.execute("select next_not_cached_value from s")
        [[state]] = cursor.fetchall()
        cursor.execute("select id, a from i")
        invisible = cursor.fetchall()
    with rc.follow(source.url(), tables=[f"{database}.*"], start=start, stop_at_end=True) as stream:
        changes = [(one.table, one.kind, one.after) for one in stream.changes()]
        streamed = {one: stream.history.table((database, one)) for one in "stvi"}
    present = asyncio.run(_definitions(source, database))
    for models in (streamed, present):
        assert [one for one, model in models.items() if model.is_sequence] == ["s"]
        assert "sequence" in cannot_hold(models["s"])
        assert "SYSTEM VERSIONING" in cannot_hold(models["v"])
        assert cannot_hold(models["t"]) == cannot_hold(models["i"]) == ""
    refills = [after[0] for table, kind, after in changes if (table, kind) == ("s", "insert")]
    assert refills[-1] == state
    assert sorted(set(refills)) == refills
    assert [kind for table, kind, _ in changes if table == "v"] == [
        "insert",
        "update",
        "insert",
        "update",
    ]
    assert [tuple(after) for table, _, after in changes if table == "i"] == list(invisible)
