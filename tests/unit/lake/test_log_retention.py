"""The change log forgets what is old, and never what a table still needs."""

import time

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.change_log_files import change_log_rows
from replica_client.lake.config import load_config
from replica_client.lake.data_files import data_paths, open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_past import LakePast
from replica_client.lake.log_versions import Retention, forget_changes
from tests.unit.lake.lakes import HandLog, TypedLog, applier, rows_of

LATER = time.time() + 1e6


@pytest.fixture
def log(tmp_path):
    log = HandLog(tmp_path / "lake" / "change_log")
    log.ddl("create table a (id int primary key, v int)").insert("a", id=1, v=1).commit()
    log.insert("a", id=2, v=2).commit()
    log.update("a", {"id": 1, "v": 1}, {"id": 1, "v": 5}).commit()
    return log


@pytest.fixture
def config(tmp_path):
    def write(retain='retain = "1 day"'):
        file = tmp_path / "shop.toml"
        file.write_text(
            f'[source]\nurl = "mysql://repl@db1/"\n[pipeline]\noutput = "lake"\n[lake]\n{retain}\n'
        )
        return load_config(file)

    return write


def test_what_no_table_has_taken_stays(log, config, tmp_path):
    engine = applier(tmp_path / "lake", log)
    engine.run(versions=3)
    paths = data_paths(open_delta(log.directory))
    assert forget_changes(config(), LakeCatalog.load(tmp_path / "lake"), 0.0) == 0
    assert data_paths(open_delta(log.directory)) == paths
    assert forget_changes(config(), LakeCatalog.load(tmp_path / "lake"), LATER) == 2
    assert len(data_paths(open_delta(log.directory))) == 1
    assert [row["after"] for row in change_log_rows(log.directory)] == ['{"id": 1, "v": 5}']
    # Who reads an older version still finds its files.
    assert all((log.directory / path).exists() for path in paths)
    log.insert("a", id=3, v=3).commit()
    engine = applier(tmp_path / "lake", log)
    engine.run()
    assert rows_of(engine, "a") == [{"id": 1, "v": 5}, {"id": 2, "v": 2}, {"id": 3, "v": 3}]
    assert forget_changes(config(), engine.catalog, LATER) == 2
    assert change_log_rows(log.directory) == []


def test_nothing_is_forgotten_while_a_table_is_copied(log, config, tmp_path):
    engine = applier(tmp_path / "lake", log)
    engine.run()
    retention = Retention(config('retain = "0 hours"'))
    engine.catalog.tables["d", "a"].needs_copy("a test")
    assert retention.apply(engine.catalog) == 0
    engine.catalog.tables["d", "a"].status = "current"
    assert retention.apply(engine.catalog) == 3
    log.insert("a", id=4, v=4).commit()
    engine.run()
    assert retention.apply(engine.catalog) == 0, "once in an hour"


def test_rows_of_a_moment_while_a_run_writes_after_a_retention(log, config, tmp_path):
    engine = applier(tmp_path / "lake", log)
    engine.run()
    when = f"b.000001:{log.offset + 1}"
    log.insert("a", id=3, v=3).commit()
    assert forget_changes(config(), LakeCatalog.load(tmp_path / "lake"), LATER)
    applier(tmp_path / "lake", log).run()
    past = LakePast(tmp_path / "lake", log.directory)
    moment = past.moment(when)
    log.insert("a", id=4, v=4).commit()
    applier(tmp_path / "lake", log).run()
    # The catalog that it loaded is of before that run: it must notice, and load it again.
    found = past.read(("d", "a"), moment).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "v": 5}, {"id": 2, "v": 2}]


def test_without_tables_age_decides(log, config):
    assert Retention(config()).apply(None) == 0
    assert Retention(config("")).apply(None) == 0
    assert Retention(config('retain = "0 weeks"')).apply(None) == 3


@pytest.mark.parametrize(
    ("text", "seconds"), [("12 hours", 43200), ("1 day", 86400), (" 2 weeks", 1209600)]
)
def test_times(config, text, seconds):
    assert config(f'retain = "{text}"').lake.retain == seconds


@pytest.mark.parametrize("text", ["soon", "7", "-1 days", "1.5 days"])
def test_what_is_no_time(config, text):
    with pytest.raises(ConfigError, match="retain"):
        config(f'retain = "{text}"')


def test_the_past_is_what_was_before_the_first_of_many_changes(tmp_path):
    log = TypedLog(tmp_path / "lake" / "change_log")
    log.ddl("create table a (id int primary key, v int)").commit()
    log.insert("a", id=1, v=5).insert("a", id=2, v=2).commit()
    moment = f"b.000001:{log.offset + 1}"
    first, second = {"id": 2, "v": 2}, {"id": 2, "v": 3}
    log.update("a", first, second).update("a", second, {"id": 2, "v": 4}).commit()
    log.delete("a", id=2, v=4).insert("a", id=2, v=9).insert("a", id=3, v=3).commit()
    applier(tmp_path / "lake", log).run()
    past = LakePast(tmp_path / "lake", log.directory)
    found = past.read(("d", "a"), past.moment(moment)).to_pylist()
    assert sorted(found, key=lambda row: row["id"]) == [{"id": 1, "v": 5}, {"id": 2, "v": 2}]
