"""The positions behind transactions that the tracker passed in one step."""

from __future__ import annotations

import threading

from replica_client.gtid import Gtid, MariadbGtid
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker

GtidRun = tuple[Gtid | MariadbGtid, int]
"""First GTID and last number of transactions; of MariaDB the last GTID and its number."""


class GtidPositions:
    """Tells the position behind each of some transactions, when it is asked for.

    Asked in order, each takes constant time. Any thread may ask.

    Args:
        before: the tracker as it was before them; nobody else moves it.
        runs: their GTIDs in order; what :meth:`PositionTracker.pass_transactions` takes.
        file: that they are in.
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
        """The position behind a transaction.

        Args:
            end: offset behind it.
            event_index: index in it of its last event.
            run: index of the run that it is in; all before it are done.
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
