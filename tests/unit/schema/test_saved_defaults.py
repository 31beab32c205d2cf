"""Defaults and comments of columns are saved with positions, but for sources of which something is hidden."""

from __future__ import annotations

import json
import random
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replica_client import AssemblyOptions, FilePositionStore, Selection, open_binlog
from replica_client.protocol.position import Position
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.sinks.formats.line_format import make_format
from replica_client.stream.live.stream_options import StreamOptions
from replica_client.stream.position.stores.sql_table import SqlitePositionStore
from replica_client.stream.transforms.transformer import Transformer
from tests.source.restarts import transactions_with_restarts
from tests.source.row_maker import RowMaker
from tests.unit.schema.tables import MYSQL, history_of

CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, c CHAR(9) DEFAULT 'tellsX' COMMENT 'tellsY') CHARSET utf8"
)
AT = Position("binlog.000001", 5000)


def _annotations(history: SchemaHistory) -> list[tuple[object, ...]]:
    table = history.table(("d", "t"))
    assert isinstance(table, TableModel)
    return [column.annotations for column in table.columns]


def _many(*more: str) -> SchemaHistory:
    """Enough for several records, one of them compressed."""
    others = [f"CREATE TABLE t{at} (a INT DEFAULT {at}, b CHAR(9) DEFAULT 'x')" for at in range(80)]
    return history_of(CREATE, *others, *more)


@pytest.mark.parametrize("make", [history_of, _many])
def test_they_are_saved_where_it_is_asked_for(make: Any) -> None:
    history = history_of(CREATE) if make is history_of else make()
    again = SchemaHistory.from_state(history.to_parts(defaults=True))
    assert _annotations(again) == _annotations(history)
    for one in (history, again):
        one.run("ALTER TABLE t ADD d INT DEFAULT 7 COMMENT 'z'", MYSQL, "binlog.000001", 3000)
    third = SchemaHistory.from_state(again.to_parts(defaults=True))
    assert _annotations(third) == _annotations(history)


def test_a_state_without_them_is_read_and_goes_on_with_them() -> None:
    """As releases wrote it that saved none."""
    history = SchemaHistory.from_state(history_of(CREATE).to_parts())
    assert history.table(("d", "t")) == history_of(CREATE).table(("d", "t"))
    assert [one[-3:-1] for one in _annotations(history)] == [(None, ""), (None, "")]
    history.run("ALTER TABLE t ADD d INT DEFAULT 7 COMMENT 'z'", MYSQL, "binlog.000001", 3000)
    again = SchemaHistory.from_state(history.to_parts(defaults=True))
    assert _annotations(again)[-1][-3:-1] == ("7", "z")


def test_columns_that_are_equal_are_written_each_as_it_is() -> None:
    """The texts of columns are kept; columns are equal whose defaults differ."""
    for _ in range(2):
        for defaults in (False, True, False):
            for text in ("1", "2"):
                table = history_of(f"CREATE TABLE t (a INT DEFAULT {text})").table(("d", "t"))
                assert isinstance(table, TableModel)
                written = table.json_text(defaults=defaults)
                assert (f'"default":"{text}"' in written) == defaults


# Sources of which something is hidden.

_HIDING = [
    StreamOptions(transform=Transformer.of([{"tables": "d.*", "keep": "*", "drop": "c"}])),
    StreamOptions(transform=Transformer.of([{"tables": "e.*", "keep": "*", "mask": {"c": "-"}}])),
    StreamOptions(assembly=AssemblyOptions(Selection(columns=["id"]))),
    StreamOptions(assembly=AssemblyOptions(Selection(columns={"e.*": ["id"]}))),
]
_SHOWING = [
    StreamOptions(),
    StreamOptions(assembly=AssemblyOptions(Selection("d.*"))),
    StreamOptions(transform=Transformer.of([{"tables": "d.*", "rename": {"c": "e"}}])),
]


@pytest.mark.parametrize("options", _HIDING)
def test_they_are_not_saved_where_something_is_hidden(options: StreamOptions) -> None:
    assert not options.assembly.saves_defaults


@pytest.mark.parametrize("options", _SHOWING)
def test_they_are_saved_where_nothing_is(options: StreamOptions) -> None:
    assert options.assembly.saves_defaults


@pytest.mark.parametrize("make", [lambda: history_of(CREATE), _many])
def test_a_state_that_has_them_is_written_anew_without_them(make: Any) -> None:
    """A transform was added."""
    history = SchemaHistory.from_state(make().to_parts(defaults=True))
    parts = history.to_parts()
    assert not _tell(parts)
    assert history.to_parts() is parts
    assert set(SchemaHistory.from_state(parts).known_tables()) == set(make().known_tables())


def _tell(parts: tuple[str, ...]) -> bool:
    """Whether what is saved tells anything; it may be compressed."""
    again = SchemaHistory.from_state(parts)
    models = (again.table(name) for name in again.known_tables())
    tells = any(
        column.default is not None or column.comment
        for model in models
        if isinstance(model, TableModel)
        for column in model.columns
    )
    return tells or any("tells" in one for one in parts)


def _long(columns: int) -> SchemaHistory:
    """What is saved of it stands beside the position, with this many columns also without what they tell."""
    chance = random.Random(1)
    names = [f"{chance.getrandbits(200):x}" for _ in range(columns)]
    clauses = [f"`{name}` VARCHAR(99) DEFAULT '{chance.getrandbits(320):x}'" for name in names]
    return history_of(CREATE, *(f"CREATE TABLE t{at} ({one})" for at, one in enumerate(clauses)))


@pytest.mark.parametrize("columns", [300, 900])
def test_no_file_of_a_position_has_them_any_more(columns: int, tmp_path: Path) -> None:
    path = tmp_path / "position"
    store = FilePositionStore(path)
    old = _long(columns).to_parts(defaults=True)
    store.save(AT, {STATE_KEY: old})
    assert len(list(tmp_path.iterdir())) == 2
    store = FilePositionStore(path)
    saved = store.load_checkpoint()
    assert saved is not None
    later = SchemaHistory.from_state(saved.state[STATE_KEY]).to_parts()
    store.save(AT, {STATE_KEY: later})
    for one in tmp_path.iterdir():
        data = one.read_bytes()
        assert not any(text.encode() in data for text in old)
    found = FilePositionStore(path).load_checkpoint()
    assert found is not None
    assert tuple(found.state[STATE_KEY]) == later


@pytest.mark.parametrize("columns", [300, 900])
def test_no_row_of_a_store_has_them_any_more(columns: int, tmp_path: Path) -> None:
    """Rows that are not needed are removed many at a time, but not these."""
    path = tmp_path / "positions.db"
    old = _long(columns).to_parts(defaults=True)
    with closing(SqlitePositionStore(path, "one")) as store:
        store.save(AT, {STATE_KEY: old})
    with closing(SqlitePositionStore(path, "one")) as store:
        saved = store.load_checkpoint()
        assert saved is not None
        history = SchemaHistory.from_state(saved.state[STATE_KEY])
        store.save(AT, {STATE_KEY: history.to_parts()})
    with closing(sqlite3.connect(path)) as connection:
        dump = "\n".join(connection.iterdump())
    assert not any(one in dump for one in old)


# A restart changes nothing.


def _statements(chance: random.Random) -> RowMaker:
    """Random definitions with defaults and comments, and rows between them."""
    maker = RowMaker()
    tables: dict[str, list[str]] = {}

    def run(text: str) -> None:
        maker.statement(text.encode())

    def clause() -> str:
        kind, value = chance.choice(
            (("INT", "5"), ("VARCHAR(9)", "'ä''b'"), ("DECIMAL(9,2)", "1.5"), ("BINARY(3)", "'a'"))
        )
        default = chance.choice(("", f" DEFAULT {value}", " DEFAULT NULL"))
        return f"{kind}{default}" + chance.choice(("", f" COMMENT 'c{chance.random()}'"))

    run("CREATE DATABASE shop CHARSET utf8mb4")
    for at in range(120):
        what = chance.random()
        if what < 0.15 or len(tables) < 2:
            name = f"t{at}"
            run(f"CREATE TABLE {name} (id INT PRIMARY KEY, a {clause()}) COMMENT 'x'")
            tables[name] = ["a"]
        elif what < 0.2:
            old = chance.choice(sorted(tables))
            run(f"RENAME TABLE {old} TO u{at}")
            tables[f"u{at}"] = tables.pop(old)
        elif what < 0.3:
            old = chance.choice(sorted(tables))
            run(f"CREATE TABLE l{at} LIKE {old}")
            tables[f"l{at}"] = list(tables[old])
        else:
            name = chance.choice(sorted(tables))
            column = chance.choice(tables[name])
            added = f"c{at}"
            if what < 0.7:
                run(f"ALTER TABLE {name} ADD {added} {clause()}")
                tables[name].append(added)
            elif what < 0.8:
                run(f"ALTER TABLE {name} MODIFY {column} {clause()}")
            elif what < 0.9:
                run(f"ALTER TABLE {name} ALTER {column} DROP DEFAULT")
            else:
                run(f"ALTER TABLE {name} COMMENT 'y'")
    return maker


@pytest.mark.parametrize("seed", range(1, 7))
def test_messages_after_restarts_are_those_of_one_reader(seed: int, tmp_path: Path) -> None:
    file = _statements(random.Random(seed)).save(tmp_path / "binlog.000001")
    options = {"include_schema_comments": True}
    one = make_format("debezium", options)
    wanted = [line for each in open_binlog(file).transactions() for line in one.lines(each)]
    got, readers = [], 0
    store = tmp_path / "position"
    for number, transaction in transactions_with_restarts([file], store, seed, most=8):
        if number + 1 > readers:
            one, readers = make_format("debezium", options), number + 1
        got += one.lines(transaction)
    assert readers > 10
    assert [_clean(line) for line in got] == [_clean(line) for line in wanted]
    assert sum('"defaultValueExpression":"' in line for line in wanted) > 20
    assert sum('"comment":"c0.' in line for line in wanted) > 20


def _clean(line: str) -> str:
    """Without the times at which it was made."""
    value = json.loads(line)
    for name in ("ts_ms", "ts_us", "ts_ns"):
        value.pop(name, None)
    return json.dumps(value)
