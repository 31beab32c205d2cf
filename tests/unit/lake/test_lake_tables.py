"""Tables of a lake are found by their names."""

import json

import pytest

from replica_client.errors import ConfigError
from replica_client.lake import open_lake
from tests.unit.lake.lakes import HandLog, applier


@pytest.fixture
def lake(tmp_path):
    log = HandLog(tmp_path / "change_log")
    log.ddl("create table a (id int primary key)").insert("a", id=1)
    log.ddl("create table b (id int primary key)").insert("b", id=2)
    log.ddl("rename table a to x, b to a, x to b").ddl("create table c (id int, v int)")
    log.ddl("alter table c modify v varchar(9)").commit()
    applier(tmp_path / "lake", log).run()
    return tmp_path / "lake"


def test_tables_are_found_by_their_names(lake):
    found = open_lake(str(lake))
    assert sorted(found.tables()) == ["d.a", "d.b"]
    assert found.table("d.a").arrow().to_pylist() == [{"id": 2}]
    assert found.table(("d", "b")).arrow().to_pylist() == [{"id": 1}]
    assert found.table("d.a").delta().version() >= 0
    assert found.table("d.a").uri.startswith(str(lake / "tables"))
    assert {path.name for path in (lake / "tables").iterdir()} == {
        found.table(name).uri.rpartition("/")[2] for name in found.tables()
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [("d.none", "has no table d.none; it has d."), ("none", "no table none"), ("d.c", "left_out")],
)
def test_what_is_not_there_is_told(lake, name, words):
    with pytest.raises(ConfigError, match=words):
        open_lake(lake).table(name)


def test_no_lake(tmp_path):
    with pytest.raises(ConfigError, match="run the pipeline first"):
        open_lake(tmp_path)


def test_a_lake_of_an_older_version_is_refused_with_a_word(lake):
    file = lake / "catalog.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 1}))
    with pytest.raises(ConfigError, match="an older version made this lake"):
        open_lake(lake)


def test_directories_that_a_crash_left_are_removed(lake):
    from replica_client.lake.lake_catalog import LakeCatalog

    (lake / "tables" / "left").mkdir()
    before = len(list((lake / "tables").iterdir()))
    assert LakeCatalog.load(lake).remove_unnamed() == 1
    assert len(list((lake / "tables").iterdir())) == before - 1
