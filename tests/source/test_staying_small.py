"""What a stream keeps does not grow with the schema changes, files and cut connections that it has seen."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.protocol.binlog.event import EventHeader
from replica_client.protocol.binlog.events import GtidEvent, RowsEvent, TableMapEvent, XidEvent
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import Gtid
from replica_client.rows.row import Row
from replica_client.service.table_checker import RowCounter
from replica_client.sinks.formats.line_format import make_format
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutInFile
from tests.source.binlogs import SOURCE_UUID, BinlogMaker

_LONG = 3
_FILES, _ROUNDS = 4, 100
# At the same place of two files, behind as many changes as a saved history has records.
_LOOKED_AT = (275, 375)
_FAST = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)


def _files(directory: Path, rounds: int = _ROUNDS) -> Iterator[Path]:
    """Each round alters a table, which then has other columns than ever before, and writes a row to it."""
    uuid, number = bytes.fromhex(SOURCE_UUID.replace("-", "")), 0
    for file in range(1, _FILES + 1):
        maker = BinlogMaker(first=number + 1)

        def begin(maker: BinlogMaker = maker) -> None:
            nonlocal number
            number += 1
            maker.add(EventType.GTID_LOG_EVENT, GtidEvent(1, uuid, number))

        for at in range(rounds):
            column, before = (
                f"c{file}_{at}",
                f"c{file}_{at - 1}" if at else f"c{file - 1}_{rounds - 1}",
            )
            begin()
            if file == 1 and not at:
                maker.query(b"CREATE TABLE t (id INT PRIMARY KEY, %s INT)" % column.encode())
            else:
                maker.query(f"ALTER TABLE t CHANGE {before} {column} INT".encode())
            begin()
            maker.query(b"BEGIN")
            table = TableMapEvent(number, 1, "shop", "t", bytes((_LONG, _LONG)), (0, 0), b"\2")
            maker.add(EventType.TABLE_MAP_EVENT, table)
            code = int(EventType.WRITE_ROWS_EVENT)
            image = b"\0" + number.to_bytes(4, "little") + b"\1\0\0\0"
            maker.add(code, RowsEvent("insert", code, number, 1, b"", 2, b"\3", None, image))
            maker.add(EventType.XID_EVENT, XidEvent(number))
        if file < _FILES:
            maker.rotate(f"binlog.{file + 1:06}")
        yield maker.save(directory / f"binlog.{file:06}")


class _Sinks:
    """What the service does with a transaction, in every format."""

    def __init__(self) -> None:
        self._counter = RowCounter()
        self._formats = [
            make_format(name, {}) for name in ("native", "maxwell", "canal", "debezium")
        ]

    def take(self, transaction: Transaction) -> None:
        for rows in transaction.rows:
            assert self._counter.count(rows) == 1
        for one in self._formats:
            assert list(one.lines(transaction))


def _kept() -> Counter[str]:
    """Objects of this package by type, and classes of rows; without what bounded caches of modules have now."""
    for name, module in list(sys.modules.items()):
        if name.startswith("replica_client"):
            for one in vars(module).values():
                if isinstance(one, SizedCache):
                    one.clear()
    gc.collect()
    found = Counter(
        f"{type(one).__module__}.{type(one).__qualname__}"
        for one in gc.get_objects()
        if str(type(one).__module__).startswith("replica_client")
        # The source is in this process, too.
        and not isinstance(one, EventHeader | Gtid)
    )
    found["classes of rows"] = len(Row.__subclasses__())
    return found


async def _follow(directory: Path, how: str) -> list[Counter[str]]:
    paths, found, rows = list(_files(directory)), [], 0
    faults = [
        CutInFile(path.name, offset, connection=at * 2 + cut)
        for at, path in enumerate(paths)
        for cut, offset in enumerate((5_000, 15_000))
    ]
    sinks = _Sinks()
    async with BinlogSource(paths, faults=faults) as source:
        options = {"start": "earliest", "stop_at_end": True, "reconnect": _FAST}
        store = rc.FilePositionStore(directory / "position")
        async with rc.connect(source.url, position_store=store, **options) as stream:
            if how == "transactions":
                async for transaction in stream.transactions():
                    sinks.take(transaction)
                    for change in transaction.changes:
                        assert change.after[1] == 1
                        rows += 1
                    await stream.acknowledge(transaction.position)
                    del transaction
                    if rows in _LOOKED_AT[len(found) :][:1]:
                        found.append(_kept())
            else:
                async for batch in stream.batches(max_seconds=0.0):
                    rows += batch.num_rows
                    await stream.acknowledge(stream.position)
                    del batch
                    if rows in _LOOKED_AT[len(found) :][:1]:
                        found.append(_kept())
            assert stream.generation == 1 + len(faults)
    assert rows == _FILES * _ROUNDS
    return found


def _check(found: list[Counter[str]]) -> None:
    first, last = found
    grown = {name: (first[name], count) for name, count in last.items() if count > first[name] + 10}
    assert not grown


def test_transactions(tmp_path: Path) -> None:
    _check(asyncio.run(_follow(tmp_path, "transactions")))


def test_batches(tmp_path: Path) -> None:
    _check(asyncio.run(_follow(tmp_path, "batches")))


def _of_connections() -> list[object]:
    """Return every object that belongs to one connection and is still in memory."""
    kinds = ("DumpProtocol", "EventQueue", "PacketFramer")
    return [one for one in gc.get_objects() if type(one).__name__ in kinds]


async def _cut(directory: Path, *, tls: bool) -> Counter[str]:
    """Count objects of connections that were cut, while nothing collects garbage."""
    paths = list(_files(directory, 40))
    faults = [CutInFile(path.name, 5_000, connection=at) for at, path in enumerate(paths)]
    async with BinlogSource(paths, faults=faults, tls=tls) as source:
        options = {"start": "earliest", "stop_at_end": True, "reconnect": _FAST}
        gc.collect()
        # A test that ran in this process before may have left some.
        before = _of_connections()
        known = set(map(id, before))
        gc.disable()
        try:
            async with rc.connect(source.url, **options) as stream:
                async for _ in stream.transactions():
                    pass
                assert stream.generation == 1 + len(faults)
            await asyncio.sleep(0)
            return Counter(type(one).__name__ for one in _of_connections() if id(one) not in known)
        finally:
            gc.enable()


@pytest.mark.parametrize("tls", [False, True])
def test_cut_connections_wait_for_no_garbage_collection(tmp_path: Path, *, tls: bool) -> None:
    # pytest keeps the records of the log, as a user's handler may do: they refer to no connection.
    found = asyncio.run(_cut(tmp_path, tls=tls))
    assert found["DumpProtocol"] <= 1, found
    assert found["EventQueue"] <= 1, found
