"""Events captured from real servers by scripts/capture/events.

What is expected is the server's own SHOW BINLOG EVENTS (type, position, end), the bytes themselves,
and that a cut event is refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event, event_checksum
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events import QueryEvent, RowsEvent, TableMapEvent

FILES = sorted((Path(__file__).parent / "events").glob("*.json"))
TYPE_NAMES = {
    "Format_desc": "FORMAT_DESCRIPTION_EVENT",
    "Query": "QUERY_EVENT",
    "Xid": "XID_EVENT",
    "Previous_gtids": "PREVIOUS_GTIDS_LOG_EVENT",
    "Table_map": "TABLE_MAP_EVENT",
    "Write_rows": "WRITE_ROWS_EVENT",
    "Update_rows": "UPDATE_ROWS_EVENT",
    "Delete_rows": "DELETE_ROWS_EVENT",
    "Write_rows_v1": "WRITE_ROWS_EVENT_V1",
    "Update_rows_v1": "UPDATE_ROWS_EVENT_V1",
    "Delete_rows_v1": "DELETE_ROWS_EVENT_V1",
    "Rows_query": "ROWS_QUERY_LOG_EVENT",
    "Annotate_rows": "ANNOTATE_ROWS_EVENT",
    "Binlog_checkpoint": "BINLOG_CHECKPOINT_EVENT",
    "Gtid_list": "GTID_LIST_EVENT",
    "Rotate": "ROTATE_EVENT",
}


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def decoded(path: Path) -> tuple[BinlogDecoder, list[BinlogEvent]]:
    capture = load(path)
    decoder = BinlogDecoder(file=capture["file"])
    events = [
        decoder.decode(bytes.fromhex(event["hex"]), event["position"])
        for event in capture["events"]
    ]
    return decoder, events


def test_every_server_is_there() -> None:
    assert [path.stem for path in FILES] == [
        "mariadb-10.11",
        "mariadb-11.8",
        "mysql-5.6",
        "mysql-9.7",
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_as_the_server_lists_them(path: Path) -> None:
    capture = load(path)
    is_mariadb = "MariaDB" in capture["version"]
    _, events = decoded(path)
    for expected, event in zip(capture["events"], events, strict=True):
        name = TYPE_NAMES.get(expected["type"])
        if expected["type"] == "Gtid":
            name = "GTID_EVENT" if is_mariadb else "GTID_LOG_EVENT"
        assert event.header.type_name == name
        # MariaDB 11.4 and later write 0 into some headers, and list it so.
        listed = expected["end_position"]
        assert event.end_position == listed or (listed == 0 and "11.8" in capture["version"])
        assert event.header.next_position == listed
        assert event.header.server_id == expected["server_id"]
        assert event.checksum is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_encoded_to_the_same_bytes(path: Path) -> None:
    capture = load(path)
    decoder, events = decoded(path)
    for expected, event in zip(capture["events"], events, strict=True):
        assert encode_event(event, decoder.format).hex() == expected["hex"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parsed_views_leave_nothing_over(path: Path) -> None:
    _, events = decoded(path)
    for event in events:
        match event.body:
            case QueryEvent() as query:
                assert query.status.unparsed == b""
                assert query.query_text()
            case TableMapEvent() as table_map:
                assert table_map.metadata.unknown_fields == ()
            case RowsEvent() as rows:
                assert rows.extra.unparsed == b""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_cut_at_every_byte(path: Path) -> None:
    """A body that ends early, in an event whose size and checksum are right."""
    capture = load(path)
    seen: set[str] = set()
    for expected in capture["events"]:
        data = bytes.fromhex(expected["hex"])
        if expected["type"] in seen:
            continue
        seen.add(expected["type"])
        for size in range(19, len(data) - 4):
            cut = data[:9] + (size + 4).to_bytes(4, "little") + data[13:size]
            whole = cut + event_checksum(cut).to_bytes(4, "little")
            decoder, _ = decoded(path)
            try:
                event = decoder.decode(whole, expected["position"])
            except BinlogDecodeError as error:
                assert error.position == expected["position"]
            else:
                assert encode_event(event, decoder.format) == whole
    assert len(seen) > 8


def test_values_of_mysql_9_7() -> None:
    _, events = decoded(Path(__file__).parent / "events" / "mysql-9.7.json")
    maps = [event.body for event in events if isinstance(event.body, TableMapEvent)]
    table = next(body for body in maps if body.table == "t")
    assert table.metadata.column_names is not None
    assert table.metadata.column_names[:3] == (b"id", b"name", b"price")
    assert table.metadata.signedness == (True, False, False, False)
    assert table.metadata.set_labels == ((b"a", b"b", b"c"),)
    assert table.metadata.enum_labels == ((b"new", b"old"),)
    assert table.metadata.primary_key == ((0, 0),)
    assert table.column_metadata == (
        0,
        30,
        12 | 3 << 8,
        247 | 1 << 8,
        248 | 1 << 8,
        3,
        2,
        9,
        4 | 1 << 8,
        8,
        0,
    )
    queries = [event.body for event in events if isinstance(event.body, QueryEvent)]
    latin1 = next(body for body in queries if b"\xfc" in body.query)
    assert latin1.query_text() == "CREATE TABLE `grün` (id INT) COMMENT 'straße'"
    assert any(body.status.time_zone == b"+03:00" for body in queries)
    procedure = next(body for body in queries if b"PROCEDURE" in body.query)
    assert procedure.status.auto_increment_increment == 5
    assert procedure.status.auto_increment_offset == 2
    assert (procedure.status.invoker_user, procedure.status.invoker_host) == (b"root", b"localhost")
    rows = [event.body for event in events if isinstance(event.body, RowsEvent)]
    partitions = [
        (body.kind, body.extra.partition_id, body.extra.source_partition_id)
        for body in rows
        if body.extra_info
    ]
    assert ("update", 0, 2) in partitions
    assert ("insert", 1, None) in partitions


def test_values_of_mariadb_11_8() -> None:
    _, events = decoded(Path(__file__).parent / "events" / "mariadb-11.8.json")
    queries = [event.body for event in events if isinstance(event.body, QueryEvent)]
    collated = next(body for body in queries if b"collated" in body.query)
    assert dict(collated.status.character_set_collations or ())[8] == 47
    assert any(body.status.microseconds for body in queries)
    assert any(body.status.ddl_xid for body in queries)
    multi = next(body for body in queries if body.query.startswith(b"UPDATE t, parted"))
    assert multi.status.table_map_for_update == 3
