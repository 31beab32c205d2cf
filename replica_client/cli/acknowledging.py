"""The changes that are written, and their acknowledgement afterwards."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.row_change import Change
from replica_client.stream.position.stores.base import PositionStore
from replica_client.stream.transactions.inside import position_at
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    from replica_client.rows.where import Condition


class Output(Protocol):
    """Where changes are written."""

    def flush(self) -> None:
        """Hand everything on."""
        ...


SAVE_INTERVAL = 0.2
"""Seconds that delivered changes may wait for their position to be saved."""


class Delivery:
    """Keeps the order of output and position.

    A position is given out only when everything before it left this process, so that a kill at any
    instant leaves a saved position whose changes were all delivered.

    Args:
        lines: where changes are written.
        store: where :meth:`commit` saves.
        interval: see below.
        state: what to save with a position.

    Attributes:
        interval: seconds between two saves.
    """

    def __init__(
        self,
        lines: Output,
        store: PositionStore | None = None,
        interval: float = SAVE_INTERVAL,
        state: Callable[[Position], Mapping[str, object]] | None = None,
    ) -> None:
        self._lines = lines
        self._store = store
        self._state = state
        self._delivered: Position | Transaction | None = None
        self._reached: Position | None = None
        self._flushed_at = time.monotonic()
        self.interval = interval

    def delivered(self, reached: Position | Transaction) -> None:
        """Everything before a position, or up to the end of a transaction, was written.

        A transaction stands for the position behind it, which takes time to make.
        """
        self._delivered = reached

    @property
    def is_due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._flushed_at >= self.interval

    def flush(self) -> Position | None:
        """Hand the output on; returns the position that may be saved now, None for nothing new.

        Raises:
            OSError: the output cannot be written; no position may be saved.
        """
        self._lines.flush()
        self._flushed_at = time.monotonic()
        reached, self._delivered = self._delivered, None
        if reached is not None:
            self._reached = reached.position if isinstance(reached, Transaction) else reached
        return self._reached

    def saved(self, position: Position) -> None:
        """``position``, which :meth:`flush` gave, was saved."""
        if self._reached is position:
            self._reached = None

    def commit(self) -> None:
        """Hand the output on, then save the position."""
        position = self.flush()
        if position is not None:
            if self._store is not None:
                self._store.save(position, None if self._state is None else self._state(position))
            self.saved(position)


_Written = tuple[Transaction, RowsOfEvent, Change]


class ChangeOutput(Output, Protocol):
    """Takes changes in order.

    Attributes:
        whole_at_end: what was taken counts as handed on only after :meth:`finish`.
    """

    whole_at_end: bool

    def write(self, transaction: Transaction) -> None:
        """Take all changes of a transaction, or of a part of one."""
        ...

    def write_change(self, transaction: Transaction, rows: RowsOfEvent, change: Change) -> None:
        """Take one of them."""
        ...

    def completed(self) -> None:
        """Note that all wanted changes of the transaction up to the limit were taken."""
        ...

    def discard(self) -> None:
        """Leave no file, where one appears only at the end."""
        ...

    def finish(self) -> bool:
        """Write the end; returns whether all that was taken was handed on."""
        ...


class ChosenChanges:
    """Writes the changes that are wanted.

    Args:
        output: where they go.
        where: what one of a change's rows has to meet; None: nothing.
        limit: how many at most; None: all.
        last: how many of the last ones, which are written at the end, the newest first; None: all.
        allow_empty: take a pattern of tables that matches none.

    Attributes:
        output: as given.
        allow_empty: as given.
        done: whether the limit is reached.
        is_empty: whether no transaction was read.
    """

    def __init__(
        self,
        output: ChangeOutput,
        where: Condition | None = None,
        limit: int | None = None,
        last: int | None = None,
        *,
        allow_empty: bool = False,
    ) -> None:
        self.output, self.allow_empty = output, allow_empty
        self.done, self.is_empty = False, True
        self._where = where
        self._changes: Callable[[RowsOfEvent], Iterator[Change]] = iter
        self._wants: Callable[[Change], bool] = _all
        self._check: Callable[[], None] = _nothing
        # What it takes is long to import, and most runs have no condition.
        if where is not None:
            from replica_client.rows.conditions import ConditionColumns, matches
            from replica_client.rows.screens import condition_screens
            from replica_client.rows.where import columns_of

            columns = ConditionColumns(columns_of(where))
            self._check = columns.check
            self._changes = condition_screens(where, columns).changes
            self._wants = partial(matches, where)
        self._left = limit
        self._last: deque[_Written] | None = None if last is None else deque(maxlen=last)
        self._before: Position | Transaction | None = None

    def begin(self, position: Position) -> None:
        """Begin to take changes."""
        self._before = position

    def write(self, transaction: Transaction) -> Position | Transaction:
        """Write the wanted changes of a transaction; returns up to where everything was written.

        Raises:
            ConfigError: ``--where`` does not fit the table.
            DataLossError: a row image lacks what decides.
            BinlogDecodeError: a row cannot be decoded.
            OSError: the output cannot be written.
        """
        self.is_empty = False
        if self._where is None and self._left is None and self._last is None:
            self.output.write(transaction)
            return transaction
        for rows in transaction.rows:
            for change in self._changes(rows):
                if self.done:
                    self.output.completed()
                    return self._position_of(transaction, change)
                if self._wants(change):
                    if self._last is not None:
                        self._last.append((transaction, rows, change))
                        continue
                    self.output.write_change(transaction, rows, change)
                    if self._left is not None:
                        self._left -= 1
                        self.done = not self._left
        self.output.completed()
        self._before = transaction
        return transaction

    def finish(self) -> bool:
        """Write the last changes, if these are wanted, and the end; returns whether all was handed on."""
        if self._last is not None:
            while self._last:
                self.output.write_change(*self._last.pop())
            self.output.completed()
        return self.output.finish()

    def check(self) -> None:
        """Refuse a column of ``--where`` that none of the tables had; asked at the end.

        Raises:
            ConfigError: naming it, and the nearest name.
        """
        if not self.done:
            self._check()

    @property
    def checks_tables(self) -> bool:
        """Return whether a pattern of tables that matched none is an error at the end."""
        return not (self.done or self.allow_empty)

    def _position_of(self, transaction: Transaction, change: Change) -> Position:
        """Return the position before a change."""
        before = self._before
        if isinstance(before, Transaction):
            before = before.position
        return position_at(transaction.start if before is None else before, (transaction, change))


def _all(_: Change) -> bool:
    return True


def _nothing() -> None:
    pass
