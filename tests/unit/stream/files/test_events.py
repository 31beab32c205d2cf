"""Events of files by the fast path are those of the full decoder, and so is the first fault."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_client.errors import ReplicaClientError
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, DecodeOptions
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.files.file_batches import raw_events
from replica_client.stream.files.file_bytes import binlog_files
from replica_client.stream.transactions.event_feed import EventFeed

GOLDENS = sorted((Path(__file__).parents[3] / "golden").glob("*/*.binlog"))
LENIENT = DecodeOptions(verify_checksum=False)


def in_full(data: bytes, options: DecodeOptions) -> Iterator[BinlogEvent]:
    """The events as the full decoder gives them, one after the other."""
    feed = EventFeed(options, mode="file")
    for file in binlog_files(data):
        for position, raw in raw_events(file, feed, FIRST_EVENT):
            for located in feed.feed(raw, position, file.name):
                yield located.event


def read(events: Iterator[BinlogEvent]) -> tuple[list[BinlogEvent], str]:
    """The events before the first fault, and the fault."""
    found: list[BinlogEvent] = []
    try:
        found.extend(events)
    except ReplicaClientError as error:
        return found, f"{type(error).__name__}: {error}"
    return found, ""


def check(data: bytes, options: DecodeOptions) -> tuple[list[BinlogEvent], str]:
    fast = read(open_binlog(data, options=options).events())
    full = read(in_full(data, options))
    assert fast[1] == full[1]
    assert fast[0] == full[0]
    assert [repr(event) for event in fast[0]] == [repr(event) for event in full[0]]
    return fast


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fast_events_are_those_of_the_full_decoder(path: Path) -> None:
    data = path.read_bytes()
    found, fault = check(data, DecodeOptions())
    assert found
    assert not fault or path.stem.startswith("encrypted")


@pytest.mark.parametrize("options", [DecodeOptions(), LENIENT], ids=["checked", "unchecked"])
def test_damaged_files_give_the_same_events_and_the_same_fault(options: DecodeOptions) -> None:
    rng = random.Random(20)
    faults = set()
    for path in GOLDENS:
        data = path.read_bytes()[: 64 << 10]
        for _ in range(12):
            damaged = bytearray(data)
            for _ in range(rng.choice((1, 1, 3))):
                damaged[rng.randrange(4, len(data))] = rng.choice(
                    (0, 1, 0x7F, 0xFF, rng.randrange(256))
                )
            if rng.random() < 0.3:
                del damaged[rng.randrange(5, len(damaged)) :]
            faults.add(check(bytes(damaged), options)[1].partition(":")[0])
    assert len(faults) >= 3
