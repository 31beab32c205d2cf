"""Tables of a lake as they were: equal to the server's SELECT behind every transaction; else refused."""

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.cli.lake import app
from replica_client.errors import ConfigError
from replica_client.lake.lake_past import LakePast
from tests.integration.lake_moments import prove_moments
from tests.spark.change_logs import lake_of, typed_log


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_as_the_server_had_them(server, new_database, tmp_path, name):
    source = server(name)
    compared = prove_moments(source, new_database(source), tmp_path, transactions=12, seed=1)
    assert compared == 24


def test_what_is_refused(server, new_database, tmp_path):
    source = server("mysql-9.7")
    database = new_database(source)
    start = ":".join(map(str, source.binlog_position()))
    source.execute(f"create table {database}.t (id int primary key)")
    source.execute(f"insert into {database}.t values (1)")
    behind = ":".join(map(str, source.binlog_position()))
    source.execute(f"alter table {database}.t add v int")
    source.execute(f"insert into {database}.t values (2, 3)")
    log = typed_log(tmp_path / "log", source.url(), tables=f"{database}.*", startingPosition=start)
    lake_of(log, tmp_path / "lake")
    past = LakePast(tmp_path / "lake", log)
    with pytest.raises(ConfigError, match="alter_table at .* cannot be undone"):
        past.read((database, "t"), past.moment(behind))
    assert past.read((database, "t"), past.moment("latest"))["id"].to_pylist() == [1, 2]
    for when, words in (
        ("0-1-5", "no changes of this GTID"),
        ("1999-01-01 00:00:00", "the change log begins later"),
        ("2199-01-01 00:00:00", "no change of then or later yet"),
        ("binlog.999999:4", "no change of there or later yet"),
        ("earliest", "give a GTID"),
    ):
        with pytest.raises(ConfigError, match=words):
            past.moment(when)
    with pytest.raises(ConfigError, match="there is none"):
        past.read((database, "none"), past.moment("latest"))


def test_files_of_a_moment(server, new_database, tmp_path):
    source = server("mysql-9.7")
    database = new_database(source)
    start = ":".join(map(str, source.binlog_position()))
    source.execute(f"create table {database}.t (id int primary key)")
    source.execute(f"insert into {database}.t values (1)")
    behind = ":".join(map(str, source.binlog_position()))
    source.execute(f"insert into {database}.t values (2)")
    log = typed_log(
        tmp_path / "lake" / "change_log",
        source.url(),
        tables=f"{database}.*",
        startingPosition=start,
    )
    lake_of(log, tmp_path / "lake")
    config = tmp_path / "shop.toml"
    config.write_text('[source]\nurl = "mysql://repl@db1/"\n[pipeline]\noutput = "lake"\n')
    words = ["read", str(config), f"{database}.*", "--output", str(tmp_path / "there")]
    for at, rows in ((behind, [1]), ("latest", [1, 2])):
        result = CliRunner().invoke(app, [*words, "--at", at])
        assert result.exit_code == 0, result.output
        found = pq.read_table(tmp_path / "there" / f"{database}.t.parquet")
        assert found.to_pydict() == {"id": rows}
