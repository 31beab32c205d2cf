"""Copies read text by the stream's rule, in every character set: also bytes that are no text of it."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pymysql
import pytest

import replica_client as rc
from replica_client import DecodeOptions
from replica_client.errors import ColumnDecodeError
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.typed_columns import copied_rows
from replica_client.rows.arrow_types import allocate
from replica_client.stream.snapshot import KeyRange, reading
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection

_CODE_FAULT = 1300
SEED = 20261127


def _fill(server: Any, database: str) -> dict[str, list[int]]:
    """Make a table for each character set; gives the ids of its rows."""
    rng = random.Random(SEED)
    tables: dict[str, list[int]] = {}
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("set sql_mode = ''")
        cursor.execute("show character set")
        for charset in sorted(row[0] for row in cursor.fetchall()):
            if charset == "binary":
                continue
            cursor.execute(
                f"create table t_{charset} (id int primary key, a char(9), b varchar(20), c text) "
                f"character set {charset}"
            )
            ids = tables[f"t_{charset}"] = []
            values = [b"", b"A\x98", b"\xd0\xb0", b"a  ", bytes(range(0x98, 0xA0))]
            values += [rng.randbytes(rng.randrange(1, 9)) for _ in range(40)]
            for number, value in enumerate(values):
                text = f"_{charset} x'{value.hex()}'"
                try:
                    cursor.execute(
                        f"insert into t_{charset} values ({number}, {text}, {text}, {text})"
                    )
                except pymysql.err.MySQLError as error:
                    if error.args[0] != _CODE_FAULT:
                        raise
                    continue
                ids.append(number)
    return tables


async def _copied(server: Any, name: tuple[str, str], policy: Any) -> dict[int, Any]:
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        model = (await read_definitions(connection, name))[name]
        async with reading(connection, model, KeyRange(), invalid_text=policy) as chunk:
            return {row[0]: tuple(row[1:]) async for rows in chunk.rows() for row in rows}


async def _lake(server: Any, name: tuple[str, str]) -> dict[int, Any]:
    found = {}
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        model = (await read_definitions(connection, name))[name]
        async with reading(connection, model, KeyRange(), invalid_text="replace") as chunk:
            async for part in chunk.columns(allocate):
                for row in copied_rows(LakeTable(model), part.texts, part.value).to_pylist():
                    found[row["id"]] = (row["a"], row["b"], row["c"])
    return found


def _streamed(server: Any, database: str, start: Any, policy: Any) -> dict[str, dict[int, Any]]:
    found: dict[str, dict[int, Any]] = {}
    options = DecodeOptions(invalid_text=policy)
    with rc.follow(
        server.url(), tables=[f"{database}.*"], start=start, stop_at_end=True, options=options
    ) as stream:
        for change in stream.changes():
            found.setdefault(change.table, {})[change.after[0]] = tuple(change.after[1:])
    return found


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_copies_have_the_values_of_the_stream(server, new_database, name):
    source = server(name)
    database = new_database(source)
    start = rc.Position(*source.binlog_position())
    tables = _fill(source, database)
    invalid = 0
    for policy in ("replace", "bytes"):
        streamed = _streamed(source, database, start, policy)
        for table, ids in tables.items():
            copied = asyncio.run(_copied(source, (database, table), policy))
            assert sorted(copied) == ids
            assert copied == streamed.get(table, {}), (table, policy)
            if policy == "replace":
                assert asyncio.run(_lake(source, (database, table))) == copied, table
                invalid += any("\ufffd" in value for row in copied.values() for value in row)
    assert invalid > 3


def test_an_error_names_the_column_and_the_remedy(server, new_database):
    source = server("mysql-9.7")
    database = new_database(source)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("create table t (id int primary key, v varchar(9) character set cp1251)")
        cursor.execute("insert into t values (1, x'4198')")
    with pytest.raises(
        ColumnDecodeError, match=rf"{database}\.t column v, in a copy: .*invalid_text"
    ):
        asyncio.run(_copied(source, (database, "t"), "strict"))
