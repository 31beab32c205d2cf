"""What one sink gets of a shared stream, and what is saved with its positions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replica_client.daemon.shared_progress import SharedProgress
from replica_client.daemon.shared_stream import (
    FellBehindError,
    SharedGroup,
    SharedStream,
    Subscription,
)
from replica_client.position.losses import LOSSES_KEY, Loss
from replica_client.position.position import Position
from replica_client.position.prepared import (
    PREPARED_KEY,
    PreparedLedger,
    PreparedTransaction,
    XaId,
)
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


class Source:
    """What a shared stream asks of the stream of a source, whose transactions are given one by one."""

    def __init__(self) -> None:
        self.server = SimpleNamespace(server_uuid="u", server_id=1)
        self.generation, self.history = 1, SimpleNamespace(revision=1)
        self.prepared = SimpleNamespace(ledger=PreparedLedger())
        self.given = asyncio.Queue[Transaction]()
        self.is_open = self.ids_back = 0

    async def groups(self) -> AsyncGenerator[TransactionGroup, None]:
        while True:
            yield TransactionGroup([await self.given.get()], 100, ordinary=True)

    def state(self, position: Position) -> dict[str, object]:
        return {PREPARED_KEY: self.prepared.ledger.to_state(position)}

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.sleep(0.05)
        self.is_open -= 1

    def shared(self) -> SharedStream:
        self.is_open += 1

        def closed() -> None:
            self.ids_back += 1

        return SharedStream(
            cast(Any, self),
            self.groups(),
            Position("b.000001", 4),
            {},
            limit=1000,
            ended=lambda one: None,
            closed=closed,
            name="source",
        )


async def test_a_prepared_xa_transaction_is_saved_with_what_comes_behind_it() -> None:
    """It is no transaction that is given, and those around it have rows and nothing else."""
    source = Source()
    one = source.shared().subscribe()
    one.activate()
    source.given.put_nowait(transaction(10))
    first = await one.next()
    xid = XaId.of(1, b"x", b"")
    source.prepared.ledger.prepare(PreparedTransaction(xid, Position("b.000001", 20), ""))
    source.given.put_nowait(transaction(60))
    second = await one.next()
    source.prepared.ledger.end(xid, Position("b.000001", 70))
    source.given.put_nowait(transaction(90))
    third = await one.next()
    assert first is not None
    assert second is not None
    assert third is not None
    pending = [len(each.state[PREPARED_KEY]) for each in (first, second, third)]  # type: ignore[arg-type]
    assert pending == [0, 1, 0]
    await one.close()


async def test_a_close_that_is_cancelled_still_closes_the_connection() -> None:
    """Else the next connections would have one server id, and the source would end one for the other."""
    source = Source()
    shared = source.shared()
    one = shared.subscribe()
    one.activate()
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(one.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    await asyncio.gather(closing, return_exceptions=True)
    await asyncio.wait((shared._task,))
    assert (source.is_open, source.ids_back) == (0, 1)
