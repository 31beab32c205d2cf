"""Where a position cuts the transactions of a stream."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncGenerator

from replica_client.errors import ConnectionLostError
from replica_client.position.position import Position
from replica_client.readers.transaction import Transaction
from replica_client.readers.transaction_group import TransactionGroup


def is_between(position: Position) -> bool:
    """Whether a position is in a file, and between two transactions."""
    return bool(position.file) and not position.inside_transaction


def behind(given: Position | Transaction) -> Position:
    """The position behind a transaction, or a position itself."""
    return given.position if isinstance(given, Transaction) else given


def behind_last(group: TransactionGroup) -> Position | Transaction:
    """What tells the position behind a group, and keeps no rows of a large transaction.

    A position takes time to make: in groups of small transactions the last one stands for it.
    """
    last = group.transactions[-1]
    return last if group.ordinary else last.position


def first_behind(group: TransactionGroup, position: Position) -> int:
    """The number of the first transaction that begins at a position or behind it."""
    return bisect_left(group.transactions, _order(position), key=lambda one: _order(one.start))


def _order(position: Position) -> Position:
    return Position(position.file, position.offset)


def part(group: TransactionGroup, begin: int, end: int | None = None) -> TransactionGroup:
    """Some transactions of a group, by number; all from the first one on without an end."""
    transactions = group.transactions[begin:end]
    size = group.size * len(transactions) // len(group.transactions)
    return TransactionGroup(transactions, size, ordinary=group.ordinary)


async def next_group(groups: AsyncGenerator[TransactionGroup, None]) -> TransactionGroup:
    """The next group of a stream that never ends by itself.

    Raises:
        ConnectionLostError: it was closed.
    """
    group = await anext(groups, None)
    if group is None:
        raise ConnectionLostError("the stream has ended")
    return group
