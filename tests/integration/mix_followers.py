"""Readers of a live source while mixed statements run on it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from replica_client import Position, ReplicaClientError, connect
from tests.integration.mix_sessions import Snapshot
from tests.integration.mix_state import Checker, Record
from tests.integration.mixes import PATTERN, SIGNALS, Epoch, Report, casefolds
from tests.servers.local import LocalServer

_PATIENCE = 60.0


@dataclass
class Segment:
    """What a reader gave from where it began to its end, or to its error."""

    start: Position | None
    records: list[Record] = field(default_factory=list)
    error: ReplicaClientError | None = None

    def check(
        self, reader: str, epochs: Sequence[Epoch], report: Report, *, casefold: bool
    ) -> None:
        """Compare with the snapshots behind its start."""
        snapshots: list[Snapshot] = [
            one
            for epoch in epochs
            if self.start is None or Position(*epoch.start) >= self.start
            for one in epoch.snapshots
        ]
        checker = Checker(snapshots, casefold)
        for record in self.records:
            checker.feed(record)
        if self.error is None:
            checker.finish()
        report.take(reader, checker, self.error)


class Follower(threading.Thread):
    """Follows a live source from ``latest``; after an error it goes on with the next epoch.

    Attributes:
        segments: what it got.
        error: what ended the thread itself.
    """

    def __init__(self, server: LocalServer) -> None:
        super().__init__(daemon=True)
        self.server = server
        self.segments: list[Segment] = []
        self.error: BaseException | None = None
        self._seen = threading.Event()
        self._again = threading.Event()
        self._halt = threading.Event()
        self._next: Position | None = None
        self._signal = 0

    def begin(self) -> None:
        """Start, and wait until changes arrive."""
        self.server.execute(f"CREATE DATABASE {SIGNALS}")
        self.server.execute(f"CREATE TABLE {SIGNALS}.t (n INT)")
        self.start()
        self._wait()

    def epoch_begins(self) -> None:
        """Where it goes on after an error."""
        if self._halt.is_set() or not self.segments[-1].error:
            return
        self._next = Position(*self.server.binlog_position())
        self._again.set()
        self._wait()

    def finish(self) -> None:
        """Wait until it has everything, and end."""
        if self.segments[-1].error is None:
            self._wait()
        self._halt.set()
        self._again.set()
        self.server.execute(f"INSERT INTO {SIGNALS}.t VALUES (-1)")
        self.join(_PATIENCE)
        if self.error is not None:
            raise self.error

    def run(self) -> None:
        try:
            start: Position | None = None
            while not self._halt.is_set():
                segment = Segment(start)
                self.segments.append(segment)
                try:
                    asyncio.run(self._follow(segment))
                except ReplicaClientError as error:
                    segment.error = error
                    self._seen.set()
                    self._again.wait()
                    self._again.clear()
                    start = self._next
        except BaseException as error:
            self.error = error
            self._seen.set()

    async def _follow(self, segment: Segment) -> None:
        start = "latest" if segment.start is None else segment.start
        async with connect(self.server.url(), tables=PATTERN, start=start) as stream:
            async for transaction in stream.transactions():
                record = Record.of(transaction)
                if any(_database(item) == SIGNALS for item in record.items):
                    if any(
                        getattr(item, "after", None) == {"n": self._signal} for item in record.items
                    ):
                        self._seen.set()
                    if self._halt.is_set():
                        return
                else:
                    segment.records.append(record)

    def _wait(self) -> None:
        """Write rows until one of them has come, or the reader has failed."""
        self._signal += 1
        self._seen.clear()
        end = time.monotonic() + _PATIENCE
        while not self._seen.is_set():
            if self.error is not None:
                raise self.error
            if time.monotonic() > end:
                raise TimeoutError("the live reader is behind")
            self.server.execute(f"INSERT INTO {SIGNALS}.t VALUES (%s)", (self._signal,))
            self._seen.wait(0.3)
        if self.error is not None:
            raise self.error


def _database(item: object) -> str:
    table = getattr(item, "table", "")
    return str(table[0]) if isinstance(table, tuple) else str(getattr(item, "database", ""))


def read_earliest(server: LocalServer, epochs: Sequence[Epoch], report: Report) -> None:
    """Read the live source from its first file to its end and compare."""
    casefold = casefolds(server)
    start: Position | None = None
    while True:
        segment = Segment(start)
        try:
            asyncio.run(_to_the_end(server, segment))
        except ReplicaClientError as error:
            segment.error = error
        segment.check("earliest", epochs, report, casefold=casefold)
        if segment.error is None:
            return
        reached = segment.records[-1].end if segment.records else start
        later = [Position(*one.start) for one in epochs]
        later = [one for one in later if reached is None or one > reached]
        if not later:
            return
        start = later[0]


async def _to_the_end(server: LocalServer, segment: Segment) -> None:
    start = "earliest" if segment.start is None else segment.start
    async with connect(server.url(), tables=PATTERN, start=start, stop_at_end=True) as stream:
        async for transaction in stream.transactions():
            record = Record.of(transaction)
            if not any(_database(item) == SIGNALS for item in record.items):
                segment.records.append(record)
