"""``replica-client annotate``: every byte once, and the decoder's own values."""

import json
from pathlib import Path

import pytest

from replica_client.cli.annotation.annotator import Annotator
from replica_client.cli.annotation.whole_event import CODED, annotate_event
from replica_client.errors import ShortBufferError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat, EventHeader
from replica_client.protocol.binlog.events import EVENT_CLASSES
from replica_client.protocol.binlog.events.fields import DeclaredEvent
from replica_client.protocol.binlog.events.gtid_tagged import GtidTaggedEvent
from replica_client.protocol.binlog.events.rows import RowsEvent
from replica_client.protocol.constants.event_types import EventType
from tests.unit.cli.annotations import annotated, compared, uncovered

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "events").glob("*.json"))


def golden_events(path: Path):
    decoder = BinlogDecoder(file=path.stem)
    for event in json.loads(path.read_text(encoding="utf-8"))["events"]:
        data = bytes.fromhex(event["hex"])
        yield data, decoder.decode(data, event["position"]), decoder


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_byte_of_every_golden_event_is_covered_once(path):
    count = 0
    for data, event, decoder in golden_events(path):
        annotated_bytes = annotated(data, event, decoder)
        assert uncovered(data, annotated_bytes) is None, event
        assert not [
            field_bytes for field_bytes in annotated_bytes if field_bytes.field == "unexplained"
        ], event
        count += 1
    assert count > 40


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_values_are_those_of_the_decoder(path):
    total = 0
    for data, event, decoder in golden_events(path):
        count, different = compared(event, annotated(data, event, decoder))
        assert not different, event
        total += count
    assert total > 300


def test_the_comparison_can_fail():
    data, event, decoder = next(golden_events(GOLDEN[0]))
    other = bytearray(data)
    other[5] ^= 0xFF
    annotated_bytes = annotated(bytes(other), event, decoder)
    assert compared(event, annotated_bytes)[1]
    assert uncovered(bytes(other), annotated_bytes[1:])
    assert uncovered(data, annotated_bytes)


def test_every_event_class_is_declared_or_annotated_by_code():
    for event_class in EVENT_CLASSES.values():
        ways = (issubclass(event_class, DeclaredEvent), event_class in CODED)
        assert sum((*ways, issubclass(event_class, RowsEvent))) == 1, event_class


def test_a_cut_event_is_covered_to_its_end():
    for data, event, decoder in golden_events(GOLDEN[-1]):
        for size in range(24, len(data), 7):
            cut = data[:size]
            annotated_bytes = annotate_event(cut, event, decoder)
            assert uncovered(cut, annotated_bytes) is None, (event, size)


def test_a_tagged_gtid():
    body = GtidTaggedEvent(
        flags=1,
        sid=bytes(range(120, 136)),
        gno=-3 & 0x7FFFFFFF,
        tag="orders",
        last_committed=300,
        sequence_number=301,
        immediate_commit_timestamp=1795211803000001,
        transaction_length=1 << 20,
        immediate_server_version=90704,
    )
    header = EventHeader(1795211803, EventType.GTID_TAGGED_LOG_EVENT, 1, 0, 0, 0)
    data = encode_event(BinlogEvent(header, body), BinlogFormat())
    decoder = BinlogDecoder(format=BinlogFormat())
    event = decoder.decode(data, 4)
    annotated_bytes = annotate_event(data, event, decoder)
    assert uncovered(data, annotated_bytes) is None
    values = {field_bytes.field: field_bytes.value for field_bytes in annotated_bytes}
    assert values["sid"] == "78797a7b-7c7d-7e7f-8081-828384858687"
    assert values["tag"] == "'orders'"
    assert values["last_committed"] == "300"
    assert values["immediate_commit_timestamp"] == "1795211803000001"


def test_reading_beyond_the_end_is_refused_and_covered():
    annotator = Annotator(b"\x05ab")
    size = annotator.uint("length", 1)
    with pytest.raises(ShortBufferError) as caught:
        annotator.take("name", size)
    annotator.fail(caught.value)
    assert [(field_bytes.field, field_bytes.data) for field_bytes in annotator.annotated_bytes] == [
        ("length", b"\x05"),
        ("unexplained", b"ab"),
    ]


def test_json_transaction_ranges_add_up(run, shop):
    result = run("annotate", "--json", shop[0])
    assert result.status == 0
    data = Path(shop[0]).read_bytes()
    at = 4
    for record in result.records:
        assert record["position"] + record["offset"] == at
        assert data[at : at + record["size"]].hex() == record["hex"]
        at += record["size"]
    assert at == len(data)


def test_one_event_by_its_position(run, shop):
    result = run("annotate", shop[0], "--position", 444)
    assert result.status == 0
    assert result.lines[0].startswith("== QUERY_EVENT (2), position 444, 356 bytes")
    assert sum(line.startswith("==") for line in result.lines) == 1
    assert "CREATE TABLE shop.customers" in result.out
    assert "sql_mode" in result.out
    assert "(right)" in result.out


def test_count_says_how_many(run, shop):
    result = run("annotate", shop[0], "--position", 158, "--count", 3)
    assert sum(line.startswith("==") for line in result.lines) == 3


def test_rows_show_each_column(run, shop):
    records = run("annotate", "--json", shop[0]).records
    names = {r["field"]: r["value"] for r in records if r["section"] == "row 0 image"}
    assert names["name"] == '"Ada Lovelace"'
    assert "null_bits" in names


@pytest.mark.parametrize("position", [5, 445, 10**9])
def test_a_position_without_event_is_one_line(run, shop, position):
    result = run("annotate", shop[0], "--position", position)
    assert result.status == 1
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert f"position {position}" in result.err
    assert "replica-client events" in result.err


def test_a_wrong_checksum_is_shown_and_the_event_still_explained(run, damaged):
    result = run("annotate", damaged, "--position", 444)
    assert result.status == 0
    assert "WRONG, the bytes have 0x" in result.out
