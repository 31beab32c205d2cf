"""Transactions that are passed over together end where those end that are looked at one by one."""

from __future__ import annotations

import pytest

import replica_client as rc
from replica_client.archive.transaction_ranges import TransactionRange
from replica_client.lake.source.read_ranges import PassedTransactions
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from tests.source.conftest import start_dump
from tests.source.test_stream import DATA

START = Position("shop-bin.000001", 4)
FAR = 1 << 62


async def passed(
    source: BinlogSource, limit: int
) -> tuple[list[TransactionRange], set[tuple[str, int]]]:
    """What was passed, and where events were that were told."""
    found: list[TransactionRange] = []
    told: set[tuple[str, int]] = set()
    request = DumpRequest(START.file, START.offset, non_block=True)
    async with await start_dump(source.url, request) as dump:
        passing = PassedTransactions(
            dump,
            START,
            DecodeOptions(),
            lambda event, _: told.add((event.file or "", event.position)),
        )
        while (one := await passing.next(limit)) is not None:
            found.append(one)
    return found, told


@pytest.mark.parametrize("limit", [1, 300, 1000, 5000, FAR])
async def test_several_are_whole_ones_within_the_limit(limit: int) -> None:
    async with BinlogSource(DATA) as source:
        alone, _ = await passed(source, 0)
        together, _ = await passed(source, limit)
    assert len(alone) == 18
    assert all(one.timestamp for one in alone)
    ends = [one.end for one in alone]
    assert [one.end for one in together if one.end not in ends] == []
    assert together[-1].end == ends[-1]
    assert sum(one.size for one in together) == sum(one.size for one in alone)
    assert all(one.size <= limit for one in together if not one.timestamp)
    assert limit < 5000 or len(together) < len(alone)


async def test_every_statement_is_told() -> None:
    async with BinlogSource(DATA) as source:
        _, of_each = await passed(source, 0)
        _, of_some = await passed(source, FAR)
        changes = [
            (change.file, change.position)
            for transaction in rc.open_binlog(DATA).transactions()
            for change in transaction.schema_changes
        ]
    assert len(changes) > 3
    assert set(changes) <= of_some < of_each
