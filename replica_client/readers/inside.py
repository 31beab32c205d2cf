"""The safe position inside a transaction whose changes are given one by one."""

from __future__ import annotations

from typing import Final, TypeAlias

from replica_client.position.position import Position
from replica_client.readers.transaction import Transaction
from replica_client.rows.row_change import Change

POSITIONED_AFTER: Final = 1024
"""Changes of a transaction after which its changes have positions of their own.

A smaller transaction is read again from its start, which works on another server, too.
"""

GivenChange: TypeAlias = tuple[Transaction, Change]
"""A change that was given last, and the transaction that it is of."""


def given_change(transaction: Transaction, number: int, change: object) -> GivenChange | None:
    """What :func:`position_at` takes for a change; None where the transaction has to be read again.

    Args:
        transaction: whose changes are given.
        number: how many were given before.
        change: what is given now; a notice has no position.
    """
    # The rows of an XA transaction stand before its XA COMMIT, whose indexes do not count them.
    if number < POSITIONED_AFTER or transaction.xa_commit or not isinstance(change, Change):
        return None
    return transaction, change


def position_at(before: Position, given: GivenChange) -> Position:
    """The point in a transaction before a change: that change comes again, and all behind it.

    Args:
        before: the safe position before the transaction, or before this part of it.
        given: the change.
    """
    transaction, change = given
    start = transaction.start
    return Position(start.file, start.offset, before.gtid_set, change.event_index, change.row_index)
