"""Net changes come to the same as the changes one by one."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import SinkError
from replica_client.protocol.position import Position
from replica_client.rows.special_values import ABSENT
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.table_store import TableStore
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.tables.net_changes import DivergedError, NetChanges

COLUMNS = (
    ColumnModel("a", "int", nullable=False),
    ColumnModel("b", "int"),
    ColumnModel("c", "text"),
)
KEYED = TableModel("d", "keyed", COLUMNS, (("a", 0),))
BAG = TableModel("d", "bag", COLUMNS)


def store(tmp_path: Path, model: TableModel, kind: str = "sqlite") -> TableStore:
    if kind == "duckdb":
        pytest.importorskip("duckdb", reason="the package duckdb is not installed")
    sink: Any = make_sink(kind, {"path": str(tmp_path / "x.db")})
    found = TableStore(sink._database())
    found.prepare()
    found.begin()
    found.create(model)
    return found


def runs(sqlite: int, duckdb: int) -> list[tuple[str, int]]:
    """Kinds of a mirror, and seeds."""
    return [
        *(("sqlite", seed) for seed in range(sqlite)),
        *(("duckdb", seed) for seed in range(duckdb)),
    ]


@pytest.mark.parametrize(("kind", "seed"), runs(30, 2))
@pytest.mark.parametrize("model", [KEYED, BAG])
def test_any_changes_in_any_cuts(tmp_path: Path, model: TableModel, kind: str, seed: int) -> None:
    chance = random.Random(seed)
    state: list[tuple[Any, ...]] = []
    target = store(tmp_path, model, kind)
    net = NetChanges(model, strict=True)
    for _ in range(400):
        what = chance.random()
        row = (chance.randrange(25), chance.randrange(3), chance.choice(("x", None)))
        before: Any = chance.choice(state) if state else None
        after: Any = None
        taken = {one[0] for one in state} if model is KEYED else set()
        if what < 0.45 or before is None:
            if row[0] in taken:
                continue
            before, after = None, row
        elif what < 0.8:
            if row[0] in taken and row[0] != before[0]:
                row = (before[0], *row[1:])
            after = row
        if before is not None:
            state.remove(before)
        if after is not None:
            state.append(after)
        if model is KEYED and before is not None and after is not None and chance.random() < 0.5:
            # A minimal row image: the key before, what changed after.
            image = [new if new != old else ABSENT for old, new in zip(before, after, strict=True)]
            if all(value is ABSENT for value in image):
                continue
            before, after = (before[0], ABSENT, ABSENT), tuple(image)
        if net.needs_flush(before, after):
            target.apply(net)
            net = NetChanges(model, strict=True)
        flush = False
        if before is None:
            net.insert(after)
        elif after is None:
            net.delete(before)
        else:
            flush = net.update(before, after)
        if flush or chance.random() < 0.05:
            target.apply(net)
            net = NetChanges(model, strict=True)
    target.apply(net)
    target.commit(Checkpoint(Position("b.000001", 4)))
    assert Counter(target.rows(model, ("a", "b", "c"))) == Counter(state)
    target.close()


@pytest.mark.parametrize(("kind", "seed"), runs(20, 2))
def test_what_was_there_before_does_not_matter_where_a_copy_fell_into_the_changes(
    tmp_path: Path, kind: str, seed: int
) -> None:
    """Any rows of the keys that are changed, as a copy may have seen them: afterwards it is the source."""
    chance = random.Random(seed)
    target = store(tmp_path, KEYED, kind)
    begin = NetChanges(KEYED, strict=True)
    for key in chance.sample(range(15), 7):
        begin.insert((key, 99, "copied"))
    target.apply(begin)
    state: dict[int, tuple[Any, ...]] = {}
    # Every key is changed at least once.
    keys = [*range(15), *(chance.randrange(15) for _ in range(100))]
    chance.shuffle(keys)
    net = NetChanges(KEYED, strict=False)
    for key in keys:
        before, row = state.get(key), (key, chance.randrange(3), "x")
        if before is None:
            net.insert(row)
            state[key] = row
        elif chance.random() < 0.5:
            net.delete(state.pop(key))
        else:
            net.update(before, row)
            state[key] = row
        if chance.random() < 0.1:
            target.apply(net)
            net = NetChanges(KEYED, strict=False)
    target.apply(net)
    target.commit(Checkpoint(Position("b.000001", 4)))
    assert sorted(target.rows(KEYED, ("a", "b", "c"))) == sorted(state.values())
    target.close()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_mirror_that_is_not_the_source_is_noticed(tmp_path: Path, kind: str) -> None:
    target = store(tmp_path, KEYED, kind)
    for what in ("delete", "update"):
        net = NetChanges(KEYED, strict=True)
        net.delete((1, 2, "x")) if what == "delete" else net.update((1, 2, "x"), (1, 3, "x"))
        with pytest.raises(DivergedError, match=r"d\.keyed: 1 of 1 rows to change are not there"):
            target.apply(net)
    net = NetChanges(KEYED, strict=True)
    net.insert((1, 2, "x"))
    target.apply(net)
    with pytest.raises(DivergedError, match="a row is added that is there") as caught:
        target.apply(net)
    assert not caught.value.retriable
    with pytest.raises(DivergedError):
        net.insert((1, 5, "y"))
    net = NetChanges(KEYED, strict=True)
    net.insert((2, 5, "y"))
    target.apply(net)
    net = NetChanges(KEYED, strict=True)
    assert net.update((2, ABSENT, ABSENT), (1, ABSENT, ABSENT))
    with pytest.raises(DivergedError, match="a row is added that is there"):
        target.apply(net)
    target.close()


def test_row_images_that_tell_too_little_are_refused() -> None:
    with pytest.raises(SinkError, match="binlog_row_image=FULL"):
        NetChanges(KEYED, strict=True).insert((1, ABSENT, "x"))
    with pytest.raises(SinkError, match="binlog_row_image=FULL"):
        NetChanges(BAG, strict=True).delete((1, ABSENT, "x"))
    with pytest.raises(SinkError, match="no primary key"):
        NetChanges(KEYED, strict=True).delete((ABSENT, 1, "x"))
