"""The lake's checker: equal to what servers hold at the edges of every type, and not fooled by a wrong writer.

Rows are copied by the lake's own code into a Parquet file, which the checker reads; a wrong rule of the writer is
planted by changing the rows before they are written.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("deltalake")

from replica_client.lake.lake_table import LakeTable
from replica_client.lake.typed_columns import copied_rows
from replica_client.lake.verify.row_groups import differing
from replica_client.lake.verify.sides import (
    FileTask,
    file_checksums,
    file_rows,
    source_checksums,
    source_rows,
)
from replica_client.rows.arrow_types import allocate
from replica_client.storage.location import location
from replica_client.stream.snapshot import KeyRange, reading
from replica_client.stream.snapshot.watermarks import read_definitions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.lake_types import KEYS, NAMES, change_types, make_types
from tests.integration.writer_mutations import (
    MUTATIONS as MUTATIONS_OF_THE_WRITER,
    found_by_verifier,
    make_tables,
)

EDGES = {
    "documents": ("json", "'null'", "NULL", "'\"\"'", "'0'", "'false'", "'\"null\"'", "'[null]'"),
    "doubles": ("double", "-0e0", "0", "5e-324", "1.7976931348623157e308", "1e15", "1e-15", "123456789012345.6"),
    "singles": ("float", "-0e0", "0", "3.4028235e38", "1e-45", "16777217", "0.1"),
    "decimals": ("decimal(65,30)", f"{'9' * 35}.{'9' * 30}", f"-{'9' * 35}.{'9' * 30}", "0", "NULL", "-1e-30"),
    "small_decimals": ("decimal(10,2)", "-99999999.99", "0.10", "-0.00"),
    "times": ("time(6)", "'-838:59:59.000000'", "'838:59:59'", "'00:00:00.000001'", "'-00:00:00.000001'", "NULL"),
    "years": ("year", "0", "1901", "2155", "NULL"),
    "dates": ("date", "'0000-00-00'", "'2026-00-10'", "'9999-12-31'", "NULL"),
    "moments": ("datetime(3)", "'0000-00-00'", "'2026-01-02 03:04:05.006'", "'1000-01-01'", "NULL"),
    "stamps": ("timestamp(6) null", "'1970-01-01 00:00:01.000001'", "0", "NULL"),
    "texts": ("varchar(20)", "''", "NULL", "' a '", "'a  '", "'null'", "'é😀'", "'a\\0b'"),
    "fixed": ("char(5)", "''", "NULL", "' a'", "'ab'"),
    "octets": ("varbinary(9)", "''", "NULL", "x'00'", "x'2000'", "'a '"),
    "blobs": ("blob", "''", "NULL", "x'00ff'"),
    "bits": ("bit(64)", "0", "1", "x'ffffffffffffffff'", "NULL"),
    "shapes": ("geometry", "point(0, -0e0)", "NULL", "ST_GeomFromText('LINESTRING(0 0,1 1)', 4326)"),
    "labels": ("enum('a', 'null', '')", "'a'", "'null'", "''", "0", "NULL"),
    "sets": ("set('x', 'null')", "''", "'x,null'", "NULL"),
}  # fmt: skip
"""A column's type, and values at its edges: of each what means nothing beside what is not there."""

VECTORS = {"mysql": "to_vector", "mariadb": "vec_fromtext"}


def _null_documents(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(values, "null"), pa.scalar(None, values.type), values)


def _each(change: Callable[[Any], Any]) -> Callable[[pa.ChunkedArray], pa.Array]:
    def changed(values: pa.ChunkedArray) -> pa.Array:
        made = [None if one is None else change(one) for one in values.to_pylist()]
        return pa.array(made, values.type)

    return changed


MUTATIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "a document null is NULL": ("documents", _null_documents),
    "zero has no sign": ("doubles", _each(lambda value: value + 0.0)),
    "zero has no sign, in FLOAT": ("singles", _each(lambda value: value + 0.0)),
    "milliseconds are cut": ("moments", lambda values: pc.floor_temporal(values, unit="second")),
    "microseconds are cut": (
        "stamps",
        lambda values: pc.floor_temporal(values, unit="millisecond"),
    ),
    "texts are trimmed": ("texts", pc.utf8_rtrim_whitespace),
    "an empty text is NULL": ("texts", _each(lambda value: value or None)),
    "an empty blob is NULL": ("blobs", _each(lambda value: value or None)),
    "octets are trimmed": ("octets", _each(lambda value: value.rstrip(b"\0"))),
    "a bit is lost": ("bits", _each(lambda value: int(value) & ~1)),
    "vectors are negative": ("vectors", _each(lambda value: [-one for one in value])),
    "a geometry has no srid": ("shapes", _each(lambda value: {**value, "srid": 0})),
    "the year 0 is NULL": ("years", _each(lambda value: value or None)),
    "an empty set is NULL": ("sets", _each(lambda value: value or None)),
    "hours end at a day": ("times", _each(lambda value: value.replace("838:", "22:"))),
}


async def _compared(
    server: Any, database: str, name: str, path: Path, change: Callable[[Any], Any] | None = None
) -> tuple[Counter[Any], Counter[Any], bool]:
    """The texts of the server's rows, those of the file's, and whether the checksums differ."""
    options = parse_url(server.url())
    async with await SourceConnection.open(options) as connection:
        model = (await read_definitions(connection, (database, name)))[database, name]
        shape = LakeTable(model)
        parts = []
        async with reading(connection, model, KeyRange()) as chunk:
            async for found in chunk.columns(allocate):
                parts.append(copied_rows(shape, found.texts, found.value))
        rows = pa.concat_tables(parts)
        if change is not None:
            at = rows.column_names.index("v")
            rows = rows.set_column(at, rows.schema.field(at), change(rows["v"]))
        pq.write_table(rows, path)
        grouping, theirs, _ = await source_checksums(connection, model, "never")
        groups = sorted(theirs)
        expected, _ = await source_rows(connection, grouping, groups, "never")
    task = FileTask(location(str(path)), 0, grouping)
    mine = file_rows(FileTask(location(str(path)), 0, grouping, frozenset(groups)))
    return Counter(expected), Counter(mine), bool(differing(file_checksums(task), theirs))


def _make_edges(server: Any, database: str) -> list[str]:
    edges = dict(EDGES)
    if server.version >= (9,) if server.flavor == "mysql" else server.version >= (11, 7):
        make = VECTORS[server.flavor]
        edges["vectors"] = ("vector(2)", f"{make}('[1,-0.0]')", "NULL", f"{make}('[1e-30,3e38]')")
    if server.version < (5, 7):
        edges.pop("documents")
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("set sql_mode = ''")
        for name, (kind, *values) in edges.items():
            cursor.execute(
                f"create table e_{name} (id int primary key, v {kind}) character set utf8mb4"
            )
            for number, value in enumerate(values):
                cursor.execute(f"insert into e_{name} values ({number}, {value})")
    return list(edges)


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"])
def test_what_the_lake_copies_is_what_the_server_shows(server, new_database, tmp_path, name):
    source = server(name)
    database = new_database(source)
    edges = _make_edges(source, database)
    if source.flavor == "mysql":
        make_types(source, database)
        change_types(source, database)
    keyed = [one for one in NAMES if not one.endswith("_twice")] if source.flavor == "mysql" else []
    assert set(KEYS) <= set(keyed) or not keyed
    for table in (*(f"e_{one}" for one in edges), *keyed):
        expected, mine, _ = asyncio.run(
            _compared(source, database, table, tmp_path / f"{table}.parquet")
        )
        assert mine == expected, table
        assert expected


def test_a_wrong_writer_is_found(server, new_database, tmp_path):
    source = server("mysql-9.7")
    database = new_database(source)
    _make_edges(source, database)
    missed = []
    for at, (what, (table, change)) in enumerate(MUTATIONS.items()):
        path = tmp_path / f"{at}.parquet"
        expected, mine, differs = asyncio.run(
            _compared(source, database, f"e_{table}", path, change)
        )
        if mine == expected or not differs:
            missed.append(what)
    assert not missed


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "mutation", [None, *MUTATIONS_OF_THE_WRITER[::6]], ids=lambda one: one.what if one else "none"
)
def test_a_wrong_rule_of_the_writer_is_named_by_its_table(server, new_database, tmp_path, mutation):
    source = server("mysql-9.7")
    database = new_database(source)
    position = make_tables(source, database)
    found = found_by_verifier(tmp_path / "wrong", source.url(), database, position, mutation)
    assert found == (mutation.tables if mutation else set())
