"""Sinks of one source that share a connection, with speeds, failures, stops and a source that all go as a seed says.

Used by test_sharing.py and scripts/prove_sharing.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from replica_client import open_binlog
from replica_client.binlog.events import RowsEvent, TableMapEvent, XidEvent
from replica_client.binlog.events.gtid import GtidEvent
from replica_client.constants.event_types import EventType
from replica_client.daemon import sink_stream
from replica_client.daemon.config_file import read_config
from replica_client.daemon.route import Route
from replica_client.daemon.service import Service
from replica_client.errors import SinkError
from replica_client.rows.json_values import change_to_json
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt
from tests.integration.daemon_process import toml_table
from tests.source.binlogs import SOURCE_UUID, BinlogMaker
from tests.unit.daemon.memory_sink import DISKS, Disk

_UUID = bytes.fromhex(SOURCE_UUID.replace("-", ""))
_LONG_BLOB = 252
_METADATA = b"\x02\x01\x3f\x04\x02\x01v"


class RowMaker(BinlogMaker):
    """Adds transactions of rows of a table with one BLOB column."""

    def begin(self) -> int:
        """The first events of a transaction; returns where they are."""
        start = len(self.events)
        self.add(EventType.GTID_LOG_EVENT, GtidEvent(1, _UUID, self.next_number))
        self.next_number += 1
        return start

    def rows(self, events: int, size: int, table: bytes = b"t") -> bytes:
        """A transaction of some events of one row each."""
        start = self.begin()
        self.query(b"BEGIN")
        kind = int(EventType.WRITE_ROWS_EVENT)
        for at in range(events):
            map_event = TableMapEvent(
                7, 1, "shop", table.decode(), bytes([_LONG_BLOB]), (4,), b"\1", _METADATA
            )
            self.add(EventType.TABLE_MAP_EVENT, map_event)
            value = f"{self.next_number - 1}.{at}.".encode().ljust(size, b"x")
            image = b"\0" + len(value).to_bytes(4, "little") + value
            self.add(kind, RowsEvent("insert", kind, 7, 1, b"", 1, b"\1", None, image))
        self.add(EventType.XID_EVENT, XidEvent(self.next_number))
        return b"".join(self.events[start:])

    def statement(self, text: bytes) -> bytes:
        """A transaction that is a statement."""
        start = self.begin()
        self.query(text)
        return b"".join(self.events[start:])


@dataclass
class SharedRun:
    """One run, and what was seen of it.

    Attributes:
        wanted: the lines that each sink is to have.
        got: those that each has.
        most_dumps: connections that were open at once, as far as was looked.
        shared: how often, of all looks, sinks shared a connection.
        left: how often a sink had a connection of its own after it had shared one.
        joins: how often it shared one after it had one of its own.
        failures: of sinks that were thrown.
    """

    wanted: list[str] = field(default_factory=list)
    got: dict[str, list[str]] = field(default_factory=dict)
    most_dumps: int = 0
    shared: int = 0
    left: int = 0
    joins: int = 0
    failures: int = 0

    @property
    def summary(self) -> str:
        """In short."""
        return (
            f"{len(self.wanted)} changes, {self.joins} joined, {self.left} left, {self.failures} failures, "
            f"{self.most_dumps} connections at once"
        )


@dataclass
class SharedWorkload:
    """A workload.

    Attributes:
        directory: that is empty.
        seed: of everything.
        sinks: how many.
        transactions: of the source.
        spool_bytes: see the configuration; 0: as the seed says.
        part_size: see the configuration.
        failing: how likely a write or a commit fails.
        slow: seconds that a write of a slow sink takes at most.
        cuts: how often the source cuts a connection.
        stops: whether the service is stopped and started again on the way.
        large: how likely a transaction has parts; negative: as the seed says.
    """

    directory: Path
    seed: int
    sinks: int = 3
    transactions: int = 250
    spool_bytes: int = 0
    part_size: int = 3_000
    failing: float = 0.004
    slow: float = 0.003
    cuts: int = 2
    stops: int = 1
    large: float = -1.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.run_seen = SharedRun()
        if not self.spool_bytes:
            self.spool_bytes = self.random.choice((20_000, 100_000, 100_000, 400_000))
        if self.large < 0:
            self.large = self.random.choice((0.05, 0.05, 0.3))
        self._maker = RowMaker()
        self._names = [f"sink{at}" for at in range(self.sinks)]

    async def run(self) -> SharedRun:
        """Do it; returns what was seen."""
        chance, seen = self.random, self.run_seen
        # Joining and leaving again and again, not now and then.
        setattr(sink_stream, "_LOOK_SECONDS", 0.01)  # noqa: B010
        setattr(sink_stream, "_AGAIN_SECONDS", 0.1)  # noqa: B010
        files = self.directory / "source"
        files.mkdir()
        for _ in range(chance.randrange(30)):
            self._transaction()
        self._maker.save(files / "binlog.000001")
        faults = [
            CutAt(chance.randrange(500, 60_000), connection=chance.randrange(1, 12))
            for _ in range(self.cuts)
        ]
        async with BinlogSource(files, faults=faults) as source:
            disks = {name: self._disk(name) for name in self._names}
            config = self._config(source)
            for _ in range(self.stops + 1):
                service = Service(read_config(config, {}))
                task = asyncio.ensure_future(service.run())
                watch = asyncio.ensure_future(self._watch(service))
                moods = asyncio.ensure_future(self._change_moods(disks))
                try:
                    await self._write(source, self.transactions // (self.stops + 1))
                    if chance.random() < 0.5:
                        await asyncio.sleep(chance.random() * 0.3)
                finally:
                    service.stop()
                    await asyncio.wait_for(task, 60)
                    for one in (watch, moods):
                        one.cancel()
                    await asyncio.gather(watch, moods, return_exceptions=True)
            await self._to_the_end(config, disks, source)
        seen.got = {name: disk.lines for name, disk in disks.items()}
        return seen

    async def _to_the_end(self, config: Path, disks: dict[str, Disk], source: BinlogSource) -> None:
        seen = self.run_seen
        target = self.directory / "all"
        target.mkdir()
        for file in source.library.files:
            (target / file.name).write_bytes(file.read(0, file.size))
        seen.wanted = [
            change_to_json(change) for change in open_binlog(sorted(target.iterdir())).changes()
        ]
        for disk in disks.values():
            disk.write_delay = disk.delay = 0.0
            disk.before_write = disk.before_commit = lambda given: None
        service = Service(read_config(config, {}))
        task = asyncio.ensure_future(service.run())
        try:
            deadline = time.monotonic() + 60
            while any(len(one.lines) < len(seen.wanted) for one in disks.values()):
                assert time.monotonic() < deadline, self._told(disks)
                await asyncio.sleep(0.02)
            # Nothing comes again.
            await asyncio.sleep(0.1)
        finally:
            service.stop()
            await asyncio.wait_for(task, 60)

    def _told(self, disks: dict[str, Disk]) -> str:
        counts = {name: len(disk.lines) for name, disk in disks.items()}
        return f"seed {self.seed}: {counts} of {len(self.run_seen.wanted)} lines"

    # The source.

    def _transaction(self) -> bytes:
        chance, maker = self.random, self._maker
        kind = chance.random()
        if kind < 0.03:
            return maker.statement(b"CREATE TABLE shop.n%d (a INT)" % maker.next_number)
        if kind < 0.05:
            return maker.statement(b"ALTER TABLE shop.t COMMENT 'c%d'" % maker.next_number)
        if kind < 0.05 + self.large:
            return maker.rows(chance.randrange(5, 30), chance.randrange(200, 900))
        return maker.rows(chance.choice((1, 1, 1, 2, 3)), chance.choice((10, 10, 60, 400)))

    async def _write(self, source: BinlogSource, count: int) -> None:
        chance = self.random
        while count > 0:
            if chance.random() < 0.02:
                self._rotate(source)
            together = min(count, chance.choice((1, 1, 2, 5, 20, 60)))
            count -= together
            begin = len(self._maker.events)
            for _ in range(together):
                self._transaction()
            events = self._maker.events[begin:]
            # The source may stop for a while inside a transaction.
            cut = chance.randrange(len(events)) if chance.random() < 0.3 else 0
            if cut:
                source.append(b"".join(events[:cut]))
                await asyncio.sleep(chance.choice((0.0, 0.002, 0.03, 0.1)))
            source.append(b"".join(events[cut:]))
            await asyncio.sleep(chance.choice((0.0, 0.0, 0.002, 0.01, 0.03, 0.2)))

    def _rotate(self, source: BinlogSource) -> None:
        source.rotate()
        self._maker = RowMaker(first=self._maker.next_number)
        # Positions in events are those of the new file.
        self._maker.data = bytes(source.library.files[-1].size)

    # The sinks.

    def _disk(self, name: str) -> Disk:
        made = DISKS[name] = Disk(holds=self.random.random() < 0.7)
        return made

    async def _change_moods(self, disks: dict[str, Disk]) -> None:
        """Slow sinks become quick, and quick ones slow; some fail."""
        chance = self.random

        def failing(given: object) -> None:
            if chance.random() < self.failing:
                self.run_seen.failures += 1
                raise SinkError("a fault of the seed's", retriable=True)

        while True:
            for disk in disks.values():
                disk.write_delay = chance.choice((0.0, 0.0, chance.random() * self.slow))
                disk.delay = chance.choice((0.0, 0.0, 0.02))
                disk.before_write = disk.before_commit = failing
            await asyncio.sleep(0.2)

    def _config(self, source: BinlogSource) -> Path:
        daemon = {"listen": "", "stop_timeout": 10.0, "state": str(self.directory / "state")}
        keys: dict[str, Any] = {
            "name": "shop",
            "url": source.url,
            "start": "earliest",
            "spool_bytes": self.spool_bytes,
            "part_size": self.part_size,
        }
        parts = [toml_table("[daemon]", daemon), toml_table("[[source]]", keys)]
        for name in self._names:
            given = {"name": name, "type": "memory", "disk": name, "retry_seconds": 0.05}
            parts.append(toml_table("[[source.sink]]", {**given, "batch_seconds": 0.02}))
        path = self.directory / "daemon.toml"
        path.write_text("\n".join(parts))
        return path

    async def _watch(self, service: Service) -> None:
        """Look who shares."""
        seen = self.run_seen
        before: dict[str, int] = {}
        while True:
            counts = {route.name: route.observation.sharing for route in service.routes}
            seen.shared += any(count > 1 for count in counts.values())
            for name, count in counts.items():
                seen.left += before.get(name, 0) > 1 and count == 1
                seen.joins += before.get(name, 0) == 1 and count > 1
            before = counts
            seen.most_dumps = max(seen.most_dumps, open_dumps(service.routes))
            await asyncio.sleep(0.01)


def open_dumps(routes: list[Route]) -> int:
    """Connections that send the binlog to these routes."""
    streams = [route.observation.stream for route in routes]
    return len({id(one.dump) for one in streams if one is not None and one.dump is not None})


def check(workload: SharedWorkload, seen: SharedRun) -> None:
    """Each sink has each change once, in order.

    Raises:
        AssertionError: one has not.
    """
    for name, lines in seen.got.items():
        same = sum(
            1
            for _ in takewhile(
                lambda pair: pair[0] == pair[1], zip(lines, seen.wanted, strict=False)
            )
        )
        assert lines == seen.wanted, (
            f"seed {workload.seed}: {name} has {len(lines)} lines instead of {len(seen.wanted)}, of which the first "
            f"{same} are the same"
        )
    assert seen.most_dumps <= workload.sinks, f"seed {workload.seed}: {seen.most_dumps} connections"
