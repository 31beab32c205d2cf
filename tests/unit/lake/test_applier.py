"""Current-state tables from the change log, without Spark's Java."""

import datetime
import random
from dataclasses import replace
from decimal import Decimal

import pytest

from replica_client.errors import SchemaMismatchError
from replica_client.lake import open_lake
from replica_client.lake.change_log_files import statement_json
from replica_client.lake.maintenance import local_runner
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.catalog import TableChange
from replica_client.schema.history import schema_change
from tests.unit.lake.dying import Deaths, Killed
from tests.unit.lake.lakes import CONTEXT, applier, rows_of


def test_upsert_delete_key_change_and_the_last_one_of_a_batch(log, lake):
    log.ddl("create table t (id int primary key, v int)")
    log.insert("t", id=1, v=1).insert("t", id=2, v=2).insert("t", id=3, v=3)
    log.update("t", {"id": 1, "v": 1}, {"id": 1, "v": 10})
    log.update("t", {"id": 1, "v": 10}, {"id": 1, "v": 11})
    log.update("t", {"id": 2, "v": 2}, {"id": 20, "v": 2}).delete("t", id=3, v=3).commit()
    engine = applier(lake, log)
    engine.run()
    assert rows_of(engine, "t") == [{"id": 1, "v": 11}, {"id": 20, "v": 2}]
    log.delete("t", id=1, v=11).insert("t", id=1, v=5).insert("t", id=2, v=7).commit()
    log.update("t", {"id": 20, "v": 2}, {"id": 1000, "v": None}).delete("t", id=2, v=7).commit()
    engine.run()
    assert rows_of(engine, "t") == [{"id": 1, "v": 5}, {"id": 1000, "v": None}]


def test_composite_and_other_keys(log, lake):
    log.ddl("create table a (x varchar(9), y date, v int, primary key (x, y))")
    log.ddl("create table b (k varbinary(9) primary key, n bigint unsigned)")
    log.ddl("create table c (day date primary key, n bigint unsigned)")
    log.insert("a", x="é", y="2026-01-01", v=1).insert("a", x="é", y="2026-01-02", v=2)
    log.insert("b", k={"$binary": "AP8="}, n=2**64 - 1).insert("b", k={"$binary": ""}, n=0)
    log.insert("c", day="2026-01-01", n=1).insert("c", day="2026-01-05", n=5).commit()
    engine = applier(lake, log)
    engine.run()
    log.update("a", {"x": "é", "y": "2026-01-01", "v": 1}, {"x": "é", "y": "2026-01-01", "v": 3})
    log.delete("b", k={"$binary": "AP8="}, n=2**64 - 1).delete("c", day="2026-01-01", n=1)
    log.insert("c", day="2026-01-03", n=3).commit()
    engine.run()
    assert sorted((row["y"].day, row["v"]) for row in rows_of(engine, "a")) == [(1, 3), (2, 2)]
    assert [(row["k"], row["n"]) for row in rows_of(engine, "b")] == [(b"", Decimal(0))]
    assert sorted(row["day"].day for row in rows_of(engine, "c")) == [3, 5]


def test_rows_without_a_key_are_counted(log, lake):
    log.ddl("create table t (a int, b varchar(9))")
    for _ in range(3):
        log.insert("t", a=1, b="x")
    log.insert("t", a=2, b=None).commit()
    engine = applier(lake, log)
    engine.run()
    log.delete("t", a=1, b="x").insert("t", a=2, b=None)
    log.update("t", {"a": 1, "b": "x"}, {"a": 1, "b": "y"}).commit()
    engine.run()
    found = [(row["a"], row["b"]) for row in rows_of(engine, "t")]
    assert sorted(found, key=repr) == [(1, "x"), (1, "y"), (2, None), (2, None)]
    again = applier(lake, log)
    again.catalog.step = -1  # as if the catalog were older than the tables
    again.catalog.tables.clear()
    log.delete("t", a=1, b="y").commit()
    engine.run()
    assert len(rows_of(engine, "t")) == 3


def test_types(log, lake):
    log.ddl(
        "create table t (id int primary key, d date, dt datetime(3), ts timestamp(6) null, t time(2), "
        "de decimal(9,3), big decimal(65,30), f float, j json, e enum('a','b'), g point, y year, bi bit(64))"
    )
    log.insert(
        "t", id=1, d="2026-02-03", dt="2026-02-03 04:05:06.789", ts="2026-02-03 04:05:06.000001",
        t="-838:59:59.50", de="1.500", big="1.000000000000000000000000000001", f=0.1,
        j={"a": [1, None]}, e="b", g={"$wkb": "AA==", "srid": 4326}, y=2026, bi=2**64 - 1,
    )  # fmt: skip
    none = dict.fromkeys(("ts", "t", "de", "big", "f", "j", "e", "g", "y", "bi"))
    log.insert("t", id=2, d="0000-00-00", dt="2026-02-30 00:00:00.000", **none).commit()
    engine = applier(lake, log)
    engine.run()
    first, second = rows_of(engine, "t")
    if first["id"] == 2:
        first, second = second, first
    utc = datetime.UTC
    assert first["d"] == datetime.date(2026, 2, 3)
    assert str(first["dt"]) == "2026-02-03 04:05:06.789000"
    assert first["ts"] == datetime.datetime(2026, 2, 3, 4, 5, 6, 1, tzinfo=utc)
    assert (first["t"], first["de"]) == ("-838:59:59.50", Decimal("1.500"))
    assert first["big"] == "1.000000000000000000000000000001"
    assert first["j"] == '{"a": [1, null]}'
    assert (first["e"], first["y"], first["bi"]) == ("b", 2026, Decimal(2**64 - 1))
    assert first["g"] == {"wkb": b"\0", "srid": 4326}
    assert first["_lossless"] is None
    assert (second["d"], second["dt"], second["j"]) == (None, None, None)
    assert dict(second["_lossless"]) == {"d": "0000-00-00", "dt": "2026-02-30 00:00:00.000"}


def test_ddl_that_keeps_rows(log, lake):
    log.ddl("create table t (id int primary key, a int, b varchar(9))")
    log.insert("t", id=1, a=1, b="x").ddl("alter table t add column c datetime")
    log.insert("t", id=2, a=2, b="y", c="2026-01-01 00:00:00")
    log.ddl("alter table t drop column a").insert("t", id=3, b="z", c=None)
    log.ddl("alter table t rename column b to bb").ddl("alter table t modify id bigint not null")
    log.insert("t", id=2**40, bb="w", c=None).ddl("alter table t add index (c)").commit()
    engine = applier(lake, log)
    engine.run()
    rows = {row["id"]: row["bb"] for row in rows_of(engine, "t")}
    assert rows == {1: "x", 2: "y", 3: "z", 2**40: "w"}
    assert set(rows_of(engine, "t")[0]) == {"id", "bb", "c", "_lossless"}
    log.ddl("truncate table t").insert("t", id=9, bb="n", c=None).commit()
    engine.run()
    assert [row["id"] for row in rows_of(engine, "t")] == [9]
    log.ddl("drop table t").commit()
    engine.run()
    assert ("d", "t") not in engine.catalog.tables
    assert list((lake / "tables").iterdir()) == []


def test_tables_exchange_their_names(log, lake):
    for name, value in (("a", 1), ("b", 2)):
        log.ddl(f"create table {name} (id int primary key)").insert(name, id=value)
    log.ddl("rename table a to tmp, b to a, tmp to b").insert("a", id=3).commit()
    engine = applier(lake, log)
    engine.run()
    assert [row["id"] for row in rows_of(engine, "a")] == [2, 3]
    assert [row["id"] for row in rows_of(engine, "b")] == [1]


@pytest.mark.parametrize(
    "statement",
    [
        "alter table t add column c int not null default 5",
        "alter table t modify v varchar(20)",
        "alter table t drop primary key",
        "alter table t truncate partition p0",
        "alter table t add foreign key (v) references u (id) on delete cascade",
        "alter table t add column c int generated always as (v + 1) stored",
    ],
)
def test_ddl_that_changes_rows_asks_for_a_copy(log, lake, statement):
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1, v=1)
    log.ddl(statement).commit()
    engine = applier(lake, log, can_copy=True)
    engine.run()
    assert engine.catalog.tables[("d", "t")].status == "copying"


def test_a_table_that_gets_the_rows_of_a_partition_is_copied(log, lake):
    for name in "tuv":
        log.ddl(f"create table {name} (id int primary key)").insert(name, id=1)
    log.ddl("alter table t exchange partition p with table u without validation").commit()
    engine = applier(lake, log, can_copy=True)
    engine.run()
    found = {name: engine.catalog.tables[("d", name)].status for name in "tuv"}
    assert found == {"t": "copying", "u": "copying", "v": "current"}


def test_a_table_that_becomes_a_partition_goes(log, lake):
    context = replace(CONTEXT, flavor=ServerFlavor.MARIADB, version=(11, 8, 2))
    for name in "tu":
        log.ddl(f"create table {name} (id int primary key)").insert(name, id=1)
    statement = "alter table t convert table u to partition p values less than (9)"
    log.ddl(statement, context=context).commit()
    engine = applier(lake, log, can_copy=True)
    engine.run()
    assert {name: one.status for name, one in engine.catalog.tables.items()} == {
        ("d", "t"): "copying"
    }
    other = applier(lake / "b", log)
    other.run()
    entry = other.catalog.tables[("d", "t")]
    assert entry.status == "left_out"
    assert entry.reason
    assert list((lake / "b" / "tables").iterdir()) == []


def test_a_row_that_lacks_columns_is_refused(log, lake):
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1).commit()
    with pytest.raises(SchemaMismatchError, match="binlog_row_image=FULL"):
        applier(lake, log).run()


def random_history(log, rng, versions):
    """Random changes with DDL; returns what the tables hold at the end."""
    tables = {}

    def create(name):
        keyed = rng.random() < 0.7
        log.ddl(f"create table {name} (id int{' primary key' if keyed else ''}, v int)")
        tables[name] = (keyed, [])

    for name in ("a", "b", "c"):
        create(name)
    for _ in range(versions):
        for _ in range(rng.randrange(1, 12)):
            name = rng.choice(sorted(tables))
            keyed, rows = tables[name]
            kind = rng.random()
            if kind < 0.5 or not rows:
                row = {"id": rng.randrange(1000 if keyed else 3), "v": rng.randrange(3)}
                if keyed and any(one["id"] == row["id"] for one in rows):
                    continue
                log.insert(name, **row)
                rows.append(row)
            elif kind < 0.7:
                row = rows.pop(rng.randrange(len(rows)))
                log.delete(name, **row)
            elif kind < 0.88:
                at = rng.randrange(len(rows))
                new = {"id": rows[at]["id"], "v": rng.randrange(9)}
                log.update(name, rows[at], new)
                rows[at] = new
            elif kind < 0.91:
                log.ddl(f"truncate table {name}")
                rows.clear()
            elif kind < 0.94:
                log.ddl(f"drop table {name}")
                del tables[name]
                create(name)
            else:
                other = rng.choice(sorted(tables))
                if other != name:
                    log.ddl(f"rename table {name} to x, {other} to {name}, x to {other}")
                    tables[name], tables[other] = tables[other], tables[name]
        log.commit()
    return tables


@pytest.mark.parametrize("seed", range(4))
def test_killed_anywhere_each_change_is_taken_once(log, lake, seed, tmp_path, monkeypatch):
    """Dies before or after every write that it makes, at random, and begins again; versions of rows are the same."""
    rng = random.Random(seed)
    tables = random_history(log, rng, 12)
    kept = Selection()
    applier(tmp_path / "other", log, history=kept).run()
    deaths = Deaths(monkeypatch, rng, 0.07)
    deaths.in_writes()
    kills = 0
    while True:
        engine = applier(lake, log, threads=1, history=kept)
        try:
            engine.run(versions=rng.choice((1, 3, None)))
            if engine.catalog.step // (1 << 20) >= engine.log.latest():
                break
        except Killed:
            kills += 1
    assert kills
    for name, (_, rows) in tables.items():
        found = sorted((row["id"], row["v"]) for row in rows_of(engine, name))
        assert found == sorted((row["id"], row["v"]) for row in rows), name
    ended = 0
    for name in tables:
        if engine.catalog.tables["d", name].model.primary_key:
            mine, wanted = versions_of(lake, name), versions_of(tmp_path / "other", name)
            assert mine == wanted
            ended += sum(row["_valid_to_position"] is not None for row in mine)
    assert ended


def versions_of(lake, table):
    found = [
        row for one in open_lake(lake).history(("d", table)) for row in one.arrow().to_pylist()
    ]
    return sorted(found, key=repr)


def test_files_without_a_change_stay(log, lake, monkeypatch):
    from replica_client.lake import data_files as data_files, rewrite

    monkeypatch.setattr(data_files, "FULL_DATA_FILE_SIZE", 1)
    log.ddl("create table t (id int primary key, v int)")
    for at in range(0, 40, 10):
        for number in range(at, at + 10):
            log.insert("t", id=number, v=0)
        log.commit()
    done = []

    def runner(works):
        done.append([work.paths for work in works])
        return local_runner(1)(works)

    engine = applier(lake, log, runner=runner)
    for _ in range(1 + 4):
        engine.run(versions=1)
    del done[:]
    log.update("t", {"id": 15, "v": 0}, {"id": 15, "v": 1}).commit()
    engine.run()
    assert [len(paths) for paths in done] == [1]
    assert len(rows_of(engine, "t")) == 40
    assert rewrite.COMPRESSION == "zstd"


def test_statement_that_its_reader_could_not_tell_is_reported_by_the_lake(log, lake):
    log.ddl("create table t (id int primary key)").insert("t", id=1)
    log.ddl("drop table t").commit()
    log.offset += 100
    text = "create table if not exists t (id int primary key, v int)"
    unknown = TableChange("not_understood", ("d", "t"), None, None)
    stated = schema_change(unknown, text, "b.000001", log.offset, 1, CONTEXT)
    log.add("not_understood", "t", None, statement_json(stated))
    log.insert("t", id=5, v=6).commit()
    log.offset += 100
    log.add("not_understood", "t", None, statement_json(stated))  # it is there, and stays as it is
    log.commit()
    engine = applier(lake, log)
    engine.run()
    assert rows_of(engine, "t") == [{"id": 5, "v": 6}]


def test_run_that_failed_amid_a_statement_goes_on_from_what_was_saved(log, lake):
    """As when an executor is lost while a large table gets other columns: the process stays."""
    log.ddl("create table t (id int primary key, v int, w int)").insert(
        "t", id=1, v=2, w=3
    ).commit()
    failing = []

    def runner(works):
        if failing.pop() if failing else False:
            raise ConnectionError("an executor was lost")
        return local_runner()(works)

    engine = applier(lake, log, runner=runner)
    engine.run()
    log.ddl("alter table t drop column v").insert("t", id=2, w=4).commit()
    failing.append(True)
    with pytest.raises(ConnectionError):
        engine.run()
    engine.run()
    assert rows_of(engine, "t") == [{"id": 1, "w": 3}, {"id": 2, "w": 4}]
