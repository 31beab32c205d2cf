"""Cuts a stream at byte offsets, many in one run, and compares the changes.

Used by scripts/proofs/cuts (every offset of real servers' binlogs) and by test_cuts.py (short).

An offset counts the bytes of the whole dump, packet headers included. A run cuts at several of them:
the connection after a cut starts at the transaction that was being read, so what it sends before the
next offset is known from the length of a whole dump from there.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import shutil
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import replica_client as rc
from replica_client.archive.backup.engine import Backup, BackupOptions
from replica_client.protocol.position import Position
from replica_client.protocol.wire.framing import encode_packets
from replica_client.rows.json_values import change_to_json
from replica_client.server.served_files import ServedFile
from replica_client.stream.live.source_start import dump_request, transaction_start
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt, CutInFile, Drip, Fault, Stall

POLICY = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0, attempts=1_000_000)
AT_ONCE = 8
_EOF_SIZE = 9


class Time:
    """True once the time is over, or somebody wants the figures (SIGTERM)."""

    def __init__(self, seconds: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + seconds if seconds else None
        self._ended = False
        if threading.current_thread() is threading.main_thread():
            self._loop.add_signal_handler(signal.SIGTERM, self._stop)

    def _stop(self) -> None:
        self._ended = True

    def __bool__(self) -> bool:
        return self._ended or (self._end is not None and self._loop.time() > self._end)


class WrongChangesError(AssertionError):
    """A run with faults gave other changes than one without."""


@dataclass
class CutPlan:
    """What a source sends, and where a stream resumes after a cut.

    Attributes:
        size: bytes of the whole dump.
        ends: for each event of it, the bytes up to its end.
        resumes: where a stream resumes that received so many events.
        lengths: bytes of a whole dump from such a position.
        proofs: bytes of such a dump after which a stream looks at the file that it read before, with a
            connection more; positions whose dump begins in another file only.
        changes: what a stream must deliver.
    """

    size: int
    ends: list[int]
    resumes: list[Position]
    lengths: dict[str, int] = field(default_factory=dict)
    proofs: dict[str, int] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)

    def resume_after(self, offset: int) -> Position:
        received = sum(1 for end in self.ends if end <= offset)
        return self.resumes[received]


async def _raw_dump(url: str, position: Position) -> list[bytes]:
    events: list[bytes] = []
    async with await SourceConnection.open(parse_url(url)) as connection:
        request = await dump_request(connection, position, non_block=True)
        dump = await connection.start_dump(
            request, server_id=99, replica_uuid="6a3f6f56-0000-4000-8000-000000000009"
        )
        async with dump:
            while batch := await dump.read():
                events += batch
    return events


def _size_on_wire(event: bytes) -> int:
    return len(encode_packets(b"\0" + event))


async def plan_of(source: BinlogSource, start: Position) -> CutPlan:
    """Read everything once without faults."""
    source.faults[:] = []
    events = await _raw_dump(source.url, start)
    feed = EventFeed(rc.DecodeOptions(), start)
    total, ends, resumes = 0, [], [transaction_start(feed.tracker.inside())]
    for event in events:
        for _ in feed.feed_stream(event):
            pass
        total += _size_on_wire(event)
        ends.append(total)
        resumes.append(transaction_start(feed.tracker.inside()))
    plan = CutPlan(total + _EOF_SIZE, ends, resumes)
    for position in resumes:
        if str(position) not in plan.lengths:
            sent = await _raw_dump(source.url, position)
            sizes = [_size_on_wire(event) for event in sent]
            plan.lengths[str(position)] = sum(sizes) + _EOF_SIZE
            first = EventFeed(rc.DecodeOptions())
            for _ in first.feed_stream(sent[0]):
                pass
            if position.file and first.tracker.file != position.file:
                plan.proofs[str(position)] = sum(sizes[:2])
    plan.changes = await _stream(source, start)
    return plan


async def _stream(
    source: BinlogSource, start: Position, generations: int = 1, **options: object
) -> list[str]:
    async with rc.connect(
        source.url, start=start, stop_at_end=True, reconnect=POLICY, tls="disabled", **options
    ) as stream:
        changes = [change_to_json(change) async for change in stream.changes()]
        if stream.generation < generations:
            raise WrongChangesError(f"{stream.generation} connections instead of {generations}")
        return changes


async def cut_at(
    source: BinlogSource, start: Position, plan: CutPlan, offsets: Sequence[int]
) -> int:
    """One stream, cut at each of these ascending offsets; returns how many connections it took."""
    number = source.connections
    faults: list[Fault] = []
    resume = start
    connection = number
    for offset in offsets:
        after = plan.lengths[str(resume)] - (plan.size - offset)
        faults.append(CutAt(after, connection=connection))
        connection += 1 + (plan.proofs.get(str(resume), after + 1) <= after)
        resume = plan.resume_after(offset)
    source.faults[:] = faults
    changes = await _stream(source, start, len(offsets) + 1)
    if changes != plan.changes:
        raise WrongChangesError(f"cuts at {list(offsets)}: {_difference(changes, plan.changes)}")
    return source.connections - number


async def disturb(source: BinlogSource, start: Position, plan: CutPlan, seed: int) -> None:
    """One stream with random cuts, stalls and drips."""
    chance = random.Random(seed)
    number = source.connections
    faults: list[Fault] = []
    for connection in range(number, number + chance.randrange(1, 5)):
        at = chance.randrange(plan.size)
        kind = chance.randrange(4)
        if kind == 0:  # the stream notices by itself
            faults.append(Stall(at, 3600.0, connection=connection))
        elif kind == 1:
            faults.append(Stall(at, chance.uniform(0.0, 0.2), connection=connection))
        if kind in (1, 2):
            faults.append(Drip(chance.randrange(1, 4000), connection=connection))
        if kind in (1, 2, 3):
            faults.append(
                CutAt(chance.randrange(plan.size), chance.random() < 0.3, connection=connection)
            )
    source.faults[:] = faults
    changes = await _stream(source, start, heartbeat_period=0.2)
    if changes != plan.changes:
        raise WrongChangesError(f"seed {seed}: {_difference(changes, plan.changes)}")


def _difference(got: Sequence[str], wanted: Sequence[str]) -> str:
    for number, (one, other) in enumerate(zip(got, wanted, strict=False)):
        if one != other:
            return f"change {number} is {one[:200]} instead of {other[:200]}"
    return f"{len(got)} changes instead of {len(wanted)}"


def start_of(mode: str, mariadb: bool, file: ServedFile) -> Position:
    """The beginning, by file or by GTID.

    Behind the events that tell a file's GTIDs a stream knows none, and resumes by file and offset.
    """
    if mode == "file":
        return Position(file.name, file.head_size)
    return Position("", 0, rc.MariadbGtidSet() if mariadb else rc.GtidSet())


def strides(plan: CutPlan, stride: int, every: int, rest: int = 0) -> Iterator[list[int]]:
    """Lists of offsets that are ``stride`` apart; together every ``every``-th offset of the dump."""
    for first in range(rest, stride, every):
        offsets = list(range(first, plan.size, stride))
        if offsets:
            yield offsets


def _not_in_use(path: Path) -> bytes:
    """A file without LOG_EVENT_BINLOG_IN_USE_F, which the newest has in a copy."""
    data = path.read_bytes()
    return data[:21] + bytes((data[21] & 0xFE,)) + data[22:]


@contextmanager
def calm() -> Iterator[None]:
    """Within it thousands of lost connections are not logged, and garbage is collected as suits them."""
    logger = logging.getLogger("replica_client")
    level, thresholds = logger.level, gc.get_threshold()
    logger.setLevel(logging.ERROR)
    gc.freeze()
    gc.set_threshold(50_000, 2, 4)  # connections are cycles, with a megabyte each
    try:
        yield
    finally:
        logger.setLevel(level)
        gc.unfreeze()
        gc.set_threshold(*thresholds)


async def prove_backup(
    files: Sequence[Path],
    directory: Path,
    *,
    every: int = 1,
    stride: int = 997,
    part: int = 0,
    parts: int = 1,
    skip: int = 0,
    seconds: float | None = None,
) -> dict[str, int]:
    """Cut a backup at every ``every``-th byte of the files, many times in each run, and compare them.

    Args:
        files: of the source.
        directory: for the copies.
        every: which bytes.
        stride: bytes between the cuts of one run.
        part: of the runs, those of one process.
        parts: how many processes there are.
        skip: runs that were made before.
        seconds: end after so long.
    """
    over = Time(seconds)
    wanted = [_not_in_use(path) for path in files]
    positions = [
        (path.name, at)
        for path, data in zip(files, wanted, strict=True)
        for at in range(4, len(data))
    ]
    counts = {"size": len(positions), "offsets": 0, "connections": 0, "runs": 0}
    options = BackupOptions(stop_at_end=True, reconnect=POLICY, indexes=False)
    async with BinlogSource(files, auth_plugin="mysql_native_password") as source:
        firsts = list(range(0, max(stride, every), every))[part::parts]
        random.Random(1).shuffle(firsts)
        for first in firsts[skip:]:
            if over:
                break
            number = source.connections
            chosen = positions[first::stride]
            source.faults[:] = [
                CutInFile(*position, connection=number + at) for at, position in enumerate(chosen)
            ]
            copy = directory / str(first)
            await Backup(source.url + "?tls=disabled", copy, options).run()
            for path, data in zip(files, wanted, strict=True):
                if _not_in_use(copy / path.name) != data:
                    raise WrongChangesError(f"cuts at {chosen}: {path.name} differs")
            if source.connections - number != len(chosen) + 1:
                raise WrongChangesError(
                    f"{source.connections - number} connections, {len(chosen)} cuts"
                )
            shutil.rmtree(copy)
            counts["offsets"] += len(chosen)
            counts["runs"] += 1
            counts["connections"] += source.connections - number
            source.seen_statements.clear()
            source.logins.clear()
    return counts


async def prove(
    files: Sequence[Path],
    mode: str,
    *,
    every: int = 1,
    stride: int = 0,
    part: int = 0,
    parts: int = 1,
    skip: int = 0,
    seeds: Iterable[int] = (),
    seconds: float | None = None,
) -> dict[str, int]:
    """Cut at every ``every``-th offset, and disturb with each seed; says how many of each were run."""
    over = Time(seconds)
    async with BinlogSource(files, auth_plugin="mysql_native_password") as source:
        start = start_of(mode, source.library.flavor == "mariadb", source.library.files[0])
        plan = await plan_of(source, start)
        counts = {"size": plan.size, "offsets": 0, "connections": 0, "seeds": 0, "runs": 0}
        counts["changes"] = len(plan.changes)
        # Neighbours go to different runs, so that a run that is ended early leaves no large hole.
        lists = list(strides(plan, stride or max(every, 997), every))[part::parts]
        random.Random(1).shuffle(lists)
        for offsets in lists[skip:]:
            if over:
                break
            counts["connections"] += await cut_at(source, start, plan, offsets)
            counts["offsets"] += len(offsets)
            counts["runs"] += 1
            source.seen_statements.clear()
            source.logins.clear()
    waiting = iter(list(seeds)[part::parts])

    async def work() -> None:
        # Most of the time such a stream waits, so that many go on at once, each with its own source.
        async with BinlogSource(files, auth_plugin="mysql_native_password") as own:
            for seed in waiting:
                if over:
                    break
                await disturb(own, start, plan, seed)
                counts["seeds"] += 1
                own.seen_statements.clear()
                own.logins.clear()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(work())
    return counts
