"""Upkeep of a lake by its configuration: what is in it, small files together, old ones removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.errors import ConfigError
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.maintenance import compact_lake, copy_tables, lake_status, vacuum_lake
from tests.unit.lake.lakes import HandLog, applier, rows_of

CONFIG = '[source]\nurl = "mysql://repl:hunter2@db1/"\n{start}[pipeline]\noutput = "lake"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "shop.toml"
    path.write_text(CONFIG.format(start=""))
    return path


def _filled(config: Path, versions: int = 4) -> HandLog:
    """A lake of a table with a key and one that is left out, of so many versions."""
    lake = config.parent / "lake"
    log = HandLog(lake / "change_log")
    log.ddl("create table t (id int primary key, v int)").ddl("create table s (a int)")
    for number in range(versions):
        log.insert("t", id=number, v=0).commit()
        if number:
            log.update("t", {"id": 0, "v": number - 1}, {"id": 0, "v": number}).commit()
        applier(lake, log).run()
    return log


def _data_files(home: str) -> set[str]:
    return {path.name for path in Path(home).glob("**/*.parquet")}


def test_what_is_in_a_lake(config: Path) -> None:
    with pytest.raises(ConfigError, match="no lake with current tables; run the pipeline first"):
        compact_lake(config)
    _filled(config)
    change_log, *tables = lake_status(config)
    assert (change_log.table, change_log.files) == ("change log", 7)
    found = {one.table: one for one in tables}
    assert (found["d.t"].status, found["d.t"].rows) == ("current", 4)
    home = Path(found["d.t"].location)
    assert found["d.t"].files == 1
    assert found["d.t"].size in {path.stat().st_size for path in home.glob("*.parquet")}


def test_old_versions_are_removed_and_the_rows_stay(config: Path) -> None:
    log = _filled(config)
    [table] = [one for one in lake_status(config) if one.table == "d.t"]
    before = _data_files(table.location)
    assert len(before) > table.files
    # Those of the last hour are kept.
    assert [one.removed for one in vacuum_lake(config, 1) if one.table == "d.t"] == [0]
    assert _data_files(table.location) == before
    [after] = [one for one in vacuum_lake(config, 0) if one.table == "d.t"]
    left = _data_files(table.location)
    assert left < before
    assert (after.removed, after.files) == (len(before) - len(left), len(left))
    engine = applier(config.parent / "lake", log)
    assert [row["v"] for row in rows_of(engine, "t")] == [3, 0, 0, 0]


def test_nothing_is_removed_that_the_tables_have_not(config: Path) -> None:
    log = _filled(config)
    log.insert("t", id=9, v=9).commit()
    for work in (compact_lake, lambda path: vacuum_lake(path, 0)):
        with pytest.raises(ConfigError, match="changes that are not in the current tables yet"):
            work(config)


def test_upkeep_tells_what_it_does(config: Path) -> None:
    _filled(config)
    said: list[str] = []
    compact_lake(config, said.append)
    vacuum_lake(config, 1, said.append)
    assert said == [
        "compacting d.t (1 of 2)",
        "compacting d.s (2 of 2)",
        "vacuuming change log (1 of 3)",
        "vacuuming d.t (2 of 3)",
        "vacuuming d.s (3 of 3)",
    ]


def test_a_table_is_copied_anew(config: Path) -> None:
    _filled(config, 1)
    with pytest.raises(ConfigError, match='say start = "snapshot"'):
        copy_tables(config, ["d.t"])
    config.write_text(CONFIG.format(start='start = "snapshot"\n'))
    with pytest.raises(ConfigError, match=r"has no table d\.x; nothing was changed"):
        copy_tables(config, ["d.t", "d.x"])
    lake = config.parent / "lake"
    assert LakeCatalog.load(lake).tables["d", "t"].status == "current"
    assert copy_tables(config, ["d.*", "d.t"]) == ["d.t", "d.s"]
    assert LakeCatalog.load(lake).tables["d", "t"].status == "copying"
