"""The whole pipeline on real servers: copied, followed through DDL, verified; and verify finds faults."""

import os
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.lake.config import load_config
from replica_client.lake.maintenance import copy_tables
from replica_client.lake.pipeline import lake_run
from replica_client.lake.pipeline.runner import run_pipeline
from replica_client.lake.pipeline.workers import PurgedRangeError, Workers
from replica_client.lake.verify.verification import Verification
from replica_client.storage.files import read_file
from replica_client.storage.location import location
from tests.spark.lake_kills import prove, write_config
from tests.spark.lake_workload import DATABASE, Workload, compare

# Statements when definitions were read, and when tables were cut into chunks; and what is there then.
WHEN_READ = ["drop table early", "rename table moving to moved"]
WHEN_CUT = [
    "drop table late",
    "rename table left_ to other, right_ to left_, other to right_",
    "alter table shrinking drop column v",
]
LEFT = ("moved", "left_", "right_", "shrinking")


def change_while_copied(server, monkeypatch):
    """Makes tables that statements change while the next run plans and reads their copies."""
    for name in ("early", "moving", "late", "left_", "right_", "shrinking"):
        server.execute(f"create table {DATABASE}.{name} (id int primary key, v varchar(9))")
        server.execute(f"insert into {DATABASE}.{name} values (1, '{name}'), (2, null)")
    definitions, mapped = lake_run.read_definitions, Workers.map
    when_read, when_cut = iter(WHEN_READ), iter(WHEN_CUT)

    def execute(statements):
        for sql in statements:
            server.execute(f"use {DATABASE}")
            server.execute(sql)

    async def read_definitions(connection):
        found = await definitions(connection)
        execute(when_read)
        return found

    def cut(*args, **named):
        if args[1] is lake_run.copy_chunk:
            execute(when_cut)
        return mapped(*args, **named)

    monkeypatch.setattr(lake_run, "read_definitions", read_definitions)
    monkeypatch.setattr(Workers, "map", cut)


def verified(config):
    return {one.table: one for one in Verification(load_config(config)).run().tables}


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_tables_of_an_iceberg_catalogue_equal_the_source(fresh_server, tmp_path, name):
    """Copied, followed, through kills of the process and statements, and read by pyiceberg and DuckDB."""
    load_catalog = pytest.importorskip("pyiceberg.catalog").load_catalog
    pytest.importorskip("duckdb")
    server = fresh_server(name, ["binlog-row-metadata=FULL"])
    workload = Workload(server, 3)
    workload.prepare()
    uri = f"sqlite:///{tmp_path / 'catalog.db'}"
    lines = f'format = "iceberg"\ncatalog = {{type = "sql", uri = "{uri}"}}'
    config = write_config(tmp_path, server.url(), "local[2]", "available-now", more=lines)
    run_pipeline(config)
    catalog = load_catalog("replica_client", type="sql", uri=uri)
    lake = tmp_path / "lake"
    compare(server, lake, read=lambda one: catalog.load_table((DATABASE, one)).scan().to_arrow())
    command = [sys.executable, "-m", "replica_client", "pipeline", str(config)]
    for kill in range(4):
        workload.start()
        time.sleep(0.4)
        workload.stop()
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            time.sleep(0.9 + 0.2 * kill)
            process.kill()
        workload = workload.again(10 + kill)
    for sql in (
        "alter table orders add column extra varchar(9)",
        "insert into orders (v, extra) values (1, 'new')",
        "alter table orders drop column price",
        "rename table notes to remarks",
        "create table made (day date primary key, b blob)",
        "insert into made values ('2026-01-02', x'00ff')",
    ):
        server.execute(f"use {DATABASE}")
        server.execute(sql)
    run_pipeline(config)
    names = {one for _, one in catalog.list_tables(DATABASE)}
    found = compare(
        server, lake, read=lambda one: catalog.load_table((DATABASE, one)).scan().to_arrow()
    )
    assert found.keys() == names
    orders = catalog.load_table((DATABASE, "orders"))
    assert orders.schema().identifier_field_names() == {"id"}
    assert "replica.position" in orders.current_snapshot().summary.additional_properties
    ((count,),) = (
        orders.scan().to_duckdb("orders").execute("select count(*) from orders").fetchall()
    )
    assert count == found["orders"]


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_copied_followed_and_verified(fresh_server, tmp_path, name, make_bucket, monkeypatch):
    """One of them with its output in an object store."""
    lake = tmp_path / "lake" if name.startswith("mysql") else location(f"{make_bucket()}/deep/lake")
    server = fresh_server(name, ["binlog-row-metadata=FULL"])
    workload = Workload(server, 1)
    workload.prepare()
    server.execute(f"create table {DATABASE}.parent (id int primary key)")
    server.execute(
        f"create table {DATABASE}.child (id int primary key, parent int, foreign key (parent) "
        f"references {DATABASE}.parent (id) on delete cascade)"
    )
    server.execute(f"insert into {DATABASE}.parent values (1), (2)")
    server.execute(f"insert into {DATABASE}.child values (10, 1), (20, 2)")
    # MariaDB has no word of what the foreign key does in its binlog.
    without = ("child",) if name == "mariadb-11.8" else ()
    # Java, and so what reads on executors, may be older than the bucket.
    access = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    config = write_config(
        tmp_path, server.url(), "local[2]", "available-now", str(lake), environment=access
    )
    change_while_copied(server, monkeypatch)
    result = run_pipeline(config)
    assert [one["table"] for one in result.not_current] == [f"shop.{one}" for one in without]
    assert result.tables == 6 + len(LEFT) - len(without)
    assert result.copied == 4000 + 300 + 200 + 4 + 2 * len(LEFT) - 2 * len(without)
    assert compare(server, lake, without)["orders"] == 4000
    server.execute(f"use {DATABASE}")
    server.execute(f"drop table {', '.join(LEFT)}")
    for sql in (
        "delete from parent where id = 1",
        "update orders set v = v + 1 where id < 50",
        "alter table orders add column extra varchar(9)",
        "insert into orders (v, extra) values (1, 'new')",
        "alter table orders drop column price",
        "alter table `lines` add column n int not null default 7",
        "delete from notes where a = 3 limit 2",
        "rename table notes to remarks",
        "insert into parts values (18446744073709551615, 1, '{\"a\": 1}'), (2, 2, null)",
        "create table made (day date primary key, b blob)",
        "insert into made values ('2026-01-02', x'00ff')",
    ):
        server.execute(f"use {DATABASE}")
        server.execute(sql)
    if not name.startswith("mysql"):
        # A driver on another machine: nothing but the configuration comes with it.
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        config = config.rename(elsewhere / config.name)
        assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    result = run_pipeline(config)
    assert result.tables == 7 - len(without)
    assert result.copied == 300
    assert result.report is not None
    report = (read_file(result.report) or b"").decode()
    assert "<svg" in report and "Lag of the change log</h2><svg" in report
    rows = compare(server, lake, without)
    assert rows.pop("child", 1) == rows.pop("parent") == 1
    assert rows == {"orders": 4001, "lines": 300, "remarks": 198, "parts": 2, "made": 1}
    found = verified(config)
    assert {one.outcome for one in found.values() if one.table[5:] not in without} == {"equal"}
    assert found["shop.orders"].rows == 4001
    # What the binlog does not have is a difference; what it has, and the lake has not yet, is none.
    with server.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {DATABASE}")
        cursor.execute("set sql_log_bin = 0")
        cursor.execute("update orders set v = -1 where id = 77")
        cursor.execute("delete from orders where id = 99")
        cursor.execute("delete from remarks limit 1")
        cursor.execute("set sql_log_bin = 1")
        cursor.execute("update orders set v = -2 where id between 500 and 509")
    found = verified(config)
    orders = found["shop.orders"]
    assert (orders.outcome, orders.different, orders.changed_since) == ("different", 2, 10)
    assert sorted(one.key for one in orders.differences) == ["(77,)", "(99,)"]
    assert found["shop.remarks"].different == 1
    assert found["shop.lines"].outcome == "equal"
    command = [sys.executable, "-m", "replica_client", "verify", str(config)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "shop.orders: different" in done.stdout
    assert all(line.startswith("comparing") for line in done.stderr.splitlines()), done.stderr
    if name.startswith("mysql"):
        purge_what_was_not_read(server)
        with pytest.raises(PurgedRangeError, match=r"has purged .*; or .* record_losses"):
            run_pipeline(config)
        config.write_text(
            config.read_text().replace("[source]", '[source]\nrecord_losses = ["gtid_gap"]')
        )
        result = run_pipeline(config)
        assert result.copied == sum(compare(server, lake).values())
        assert {one.outcome for one in verified(config).values()} == {"equal"}
    else:
        copy_tables(config, ["shop.orders", "*.remarks"])
        result = run_pipeline(config)
        assert result.copied == sum(
            compare(server, lake, without)[n] for n in ("orders", "remarks")
        )


def purge_what_was_not_read(server):
    server.execute(f"insert into {DATABASE}.orders (v) values (2)")
    server.execute(f"alter table {DATABASE}.orders drop column extra")
    server.execute(f"drop table {DATABASE}.parts")
    server.rotate()
    server.execute(f"create table {DATABASE}.later (id int primary key)")
    server.execute(f"insert into {DATABASE}.later values (1)")
    server.rotate()
    server.execute(f"purge binary logs to '{server.binlog_position()[0]}'")


@pytest.mark.parametrize(
    ("name", "metadata"), [("mysql-9.7", "MINIMAL"), ("mariadb-11.8", "NO_LOG")]
)
def test_a_binlog_without_names(fresh_server, tmp_path, name, metadata):
    """The checkpoint knows the tables, for verify as well: also where a statement renamed one since."""
    server = fresh_server(name, [f"binlog-row-metadata={metadata}"])
    Workload(server, 1).prepare()
    config = write_config(tmp_path, server.url(), "local[2]", "available-now")
    assert run_pipeline(config).tables == 4
    for sql in (
        "update orders set v = v + 1 where id < 50",
        "alter table orders add column extra varchar(9) after id",
        "insert into orders (v, extra) values (1, 'new')",
        "rename table notes to remarks",
        "delete from remarks where a = 3 limit 2",
        "create table made (day date primary key, b blob)",
        "insert into made values ('2026-01-02', x'00ff')",
    ):
        server.execute(f"use {DATABASE}")
        server.execute(sql)
    assert run_pipeline(config).not_current == ()
    rows = compare(server, tmp_path / "lake")
    assert rows == {"orders": 4001, "lines": 300, "remarks": 198, "parts": 0, "made": 1}
    for sql in (
        "update orders set v = -3 where id = 5",
        "rename table orders to renamed",
        "update renamed set v = -2 where id = 7",
        "update `lines` set v = 1 where nr = 3",
    ):
        server.execute(f"use {DATABASE}")
        server.execute(sql)
    found = verified(config)
    assert found["shop.orders"].outcome == "undecided"
    assert found["shop.lines"].outcome == "equal"
    assert found["shop.lines"].changed_since == 1
    assert run_pipeline(config).not_current == ()
    assert {one.outcome for one in verified(config).values()} == {"equal"}


@pytest.mark.timeout(1200)
def test_connections_and_server_killed(fresh_server, tmp_path):
    server = fresh_server("mariadb-11.8", ["binlog-row-metadata=FULL"])
    report = prove(
        server, tmp_path, kills=3, seed=3, seconds=600, cluster=False, pauses=(0.5, 2),
        weights={"connection": 2, "server": 1}, say=lambda _: None,
    )  # fmt: skip
    assert report.verified is not None
    assert report.verified.equal
    assert sum(report.kills.values()) == 3
