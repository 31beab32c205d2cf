"""Changes that wait to be merged: rows as the server has them, for every reader, also as they were."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from replica_client.errors import ConfigError
from replica_client.lake import open_lake
from replica_client.lake.applier import Applier
from replica_client.lake.config import PipelineConfig, load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_past import LakePast
from replica_client.lake.log_versions import STEPS, ChangeLogVersions, forget_changes
from replica_client.lake.maintenance import local_runner
from replica_client.lake.pipeline_state import Checkpoint
from replica_client.lake.state_table import StateTable
from replica_client.lake.unmerged import MergePolicy
from replica_client.lake.verify.verification import TableReport, Verification
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from tests.integration.lake_moments import TABLES, Moments
from tests.integration.test_lake_row_images import Source, log_batch, rows_of, server_rows, shown


def run(directory: Any, policy: str, pipeline: str = "p") -> Applier:
    """Let a new process take what is new, with a policy."""
    lake, found = directory / "lake", MergePolicy.parse(policy)
    catalog = LakeCatalog.load(lake) or LakeCatalog(lake)
    log = ChangeLogVersions(lake / "change_log")
    engine = Applier(catalog, log, pipeline, Selection(), local_runner(), merge=lambda _: found)
    engine.run()
    return engine


def read(directory: Any, table: tuple[str, str]) -> pa.Table:
    """The rows of a table, by our own reader."""
    return open_lake(directory / "lake").table(table).arrow()


def counted(rows: pa.Table) -> Counter[str]:
    kept = [name for name in rows.column_names if not name.startswith("_")]
    return Counter(repr(tuple(one.values())) for one in rows.select(kept).to_pylist())


@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_rows_are_the_same_before_they_are_merged(server, new_database, tmp_path, name):
    source = server(name)
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    moments = Moments(source, database, seed=11)
    waited = 0
    for number in range(8):
        moments.run(8, create=not number)
        log_batch(tmp_path, number, source.url(), position, database)
        position = ":".join(map(str, source.binlog_position()))
        engine = run(tmp_path, "always" if number == 5 else "1g")
        entries = {table: engine.catalog.tables[database, table] for table in TABLES}
        waited += sum(bool(entry.waiting) for entry in entries.values())
        assert not entries["bag"].waiting, "rows without a key are merged"
        for table, wanted in moments.seen[-1][2].items():
            assert counted(read(tmp_path, (database, table))) == wanted, (number, table)
    assert (
        waited == 2 * 6
    )  # not the first batch, which finds empty tables, and not the one of "always"
    # As they were: taken back from what is not merged.
    past = LakePast(tmp_path / "lake", tmp_path / "lake" / "change_log")
    for gtid, _, wanted in moments.seen[::5]:
        for table, rows in wanted.items():
            assert counted(past.read((database, table), past.moment(gtid))) == rows, (gtid, table)
    orders = open_lake(tmp_path / "lake").table((database, "orders"))
    with pytest.raises(ConfigError, match="change files wait to be merged"):
        _ = orders.uri
    rows = orders.arrow()
    found = duckdb.from_arrow(orders.batches()).aggregate("count(*), sum(id)").fetchall()
    assert found == [(rows.num_rows, sum(rows["id"].to_pylist()))]
    assert polars.from_arrow(orders.batches()).height == rows.num_rows
    # Files that wait are not forgotten, whatever is retained.
    files = set((tmp_path / "lake" / "change_log").glob("part-*"))
    config = PipelineConfig(
        tmp_path, {}, tmp_path / "lake", tmp_path, "available-now", "", None, {}
    )
    assert forget_changes(config, LakeCatalog.load(tmp_path / "lake"), time.time() + 9) > 0
    assert counted(read(tmp_path, (database, "orders"))) == counted(rows)
    assert files
    # With another policy they are merged, though nothing new came.
    engine = run(tmp_path, "always")
    assert not any(entry.waiting for entry in engine.catalog.tables.values())
    assert open_lake(tmp_path / "lake").table((database, "orders")).uri
    for table, wanted in moments.seen[-1][2].items():
        assert counted(read(tmp_path, (database, table))) == wanted


@pytest.mark.parametrize("policy", ["1g", "adaptive", "20k", "0.01 seconds"])
def test_images_without_columns_and_statements(server, new_database, tmp_path, policy):
    """Readers merge images that lack columns; a statement that changes a table has them merged first."""
    source = server("mysql-9.7")
    database = new_database(source)
    position, number = ":".join(map(str, source.binlog_position())), 0
    with source.connected() as connection, connection.cursor() as cursor:
        session = Source(cursor, database, 5, ("MINIMAL", "FULL"))

        def check() -> None:
            nonlocal number, position
            connection.commit()
            log_batch(tmp_path, number, source.url(), position, database)
            position, number = ":".join(map(str, source.binlog_position())), number + 1
            run(tmp_path, policy)
            cursor.execute("show tables")
            for (table,) in cursor.fetchall():
                cursor.execute(f"select * from {table}")
                assert shown(read(tmp_path, (database, table))) == server_rows(cursor.fetchall())

        for _ in range(4):
            session.change(25)
            check()
        for statement in (
            "alter table orders add column extra int",
            "update orders set extra = 3 where id < 20",
            "alter table pairs rename column v to u",
            "truncate table other",
            "rename table bytes to octets",
            "update octets set v = 77",
        ):
            cursor.execute(statement)
            check()
    engine = run(tmp_path, "always")
    assert len(rows_of(engine, database, "octets")) > 0


class Killed(BaseException):
    pass


@pytest.mark.parametrize("seed", range(3))
def test_killed_anywhere(server, new_database, tmp_path, monkeypatch, seed):
    """Each change is taken once, whether it waited or not, under policies that change."""
    source = server("mysql-9.7")
    database = new_database(source)
    position = ":".join(map(str, source.binlog_position()))
    moments = Moments(source, database, seed)
    for number in range(8):
        moments.run(5, create=not number)
        log_batch(tmp_path, number, source.url(), position, database)
        position = ":".join(map(str, source.binlog_position()))
    rng, kills = random.Random(seed), 0

    def deadly(owner: Any, name: str) -> None:
        function = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if rng.random() < 0.1:
                raise Killed
            found = function(*args, **kwargs)
            if rng.random() < 0.1:
                raise Killed
            return found

        monkeypatch.setattr(owner, name, call)

    deadly(LakeCatalog, "save")
    deadly(StateTable, "_commit")
    lake = tmp_path / "lake"
    log = ChangeLogVersions(lake / "change_log")
    while True:
        policy = MergePolicy.parse(rng.choice(("always", "1g", "4k")))
        catalog = LakeCatalog.load(lake) or LakeCatalog(lake)
        engine = Applier(
            catalog, log, "p", Selection(), local_runner(), merge=lambda _, found=policy: found
        )
        try:
            engine.run(versions=rng.choice((1, 3)))
        except Killed:
            kills += 1
            continue
        if engine.catalog.step // STEPS >= log.latest():
            break
    assert kills
    for table, wanted in moments.seen[-1][2].items():
        assert counted(read(tmp_path, (database, table))) == wanted, table


class VerifiedLake:
    """A lake that takes what a session of the source has committed, and is compared with it."""

    def __init__(self, source: Any, database: str, directory: Path) -> None:
        self._source, self._database, self._directory = source, database, directory
        self.file = directory / "shop.toml"
        self.file.write_text(
            f'[source]\nurl = "{source.url()}"\ntables = ["{database}.*"]\n[pipeline]\noutput = "lake"\n'
            'checkpoint = "checkpoint"\n'
        )
        self._position = ":".join(map(str, source.binlog_position()))
        self._checkpoint = Checkpoint(directory / "checkpoint")
        begin = Position.parse(self._position).to_json()
        self._checkpoint.create(self._position, begin)

    def take(self) -> Applier:
        """Log everything up to now, and merge none of it."""
        directory, pipeline = self._directory, self._checkpoint.state.pipeline
        number = self._checkpoint.number + 1
        log_batch(directory, number, self._source.url(), self._position, self._database, pipeline)
        name, offset = self._source.binlog_position()
        self._position = f"{name}:{offset}"
        self._checkpoint.plan(Position(name, offset).to_json())
        self._checkpoint.committed = True
        return run(directory, "1g", pipeline)

    def verified(self) -> TableReport:
        """What is found of its only table."""
        [found] = Verification(load_config(self.file)).run().tables
        return found


@pytest.mark.parametrize("image", ["FULL", "NOBLOB", "MINIMAL"])
def test_verify_reads_what_waits(server, new_database, tmp_path, image):
    source = server("mysql-9.7")
    database = new_database(source)
    lake = VerifiedLake(source, database, tmp_path)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute(f"set binlog_row_image = {image}")
        cursor.execute("create table t (id int primary key, v int)")
        cursor.execute("insert into t values (1, 1), (2, 2), (3, 3)")
        for _ in range(2):
            connection.commit()
            engine = lake.take()
            cursor.execute("update t set v = v + 10 where id > 1")
            cursor.execute("delete from t where id = 1")
        cursor.execute("update t set id = 7 where id = 3")
        connection.commit()
        assert engine.catalog.tables[database, "t"].waiting
        found = lake.verified()
        assert (found.outcome, found.rows, found.changed_since) == ("equal", 2, 3)
        cursor.execute("set sql_log_bin = 0")
        cursor.execute("insert into t values (9, 9)")
        connection.commit()
    found = lake.verified()
    assert (found.outcome, [one.key for one in found.differences]) == ("different", ["(9,)"])


@pytest.mark.parametrize(
    "statement",
    ["insert into t (v) values (1)", "alter table t change id k int", "alter table t modify id char(9)"],
)  # fmt: skip
def test_verify_leaves_open_what_it_cannot_compare(server, new_database, tmp_path, statement):
    """An image may leave out a key that has a default, and rows may be of another definition."""
    source = server("mysql-9.7")
    database = new_database(source)
    lake = VerifiedLake(source, database, tmp_path)
    with source.connected() as connection, connection.cursor() as cursor:
        cursor.execute(f"use {database}")
        cursor.execute("set binlog_row_image = MINIMAL")
        cursor.execute("create table t (id int default 5 primary key, v int)")
        cursor.execute("insert into t (id, v) values (1, 1)")
        connection.commit()
        lake.take()
        cursor.execute(statement)
        cursor.execute("update t set v = 3")
        connection.commit()
    found = lake.verified()
    assert found.outcome == "undecided"
    assert "changed it since" in found.reason or "Unknown column" in found.reason
