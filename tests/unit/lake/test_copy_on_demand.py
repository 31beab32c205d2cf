"""Tables whose copy is asked for."""

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.copies import CopyRequests
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.maintenance import copy_progress, copy_tables
from replica_client.lake.pipeline_state import locked
from replica_client.rows.selection import Selection
from tests.unit.lake.lakes import HandLog, applier


@pytest.fixture
def config(tmp_path):
    log = HandLog(tmp_path / "lake" / "change_log")
    for name in ("orders", "lines", "left"):
        log.ddl(f"create table {name} (id int primary key, v int)").insert(name, id=1, v=2)
    log.ddl("alter table `left` modify v varchar(9)").commit()
    applier(tmp_path / "lake", log).run()
    return written(tmp_path)


def written(directory, start="snapshot"):
    file = directory / "shop.toml"
    file.write_text(
        f'[source]\nurl = "mysql://repl@db1/"\nstart = "{start}"\n[pipeline]\noutput = "lake"\n'
    )
    return file


def statuses(config):
    tables = LakeCatalog.load(config.parent / "lake").tables.values()
    return {entry.name: (entry.status, bool(entry.copy)) for entry in tables}


def test_the_next_run_copies_them(config):
    assert statuses(config)["left"] == ("left_out", False)
    assert copy_tables(config, ["d.l*"]) == ["d.lines", "d.left"]
    assert statuses(config) == {
        "orders": ("current", False),
        "lines": ("copying", True),
        "left": ("copying", True),
    }


@pytest.mark.parametrize(
    ("tables", "words"),
    [(["d.orders", "d.none"], "no table d.none; nothing"), (["x.*"], "no table")],
)
def test_what_is_not_there_changes_nothing(config, tables, words):
    before = statuses(config)
    with pytest.raises(ConfigError, match=words):
        copy_tables(config, tables)
    assert statuses(config) == before


def test_where_nothing_can_be_copied(config, tmp_path):
    with pytest.raises(ConfigError, match="it copies no tables"):
        copy_tables(written(tmp_path, "earliest"), ["d.orders"])
    with pytest.raises(ConfigError, match="no lake"):
        (tmp_path / "other").mkdir()
        copy_tables(written(tmp_path / "other"), ["d.orders"])


def test_a_running_pipeline_takes_a_request(config, tmp_path):
    with locked(tmp_path / "lake"):
        assert copy_tables(config, ["d.l*"]) == ["d.lines", "d.left"]
        assert statuses(config)["lines"] == ("current", False)
        assert copy_progress(config, ["d.lines", "d.left"]) == (
            ["d.lines: waits for the pipeline", "d.left: waits for the pipeline"],
            {},
        )
    requests = CopyRequests(tmp_path / "lake")
    (name,) = requests.found()
    assert requests.found()[name] == ["d.l*"]
    (tmp_path / "lake" / "requests" / "damaged.json").write_text("{")
    assert requests.found()["damaged.json"] == []
    requests.remove(list(requests.found()))
    assert requests.found() == {}


def test_a_request_that_is_taken_between_two_reads_is_no_failure(config, tmp_path, monkeypatch):
    """The pipeline saves the catalogue, then removes the request; the progress is read meanwhile."""
    output = tmp_path / "lake"
    with locked(output):
        copy_tables(config, ["d.left"])
    load = LakeCatalog.load

    def taken_after(where):
        catalog = load(where)
        requests = CopyRequests(output)
        if found := requests.found():
            taking = load(where)
            for entry in taking.tables.values():
                if entry.name == "left":
                    entry.needs_copy("asked for")
            taking.save()
            requests.remove(list(found))
        return catalog

    monkeypatch.setattr(LakeCatalog, "load", taken_after)
    assert copy_progress(config, ["d.left"])[1] == {}
    assert copy_progress(config, ["d.left"]) == (["d.left: 0 of ? chunks"], {})


def test_tables_leave_the_selection_and_come_back(tmp_path):
    log = HandLog(tmp_path / "lake" / "change_log")
    for name in ("orders", "lines"):
        log.ddl(f"create table {name} (id int primary key, v int)").insert(name, id=1, v=2)
    log.commit()
    applier(tmp_path / "lake", log).run()
    some = applier(tmp_path / "lake", log, selection=Selection(["d.orders"]), can_copy=True)
    assert some.adopt_selection() == [("d", "lines")]
    log.update("lines", {"id": 1, "v": 2}, {"id": 1, "v": 3}).commit()
    some.run()
    assert set(LakeCatalog.load(tmp_path / "lake").tables) == {("d", "orders")}
    both = applier(tmp_path / "lake", log, can_copy=True)
    assert both.adopt_selection() == []
    entry = LakeCatalog.load(tmp_path / "lake").tables["d", "lines"]
    assert (entry.status, bool(entry.copy)) == ("copying", True)
    # Where nothing can be copied, the table is left out, with the remedy.
    some.adopt_selection()
    none = applier(tmp_path / "lake", log)
    none.catalog.tables.pop(("d", "lines"))
    none.adopt_selection()
    entry = LakeCatalog.load(tmp_path / "lake").tables["d", "lines"]
    assert entry.status == "left_out"
    assert "snapshot" in entry.reason
