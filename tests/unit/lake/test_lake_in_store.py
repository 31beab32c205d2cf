"""A lake in an object store: the same tables, one writer at a time, and no store that ignores conditions."""

import json
import random
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from replica_client import testing
from replica_client.errors import ConfigError, ObjectNotFoundError, SinkError, StorageError
from replica_client.lake import open_lake, pipeline_state as writer_lock, rewrite, state_table
from replica_client.lake.change_log_files import commit_files, remove_uncommitted
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.pipeline.runner import run_pipeline
from replica_client.lake.pipeline_state import Checkpoint, OutputInUseError, locked
from replica_client.lake.rewrite import Rewrite
from replica_client.storage.location import location
from replica_client.storage.object_store import ObjectStore
from tests.unit.lake.lakes import HandLog, applier, rows_of
from tests.unit.lake.test_applier import random_history
from tests.unit.schema.tables import history_of


class Killed(BaseException):
    pass


def test_killed_anywhere_in_a_store_each_change_is_taken_once(bucket, monkeypatch):
    output = location(bucket) / "deep" / "lake"
    rng = random.Random(5)
    log = HandLog(output / "change_log")
    tables = random_history(log, rng, 2)

    def deadly(owner, name):
        function = getattr(owner, name)

        def call(*args, **kwargs):
            if rng.random() < 0.07:
                raise Killed
            found = function(*args, **kwargs)
            if rng.random() < 0.07:
                raise Killed
            return found

        monkeypatch.setattr(owner, name, call)

    deadly(LakeCatalog, "save")
    deadly(state_table.StateTable, "_commit")
    while True:
        engine = applier(output, log, threads=1)
        try:
            engine.run(versions=1)
            if engine.catalog.step // (1 << 20) >= engine.log.latest():
                break
        except Killed:
            pass
    lake = open_lake(str(output))
    assert sorted(lake.names()) == sorted(("d", name) for name in tables)
    for name, (_, rows) in tables.items():
        found = sorted((row["id"], row["v"]) for row in rows_of(engine, name))
        assert found == sorted((row["id"], row["v"]) for row in rows), name
        shown = lake.table(f"d.{name}").arrow().to_pylist()
        assert sorted((row["id"], row["v"]) for row in shown) == found


def test_a_commit_whose_answer_was_lost_keeps_its_files(tmp_path):
    """deltalake sends it again, and finds its own commit in the way."""
    model = history_of("create table t (id int primary key)").table(("d", "t"))
    table = state_table.StateTable(tmp_path / "t", LakeTable(model), "p")
    table.create()
    stale = open_delta(tmp_path / "t")
    rows = pa.table({"id": pa.array([1], pa.int32())})
    work = Rewrite(tmp_path / "t", (), 0, rows.schema, ("id",), True, None, rows)
    added = rewrite.run(work)
    for _ in range(2):
        table._commit(stale, [], added, 1)
    assert table.dataset().to_table().to_pylist() == [{"id": 1}]


def test_a_commit_that_failed_is_not_repeated_over_that_of_another_driver(bucket, monkeypatch):
    """The store fails, another driver has taken the lake meanwhile: its row must not be there twice."""
    model = history_of("create table t (id int primary key)").table(("d", "t"))
    where = location(bucket) / "t"
    table = state_table.StateTable(where, LakeTable(model), "p")
    table.create()
    rows = pa.table({"id": pa.array([1], pa.int32())})

    def written():
        return rewrite.run(Rewrite(where, (), 0, rows.schema, ("id",), True, None, rows))

    table.add_files(written(), 1)
    [file] = table.data_files()
    commit = DeltaTable.create_write_transaction
    other = state_table.StateTable(where, LakeTable(model), "p")

    def fails(*given, **options):
        monkeypatch.setattr(DeltaTable, "create_write_transaction", commit)
        other._commit(other._open(), [file], written(), 2)  # it has not come as far
        raise DeltaError("503")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", fails)
    mine = written()
    with pytest.raises(SinkError, match="somebody else changed the table"):
        table._commit(table._open(), [file], mine, 3)
    assert other.dataset().to_table().to_pylist() == [{"id": 1}]
    with pytest.raises(ObjectNotFoundError):
        ObjectStore(where).status(mine[0].path)


def test_a_batch_whose_answer_was_lost_is_not_taken_for_another_ones(tmp_path):
    log = HandLog(tmp_path / "log").ddl("create table t (id int)")
    action = log._file("part-0.parquet")
    for _ in range(2):
        assert commit_files(log.directory, "p", 0, [action])
    again = log.ddl("create table u (id int)")._file("part-1.parquet")
    assert not commit_files(log.directory, "p", 0, [again])
    remove_uncommitted(log.directory, [action.path, again.path])
    assert [path.name for path in log.directory.glob("*.parquet")] == ["part-0.parquet"]


def test_who_did_not_see_the_last_writing_writes_no_catalog(bucket):
    output = location(bucket) / "lake"
    first = LakeCatalog(output)
    first.save()
    other = LakeCatalog.load(output)
    first.save()
    with pytest.raises(ConfigError, match="another pipeline wrote it"):
        other.save()
    with pytest.raises(ConfigError, match="another pipeline wrote it"):
        LakeCatalog(output).save()
    first.save()


def test_one_of_two_drivers_is_refused(bucket, monkeypatch):
    monkeypatch.setattr(writer_lock, "RENEWAL", 0.02)
    monkeypatch.setattr(writer_lock, "_LOOK", 0.05)
    output = location(bucket) / "lake"
    with locked(output):
        with pytest.raises(ConfigError, match=r"another pipeline writes there \(process \d+ of "):
            with locked(output):
                pass
    with locked(output):
        pass  # who ended left it


def test_a_driver_that_died_is_followed(bucket, monkeypatch):
    monkeypatch.setattr(writer_lock, "PATIENCE", 0.2)
    monkeypatch.setattr(writer_lock, "_LOOK", 0.05)
    output = location(bucket) / "lake"
    dead = writer_lock._Lease(output)
    dead._taken(None)
    before = LakeCatalog(output)
    before.save()
    with locked(output):
        LakeCatalog.load(output).save()
        with pytest.raises(ConfigError):
            before.save()


@pytest.mark.parametrize("lock_is_lost", [False, True])
def test_a_request_that_arrives_after_its_writer_died(bucket, tmp_path, monkeypatch, lock_is_lost):
    """Who has the lock goes on from what came late; who lost it ends, and nothing of what it did is seen."""
    config = tmp_path / "lake.toml"
    config.write_text(
        f'[source]\npath = "{Path(testing.__file__).parent / "data"}"\n'
        f'[pipeline]\noutput = "{bucket}/lake"\nengine = "local"\n[lake]\ncurrent = false\n'
    )
    plan, late = Checkpoint.plan, []

    def planned(checkpoint, end):
        if not late:
            late.append(end)
            if lock_is_lost:
                ObjectStore(location(bucket) / "lake").put(writer_lock.LOCK, b'{"owner": "other"}')
            offsets = ObjectStore(checkpoint.directory / "offsets")
            offsets.create(str(checkpoint.number + 1), json.dumps(end).encode())
        plan(checkpoint, end)

    monkeypatch.setattr(Checkpoint, "plan", planned)
    if lock_is_lost:
        with pytest.raises(OutputInUseError, match="another pipeline wrote it"):
            run_pipeline(config)
        return
    assert run_pipeline(config).rows == 91
    log = open_delta(location(bucket) / "lake" / "change_log")
    assert log.to_pyarrow_table().num_rows == 91 + 33  # an update has two rows


@pytest.mark.parametrize("stored", [True, False])
def test_a_standby_waits_for_the_end_of_a_driver(bucket, tmp_path, monkeypatch, stored):
    monkeypatch.setattr(writer_lock, "RENEWAL", 0.02)
    monkeypatch.setattr(writer_lock, "_LOOK", 0.05)
    output = location(bucket) / "lake" if stored else tmp_path
    told, first = [], ExitStack()

    def stand_by(error):
        told.append(str(error))
        first.close()

    first.enter_context(locked(output))
    with locked(output, stand_by=stand_by):
        assert "another pipeline writes there" in told[0]
        with pytest.raises(ConfigError), locked(output):
            pass


def test_a_store_that_ignores_conditions_is_refused(make_bucket):
    with pytest.raises(StorageError, match="ignores"):
        with locked(location(make_bucket("careless")) / "lake"):
            pass
