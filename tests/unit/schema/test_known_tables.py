"""A saved history is read table by table, when one is asked for."""

from __future__ import annotations

import base64
import json
import random
import zlib
from typing import Any

import pytest

from replica_client.errors import SchemaError
from replica_client.schema import known_tables
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaHistory
from replica_client.schema.known_tables import LogPosition, Version
from replica_client.schema.model import DatabaseModel


def _history(tables: int) -> SchemaHistory:
    history = SchemaHistory(lower_case_names=False)
    history.position = LogPosition.of("b.000001", 4)
    history.set_database("d", DatabaseModel("utf8mb4", complete=True))
    for number in range(tables):
        _run(history, f"CREATE TABLE d.t{number} (id INT PRIMARY KEY, c VARCHAR(40))", 100)
    return history


def _run(history: SchemaHistory, text: str, offset: int) -> None:
    history.run(text, StatementContext("d"), "b.000001", offset)


def _saved(history: SchemaHistory) -> tuple[str, ...]:
    # As a store gives it back.
    found: list[str] = json.loads(json.dumps(history.to_parts()))
    return tuple(found)


class _Counted:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read: list[str] = []
        real = Version.from_json

        def counted(database: str, name: str, value: Any) -> Version:
            self.read.append(name)
            return real(database, name, value)

        monkeypatch.setattr(known_tables.Version, "from_json", counted)


def test_opening_reads_no_table_and_asking_reads_one(monkeypatch: pytest.MonkeyPatch) -> None:
    history = _history(500)
    saved = _saved(history)
    assert len(saved) < 20
    counted = _Counted(monkeypatch)
    found = SchemaHistory.from_state(saved)
    found.rewind("b.000001", 2000)
    found.prune("b.000001", 2000)
    assert len(found.known_tables()) == len(found.tables()) == 500
    copy = found.copy()
    assert found.to_parts() == saved
    assert counted.read == []
    assert found.table(("d", "t77")) == history.table(("d", "t77"))
    assert counted.read == ["t77"]
    _run(found, "ALTER TABLE d.t78 ADD x INT", 3000)
    assert counted.read == ["t77", "t78"]
    assert copy.table(("d", "t78")) == history.table(("d", "t78"))
    assert found.table(("d", "t78")) != history.table(("d", "t78"))


def test_what_begins_behind_the_start_is_read_and_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    history = _history(300)
    history.to_parts()
    _run(history, "ALTER TABLE d.t5 ADD x INT", 900)
    _run(history, "DROP TABLE d.t6", 950)
    saved = _saved(history)
    counted = _Counted(monkeypatch)
    found = SchemaHistory.from_state(saved)
    assert ("d", "t6") not in found.known_tables()
    found.rewind("b.000001", 900)
    assert set(counted.read) == {"t5", "t6"}
    assert ("d", "t6") in found.known_tables()
    assert found.to_json()["tables"] == _history(300).to_json()["tables"]


@pytest.mark.parametrize("seed", range(3))
def test_a_history_that_is_saved_and_loaded_at_any_time_is_the_same(seed: int) -> None:
    chance = random.Random(seed)
    history = other = _history(200)
    history = SchemaHistory.from_state(_saved(other))
    for step in range(120):
        name, offset = f"t{chance.randrange(200)}", 1000 + step
        statement = chance.choice(
            (
                f"ALTER TABLE d.{name} ADD x{step} INT",
                f"DROP TABLE IF EXISTS d.{name}",
                f"CREATE TABLE IF NOT EXISTS d.{name} (n INT)",
                f"RENAME TABLE d.{name} TO d.new{step}",
                f"ALTER TABLE d.{name} FANCY NEW SYNTAX",
            )
        )
        for one in (history, other):
            _run(one, statement, offset)
        if chance.random() < 0.2:
            for one in (history, other):
                one.prune("b.000001", offset, keep=20)
            history = SchemaHistory.from_state(_saved(history))
        if chance.random() < 0.05:
            for one in (history, other):
                one.rewind("b.000001", offset - 2)
        assert sorted(history.known_tables()) == sorted(other.known_tables())
    assert history.to_json() == other.to_json()


def test_records_of_older_releases_are_read() -> None:
    """They compressed long ones as a whole."""
    history = _history(3)
    document = history.to_json()
    record = {
        "record": 1,
        "place": document["place"],
        "lower_case_table_names": False,
        "temporary": [],
        "databases": document["databases"],
        "tables": {"d": {**document["tables"]["d"], "old": None}},
    }
    text = json.dumps(record)
    for saved in (text, base64.b64encode(zlib.compress(text.encode())).decode()):
        assert SchemaHistory.from_state([saved]).to_json() == document


def test_a_damaged_record_is_refused_when_it_is_read() -> None:
    saved = _saved(_history(200))
    at = saved[0].index('"packed":"') + 200
    broken = saved[0][:at] + ("A" if saved[0][at] != "A" else "B") + saved[0][at + 1 :]
    found = SchemaHistory.from_state([broken, *saved[1:]])
    with pytest.raises(SchemaError, match="damaged"):
        found.to_json()
    with pytest.raises(SchemaError, match="later release"):
        SchemaHistory.from_state([saved[0].replace('"record":2', '"record":3')])
