"""Generic packets and the handshake."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import MalformedPacketError, ProtocolError
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.connection_phase import (
    HandshakeResponse,
    HandshakeV10,
    SslRequest,
)
from replica_client.protocol.wire.packets import (
    AuthMoreData,
    AuthSwitchRequest,
    EofPacket,
    ErrPacket,
    OkPacket,
)
from replica_client.protocol.wire.resultset import (
    ColumnDefinition,
    decode_row,
    encode_result,
    encode_row,
)

FLAGS = (
    Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_CONNECT_ATTRS
    | Capability.CLIENT_CONNECT_WITH_DB
)
PACKETS = [
    OkPacket(3, 7, 2, 1, b"done"),
    ErrPacket(1045, "Access denied", "28000"),
    ErrPacket(1040, "Too many connections", ""),
    EofPacket(1, 2),
    AuthSwitchRequest("mysql_native_password", b"x" * 20 + b"\0"),
    AuthMoreData(b"\x04"),
    HandshakeV10("9.7.4", 12, b"a" * 20, FLAGS, auth_plugin="caching_sha2_password"),
    HandshakeV10(
        "5.5.5-10.11.18-MariaDB",
        12,
        b"a" * 20,
        FLAGS & ~Capability.CLIENT_LONG_PASSWORD,
        mariadb_capabilities=0x1D,
    ),
    SslRequest(FLAGS),
    HandshakeResponse(FLAGS, "repl", b"p" * 32, "shop", "caching_sha2_password", {"a": "b" * 300}),
    ColumnDefinition("Log_name"),
]


def test_what_a_greeting_has_only_with_its_capability() -> None:
    """The second part of the scramble and the plugin's name are read where the server says that they are there."""
    greeting = PACKETS[6]
    sent = greeting.encode()
    for missing, scramble, plugin in (
        (Capability.CLIENT_SECURE_CONNECTION, b"a" * 8, "a" * 12),
        (Capability.CLIENT_PLUGIN_AUTH, b"a" * 20, ""),
    ):
        # The capabilities' low and high halves stand before and behind the character set and status.
        low, high = divmod(greeting.capabilities & ~missing, 1 << 16)[::-1]
        at = sent.index(b"a" * 8) + 9
        changed = (
            sent[:at]
            + low.to_bytes(2, "little")
            + sent[at + 2 : at + 5]
            + high.to_bytes(2, "little")
            + sent[at + 7 :]
        )
        found = HandshakeV10.decode(changed)
        assert (found.scramble, found.auth_plugin) == (scramble, plugin)


@pytest.mark.parametrize("packet", PACKETS, ids=lambda p: type(p).__name__)
def test_round_trip(packet) -> None:
    assert type(packet).decode(packet.encode()) == packet


@pytest.mark.parametrize("packet", PACKETS, ids=lambda p: type(p).__name__)
def test_truncated_at_every_byte_and_changed_in_every_byte(packet) -> None:
    payload = packet.encode()
    damaged = [payload[:size] for size in range(len(payload))]
    damaged += [
        payload[:at] + bytes((payload[at] ^ bits,)) + payload[at + 1 :]
        for at in range(len(payload))
        for bits in (0x01, 0x80, 0xFF)
    ]
    for data in damaged:
        try:
            type(packet).decode(data)
        except ProtocolError:
            continue


@given(st.binary(max_size=120))
@settings(max_examples=400, deadline=None)
def test_random_bytes_raise_only_protocol_errors(data) -> None:
    for packet in PACKETS:
        for payload in (data, packet.encode()[:1] + data):
            try:
                type(packet).decode(payload)
            except ProtocolError:
                continue


def test_error_packet_bytes() -> None:
    payload = b"\xff\x15\x04#28000Access denied"
    assert ErrPacket.decode(payload) == ErrPacket(1045, "Access denied", "28000")


def test_bare_authentication_switch_means_the_oldest_plugin() -> None:
    assert AuthSwitchRequest.decode(b"\xfe").plugin == "mysql_old_password"


def test_long_payload_with_the_byte_of_eof_is_none() -> None:
    with pytest.raises(MalformedPacketError):
        EofPacket.decode(b"\xfe" + bytes(20))


def test_other_protocol_versions_are_named() -> None:
    with pytest.raises(MalformedPacketError, match="protocol version 9"):
        HandshakeV10.decode(b"\x09old\0")


def test_response_does_not_show_the_proof_of_the_password() -> None:
    assert "ppp" not in repr(HandshakeResponse(FLAGS, "repl", b"p" * 32))


def test_result_set() -> None:
    payloads = encode_result(["a", "b"], [(1, "x"), (2, None)])
    assert payloads[0] == b"\x02"
    assert ColumnDefinition.decode(payloads[1]).name == "a"
    assert decode_row(payloads[4], 2) == (b"1", b"x")
    assert decode_row(payloads[5], 2) == (b"2", None)
    assert payloads[5] == encode_row((2, None))
    with pytest.raises(MalformedPacketError):
        decode_row(payloads[5] + b"\0", 2)


def test_handshake_responses_of_other_clients() -> None:
    path = Path(__file__).parents[5] / "shared/corpus/fixtures/go-mysql/handshake_resp_test.json"
    if not path.exists():
        if os.environ.get("CI"):
            pytest.fail(f"CI should have the corpus: {path.name}")
        pytest.skip(f"corpus not there: {path.name}")
    cases = [bytes.fromhex(case["hex"]) for case in json.loads(path.read_text())["cases"]]
    responses = [
        HandshakeResponse.decode(case[4:] if case[1:4] in (b"\0\0\1",) else case)
        for case in cases
        if len(case) > 70
    ]
    assert {response.user for response in responses} >= {"root", "pam"}
    assert any(response.database == "test" for response in responses)
    assert any(response.attributes.get("_client_name") == "libmysql" for response in responses)
