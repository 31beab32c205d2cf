"""The positions after transactions that the tracker passed in one step."""

from __future__ import annotations

import threading

from replica_client.protocol.gtid import Gtid, MariadbGtid
from replica_client.protocol.position import Position
from replica_client.stream.position.tracker import PositionTracker

GtidRun = tuple[Gtid | MariadbGtid, int]
"""First GTID and last number of a run of transactions; for MariaDB the last GTID and its number."""


class GtidPositions:
    """Positions after transactions, computed on demand.

    Takes constant time per position when called in order. May be called from any thread.

    Args:
        before: the tracker's state before the transactions; nobody else moves it.
        runs: GTIDs of the transactions in order, for :meth:`PositionTracker.pass_transactions`.
        file: the file of the transactions.
    """

    __slots__ = ("_at", "_before", "_file", "_moving", "_reached", "_runs", "_turn")

    def __init__(self, before: PositionTracker, runs: list[GtidRun], file: str) -> None:
        self._before = before
        self._runs = runs
        self._file = file
        self._moving = before.fork()
        self._at = 0
        self._reached = 0
        # Several consumers may have the same transactions, in threads of their own.
        self._turn = threading.Lock()

    def position(self, end: int, event_index: int, run: int, number: int) -> Position:
        """Return the position after a transaction.

        Args:
            end: offset after the transaction.
            event_index: index of its last event in it.
            run: index of the run that contains it; all runs before are done.
            number: last number of that run which is done, 0 for none.
        """
        with self._turn:
            return self._found(end, event_index, run, number)

    def _found(self, end: int, event_index: int, run: int, number: int) -> Position:
        if (run, number) < (self._at, self._reached):
            self._moving = self._before.fork()
            self._at = 0
        gtids = self._runs[self._at : run]
        if number:
            gtid = self._runs[run][0]
            if isinstance(gtid, MariadbGtid):
                gtid = MariadbGtid(gtid.domain_id, gtid.server_id, number)
            gtids.append((gtid, number))
        self._at, self._reached = run, number
        self._moving.pass_transactions(self._file, end, event_index, gtids)
        return self._moving.position
