"""The safe position inside a transaction whose changes are given one by one."""

from __future__ import annotations

from typing import Final, TypeAlias

from replica_client.position.position import Position
from replica_client.readers.notices import Notice
from replica_client.readers.transaction import Transaction
from replica_client.rows.row_change import Change

POSITIONED_AFTER: Final = 1024
"""Changes of a transaction after which its changes have positions of their own.

A smaller transaction is read again from its start, which works on another server, too.
"""

GivenChange: TypeAlias = tuple[Transaction, Change | Notice]
"""What was given last, and the transaction that it is of."""


def position_at(before: Position, given: GivenChange) -> Position:
    """The point in a transaction before a change: that change comes again, and all behind it.

    Args:
        before: the safe position before the transaction, or before this part of it.
        given: the change, or the notice.
    """
    transaction, change = given
    # The rows of an XA transaction, which stand before its XA COMMIT, have their indexes there.
    start = transaction.start
    row_index = change.row_index if isinstance(change, Change) else 0
    return Position(start.file, start.offset, before.gtid_set, change.event_index, row_index)
