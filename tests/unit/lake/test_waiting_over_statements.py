"""Changes wait while statements on other tables are taken: the lake is that of writing everything before each."""

import random

import pyarrow.compute as pc
import pytest

from replica_client.lake import applier as applier_module
from replica_client.lake.applier import Applier
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.lake_tables import CurrentTable
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.lake.maintenance import local_runner
from replica_client.lake.state_table import StateTable
from replica_client.lake.unmerged import MergePolicy, Unmerged, from_json
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.statement_context import StatementContext
from tests.unit.lake.dying import Deaths, Killed
from tests.unit.lake.lakes import HandLog, TypedLog

# Its server takes t and T for two tables; where a log does not say so, names in another case are doubtful.
CASES = StatementContext("d", ServerFlavor.MYSQL, (9, 7, 0), server_charset="utf8mb4")


class WritesAll(Applier):
    """Writes what waits of all tables before each statement."""

    def _notice(self, rows, step):
        self._write_waiting(step - 1, lambda _: True)
        super()._notice(rows, step)


class Source:
    """Random changes and statements on some tables, and what these have."""

    def __init__(self, log, seed):
        self.log, self.rng = log, random.Random(seed)
        self.tables = {}
        for name in ("a", "b", "c", "e"):
            self.create(name)

    def create(self, name):
        keyed = self.rng.random() < 0.75
        self.log.ddl(f"create table {name} (id int{' primary key' if keyed else ''}, v int)")
        self.tables[name] = [keyed, ["id", "v"], []]

    def version(self):
        for _ in range(self.rng.randrange(2, 12)):
            if self.rng.random() < 0.75:
                self.change()
            else:
                self.statement()
        self.log.commit()

    def change(self):
        rng, name = self.rng, self.rng.choice(sorted(self.tables))
        keyed, columns, rows = self.tables[name]
        kind = rng.random()
        row = {one: rng.randrange(4) for one in columns} | {"id": rng.randrange(30 if keyed else 3)}
        if kind < 0.5 or not rows:
            if not keyed or all(one["id"] != row["id"] for one in rows):
                self.log.insert(name, **row)
                rows.append(row)
        elif kind < 0.7:
            self.log.delete(name, **rows.pop(rng.randrange(len(rows))))
        else:
            at = rng.randrange(len(rows))
            row["id"] = rows[at]["id"] if kind < 0.9 or keyed else row["id"]
            self.log.update(name, rows[at], row)
            rows[at] = row

    def statement(self):
        rng, log, tables = self.rng, self.log, self.tables
        name, other = rng.sample(sorted(tables), 2)
        table, kind = tables[name], rng.randrange(11)
        if kind == 0:
            log.ddl(f"truncate table {name}")
            table[2].clear()
        elif kind == 1:
            log.ddl(f"drop table {name}")
            del tables[name]
            if rng.random() < 0.7:
                self.change()
            self.create(name)
        elif kind == 2:
            log.ddl(f"rename table {name} to x, {other} to {name}, x to {other}")
            tables[name], tables[other] = tables[other], table
        elif kind == 3:
            log.ddl(f"rename table {name} to y")
            tables["y"] = tables.pop(name)
            self.change()
            log.ddl(f"rename table y to {name}")
            tables[name] = tables.pop("y")
        elif kind in (4, 5):
            new = f"n{log.offset}"
            log.ddl(f"alter table {name} add column {new} int")
            table[1].append(new)
            for row in table[2]:
                row[new] = None
        elif kind == 6 and len(table[1]) > 2:
            gone = table[1].pop()
            log.ddl(f"alter table {name} drop column {gone}")
            for row in table[2]:
                del row[gone]
        elif kind == 7 and len(table[1]) > 2:
            old, new = table[1][-1], f"m{log.offset}"
            log.ddl(f"alter table {name} rename column {old} to {new}")
            table[1][-1] = new
            for row in table[2]:
                row[new] = row.pop(old)
        elif kind == 8:
            log.ddl(f"alter table {name} add index i{log.offset} (v)")
        elif kind == 9:
            log.ddl(f"create table {name}z like {name}").ddl(f"drop table {name}z")
        else:
            log.ddl("create view w as select 1").ddl("create database if not exists q").ddl(
                "drop database q"
            )


OPTIONS = (
    {},
    {"history": Selection()},
    {"soft_deletes": Selection()},
    {"merge": lambda _: MergePolicy.parse("10 minutes")},
    {"merge": lambda _: MergePolicy.parse("2k")},
)


def engine_of(kind, lake, log, options):
    catalog = LakeCatalog.load(lake) or LakeCatalog(lake)
    return kind(
        catalog,
        ChangeLogVersions(log.directory),
        "p",
        Selection(),
        local_runner(),
        threads=1,
        **options,
    )


def read(engine, entry):
    """The rows of a table, with the changes that wait."""
    catalog = engine.catalog
    unmerged = Unmerged(engine.log.directory, "p", from_json(entry.waiting))
    return CurrentTable(*entry.table, catalog.home(entry), entry.model, unmerged).arrow()


def contents(engine):
    """Entries, definitions, rows and versions of rows."""
    found = {}
    for name, entry in engine.catalog.tables.items():
        rows, versions = None, []
        if entry.status == "current":
            batches = read(engine, entry)
            rows = sorted(
                map(
                    repr,
                    batches.drop_columns(
                        [c for c in batches.column_names if c == "_row_key"]
                    ).to_pylist(),
                )
            )
        for home in engine.catalog.history_homes(entry):
            table = StateTable(home, engine.tables.of(entry).shape, "p")
            versions.append(sorted(map(repr, table.dataset().to_table().to_pylist())))
        found[name] = (entry.status, entry.reason, entry.soft_deletes, entry.model, rows, versions)
    return found, engine.catalog.history.to_json()


def counted(monkeypatch):
    count = [0]
    commit = StateTable._commit

    def call(*args, **kwargs):
        count[0] += 1
        return commit(*args, **kwargs)

    monkeypatch.setattr(StateTable, "_commit", call)
    return count


@pytest.mark.parametrize("kind", [HandLog, TypedLog])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_lake_is_the_same_as_with_everything_written_before_each_statement(
    kind, options, tmp_path, monkeypatch
):
    log = kind(tmp_path / "change_log")
    source = Source(log, f"{kind.__name__}{OPTIONS.index(options)}")
    count = counted(monkeypatch)
    lakes = {one: tmp_path / one.__name__ for one in (Applier, WritesAll)}
    commits = dict.fromkeys(lakes, 0)
    for _ in range(3):
        for _ in range(3):
            source.version()
        found = []
        for one, lake in lakes.items():
            before, engine = count[0], engine_of(one, lake, log, options)
            engine.run()
            commits[one] += count[0] - before
            found.append(contents(engine))
        assert found[0] == found[1]
    current = 0
    for name, (_, columns, rows) in source.tables.items():
        if engine.catalog.tables["d", name].status != "current":
            continue  # columns of a table without a key changed
        mine = read(engine, engine.catalog.tables["d", name])
        if "_deleted" in mine.column_names:
            mine = mine.filter(pc.invert(mine["_deleted"]))
        wanted = sorted(repr({one: row[one] for one in columns}) for row in rows)
        assert sorted(map(repr, mine.select(columns).to_pylist())) == wanted, name
        current += 1
    assert current
    if "merge" not in options:
        assert commits[Applier] < commits[WritesAll], commits


@pytest.mark.parametrize("kind", [HandLog, TypedLog])
@pytest.mark.parametrize("seed", range(3))
def test_killed_anywhere_it_is_the_same(kind, seed, tmp_path, monkeypatch):
    """Dies before or after writes, also in the midst of a version whose statements are not saved."""
    log, rng = kind(tmp_path / "change_log"), random.Random(seed)
    source, options = Source(log, f"killed {seed}"), OPTIONS[(seed, 3, 4)[seed]]
    for _ in range(10):
        source.version()
    whole = engine_of(WritesAll, tmp_path / "whole", log, options)
    whole.run()
    wanted = contents(whole)

    deaths = Deaths(monkeypatch, rng, 0.05)
    for owner, name in ((LakeCatalog, "save"), (StateTable, "_commit"), (StateTable, "create")):
        deaths.in_function(owner, name)
    lake, kills, engine = tmp_path / "lake", 0, None
    while True:
        monkeypatch.setattr(applier_module, "_SAVE_AFTER", rng.choice((0.0, 30.0)))
        if engine is None or rng.random() < 0.7:
            engine = engine_of(Applier, lake, log, options)
        try:
            engine.run(versions=rng.choice((1, 3, None)))
            if engine.catalog.step // (1 << 20) >= engine.log.latest():
                break
        except Killed:
            kills += 1
    monkeypatch.undo()
    assert kills
    engine = engine_of(Applier, lake, log, options)
    engine.run()
    assert contents(engine) == wanted
