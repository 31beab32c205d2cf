"""Every object that an iterator gives is complete: each public member works, on the fast path and off it."""

import copy
import inspect
import pickle
from collections.abc import Iterator, ValuesView
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.selection import Selection
from replica_client.stream.files import binlog_file, file_batches
from replica_client.testing import BinlogSource
from tests.unit.stream.transactions.test_fast_path import DEMO, GOLDEN, Without

GIVEN = (
    rc.BinlogEvent,
    rc.Transaction,
    rc.Change,
    rc.Row,
    rc.Position,
    rc.SchemaChange,
    rc.Statement,
    rc.Loss,
    rc.RowsOfEvent,
    rc.Changes,
)
SOURCES = [DEMO, *GOLDEN]
# They tell whether an event was decoded, which a copy's is; tests of transforms call them.
AS_KEPT = {"undecoded_images", "with_images"}


def _arguments(value: Any, name: str) -> list[tuple[Any, ...]]:
    """What to call a method with; [()] for one that needs nothing."""
    known: dict[str, list[tuple[Any, ...]]] = {
        "is_before": [(0,), (2.0**40,)],
        "with_rows": [((),)],
    }
    if isinstance(value, (rc.Changes, rc.Row)):
        first = next(iter(value), None)
        known |= {"index": [(first,)] if value else [], "count": [(first,)]}
    if isinstance(value, rc.Row):
        known["get"] = [(column,) for column in value.columns]
    return known.get(name, [()])


def walk(value: Any) -> dict[str, Any]:
    """Every public attribute of an object, and what its methods give."""
    found: dict[str, Any] = {}
    for name in dir(value):
        if (
            name.startswith("_")
            or name in AS_KEPT
            or isinstance(inspect.getattr_static(value, name), classmethod)
        ):
            continue
        member = getattr(value, name)
        if inspect.isroutine(member):
            for arguments in _arguments(value, name):
                given = member(*arguments)
                once = hasattr(given, "__next__") or isinstance(given, ValuesView)
                found[f"{name}{arguments!r}"] = list(given) if once else given
        else:
            found[name] = list(member) if hasattr(member, "__next__") else member
    return found


def assert_complete(value: Any) -> dict[str, Any]:
    """Walk an object; it is of its class, and is equal to its copies."""
    assert type(value).__mro__[0] is value.__class__
    assert isinstance(value, GIVEN)
    copies = [pickle.loads(pickle.dumps(value, protocol)) for protocol in range(2, 6)]
    for other in (*copies, copy.copy(value), copy.deepcopy(value)):
        assert type(other) is type(value)
        assert other == value
        assert repr(other) == repr(value)
        assert walk(other) == walk(value)
    if not isinstance(value, (rc.BinlogEvent, rc.SchemaChange, rc.Row)):  # these may hold lists
        assert len({value, *copies}) == 1
    return walk(value)


def given_by(transaction: rc.Transaction) -> Iterator[Any]:
    yield from (transaction, transaction.start, transaction.position, transaction.changes)
    yield from transaction.statements
    for item in transaction.items:
        yield item
        if isinstance(item, rc.RowsOfEvent):
            yield item.event
    for change in transaction.changes:
        yield change
        yield from (row for row in (change.before, change.after) if row is not None)


def options_of() -> rc.AssemblyOptions:
    return rc.AssemblyOptions(Selection(), on_statement="deliver")


def _readable(source: Path) -> bool:
    return not source.stem.startswith("encrypted")


@pytest.mark.parametrize("source", [s for s in SOURCES if _readable(s)], ids=lambda p: p.stem)
@pytest.mark.slow
@pytest.mark.both_forms
def test_both_paths_give_complete_objects(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for fast_path in (None, Without):
        if fast_path is not None:
            monkeypatch.setattr(binlog_file, "RowFastPath", fast_path)
        reader = rc.open_binlog(source, assembly=options_of())
        found.append(
            [
                (type(value), assert_complete(value))
                for transaction in reader.transactions()
                for value in given_by(transaction)
            ]
        )
    assert found[0] == found[1]


def test_a_transaction_can_be_compared_with_another() -> None:
    first, *others = list(rc.open_binlog(DEMO).transactions())
    assert first not in others
    assert first != "a transaction"
    changes = next(t for t in others if len(t.changes) > 2).changes
    assert changes
    assert list(changes) == changes[:]
    assert changes[-1] == list(changes)[-1]
    assert changes.index(changes[1]) == 1
    assert list(reversed(changes)) == changes[::-1]
    assert changes[0] in changes
    with pytest.raises(IndexError):
        changes[len(changes)]


def test_keys_do_not_go_into_pickles() -> None:
    options = rc.DecodeOptions(keys={"1": b"a very secret key"})
    for transaction in rc.open_binlog(DEMO, options=options).transactions():
        assert b"very secret" not in pickle.dumps((transaction, *transaction.changes))


async def test_live_objects_are_those_of_files() -> None:
    files = [t for t in rc.open_binlog(DEMO).transactions() if t.rows]
    async with (
        BinlogSource(DEMO) as source,
        rc.connect(source.url, start="earliest", stop_at_end=True) as stream,
    ):
        live = [t async for t in stream.transactions() if t.rows]
    assert [[walk(c) for c in t.changes] for t in live] == [
        [walk(c) for c in t.changes] for t in files
    ]
    for transaction in live:
        for value in given_by(transaction):
            assert_complete(value)


def test_events_are_complete() -> None:
    for source in SOURCES:
        if _readable(source):
            for event in rc.open_binlog(source).events():
                assert_complete(event)


def test_batches_go_by_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    fast = list(rc.open_binlog(DEMO).batches())
    monkeypatch.setattr(file_batches, "ColumnFastPath", Without)
    assert fast == list(rc.open_binlog(DEMO).batches())
