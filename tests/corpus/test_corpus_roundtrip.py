"""Every binlog of the corpus: all events decoded, each encoded again to the same bytes."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from replica_client.errors import BinlogDecodeError, BinlogFormatError, EncryptedBinlogError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import (
    ENCRYPTED_MAGIC,
    BinlogEvent,
    BinlogFormat,
    FileKind,
    file_kind,
)
from replica_client.protocol.binlog.events import (
    PreviousGtidsEvent,
    QueryEvent,
    RowsEvent,
    TableMapEvent,
    UnknownEvent,
)
from replica_client.protocol.binlog.events.transaction_payload import TransactionPayloadEvent
from replica_client.protocol.binlog.payload import split_payload
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from tests.corpus.binlogs import BROKEN, CORPUS, DECRYPTED, binlog_files, require_corpus
from tests.header_scan import HeaderScan

FILES = binlog_files()
INTACT = [name for name in FILES if name not in BROKEN]
LISTING_LIMIT = 200


@pytest.fixture(scope="module", autouse=True)
def _corpus_is_there() -> None:
    require_corpus()


@dataclass
class Outcome:
    """What reading a file gave."""

    events: list[BinlogEvent] = field(default_factory=list)
    inner: int = 0
    faults: list[BinlogDecodeError] = field(default_factory=list)
    different: list[int] = field(default_factory=list)
    raw_types: list[int] = field(default_factory=list)


def walk(data: bytes, name: str) -> Iterator[tuple[int, bytes] | BinlogDecodeError]:
    """Position and bytes of each event; last, the error of a tail that is no event."""
    scan = HeaderScan(data)
    try:
        for position, header in scan:
            yield position, data[position : position + header.event_size]
        scan.raise_if_truncated()
    except BinlogDecodeError as error:
        yield error.at(file=name)


def read(name: str) -> Outcome:
    data = (CORPUS / name).read_bytes()
    assert file_kind(data) is FileKind.PLAIN
    decoder = BinlogDecoder(file=name)
    outcome = Outcome()
    for found in walk(data, name):
        if isinstance(found, BinlogDecodeError):
            outcome.faults.append(found)
            continue
        position, raw = found
        try:
            reader = decoder
            if name == DECRYPTED and raw[4] == EventType.START_ENCRYPTION_EVENT:
                reader = BinlogDecoder(format=decoder.format)
            event = reader.decode(raw, position)
            views(event)
            outcome.inner += inner(decoder, event)
        except BinlogFormatError as error:
            outcome.faults.append(error)
            break
        except BinlogDecodeError as error:
            outcome.faults.append(error)
            continue
        outcome.events.append(event)
        outcome.raw_types.append(raw[4])
        if encode_event(event, decoder.format) != raw:
            outcome.different.append(position)
    return outcome


def views(event: BinlogEvent) -> None:
    """What is parsed on demand."""
    match event.body:
        case QueryEvent() as query:
            assert query.status.unparsed == b""
            assert query.query_text() or not query.query
        case TableMapEvent() as table_map:
            assert table_map.metadata.unknown_fields == ()
        case RowsEvent() as rows:
            assert rows.extra.unparsed == b""
        case PreviousGtidsEvent() as previous:
            assert str(previous.gtid_set) or len(previous.data) <= 8


def inner(decoder: BinlogDecoder, event: BinlogEvent) -> int:
    """Decode and encode the events inside a payload; how many there are."""
    if not isinstance(event.body, TransactionPayloadEvent):
        return 0
    outside = decoder.format
    layout = BinlogFormat(
        outside.binlog_version,
        outside.server_version,
        outside.header_size,
        outside.post_header_sizes,
        ChecksumAlgorithm.OFF,
    )
    parts = list(split_payload(event.body, decoder.options))
    events = list(decoder.inner_events(event))
    for index, (part, one) in enumerate(zip(parts, events, strict=True)):
        assert (one.inner_index, one.position) == (index, event.position)
        views(one)
        assert encode_event(one, layout) == part
    return len(events)


@pytest.mark.parametrize("name", INTACT)
def test_intact_file(name: str) -> None:
    outcome = read(name)
    assert [str(fault) for fault in outcome.faults] == []
    assert outcome.different == []
    assert outcome.events
    assert outcome.events[-1].end_position == (CORPUS / name).stat().st_size
    unknown = [event for event in outcome.events if isinstance(event.body, UnknownEvent)]
    assert {event.header.type_code for event in unknown} <= {100}


@pytest.mark.parametrize("name", sorted(BROKEN))
def test_broken_file(name: str) -> None:
    """What is before a fault is delivered; the fault says file, position and reason."""
    outcome = read(name)
    expected = BROKEN[name]
    faults = outcome.faults[: len(expected)]
    assert [fault.position for fault in faults] == [position for position, _ in expected]
    for fault, (_, error) in zip(faults, expected, strict=True):
        assert isinstance(fault, error)
        assert fault.file == name
    assert outcome.different == []
    first = expected[0][0]
    before = [event for event in outcome.events if event.position < first]
    assert (before[-1].end_position if before else 4) == first
    if expected[0][1] is EncryptedBinlogError:
        assert {type(fault) for fault in outcome.faults} == {EncryptedBinlogError}
    else:
        assert len(outcome.faults) == len(expected)


def test_encrypted_files_are_reported_apart() -> None:
    names = binlog_files(ENCRYPTED_MAGIC)
    assert names == ["mysql-testsuite-9.7.4/rpl_nogtid_encryption_master-bin.000002"]
    assert file_kind((CORPUS / names[0]).read_bytes()) is FileKind.ENCRYPTED


@pytest.mark.parametrize("name", INTACT)
def test_as_the_listing_has_it(name: str) -> None:
    """Offset, raw type and size against a listing that another scanner made."""
    with (CORPUS / "EVENT-LISTING.tsv").open(newline="") as stream:
        rows = [row for row in csv.DictReader(stream, delimiter="\t") if row["file"] == name]
    if not rows:
        pytest.skip("the listing has no rows for this file")
    listed = [
        (int(row["offset"]), int(row["type"]), int(row["size"]))
        for row in rows
        if row["offset"].isdigit() and row["type"].isdigit()
    ]
    outcome = read(name)
    found = [
        (event.position, raw_type, event.header.event_size)
        for event, raw_type in zip(outcome.events, outcome.raw_types, strict=True)
    ]
    assert found[: len(listed)] == listed
    assert len(listed) == len(found) or len(listed) >= LISTING_LIMIT


def test_counts(capsys: pytest.CaptureFixture[str]) -> None:
    """The sum over all intact files, printed."""
    types: Counter[str] = Counter()
    inner_count = 0
    for name in INTACT:
        outcome = read(name)
        types.update(event.header.type_name for event in outcome.events)
        inner_count += outcome.inner
    with capsys.disabled():
        print(
            f"\ncorpus: {len(INTACT)} intact files, {sum(types.values())} events and "
            f"{inner_count} inside payloads decoded and encoded again; "
            f"{len(BROKEN)} broken files"
        )
        for type_name, count in sorted(types.items()):
            print(f"  {type_name} {count}")
    assert sum(types.values()) > 10_000
    assert inner_count > 200
