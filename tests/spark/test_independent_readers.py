"""Current tables read by deltalake, DuckDB, Polars and Spark: all see the same rows, of every type."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.lake import open_lake
from tests.integration.lake_types import TYPES
from tests.spark.change_logs import lake_of, typed_log


def make(server, database):
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute("set sql_mode = '', time_zone = '+00:00', names utf8mb4")
        cursor.execute(f"use {database}")
        for name, (columns, *rows) in TYPES.items():
            for table, key in ((name, "id int primary key"), (f"{name}_twice", "id int")):
                cursor.execute(f"create table {table} ({key}, {columns}) character set utf8mb4")
                for number, row in enumerate(rows):
                    cursor.execute(f"insert into {table} values ({number}, {row})")
                cursor.execute(f"insert into {table} (id) values (2)")
                cursor.execute(f"update {table} set id = id + 10 where id = 0")
            cursor.execute(f"insert into {name}_twice select * from {name}")


def plain(value):
    """A value as all readers give it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (Decimal, date)):
        return str(value)
    if isinstance(value, dict):
        if list(value) == ["key", "value"]:  # of a map, as Polars has it
            return [plain(one) for one in value.values()]
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


def rows_of(table):
    return sorted(
        repr([(name, plain(row[name])) for name in sorted(row)]) for row in table.to_pylist()
    )


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_all_readers_see_the_same(server, new_database, spark, tmp_path, name):
    duckdb = pytest.importorskip("duckdb", reason="pip install '.[recipes]'")
    polars = pytest.importorskip("polars", reason="pip install '.[recipes]'")
    source = server(name)
    database = new_database(source)
    start = ":".join(map(str, source.binlog_position()))
    make(source, database)
    log = typed_log(tmp_path / "log", source.url(), tables=f"{database}.*", startingPosition=start)
    lake_of(log, tmp_path / "lake")
    lake = open_lake(tmp_path / "lake")
    names = [one for one in lake.names() if one[0] == database]
    assert {table for _, table in names} == {*TYPES, *(f"{one}_twice" for one in TYPES)}
    for name in names:
        table = lake.table(name)
        files = table.delta().file_uris()
        wanted = rows_of(table.arrow())
        (count,) = source.query(f"select count(*) from {name[0]}.{name[1]}")[0]
        assert len(wanted) == count
        found = {
            "deltalake": table.delta().to_pyarrow_table(),
            "polars": polars.scan_delta(table.uri).collect().to_arrow(),
            "duckdb": duckdb.sql(f"select * from read_parquet({files})").to_arrow_table(),
            "spark": spark.read.parquet(*files).toArrow(),
        }
        for reader, rows in found.items():
            assert rows_of(rows) == wanted, (name, reader)
