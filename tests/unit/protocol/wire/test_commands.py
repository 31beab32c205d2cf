"""Command packets, byte by byte."""

import pytest

from replica_client.errors import EncodeError, MalformedPacketError
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.wire.dump_commands import (
    ComBinlogDump,
    ComBinlogDumpGtid,
    ComQuery,
    ComRegisterSlave,
    SemiSyncAck,
)
from replica_client.protocol.wire.framing import encode_packets

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

DUMP = bytes.fromhex("12340600000200752700006d7973716c2d62696e2e303030303334")
REGISTER = bytes.fromhex("1504000000026462047265706c00ea0c0000000000000000")
DUMP_GTID = (
    bytes.fromhex("1e 0500 75270000 00000000 0400000000000000 30000000".replace(" ", ""))
    + bytes.fromhex("0100000000000000")
    + bytes.fromhex(UUID.replace("-", ""))
    + bytes.fromhex("0100000000000000 0100000000000000 0600000000000000".replace(" ", ""))
)
ACK = b"\xef" + (1588).to_bytes(8, "little") + b"mysql-bin.000034"

COMMANDS = [
    (ComQuery(b"SELECT 1"), b"\x03SELECT 1"),
    (ComRegisterSlave(4, "db", "repl", 3306), REGISTER),
    (ComBinlogDump("mysql-bin.000034", 1588, 10101, 2), DUMP),
    (ComBinlogDumpGtid(GtidSet.parse(f"{UUID}:1-5").encode(), 10101, flags=5), DUMP_GTID),
    (SemiSyncAck("mysql-bin.000034", 1588), ACK),
]


def test_the_dump_packet_of_the_documents() -> None:
    packet = encode_packets(ComBinlogDump("mysql-bin.000034", 1588, 10101, 2).encode())
    assert packet == b"\x1b\0\0\0" + DUMP
    assert packet[:15] == bytes.fromhex("1b000000123406000002 0075270000".replace(" ", ""))


@pytest.mark.parametrize(("command", "payload"), COMMANDS)
def test_encode_and_decode(command, payload) -> None:
    assert command.encode() == payload
    assert type(command).decode(payload) == command


@pytest.mark.parametrize(("command", "payload"), COMMANDS)
def test_truncated_at_every_byte(command, payload) -> None:
    for size in range(len(payload)):
        try:
            type(command).decode(payload[:size])
        except MalformedPacketError:
            continue


@pytest.mark.parametrize("kind", [type(command) for command, _ in COMMANDS])
def test_another_command_is_refused(kind) -> None:
    for payload in (b"", b"\x01", b"\x0e rest"):
        with pytest.raises(MalformedPacketError):
            kind.decode(payload)


def test_position_beyond_4_gib_is_refused_with_the_remedy() -> None:
    ComBinlogDump("b.000001", 0xFFFFFFFF, 1).encode()
    with pytest.raises(EncodeError, match=r"4294967296 in b\.000001 .*GTID set"):
        ComBinlogDump("b.000001", 0x1_0000_0000, 1).encode()


def test_gtid_dump_has_a_64_bit_position() -> None:
    payload = ComBinlogDumpGtid(b"", 1, "b.000001", 0x1_0000_0004).encode()
    assert ComBinlogDumpGtid.decode(payload).position == 0x1_0000_0004


def test_tagged_sets_travel_in_their_own_form() -> None:
    tagged = GtidSet.parse(f"{UUID}:1-5:shop:1-3")
    payload = ComBinlogDumpGtid(tagged.encode(), 1).encode()
    assert GtidSet.decode(ComBinlogDumpGtid.decode(payload).gtid_set) == tagged


def test_password_of_a_registration_is_not_shown() -> None:
    assert "hunter2" not in repr(ComRegisterSlave(1, password="hunter2"))
