"""Transactions beyond 4 GiB and rows of hundreds of megabytes, made by the testing source on the fly.

Used by scripts/proofs/sizes (6 GiB) and by test_sizes.py.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import replica_client as rc
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader
from replica_client.protocol.binlog.events import (
    GtidEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    XidEvent,
)
from replica_client.protocol.constants.event_types import EventType
from replica_client.testing import BinlogSource
from tests.source.binlogs import SERVER_ID, SOURCE_UUID, TIMESTAMP, BinlogMaker
from tests.source.generated_file import GeneratedFile

MIB = 1 << 20
_LONG_BLOB = 252


@dataclass(frozen=True)
class SizeReport:
    """What a run saw.

    Attributes:
        file_size: bytes of the generated file.
        rows: rows delivered.
        parts: parts of the large transaction.
        memory: growth of the client's largest resident size, in MiB; the source is another process.
        seconds: for all.
    """

    file_size: int
    rows: int
    parts: int
    memory: int
    seconds: float


def _event(code: int, body: object) -> BinlogEvent:
    return BinlogEvent(EventHeader(TIMESTAMP, code, SERVER_ID, 0, 0, 0), body)


def generated(row_size: int, count: int) -> GeneratedFile:
    """One transaction of ``count`` rows, and one of a single row behind it."""
    maker = BinlogMaker()
    uuid = bytes.fromhex(SOURCE_UUID.replace("-", ""))
    # The metadata says that the column is binary, and that its name is v.
    metadata = b"\x02\x01\x3f\x04\x02\x01v"
    table = TableMapEvent(7, 1, "big", "t", bytes([_LONG_BLOB]), (4,), b"\1", metadata)
    maker.add(EventType.GTID_LOG_EVENT, GtidEvent(1, uuid, 1))
    maker.query(b"BEGIN")
    maker.add(EventType.TABLE_MAP_EVENT, table)

    def rows(size: int) -> RowsEvent:
        image = b"\0" + size.to_bytes(4, "little") + b"x" * size
        code = int(EventType.WRITE_ROWS_EVENT)
        return RowsEvent("insert", code, 7, 1, b"", 1, b"\1", None, image)

    repeated = maker.event(EventType.WRITE_ROWS_EVENT, rows(row_size))
    behind = [
        _event(EventType.XID_EVENT, XidEvent(1)),
        _event(EventType.GTID_LOG_EVENT, GtidEvent(1, uuid, 2)),
        _event(EventType.QUERY_EVENT, QueryEvent(5, 0, 0, b"", b"big", b"BEGIN")),
        _event(EventType.TABLE_MAP_EVENT, table),
        _event(EventType.WRITE_ROWS_EVENT, rows(3)),
        _event(EventType.XID_EVENT, XidEvent(2)),
    ]
    return GeneratedFile("binlog.000001", maker.data, repeated, count, behind)


async def _serve(directory: Path, row_size: int, count: int, pipe: Connection) -> None:
    file = generated(row_size, count)
    stub = BinlogMaker().save(directory / "binlog.000000")
    async with BinlogSource(stub) as source:
        source.library.add(file)
        source.purge_to(file.name)
        # Beside the other tests this process may get little time.
        pipe.send((f"{source.url}?connect_timeout=60", file.size))
        await asyncio.to_thread(pipe.recv)


def _serve_here(directory: Path, row_size: int, count: int, pipe: Connection) -> None:
    asyncio.run(_serve(directory, row_size, count, pipe))


@contextmanager
def generating_source(directory: Path, row_size: int, count: int) -> Iterator[tuple[str, int]]:
    """A source in a process of its own; its URL and the size of its file."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve_here, args=(directory, row_size, count, theirs))
    process.start()
    theirs.close()
    try:
        yield ours.recv()
        ours.send(None)
    finally:
        ours.close()
        process.join(10)
        process.kill()


async def follow(
    directory: Path, row_size: int, count: int, *, starts: tuple[str, ...] = ("file", "gtid")
) -> SizeReport:
    """Read it all, then only what lies behind the large transaction, by file and by GTID."""
    begun = time.monotonic()
    with generating_source(directory, row_size, count) as (url, file_size):
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows, parts = await _read(url, file_size, row_size, count, starts)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident) >> 10
    return SizeReport(file_size, rows, parts, grown, time.monotonic() - begun)


async def follow_alone(directory: Path, row_size: int, count: int) -> SizeReport:
    """The same in a process of its own: what ran here before leaves memory that is not given back."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as alone:
        work = alone.submit(_follow_here, directory, row_size, count)
        return await asyncio.wrap_future(work)


def _follow_here(directory: Path, row_size: int, count: int) -> SizeReport:
    return asyncio.run(follow(directory, row_size, count))


async def _read(
    url: str, file_size: int, row_size: int, count: int, starts: tuple[str, ...]
) -> tuple[int, int]:
    assembly = rc.AssemblyOptions(rc.Selection(), on_unknown_table="positional")
    options = {"stop_at_end": True, "assembly": assembly}
    seen = parts = 0
    before_last = None
    async with rc.connect(url, start="earliest", **options) as stream:
        async for transaction in stream.transactions():
            for change in transaction.changes:
                expected = row_size if transaction.gtid.endswith(":1") else 3
                assert len(change.after[0]) == expected
                seen += 1
                del change
            parts += transaction.gtid.endswith(":1")
            if transaction.complete and before_last is None:
                before_last = transaction.position
            last = transaction.position
    assert seen == count + 1, seen
    assert last.offset == file_size, (last, file_size)
    assert before_last is not None
    assert before_last.offset > row_size * count
    for kind in starts:
        start: object = before_last
        if kind == "file":
            start = rc.Position(before_last.file, before_last.offset)
        async with rc.connect(url, start=start, **options) as stream:
            rest = [t async for t in stream.transactions()]
        assert [(t.gtid[-2:], t.start.offset, t.position.offset) for t in rest] == [
            (":2", before_last.offset, file_size)
        ], kind
    return seen, parts
