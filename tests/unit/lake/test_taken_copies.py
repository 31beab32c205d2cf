"""Copies of tables, brought up to the change log in one pass, and killed anywhere meanwhile."""

import random

import pytest

from replica_client.lake import applier as applier_module, open_lake, taken_copies
from replica_client.lake.lake_catalog import LakeCatalog, new_id
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.rows.selection import Selection
from tests.unit.lake.dying import Deaths, Killed
from tests.unit.lake.lakes import applier, rows_of


def create(name):
    """Tables whose name begins with n have no key."""
    key = "" if name.startswith("n") else " primary key"
    return f"create table {name} (id int{key}, v int)"


class Source:
    """Tables with rows, whose changes are logged."""

    def __init__(self, log, rng, names):
        self.log, self.rng = log, rng
        self.rows = {name: {} for name in names}

    def change(self, names, count):
        for _ in range(count):
            name = self.rng.choice(names)
            rows, key = self.rows[name], self.rng.randrange(8)
            value = {"id": key, "v": self.rng.randrange(1000)}
            if key not in rows:
                self.log.insert(name, **value)
            elif self.rng.random() < 0.3:
                self.log.delete(name, **rows.pop(key))
                continue
            else:
                self.log.update(name, rows[key], value)
            rows[key] = value
        self.log.commit()

    def chunk(self, name, keys, low):
        """Rows as they are now, of a copy that began at a place."""
        found = [row for key, row in sorted(self.rows[name].items()) if key in keys]
        return low, self.log.later(), found


def copies_of(lake):
    return {name: entry.copy for (_, name), entry in LakeCatalog.load(lake).tables.items()}


def staged(lake, names):
    """Directories into which rows of copies are read, by table."""
    catalog = LakeCatalog.load(lake)
    for name in names:
        catalog.tables["d", name].building = new_id()
    catalog.save()
    return {name: catalog.staging(catalog.tables["d", name]) for name in names}


def copied_lake(log, lake, rng, names):
    """A log in which all tables are copied while they change; nothing is taken behind the first version."""
    source = Source(log, rng, names)
    for name in names:
        source.change([name], 3)
    applier(lake, log, can_copy=True).run()
    source.change(names, 9)
    keyed = [name for name in names if not name.startswith("n")]
    low = log.later()
    chunks = {name: [source.chunk(name, range(4), low)] for name in keyed}
    source.change(keyed, 12)
    for name in keyed:
        chunks[name].append(source.chunk(name, range(4, 8), log.later()))
    for name in set(names) - set(keyed):
        chunks[name] = [source.chunk(name, range(8), log.later())]
    for _ in range(3):
        source.change(names, 12)
    copies = copies_of(lake)
    directories = staged(lake, keyed[::2])
    together = rng.random() < 0.5
    for name in names:
        waits = together and name != names[-1]
        log.copy(name, copies[name], create(name), chunks[name], directories.get(name), waits=waits)
    source.change(names, 6)
    return source.rows


def check(engine, rows):
    for name, wanted in rows.items():
        found = sorted((row["id"], row["v"]) for row in rows_of(engine, name))
        assert found == sorted((row["id"], row["v"]) for row in wanted.values()), name


def test_one_pass_over_the_log_for_all_tables(log, lake, monkeypatch):
    """It was one for each table: with 1,000 tables hours."""
    names = [f"t{at}" for at in range(6)] + ["n"]
    rows = copied_lake(log, lake, random.Random(7), names)
    read, saved = [], []
    real_rows, real_save = ChangeLogVersions.rows, LakeCatalog.save
    monkeypatch.setattr(
        ChangeLogVersions,
        "rows",
        lambda self, files, **more: (
            read.extend(f.path for f in files) or real_rows(self, files, **more)
        ),
    )
    monkeypatch.setattr(LakeCatalog, "save", lambda self: saved.append(1) or real_save(self))
    engine = applier(lake, log, can_copy=True)
    engine.run()
    check(engine, rows)
    assert max(read.count(path) for path in read) <= 2, "once for its own sake, once to catch up"
    assert len(saved) < len(names)


def test_a_table_without_a_key_that_changed_while_it_was_read(log, lake):
    source = Source(log, random.Random(1), ["n", "t"])
    source.change(["n", "t"], 9)
    applier(lake, log, can_copy=True).run()
    copies, low = copies_of(lake), log.later()
    rows = source.chunk("t", range(8), low)
    log.insert("n", id=9, v=9).commit()
    log.copy("n", copies["n"], create("n"), [(low, log.later(), [])])
    log.copy("t", copies["t"], create("t"), [rows])
    engine = applier(lake, log, can_copy=True)
    engine.run()
    entry = engine.catalog.tables[("d", "n")]
    assert entry.status == "copying" and entry.copy != copies["n"]
    assert "without a primary key" in entry.reason
    check(engine, {"t": source.rows["t"]})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("round_rows", [1, 1000])
def test_killed_anywhere(log, lake, seed, round_rows, monkeypatch):
    rng = random.Random(seed)
    rows = copied_lake(log, lake, rng, ["a", "b", "n"])
    monkeypatch.setattr(taken_copies, "ROUND_ROWS", round_rows)
    monkeypatch.setattr(applier_module, "ROUND_ROWS", round_rows)

    deaths = Deaths(monkeypatch, rng, 0.07)
    deaths.in_writes()
    deaths.in_function(taken_copies, "_show")
    kills = 0
    while True:
        engine = applier(lake, log, threads=1, can_copy=True, history=Selection())
        try:
            engine.run(versions=rng.choice((1, 3, None)))
            if engine.catalog.step // (1 << 20) >= engine.log.latest():
                break
        except Killed:
            kills += 1
    assert kills
    check(engine, rows)
    monkeypatch.undo()
    for name in "ab":
        [history] = open_lake(lake).history(f"d.{name}")
        valid = [row for row in history.arrow().to_pylist() if row["_valid_to_position"] is None]
        found = sorted((row["id"], row["v"]) for row in valid)
        assert found == sorted((row["id"], row["v"]) for row in rows[name].values())
