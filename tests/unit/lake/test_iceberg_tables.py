"""Tables of a lake in an Iceberg catalogue: read by pyiceberg and DuckDB, through changes, statements and deaths."""

import random

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog import load_catalog

from replica_client.errors import ConfigError, SinkError
from replica_client.lake import data_files, iceberg_tables
from replica_client.lake.config import load_config
from replica_client.lake.iceberg_tables import IcebergTables
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.maintenance import local_runner
from tests.unit.lake.dying import Deaths, Killed
from tests.unit.lake.lakes import HandLog, applier, rows_of
from tests.unit.lake.rest_catalog import rest_catalog


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


@pytest.fixture
def log(lake):
    return HandLog(lake / "change_log")


@pytest.fixture
def properties(tmp_path, request):
    """Of an SQL catalogue, or with the parameter ``rest`` of a REST catalogue over it."""
    found = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}"}
    if getattr(request, "param", "sql") == "sql":
        yield found
    else:
        with rest_catalog(load_catalog("replica_client", **found)) as address:
            yield {"type": "rest", "uri": address}


on_both = pytest.mark.parametrize("properties", ["sql", "rest"], indirect=True)


@pytest.fixture
def catalog(properties):
    return load_catalog("replica_client", **properties)


@pytest.fixture
def run(lake, log, properties):
    """A run of the engine in a new process, so to say."""

    def run(**options):
        engine = applier(lake, log, **options)
        engine.catalog.publish = IcebergTables(lake, properties, goes_on=True).publish
        engine.catalog.save()
        engine.run()
        return engine

    return run


def read(catalog, table, **options):
    """The rows of an Iceberg table, in order."""
    rows = catalog.load_table(("d", table)).scan(**options).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: repr(sorted(row.items())))


def files(catalog, table):
    return [task.file.file_path for task in catalog.load_table(("d", table)).scan().plan_files()]


def snapshots(catalog, table):
    return catalog.load_table(("d", table)).metadata.snapshots


@on_both
def test_rows_and_key_and_position(log, run, catalog):
    log.ddl("create table t (id int primary key, v varchar(9), at datetime(6), b blob)")
    log.insert("t", id=1, v="a", at="2026-01-01 00:00:00.000001", b={"$binary": "AP8="})
    log.insert("t", id=2, v=None, at="0000-00-00 00:00:00", b=None).commit()
    engine = run()
    table = catalog.load_table(("d", "t"))
    assert read(catalog, "t") == rows_of(engine, "t")
    assert table.schema().identifier_field_names() == {"id"}
    assert table.properties["commit.retry.num-retries"] == "0"
    log.update(
        "t", {"id": 1, "v": "a", "at": None, "b": None}, {"id": 1, "v": "b", "at": None, "b": None}
    )
    log.delete("t", id=2, v=None, at="0000-00-00 00:00:00", b=None).commit()
    engine = run()
    assert (
        read(catalog, "t")
        == rows_of(engine, "t")
        == [{"id": 1, "v": "b", "at": None, "b": None, "_lossless": None}]
    )
    first, second = snapshots(catalog, "t")
    assert len(read(catalog, "t", snapshot_id=first.snapshot_id)) == 2  # as it was
    assert second.summary.additional_properties["replica.delta-version"] == "2"
    count = len(snapshots(catalog, "t"))
    run()
    assert len(snapshots(catalog, "t")) == count  # nothing to do


def test_duckdb_reads_it(log, run, catalog):
    pytest.importorskip("duckdb")
    log.ddl("create table t (id int primary key, price decimal(10,2))")
    log.insert("t", id=1, price="1.50").insert("t", id=2, price="2.25").commit()
    run()
    found = catalog.load_table(("d", "t")).scan().to_duckdb("t")
    assert found.execute("select count(*), sum(price)::varchar from t").fetchall() == [(2, "3.75")]


STATEMENTS = [
    "alter table t add w int",
    "alter table t modify v bigint",
    "alter table t modify v varchar(30)",
    "alter table t drop v",
    "alter table t add v int first",
    "alter table t change w renamed int",
    "alter table t drop primary key",
    "truncate table t",
    "rename table t to u",
    "drop table t",
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements(log, run, catalog, statement):
    log.ddl("create table t (id int primary key, v int, w2 int)")
    log.insert("t", id=1, v=1, w2=5).insert("t", id=2, v=2, w2=6).commit()
    run()
    log.ddl(statement).commit()
    engine = run()
    name = "u" if "rename table" in statement else "t"
    entry = engine.catalog.tables.get(("d", name))
    left = [one[1] for one in catalog.list_tables("d")]
    if entry is None or entry.status != "current":
        assert left == []
        return
    assert left == [name]
    assert read(catalog, name) == rows_of(engine, name)
    fields = [field.name for field in catalog.load_table(("d", name)).schema().fields]
    assert fields == engine.tables.of(entry).shape.schema.names
    for snapshot in snapshots(catalog, name):  # no old files by new columns
        found = read(catalog, name, snapshot_id=snapshot.snapshot_id)
        assert found == [] or found[0].keys() >= {"id"}


def test_older_snapshots_go_with_columns_that_were_written_again(log, run, catalog):
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1, v=1).commit()
    run()
    log.ddl("alter table t add w int").commit()
    run()
    assert len(snapshots(catalog, "t")) == 2
    log.ddl("alter table t modify v bigint").commit()
    engine = run()
    assert len(snapshots(catalog, "t")) == 1
    assert read(catalog, "t") == rows_of(engine, "t")


@on_both
def test_names_that_change_places(log, run, catalog):
    for name in ("a", "b"):
        log.ddl(f"create table {name} (id int primary key, {name}_ int)")
        log.insert(name, id=1, **{f"{name}_": 7})
    log.commit()
    run()
    log.ddl("rename table a to x, b to a, x to b").commit()
    engine = run()
    for name in ("a", "b"):
        assert read(catalog, name) == rows_of(engine, name)


def test_a_commit_of_another_program_is_refused(log, run, catalog):
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1, v=1).commit()
    run()
    table = catalog.load_table(("d", "t"))
    rows = pa.table({"id": [9], "v": [9]}).cast(table.schema().as_arrow())
    table.append(rows)
    log.insert("t", id=2, v=2).commit()
    for _ in range(2):
        with pytest.raises(
            SinkError, match=r"Iceberg table d\.t: another program changed the table; drop it"
        ):
            run()
        assert [row["id"] for row in read(catalog, "t")] == [1, 9]
    catalog.drop_table(("d", "t"))
    run()
    assert [row["id"] for row in read(catalog, "t")] == [1, 2]


@on_both
def test_a_commit_between_the_plan_and_ours_is_refused(log, run, catalog, monkeypatch):
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1, v=1).commit()
    run()
    replace = iceberg_tables._replace

    def other(change, *others):
        table = catalog.load_table(("d", "t"))
        table.append(pa.table({"id": [9], "v": [9]}).cast(table.schema().as_arrow()))
        return replace(change, *others)

    monkeypatch.setattr(iceberg_tables, "_replace", other)
    log.insert("t", id=2, v=2).commit()
    with pytest.raises(SinkError, match=r"d\.t: CommitFailedException"):
        run()
    assert [row["id"] for row in read(catalog, "t")] == [1, 9]  # ours is not on top of it


def test_a_table_of_somebody_else_stays(log, run, catalog):
    catalog.create_namespace("d")
    catalog.create_table(("d", "t"), pa.schema([("x", pa.int64())]), location="file:///tmp/none")
    log.ddl("create table t (id int primary key, v int)").insert("t", id=1, v=1).commit()
    with pytest.raises(SinkError, match="not of this lake"):
        run()
    assert catalog.load_table(("d", "t")).schema().fields[0].name == "x"
    catalog.rename_table(("d", "t"), ("d", "theirs"))
    engine = run()
    assert read(catalog, "t") == rows_of(engine, "t")


def test_compaction_is_a_commit_too(log, lake, properties, run, catalog, monkeypatch):
    log.ddl("create table t (id int primary key, v int)").commit()
    run()
    with monkeypatch.context() as patch:
        patch.setattr(data_files, "FULL_DATA_FILE_SIZE", 1)
        for number in range(4):
            log.insert("t", id=number, v=number).commit()
            run()
    engine = run()
    before = read(catalog, "t")
    assert len(files(catalog, "t")) == 4
    engine.tables.of(engine.catalog.tables["d", "t"]).compact(local_runner())
    IcebergTables(lake, properties).publish(LakeCatalog.load(lake))  # as `lake compact` does
    assert len(files(catalog, "t")) == 1
    assert read(catalog, "t") == before


def test_only_the_newest_snapshots_stay(log, run, catalog, monkeypatch):
    monkeypatch.setattr(iceberg_tables, "_SNAPSHOTS", 3)
    log.ddl("create table t (id int primary key, v int)").commit()
    for number in range(5):
        log.insert("t", id=number, v=number).commit()
        engine = run()
    assert [
        len(read(catalog, "t", snapshot_id=one.snapshot_id)) for one in snapshots(catalog, "t")
    ] == [3, 4, 5]
    assert read(catalog, "t") == rows_of(engine, "t")


@pytest.mark.parametrize("seed", range(6))
def test_deaths_between_any_two_writes(log, lake, run, catalog, monkeypatch, seed):
    rng, rows, schema = random.Random(seed), {}, ["v"]
    log.ddl("create table t (id int primary key, v int)")
    with monkeypatch.context() as patch:
        deaths = Deaths(patch, rng, 0.06)
        deaths.in_writes()
        for owner, name in (
            (iceberg_tables, "_replace"),
            (iceberg_tables, "_set_columns"),
            (iceberg_tables, "_expire"),
            (IcebergTables, "_publish"),
            (IcebergTables, "_drop"),
            (IcebergTables, "_write"),
        ):
            deaths.in_function(owner, name)
        for step in range(12):
            for _ in range(rng.randrange(4)):
                key = rng.randrange(20)
                row = {"id": key, **dict.fromkeys(schema, step)}
                if key in rows and rng.random() < 0.4:
                    log.delete("t", **rows.pop(key))
                elif key in rows:
                    log.update("t", rows[key], row)
                    rows[key] = row
                else:
                    log.insert("t", **row)
                    rows[key] = row
            if rng.random() < 0.3:
                schema.append(f"c{step}")
                log.ddl(f"alter table t add c{step} int")
                rows = {key: {**row, f"c{step}": None} for key, row in rows.items()}
            elif len(schema) > 1 and rng.random() < 0.3:
                gone = schema.pop(rng.randrange(len(schema)))
                log.ddl(f"alter table t drop {gone}")
                rows = {
                    key: {name: value for name, value in row.items() if name != gone}
                    for key, row in rows.items()
                }
            if log._rows:
                log.commit()
            while True:
                try:
                    run()
                    break
                except Killed:
                    continue
            assert read(catalog, "t") == sorted(
                rows.values(), key=lambda row: repr(sorted(row.items()))
            )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('format = "iceberg"', "needs a catalog"),
        ('catalog = {type = "sql"}', "is for format"),
        ('format = "iceberg"\ncatalog = {type = 1}', "catalog"),
        ('format = "hudi"', "format"),
        ('format = "iceberg"\ncatalog = {type = "sql"}\n[lake]\ncurrent = false', "current tables"),
    ],
)
def test_configuration(tmp_path, lines, message):
    file = tmp_path / "lake.toml"
    file.write_text(f'[source]\npath = "/b.*"\n[pipeline]\noutput = "lake"\n{lines}\n')
    with pytest.raises(ConfigError, match=message):
        load_config(file)


def test_a_store_and_a_catalogue_that_cannot_be_opened(tmp_path, lake):
    file = tmp_path / "lake.toml"
    lines = 'output = "s3://b/lake"\nformat = "iceberg"\ncatalog = {type = "sql", uri = "x"}'
    file.write_text(f'[source]\npath = "/b.*"\n[pipeline]\n{lines}\n')
    with pytest.raises(ConfigError, match="iceberg needs an output on this machine"):
        load_config(file)
    with pytest.raises(ConfigError, match=r"\[pipeline\] catalog: "):
        IcebergTables(lake, {"type": "nothing"}, goes_on=True).publish(LakeCatalog(lake))
