"""Skips what a live source sends from before the start time of a stream."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.binlog.event import BinlogEvent
from replica_client.readers.transaction import Transaction

_MAX_PENDING_SIZE = 64 << 20


class TimeGate:
    """Opens at the first transaction that is not of before a time; it does not close again.

    What comes later is given whatever its time: clocks go back, and a session may set its own time.
    A transaction so large that it comes in parts opens the gate unless its first part tells that it was
    committed before; the first 64 MiB of events wait for the end of their transaction, at most.

    Args:
        since: seconds since 1970; None: the gate is open.
    """

    def __init__(self, since: int | None) -> None:
        self._since = since
        self._passing_over = False
        self._pending: list[BinlogEvent] = []
        self._pending_size = 0

    @property
    def is_open(self) -> bool:
        """Whether everything is given from now on."""
        return self._since is None

    def gives(self, transaction: Transaction) -> bool:
        """Whether a transaction is given; they are to be asked for in order."""
        if self._since is None:
            return True
        if transaction.part == 0:
            self._passing_over = transaction.is_before(self._since)
            committed = transaction.commit_timestamp_us
            if not transaction.complete:
                early = committed is not None and committed // 1_000_000 < self._since
                self._passing_over = self._passing_over and early
        if not self._passing_over:
            self._since = None
        return not self._passing_over

    def events(self, event: BinlogEvent, *, in_transaction: bool) -> Sequence[BinlogEvent]:
        """The events that are given when one more came.

        Args:
            event: it.
            in_transaction: whether its transaction goes on behind it.
        """
        if self._since is None:
            return (event,)
        if event.header.is_artificial or event.header.timestamp == 0:
            return (event,)
        self._pending.append(event)
        self._pending_size += event.header.event_size
        if in_transaction and self._pending_size < _MAX_PENDING_SIZE:
            return ()
        given, self._pending, self._pending_size = self._pending, [], 0
        if event.header.timestamp < self._since and not in_transaction:
            return ()
        self._since = None
        return given
