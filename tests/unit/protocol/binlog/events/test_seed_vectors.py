"""The golden facts: bytes printed in the documents that the project starts from."""

from __future__ import annotations

import pytest

from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.protocol.binlog.events import FormatDescriptionEvent, QueryEvent, RotateEvent
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventFlag, EventType
from tests.unit.protocol.binlog.events.seed import BEGIN, CREATE_TABLE, FORMAT_5_5_2, ROTATE


def test_create_table_at_276() -> None:
    event = BinlogDecoder(format=BinlogFormat()).decode(CREATE_TABLE, 276, "binlog.000024")
    assert event.header.event_size == len(CREATE_TABLE) == 182
    assert event.end_position == event.header.next_position == 458
    assert event.checksum == int.from_bytes(bytes.fromhex("0536a92b"), "little")
    query = event.body
    assert isinstance(query, QueryEvent)
    assert query.thread_id == 10
    assert query.schema == b"presentation"
    assert len(query.status_vars) == 55
    assert query.status.codes == (0, 1, 6, 4, 12, 17, 18, 19)
    assert query.status.present() == {
        "flags2": 0,
        "sql_mode": 0x45A00020,
        "catalog": b"std",
        "character_set_client": 255,
        "collation_connection": 255,
        "collation_server": 255,
        "updated_databases": (b"presentation",),
        "updated_databases_count": 1,
        "ddl_xid": 54,
        "default_collation_for_utf8mb4": 255,
        "sql_require_primary_key": 0,
    }
    assert query.status.unparsed == b""
    assert query.query_text() == (
        "CREATE TABLE person (\n  ID INT PRIMARY KEY,\n  name VARCHAR(150) DEFAULT NULL\n)"
    )


def test_begin_at_537() -> None:
    event = BinlogDecoder(format=BinlogFormat()).decode(BEGIN, 537)
    assert event.header.event_size == len(BEGIN) == 83
    assert event.header.flags == EventFlag.LOG_EVENT_SUPPRESS_USE_F
    assert event.checksum == int.from_bytes(bytes.fromhex("95c51dcf"), "little")
    assert len(event.body.status_vars) == 29
    assert event.body.query_text() == "BEGIN"


def test_rotate_on_disk() -> None:
    event = BinlogDecoder(format=BinlogFormat()).decode(ROTATE, 1428)
    assert event.header.event_size == len(ROTATE) == 44
    assert event.header.timestamp == 1748308025
    assert event.header.server_id == 1
    assert event.header.next_position == event.end_position == 1472
    assert event.checksum == int.from_bytes(bytes.fromhex("de7e7110"), "little")
    assert event.body == RotateEvent(4, "binlog.000025")
    assert not event.header.is_artificial


def test_format_description_of_5_5_2() -> None:
    decoder = BinlogDecoder()
    event = decoder.decode(FORMAT_5_5_2, 4, "relay-bin.000001")
    body = event.body
    assert isinstance(body, FormatDescriptionEvent)
    assert event.header.event_size == 103
    assert event.header.server_id == 2
    assert event.checksum is None
    assert body.binlog_version == 4
    assert body.version == "5.5.2-m2"
    assert body.header_size == 19
    assert len(body.post_header_sizes) == 27
    assert body.format.post_header_size(EventType.FORMAT_DESCRIPTION_EVENT, 0) == 84
    assert body.checksum_algorithm is ChecksumAlgorithm.UNDEFINED
    assert decoder.format.checksum_size == 0


@pytest.mark.parametrize("data", [CREATE_TABLE, BEGIN, ROTATE, FORMAT_5_5_2])
def test_encodes_to_the_same_bytes(data: bytes) -> None:
    decoder = BinlogDecoder(format=BinlogFormat())
    event = decoder.decode(data, 4)
    assert encode_event(event, decoder.format) == data
