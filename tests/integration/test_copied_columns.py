"""Rows of a copy cast by Arrow are those that their values make one by one."""

import asyncio

import pytest

pytest.importorskip("deltalake")

from replica_client.lake import typed_columns
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.typed_columns import copied_rows
from replica_client.rows.arrow_types import allocate
from replica_client.rows.json_values import json_null_columns, row_to_json, with_json_nulls
from replica_client.stream.snapshot import reading
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.lake_types import TYPES

MORE = {
    "zeros": (
        "a int(9) zerofill, b decimal(12,2) zerofill, c bigint(20) unsigned zerofill, d double zerofill, "
        "e float, f decimal(50,5)",
        "42, 12.5, 18446744073709551615, 1.5, -1.17549e-38, -12345678901234567890123456789.00001",
        "0, 0, 0, 0, 3.40282e38, 0",
    ),
    "strings": (
        "a char(3) character set latin1 collate latin1_bin, b varchar(300), c text character set sjis, "
        "d set('a', 'b', 'ä'), e enum('', 'x', 'ä'), f char(3) character set binary, g geometry",
        "'é', repeat('€', 300), 'ソ', 'a,ä', 'ä', x'0000', st_geomfromtext('LINESTRING(0 0, 1 1)', 0)",
        "'', '', '', '', '', '', null",
    ),
}
ONLY = {
    "mysql-9.7": {"documents": (
        "a json, b vector(3)",
        "'[null, 1.0, \"\\\\u0000\", 1e300]', to_vector('[1, -0.5, 1e-30]')",
        "'null', null",
        "'{\"a\": \"null\"}', null",
    )},
    "mariadb-11.8": {"addresses": (
        "a uuid, b inet6, c inet4, d json",
        "'123e4567-e89b-12d3-a456-426655440000', '::ffff:1.2.3.4', '1.2.3.4', '{\"a\": 1}'",
        "null, '::', '0.0.0.0', 'null'",
    )},
}  # fmt: skip


def tables(name):
    return {**TYPES, **MORE, **ONLY[name]}


def make(server, database, name):
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = '', time_zone = '+00:00', names utf8mb4")
        cursor.execute(f"use {database}")
        for table, (columns, *rows) in tables(name).items():
            cursor.execute(
                f"create table {table} (id int primary key, {columns}) character set utf8mb4"
            )
            for number, row in enumerate([*rows, *rows]):
                cursor.execute(f"insert into {table} values ({number}, {row})")
            cursor.execute(f"insert into {table} (id) values (99)")
        connection.commit()


def change_log_text(row):
    """Return a row as the change log of a lake has it: JSON ``null`` is named apart from SQL NULL."""
    text = row_to_json(row)
    return with_json_nulls(text, json_null_columns(row.columns, row, text))


async def both_ways(options, database):
    """By table its rows as columns, and decoded of their JSON texts as those of the change log are."""
    found = {}
    async with await SourceConnection.open(options) as connection:
        models = await read_definitions(connection)
        for (there, name), model in models.items():
            if there != database:
                continue
            shape, parts = LakeTable(model), []
            async with reading(connection, model) as chunk:
                async for columns in chunk.columns(allocate, rows=3):
                    parts += copied_rows(shape, columns.texts, columns.value).to_pylist()
            async with reading(connection, model) as chunk:
                texts = [change_log_text(row) async for rows in chunk.rows() for row in rows]
            found[name] = parts, shape.to_arrow(shape.decode(texts)).to_pylist()
    return found


@pytest.mark.parametrize("name", sorted(ONLY))
def test_as_made_one_by_one(server, new_database, monkeypatch, name):
    source = server(name)
    database = new_database(source)
    make(source, database, name)
    made = []
    real = typed_columns._made
    monkeypatch.setattr(
        typed_columns,
        "_made",
        lambda column, *rest: made.append(column.name) or real(column, *rest),
    )
    options = parse_url(source.url())
    for table, (columns, wanted) in asyncio.run(both_ways(options, database)).items():
        assert [repr(row) for row in columns] == [repr(row) for row in wanted], table
        made.append(table)
    assert set(made) > set(tables(name))
    assert "id" not in made, "what is cast by Arrow is not made one by one"
