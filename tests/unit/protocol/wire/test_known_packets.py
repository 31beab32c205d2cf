"""Packets byte by byte, as the protocol's documentation lays them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replica_client.errors import MalformedPacketError
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.connection_phase import HandshakeResponse
from replica_client.protocol.wire.resultset import (
    ColumnDefinition,
    decode_row,
    encode_result,
    encode_row,
)

BASIC = Capability.CLIENT_PROTOCOL_41
LENENC = BASIC | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
SECURE = BASIC | Capability.CLIENT_SECURE_CONNECTION
EOF_PACKET = "fe 0000 0200"  # no warnings, autocommit


def test_a_result_set_byte_by_byte() -> None:
    """ColumnDefinition41: def, schema, table, org_table, name, org_name, 0x0c, then fixed fields."""
    expected = [
        "02",
        "03646566 00 00 00 0161 0161 0c 3f00 14000000 08 0000 00 0000",
        "03646566 00 00 00 0162 0162 0c 2d00 00040000 fd 0000 00 0000",
        EOF_PACKET,
        "02 2d35 fb",
        "01 30 02 c3a9",
        EOF_PACKET,
    ]
    found = encode_result(["a", "b"], [(-5, None), (0, "é")])
    assert [payload.hex() for payload in found] == [text.replace(" ", "") for text in expected]


def test_a_result_set_without_rows_has_texts() -> None:
    kinds = [ColumnDefinition.decode(encode_result(["a"], rows)[1]) for rows in ([], [(None,)])]
    assert kinds == [ColumnDefinition("a")] * 2
    assert ColumnDefinition.decode(encode_result(["a"], [(1,)])[1]).length == 20


def test_the_fields_of_a_column_definition() -> None:
    column = ColumnDefinition("n", 246, 63, 12, 0x81, 3)
    assert column.encode().hex().endswith("0c 3f00 0c000000 f6 8100 03 0000".replace(" ", ""))
    assert ColumnDefinition.decode(column.encode()) == column
    wrong = column.encode().replace(b"\x0c\x3f\0", b"\x0b\x3f\0")
    with pytest.raises(MalformedPacketError, match="wrong size of fixed fields"):
        ColumnDefinition.decode(wrong)


def test_rows_tell_null_from_empty_and_have_all_their_bytes() -> None:
    payload = encode_row([None, "", b"\xfb", 300 * "x"])
    assert payload[:4] == b"\xfb\0\1\xfb"
    assert decode_row(payload, 4) == (None, b"", b"\xfb", b"x" * 300)
    with pytest.raises(MalformedPacketError, match="row packet: 306 bytes too many"):
        decode_row(payload, 2 - 1)


def response(capabilities: Capability, rest: str) -> HandshakeResponse:
    head = int(capabilities).to_bytes(4, "little") + bytes.fromhex("00000001 21") + bytes(23)
    return HandshakeResponse.decode(head + b"me\0" + bytes.fromhex(rest))


@pytest.mark.parametrize(
    ("capabilities", "rest"),
    [
        (LENENC, "03 616263"),
        (LENENC | Capability.CLIENT_SECURE_CONNECTION, "03 616263"),
        (SECURE, "03 616263"),
        (BASIC, "616263 00"),
    ],
)
def test_how_the_answer_to_the_scramble_is_written(capabilities: Capability, rest: str) -> None:
    found = response(capabilities, rest)
    assert (found.user, found.auth_response) == ("me", b"abc")
    assert (found.max_packet_size, found.character_set, found.zstd_level) == (1 << 24, 33, 3)
    assert (found.database, found.auth_plugin, found.attributes) == ("", "", {})


def test_a_long_answer_needs_a_length_of_three_bytes() -> None:
    found = response(LENENC, "fc 0001" + "61" * 256)
    assert found.auth_response == b"a" * 256


@pytest.mark.parametrize(
    ("flag", "rest", "field", "value"),
    [
        ("CLIENT_CONNECT_WITH_DB", "64 00", "database", "d"),
        ("CLIENT_PLUGIN_AUTH", "70 00", "auth_plugin", "p"),
        ("CLIENT_CONNECT_ATTRS", "04 016b 0176", "attributes", {"k": "v"}),
        ("CLIENT_ZSTD_COMPRESSION_ALGORITHM", "09", "zstd_level", 9),
    ],
)
def test_parts_that_a_flag_announces(flag: str, rest: str, field: str, value: object) -> None:
    default = getattr(response(SECURE, "00"), field)
    assert getattr(response(SECURE | Capability[flag], "00" + rest), field) == value
    assert getattr(response(SECURE, "00" + rest), field) == default
    assert getattr(response(SECURE | Capability[flag], "00"), field) == default


def test_an_old_protocol_is_refused() -> None:
    with pytest.raises(MalformedPacketError, match="without CLIENT_PROTOCOL_41"):
        response(Capability.CLIENT_SECURE_CONNECTION, "00")


@pytest.mark.parametrize("level", [1, 9, 22])
def test_the_level_of_zstd_is_written(level: int) -> None:
    flags = LENENC | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
    written = replace(response(LENENC, "00"), capabilities=flags, zstd_level=level)
    assert HandshakeResponse.decode(written.encode()) == written
