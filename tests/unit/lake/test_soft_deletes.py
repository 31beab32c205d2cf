"""Deleted rows that stay, marked: in every way in which a row goes, and out of the way of what compares rows."""

import pytest

from replica_client.errors import ConfigError
from replica_client.lake import open_lake
from replica_client.lake.config import load_config
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_past import LakePast
from replica_client.rows.selection import Selection
from tests.unit.lake.lakes import applier, rows_of

ALL = Selection(["d.*"])


def marked(engine, table="t"):
    """Rows by their values but for the mark, and the mark."""
    return {
        tuple(value for name, value in row.items() if not name.startswith("_")): row["_deleted"]
        for row in rows_of(engine, table)
    }


def test_ways_in_which_rows_go(log, lake):
    log.ddl("create table t (id int primary key, v int)")
    for number in range(1, 7):
        log.insert("t", id=number, v=number)
    # Changed before it goes: what stays is the last image. Gone and back: it is there.
    log.update("t", {"id": 2, "v": 2}, {"id": 2, "v": 20}).delete("t", id=2, v=20)
    log.delete("t", id=3, v=3).insert("t", id=3, v=30)
    log.update("t", {"id": 4, "v": 4}, {"id": 40, "v": 4}).commit()
    engine = applier(lake, log, soft_deletes=ALL)
    engine.run()
    assert marked(engine) == {
        (1, 1): False, (2, 20): True, (3, 30): False, (4, 4): True, (40, 4): False,
        (5, 5): False, (6, 6): False,
    }  # fmt: skip
    log.delete("t", id=1, v=1).insert("t", id=2, v=21).commit()
    log.update("t", {"id": 5, "v": 5}, {"id": 4, "v": 5}).commit()
    engine = applier(lake, log, soft_deletes=ALL)
    engine.run()
    expected = {
        (1, 1): True, (2, 21): False, (3, 30): False, (4, 5): False, (40, 4): False,
        (5, 5): True, (6, 6): False,
    }  # fmt: skip
    assert marked(engine) == expected
    assert open_lake(lake).table("d.t").arrow().filter(~_field("_deleted")).num_rows == 5
    # DDL keeps the marks, and a TRUNCATE marks all.
    log.ddl("alter table t add column w int").insert("t", id=7, v=7, w=7).commit()
    log.ddl("alter table t drop column v").delete("t", id=6, w=None).commit()
    engine.run()
    assert marked(engine) == {
        (1, None): True, (2, None): False, (3, None): False, (4, None): False, (40, None): False,
        (5, None): True, (6, None): True, (7, 7): False,
    }  # fmt: skip
    log.ddl("truncate table t").insert("t", id=2, w=5).commit()
    engine.run()
    assert {row["id"] for row in rows_of(engine, "t") if not row["_deleted"]} == {2}
    assert len(rows_of(engine, "t")) == 8
    log.ddl("drop table t").commit()
    engine.run()
    assert ("d", "t") not in engine.catalog.tables


def _field(name):
    import pyarrow.compute as pc

    return pc.field(name)


def test_only_tables_that_are_named_and_have_a_key(log, lake):
    for name, key in (("t", " primary key"), ("u", " primary key"), ("bag", "")):
        log.ddl(f"create table {name} (id int{key}, v int)")
        log.insert(name, id=1, v=1).delete(name, id=1, v=1)
    log.commit()
    engine = applier(lake, log, soft_deletes=Selection(["d.t", "d.bag"]))
    engine.run()
    assert marked(engine) == {(1, 1): True}
    assert rows_of(engine, "u") == rows_of(engine, "bag") == []


@pytest.mark.parametrize("name", ["_deleted", "_DELETED"])
def test_a_table_that_has_such_a_column_is_left_out_by_name(log, lake, name):
    log.ddl(f"create table t (id int primary key, {name} int)").insert("t", **{"id": 1, name: 2})
    log.commit()
    engine = applier(lake, log, soft_deletes=ALL)
    engine.run()
    entry = engine.catalog.tables["d", "t"]
    assert (entry.status, entry.reason) == (
        "left_out", f"it has a column {name}; leave it out of soft_deletes in [lake]",
    )  # fmt: skip
    other = applier(lake.with_name("other"), log)
    other.run()
    assert rows_of(other, "t") == [{"id": 1, name: 2}]


@pytest.mark.parametrize(
    "columns", ["id int primary key, at date, _Lossless int", "_row_key int, v int"]
)
def test_a_column_of_a_name_that_the_lake_adds_leaves_the_table_out(log, lake, columns):
    log.ddl(f"create table t ({columns})").commit()
    engine = applier(lake, log)
    engine.run()
    entry = engine.catalog.tables["d", "t"]
    assert entry.status == "left_out"
    assert entry.reason.endswith(", and the lake adds one of this name")


def test_the_option_takes_effect_with_the_next_copy(log, lake, tmp_path):
    create = "create table t (id int primary key, v int)"
    log.ddl(create).insert("t", id=1, v=1).insert("t", id=2, v=2).commit()
    engine = applier(lake, log, can_copy=True)
    engine.run()
    log.delete("t", id=1, v=1).commit()
    engine = applier(lake, log, can_copy=True, soft_deletes=ALL)
    engine.run()
    assert rows_of(engine, "t") == [{"id": 2, "v": 2}]
    for directory in (False, True):
        entry = engine.catalog.tables["d", "t"]
        entry.needs_copy("asked for")
        entry.building = "0123456789abcde" + str(int(directory))
        engine.catalog.save()
        low = log.later()
        rows = [{"id": 2, "v": 2}, {"id": 3, "v": 3}]
        log.delete("t", id=3, v=3).commit()
        where = engine.catalog.staging(entry) if directory else None
        log.copy("t", entry.copy, create, [(low, log.later(), rows)], where, soft_deletes=True)
        log.insert("t", id=3, v=3).commit()
        engine = applier(lake, log, can_copy=True, soft_deletes=ALL)
        engine.run()
        assert marked(engine) == {(2, 2): False, (3, 3): False}
        log.delete("t", id=3, v=3).commit()
        engine.run()
        assert marked(engine) == {(2, 2): False, (3, 3): True}
        log.insert("t", id=3, v=3).commit()
        engine.run()
    assert LakeCatalog.load(lake).tables["d", "t"].soft_deletes


def test_rows_as_they_were_are_those_that_were_there(log, lake):
    log.ddl("create table t (id int primary key, v int)")
    log.insert("t", id=1, v=1).insert("t", id=2, v=2).commit()
    moments = [f"b.000001:{log.offset + 1}"]
    wanted = [[{"id": 1, "v": 1}, {"id": 2, "v": 2}]]
    log.delete("t", id=1, v=1).commit()
    moments.append(f"b.000001:{log.offset + 1}")
    wanted.append([{"id": 2, "v": 2}])
    log.insert("t", id=1, v=5).delete("t", id=2, v=2).commit()
    moments.append("latest")
    wanted.append([{"id": 1, "v": 5}])
    applier(lake, log, soft_deletes=ALL).run()
    past = LakePast(lake, log.directory)
    for when, rows in zip(moments, wanted, strict=True):
        found = past.read(("d", "t"), past.moment(when))
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == rows, when


def test_a_history_begins_with_the_rows_that_are_there(log, lake):
    log.ddl("create table t (id int primary key, v int)")
    log.insert("t", id=1, v=1).insert("t", id=2, v=2).delete("t", id=1, v=1).commit()
    applier(lake, log, soft_deletes=ALL).run()
    log.insert("t", id=1, v=9).commit()
    engine = applier(lake, log, soft_deletes=ALL, history=ALL)
    engine.run()
    [versions] = open_lake(lake).history("d.t")
    assert sorted((row["id"], row["v"], row["_deleted"]) for row in versions.arrow().to_pylist()) == [
        (1, 9, False), (2, 2, False),
    ]  # fmt: skip
    assert marked(engine) == {(1, 9): False, (2, 2): False}


@pytest.mark.parametrize(
    ("value", "patterns"),
    [("true", ("*.*",)), ('["shop.a", "x.*"]', ("shop.a", "x.*")), ("false", ())],
)
def test_configuration(tmp_path, value, patterns):
    file = tmp_path / "c.toml"
    file.write_text(
        f'[source]\npath = "x"\n[pipeline]\noutput = "o"\n[lake]\nsoft_deletes = {value}\n'
    )
    assert load_config(file).lake.soft_deletes == patterns


@pytest.mark.parametrize("name", ["_valid_from", "_Valid_To", "_DELETED"])
def test_a_column_of_a_name_that_the_history_adds_is_refused(log, lake, name):
    log.ddl(f"create table t (id int primary key, {name} int)").commit()
    with pytest.raises(ConfigError) as caught:
        applier(lake, log, history=ALL).run()
    assert str(caught.value) == (
        f"d.t: it has a column {name}, and its history adds one of this name; leave it out of history in [lake]"
    )
