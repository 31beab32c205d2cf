"""Positions inside a transaction whose changes are delivered one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.protocol.position import Position
from replica_client.rows.row_change import AnyChange, Change
from replica_client.stream.transactions.loss_watch import Notice
from replica_client.stream.transactions.transaction import Transaction

POSITIONED_AFTER: Final = 1024
"""Changes of a transaction after which the stream's own position lies inside of it.

A smaller transaction is read again from its start, which works on another server, too.
"""

GivenChange: TypeAlias = tuple[Transaction, Change | Notice]
"""The change that was delivered last, with its transaction."""

Acknowledged: TypeAlias = Position | Transaction | Change | None
"""The objects that can be acknowledged; None stands for everything that was delivered."""


def position_at(before: Position, given: GivenChange) -> Position:
    """Return the point in a transaction before a change, which is delivered again from there on.

    Args:
        before: the safe position before the transaction, or before this part of it.
        given: the change, or the notice.
    """
    transaction, change = given
    # The rows of an XA transaction lie before its XA COMMIT, and have their indexes there.
    start = transaction.start
    row_index = change.row_index if isinstance(change, Change) else 0
    return Position(start.file, start.offset, before.gtid_set, change.event_index, row_index)


class GivenChanges:
    """The changes of one transaction that are delivered one by one, and whether any is left.

    Once the consumer has asked for more, a position after the last change of a transaction counts
    as the position after the transaction: another server and another stream then need not read it
    again.
    """

    def __init__(self) -> None:
        self._before: Position | Transaction | None = None
        self._transaction: Transaction | None = None
        self._rest: Iterator[AnyChange | Notice] | None = None
        self.last: AnyChange | Notice | None = None

    def begin(
        self,
        before: Position | Transaction | None,
        transaction: Transaction,
        rest: Iterator[AnyChange | Notice],
    ) -> None:
        """Begin to deliver the changes of another transaction.

        Args:
            before: the position before it, or the transaction before it.
            transaction: the transaction without its rows.
            rest: iterator over its changes; what is left in it was not delivered.
        """
        self._before, self._transaction, self._rest = before, transaction, rest
        self.last = None

    def end(self, acknowledged: Position | None) -> Position | None:
        """Note that the consumer asked for more than the transaction has.

        Returns:
            The position after the transaction if ``acknowledged`` lies after its last change, else
            None.
        """
        self._rest = None
        if acknowledged is None or not acknowledged.inside_transaction:
            return None
        whole = self.whole(acknowledged)
        return None if whole is acknowledged else whole

    def close(self, acknowledged: Position | None) -> Position | None:
        """Act as :meth:`end` if the consumer leaves after the last change of the transaction."""
        if self._rest is not None:
            try:
                if next(self._rest, None) is not None:
                    return None
            except ReplicaClientError:  # raised only if the consumer had asked for more
                return None
        return self.end(acknowledged)

    def whole(self, position: Position) -> Position:
        """Return a position; for the one after the last change, that after the transaction."""
        transaction = self._transaction
        if self._rest is None and transaction is not None and self.last is not None:
            after = self._after_last(transaction)
            if (after.file, after.offset, after.event_index, after.row_index) == (
                *(position.file, position.offset, position.event_index, position.row_index),
            ):
                return transaction.position
        return position

    def position(self) -> Position | None:
        """Return the position after everything that was delivered; None if nothing was."""
        if self._transaction is None or self.last is None:
            return None
        return self.whole(self._after_last(self._transaction))

    def _after_last(self, transaction: Transaction) -> Position:
        if isinstance(self.last, Change):
            return self.last.position
        before = self._before
        if isinstance(before, Transaction):
            before = self._before = before.position
        start = transaction.start
        gtids = start.gtid_set if before is None else before.gtid_set
        index = 0 if self.last is None else self.last.event_index + 1
        return Position(start.file, start.offset, gtids, index)


def acknowledged_position(
    given: GivenChanges | None, reached: Position, acknowledged: Acknowledged
) -> Position:
    """Return the position that an acknowledgement stands for.

    Args:
        given: changes that are delivered one by one; None if there are none.
        reached: the position after everything else that was delivered.
        acknowledged: a position, a transaction, a change, or None for everything.

    Raises:
        ConfigError: it is none of these.
        PositionError: the change does not know its transaction.
    """
    if acknowledged is None:
        found = None if given is None else given.position()
        return reached if found is None else found
    if isinstance(acknowledged, (Change, Transaction)):
        acknowledged = acknowledged.position
    if not isinstance(acknowledged, Position):
        raise ConfigError(
            f"acknowledge() takes a position, a transaction, a change or nothing, not {type(acknowledged).__name__}"
        )
    return acknowledged if given is None else given.whole(acknowledged)
