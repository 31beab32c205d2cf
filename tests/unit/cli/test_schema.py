"""``replica-client schema``, and ``changes`` with a history."""

import json

import pytest

from replica_client.protocol.position import Position
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.position.stores.file import FilePositionStore


@pytest.fixture
def saved(tmp_path, shop, run):
    """A position file with the history that belongs to it."""
    path = tmp_path / "position.json"
    assert run("changes", *shop, "--position-file", path).status == 0
    return path


def test_show_prints_each_version(run, shop):
    result = run("schema", "show", *shop)
    assert result.status == 0
    assert result.lines
    assert all("ddl" in line for line in result.lines)
    records = run("schema", "show", *shop, "--json").records
    assert len(records) == len(result.lines)
    assert {record["origin"] for record in records} == {"ddl"}
    assert all(column["type"] for record in records for column in record["columns"] or ())


def test_show_takes_tables(run, shop):
    records = run("schema", "show", *shop, "--json").records
    name = f"{records[0]['database']}.{records[0]['table']}"
    chosen = run("schema", "show", *shop, "--tables", name, "--json").records
    assert chosen
    assert {f"{one['database']}.{one['table']}" for one in chosen} == {name}


def test_changes_save_the_history_with_the_position(run, saved, shop):
    state = FilePositionStore(saved).load_checkpoint().state
    from_files = run("schema", "show", *shop, "--json").records
    assert run("schema", "show", saved, "--json").records == from_files
    assert SchemaHistory.from_state(state[STATE_KEY]).known_tables()


def test_export_and_import(run, saved, tmp_path):
    export = tmp_path / "schema.json"
    export.write_text(run("schema", "export", saved).out)
    before = run("schema", "show", saved).out
    assert run("schema", "show", export).out == before
    store = FilePositionStore(saved)
    position = store.load()
    store.save(position)
    result = run("schema", "show", saved)
    assert result.status == 2
    assert "holds a position, and no schema history" in result.err
    assert run("schema", "import", export, "--position-file", saved).status == 0
    assert run("schema", "show", saved).out == before
    assert store.load() == position


def test_import_leaves_out_what_comes_again(run, saved, tmp_path, shop):
    export = tmp_path / "schema.json"
    export.write_text(run("schema", "export", saved).out)
    store = FilePositionStore(saved)
    file = store.load().file
    first = shop[0].rsplit("/", 1)[1]
    store.save(Position(first, 4))
    assert run("schema", "import", export, "--position-file", saved).status == 0
    assert run("schema", "show", saved).lines == []
    assert file


def test_rebuild_from_files(run, saved, shop):
    before = run("schema", "show", saved).out
    store = FilePositionStore(saved)
    store.save(store.load())
    assert run("schema", "rebuild", *shop, "--position-file", saved).status == 0
    assert run("schema", "show", saved).out == before


def test_changes_with_an_export(run, shop, tmp_path):
    export = tmp_path / "schema.json"
    export.write_text(run("schema", "export", *shop).out)
    plain = run("changes", *shop, "--json")
    assert run("changes", *shop, "--json", "--schema", export).out == plain.out


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "is not JSON"),
        ("{}", "it is not a schema history"),
        (json.dumps({"format": "replica-client-schema", "version": 9}), "of version 9"),
    ],
)
def test_faulty_files_are_one_line(run, tmp_path, text, what):
    path = tmp_path / "schema.json"
    path.write_text(text)
    result = run("schema", "show", path)
    assert result.status == 1
    assert what in result.err
    assert len(result.err.splitlines()) == 1


def test_usage(run, tmp_path):
    assert run("schema", "--help").status == 0
    for command in ("show", "export", "import", "rebuild"):
        result = run("schema", command, "--help")
        assert result.status == 0
        assert f"Example:  replica-client schema {command}" in result.out
    missing = run("schema", "rebuild", tmp_path / "x", "--position-file", tmp_path / "none.json")
    assert missing.status == 2
    assert "does not exist" in missing.err
