"""Status variables: every code, unknown codes, cut values."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from replica_client.errors import BinlogDecodeError, TruncatedEventError
from replica_client.protocol.binlog.events import QueryEvent
from replica_client.protocol.binlog.events.query_status import (
    parse_query_status,
    parse_session_status,
)

CASES: list[tuple[str, dict[str, Any]]] = [
    ("00 00400000", {"flags2": 0x4000}),
    ("01 2000a04500000000", {"sql_mode": 0x45A00020}),
    ("02 03 737464 00", {"catalog": b"std"}),
    ("03 0500 0200", {"auto_increment_increment": 5, "auto_increment_offset": 2}),
    (
        "04 2100 0800 ff00",
        {"character_set_client": 33, "collation_connection": 8, "collation_server": 255},
    ),
    ("05 06 53595354454d", {"time_zone": b"SYSTEM"}),
    ("06 03 737464", {"catalog": b"std"}),
    ("07 0400", {"lc_time_names": 4}),
    ("08 2d00", {"character_set_database": 45}),
    ("09 0300000000000080", {"table_map_for_update": 1 << 63 | 3}),
    ("0a 10000000", {"master_data_written": 16}),
    ("0b 02 6d65 00", {"invoker_user": b"me", "invoker_host": b""}),
    (
        "0c 02 6100 626300",
        {"updated_databases": (b"a", b"bc"), "updated_databases_count": 2},
    ),
    ("0c 00", {"updated_databases": (), "updated_databases_count": 0}),
    ("0c fe", {"updated_databases_count": 254}),
    ("0d 40420f", {"microseconds": 1_000_000}),
    ("0e 0900000000000000", {"commit_timestamp": 9}),
    ("0f 0900000000000000 0a00000000000000", {"commit_timestamp2": (9, 10)}),
    ("10 01", {"explicit_defaults_for_timestamp": 1}),
    ("11 3600000000000000", {"ddl_xid": 54}),
    ("12 ff00", {"default_collation_for_utf8mb4": 255}),
    ("13 01", {"sql_require_primary_key": 1}),
    ("14 00", {"default_table_encryption": 0}),
    ("80 ffffff", {"microseconds": 0xFFFFFF}),
    ("81 0100000000000000", {"ddl_xid": 1}),
    ("82 02", {"gtid_flags3": 2}),
    ("82 04 0700000000000000", {"gtid_flags3": 4, "start_alter_sequence": 7}),
    ("82 08 0700000000000000", {"gtid_flags3": 8, "start_alter_sequence": 7}),
    ("83 02 0800 2f00 2d00 0009", {"character_set_collations": ((8, 47), (45, 2304))}),
]
IDS = [case[0][:2] + str(index) for index, case in enumerate(CASES)]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=IDS)
def test_each_code(text: str, expected: dict[str, Any]) -> None:
    data = bytes.fromhex(text)
    status = parse_query_status(data)
    assert status.present() == expected
    assert status.codes == (data[0],)
    assert status.unparsed == b""


@pytest.mark.parametrize(("text", "expected"), CASES, ids=IDS)
def test_each_code_cut(text: str, expected: dict[str, Any]) -> None:
    data = bytes.fromhex(text)
    for size in range(1, len(data)):
        with pytest.raises(TruncatedEventError, match=f"status variable {data[0]}:"):
            parse_query_status(data[:size])


def test_all_at_once() -> None:
    data = b"".join(bytes.fromhex(text) for text, _ in CASES)
    status = parse_query_status(data)
    assert status.codes == tuple(bytes.fromhex(text)[0] for text, _ in CASES)
    assert status.flags2 == 0x4000
    assert status.character_set_collations == ((8, 47), (45, 2304))


@pytest.mark.parametrize("code", [21, 127, 132, 255])
def test_unknown_code_stops_and_keeps_the_rest(code: int) -> None:
    tail = bytes((code,)) + b"\x01\x02"
    status = parse_query_status(bytes.fromhex("1301") + tail)
    assert status.present() == {"sql_require_primary_key": 1}
    assert status.unparsed == tail
    assert status.codes == (19, code)


def test_empty() -> None:
    assert parse_query_status(b"").present() == {}


def query(text: bytes, client: int | None) -> QueryEvent:
    status = b"" if client is None else b"\x04" + client.to_bytes(2, "little") + bytes(4)
    return QueryEvent(1, 0, 0, status, b"d", text)


@pytest.mark.parametrize(
    ("data", "client", "text"),
    [
        (b"SELECT '\xfc'", 8, "SELECT 'ü'"),
        ("SELECT 'ü'".encode(), 45, "SELECT 'ü'"),
        ("SELECT 'ü'".encode(), None, "SELECT 'ü'"),
        ("表".encode("gbk"), 28, "表"),
        (b"\x80", 8, "€"),
    ],
)
def test_text_by_client_character_set(data: bytes, client: int | None, text: str) -> None:
    assert query(data, client).query_text() == text


def test_text_that_is_none() -> None:
    with pytest.raises(BinlogDecodeError):
        query(b"\xff", 45).query_text()
    assert query(b"\xff", 45).query_text("replace") == "\ufffd"
    with pytest.raises(BinlogDecodeError):
        query(b"a", 60000).query_text()
    with pytest.raises(TruncatedEventError):
        QueryEvent(1, 0, 0, b"\x04\x01", b"", b"a").query_text()


@pytest.mark.parametrize("code", ["11", "81"])
def test_the_session_of_ddl_is_told_whatever_its_xid_is(code: str) -> None:
    # The variables before and behind ddl_xid, in each order: blocks of one size that have it at other offsets.
    others = ("00 00400000", "04 2100 0800 ff00", "10 01", "07 1111", "12 ff00")
    blocks = []
    for first, second, third in permutations(others, 3):
        for xid in ("1111111111111111", "0000000000000000", "3600000000000000"):
            for order in (
                (code, first, second, third),
                (first, code, second, third),
                (first, second, third, code),
            ):
                text = " ".join(f"{one} {xid}" if one == code else one for one in order)
                blocks.append(bytes.fromhex(text))
    for block in blocks + blocks[::-1]:
        whole, session = parse_query_status(block), parse_session_status(block)
        assert session.ddl_xid is not None
        assert replace(session, ddl_xid=whole.ddl_xid) == whole


@pytest.mark.parametrize(("text", "fields"), CASES)
def test_the_session_of_other_statements_is_their_status(text: str, fields: dict[str, Any]) -> None:
    block = bytes.fromhex(text)
    assert parse_session_status(block).present().keys() == fields.keys()
    assert parse_session_status(block) is parse_session_status(block)


def test_the_session_of_a_cut_block_is_refused() -> None:
    for size in range(1, 9):
        with pytest.raises(TruncatedEventError, match="status variable 17"):
            parse_session_status(bytes.fromhex("11 3600000000000000")[:size])
