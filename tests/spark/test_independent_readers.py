"""Current tables read by deltalake, DuckDB, Polars and Spark: all see the same rows, of every type."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("duckdb", reason="pip install '.[recipes]'")
pytest.importorskip("polars", reason="pip install '.[recipes]'")

from replica_client.lake import open_lake
from tests.integration.lake_readers import read_by_all, rows_of
from tests.integration.lake_types import NAMES, change_types, make_types
from tests.spark.change_logs import lake_of, typed_log


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_all_readers_see_the_same(server, new_database, spark, tmp_path, name):
    source = server(name)
    database = new_database(source)
    start = ":".join(map(str, source.binlog_position()))
    make_types(source, database)
    change_types(source, database)
    log = typed_log(tmp_path / "log", source.url(), tables=f"{database}.*", startingPosition=start)
    lake_of(log, tmp_path / "lake")
    lake = open_lake(tmp_path / "lake")
    names = [one for one in lake.names() if one[0] == database]
    assert {table for _, table in names} == set(NAMES)
    for name in names:
        table = lake.table(name)
        wanted = rows_of(table.arrow())
        (count,) = source.query(f"select count(*) from {name[0]}.{name[1]}")[0]
        assert len(wanted) == count
        for reader, rows in read_by_all(table, spark):
            assert rows_of(rows) == wanted, (name, reader)
