"""Acknowledged changes never come again, whichever way they are acknowledged and wherever the consumer leaves."""

from __future__ import annotations

import copy
import datetime
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.json_values import change_to_json
from replica_client.stream.position.stores.file import FilePositionStore
from replica_client.stream.transactions.inside import POSITIONED_AFTER
from replica_client.testing import BinlogSource
from tests.source.test_follow import follow, served

DATA = Path(rc.__file__).parent / "testing" / "data"
WHOLE = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]
WAYS: dict[str, Callable[[rc.Change], Any]] = {
    "change": lambda change: change,
    "its position": lambda change: change.position,
    "its position as text": lambda change: rc.Position.parse(str(change.position)),
    "nothing": lambda _: None,
    "a pickled change": lambda change: pickle.loads(pickle.dumps(change)),
    "a copied change": copy.deepcopy,
}
STOPS = [1, 2, 3, 9, 10, len(WHOLE) - 1, len(WHOLE)]


def options(store: Path) -> dict[str, Any]:
    return {"start": "earliest", "stop_at_end": True, "position_store": store}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("notices", [False, True])
async def test_asynchronous(way: str, notices: bool, tmp_path: Path) -> None:
    async with BinlogSource(DATA) as source:
        for stop in STOPS:
            store, given = tmp_path / f"position-{stop}", 0
            async with rc.connect(source.url, **options(store)) as stream:
                async for change in stream.changes(notices=notices):
                    if isinstance(change, rc.Change):
                        given += 1
                        await stream.acknowledge(WAYS[way](change))
                    if given == stop:
                        break
            async with rc.connect(source.url, **options(store)) as stream:
                rest = [change_to_json(change) async for change in stream.changes()]
            assert rest == WHOLE[stop:]


@pytest.mark.parametrize("way", WAYS)
def test_synchronous(way: str, tmp_path: Path) -> None:
    with served() as source:
        for stop in STOPS:
            store, given = tmp_path / f"position-{stop}", 0
            with follow(source.url, **options(store)) as stream:
                for change in stream.changes():
                    given += 1
                    stream.acknowledge(WAYS[way](change))
                    if given == stop:
                        break
            with follow(source.url, **options(store)) as stream:
                assert [change_to_json(change) for change in stream] == WHOLE[stop:]


def test_a_quiet_source_is_acknowledged_whole(tmp_path: Path) -> None:
    """The saved position lies after the last transaction, so that another server need not read it again."""
    ends = [one.position for one in rc.open_binlog(DATA).transactions() if one.rows]
    with served() as source:
        for leave in (False, True):
            store = tmp_path / f"position-{leave}"
            with follow(source.url, **options(store)) as stream:
                for given, change in enumerate(stream, 1):
                    stream.acknowledge(change)
                    if leave and given == len(WHOLE):
                        break
            saved = FilePositionStore(store).load()
            assert saved is not None
            assert not saved.inside_transaction
            assert (saved.file, saved.offset) == (ends[-1].file, ends[-1].offset)
            assert saved.gtid_set == ends[-1].gtid_set


def test_a_late_acknowledgement_of_the_last_change(tmp_path: Path) -> None:
    with served() as source:
        with follow(source.url, **options(tmp_path / "position")) as stream:
            changes = list(stream)
            stream.acknowledge(changes[-1])
        saved = FilePositionStore(tmp_path / "position").load()
        assert saved is not None
        assert not saved.inside_transaction
        with follow(source.url, **options(tmp_path / "position")) as stream:
            assert list(stream) == []


def test_what_was_not_acknowledged_comes_again(tmp_path: Path) -> None:
    """An explicit position means that position, though more was handed out since."""
    with served() as source:
        for back in (1, 2, 5):
            store = tmp_path / f"position-{back}"
            with follow(source.url, **options(store)) as stream:
                kept = list(stream)
                stream.acknowledge(kept[-1 - back].position)
            with follow(source.url, **options(store)) as stream:
                assert [change_to_json(one) for one in stream] == WHOLE[-back:]


def test_positions_of_changes_of_a_transaction() -> None:
    """Reading goes on after exactly this change, from files, streams and transactions alike."""
    reader = rc.open_binlog(DATA)
    positions = [change.position for change in reader.changes()]
    of_transactions = [
        change.position for one in rc.open_binlog(DATA).transactions() for change in one.changes
    ]
    assert [(p.file, p.offset, p.event_index, p.row_index) for p in positions] == [
        (p.file, p.offset, p.event_index, p.row_index) for p in of_transactions
    ]
    for done, position in enumerate(positions, 1):
        rest = rc.open_binlog(DATA, start=position).changes()
        assert [change_to_json(change) for change in rest] == WHOLE[done:]


def test_times_and_keys() -> None:
    for one in rc.open_binlog(DATA).transactions():
        for change in one.changes:
            stamp = one.commit_timestamp_us
            wanted = one.timestamp * 1_000_000 if stamp is None else stamp
            epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            assert change.commit_time == epoch + datetime.timedelta(microseconds=wanted)
            row = change.before if change.after is None else change.after
            assert row is not None
            names = [change.shape.columns[at].name for at in change.shape.primary_key]
            assert change.key == (tuple(row[name] for name in names) if names else None)


@pytest.mark.parametrize("wrong", [("binlog.000001", 4), "binlog.000001:4", 5, object()])
def test_other_things_are_refused(wrong: Any) -> None:
    with served() as source, follow(source.url, start="earliest") as stream:
        next(iter(stream))
        with pytest.raises(rc.ConfigError, match="a position, a transaction, a change or nothing"):
            stream.acknowledge(wrong)


def test_a_change_without_a_transaction_has_no_position() -> None:
    transaction = next(one for one in rc.open_binlog(DATA).transactions() if one.rows)
    change = next(iter(transaction.rows[0]))
    with pytest.raises(rc.PositionError, match=r"Transaction\.changes"):
        _ = change.position
    assert change == next(iter(transaction.changes))


def test_the_constant_is_large() -> None:
    """The data of these tests has small transactions only: the large ones have tests of their own."""
    assert max(len(one.changes) for one in rc.open_binlog(DATA).transactions()) < POSITIONED_AFTER
