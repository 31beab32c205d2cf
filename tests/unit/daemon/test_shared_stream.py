"""What one sink gets of a shared stream, and what is saved with its positions."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from replica_client.daemon.shared_progress import SharedProgress
from replica_client.daemon.shared_stream import FellBehindError, SharedGroup, Subscription
from replica_client.position.losses import LOSSES_KEY, Loss
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.readers.transaction import Transaction
from replica_client.readers.transaction_group import TransactionGroup


def transaction(at: int, **more: Any) -> Transaction:
    begin, end = Position("b.000001", at), Position("b.000001", at + 10)
    return Transaction(begin, end, "", 0, None, (), (), **more)


def item(*given: Transaction, size: int = 100, state: Any = None) -> SharedGroup:
    return SharedGroup(TransactionGroup(list(given), size, ordinary=False), state or {})


def subscription() -> Subscription:
    shared: Any = SimpleNamespace(wake=lambda: None)
    return Subscription(shared, Position("b.000001", 4), {})


async def taken(one: Subscription) -> list[int]:
    found = []
    while (given := await one.next()) is not None:
        found += [each.start.offset for each in given.group.transactions]
    return found


async def test_a_full_spool_ends_between_two_transactions() -> None:
    one = subscription()
    assert one.take(item(transaction(10)), 250)
    assert one.take(item(transaction(20), transaction(30)), 250)
    assert not one.take(item(transaction(40)), 250)
    assert await taken(one) == [10, 20, 30]


async def test_parts_of_a_transaction_that_goes_on_are_taken_back() -> None:
    one = subscription()
    assert one.take(item(transaction(10)), 350)
    assert one.take(item(transaction(20, complete=False)), 350)
    assert one.take(item(transaction(20, part=1, complete=False)), 350)
    assert not one.take(item(transaction(20, part=2)), 350)
    assert one.size == 100
    assert await taken(one) == [10]


async def test_a_sink_that_has_a_part_begins_again() -> None:
    one = subscription()
    assert one.take(item(transaction(20, complete=False)), 150)
    assert await one.next() is not None
    assert one.take(item(transaction(20, part=1, complete=False)), 150)
    assert not one.take(item(transaction(20, part=2)), 150)
    with pytest.raises(FellBehindError):
        await one.next()


async def test_an_error_comes_behind_what_was_read_before() -> None:
    one = subscription()
    one.take(item(transaction(10)), 1000)
    one.end(ZeroDivisionError("theirs"))
    assert await one.next() is not None
    with pytest.raises(ZeroDivisionError):
        await one.next()


def test_a_group_that_is_larger_than_the_spool_is_taken_when_nothing_waits() -> None:
    assert subscription().take(item(transaction(10), size=5000), 100)


def test_each_position_is_saved_with_what_was_known_there() -> None:
    loss = Loss("statement", "shop", "t", 1, "text", "b.000001", 20, 0, "", 5)
    progress = SharedProgress(
        Checkpoint(Position("b.000001", 4), {"source": "first", "mine": "not the stream's"})
    )
    progress.take(item(transaction(10), state={"source": "second"}))
    progress.take(item(transaction(20, losses=(loss,)), state={"source": "third"}))
    assert progress.state(Position("b.000001", 4), None) == {"source": "first"}
    assert progress.state(Position("b.000001", 20), None) == {"source": "second"}
    behind = progress.state(Position("b.000001", 30), None)
    assert behind["source"] == "third"
    assert len(behind[LOSSES_KEY]) == 1  # type: ignore[arg-type]
    progress.acknowledge(Position("b.000001", 30))
    assert progress.state(Position("b.000001", 30), None)["source"] == "third"
    assert progress.state(Position("b.000001", 90), {"source": "at rest"})["source"] == "at rest"
    # What was lost before is counted on.
    again = SharedProgress(Checkpoint(Position("b.000001", 30), behind))
    assert [one.events for one in again.losses.counts] == [1]
