"""Packets out of byte streams."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import (
    MalformedPacketError,
    PacketSequenceError,
    PacketTooLargeError,
    ProtocolError,
)
from replica_client.protocol.wire.framing import (
    MAX_PIECE_SIZE,
    PacketFramer,
    encode_packets,
    event_packets,
    packet_count,
)


def stream_of(payloads: list[bytes], sequence: int = 0) -> bytes:
    out = b""
    for payload in payloads:
        out += encode_packets(payload, sequence)
        sequence = (sequence + packet_count(len(payload))) & 0xFF
    return out


@given(st.lists(st.binary(max_size=40), max_size=20), st.data())
@settings(max_examples=200, deadline=None)
def test_any_split_gives_the_same_payloads(payloads, data) -> None:
    stream = stream_of(payloads)
    framer = PacketFramer()
    found = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, 50))
        found += framer.feed(stream[at : at + size])
        at += size
    assert found == payloads
    assert not framer.mid_packet


def test_only_size_bytes_of_the_buffer_count() -> None:
    buffer = bytearray(64)
    packet = encode_packets(b"abc")
    buffer[: len(packet)] = packet
    buffer[len(packet) :] = b"\xff" * (64 - len(packet))
    assert PacketFramer().feed(memoryview(buffer), len(packet)) == [b"abc"]


def test_sequence_numbers_wrap() -> None:
    payloads = [b"x"] * 600
    assert PacketFramer().feed(stream_of(payloads)) == payloads


def test_payload_of_exactly_one_full_piece_has_an_empty_second_one() -> None:
    payload = bytes(MAX_PIECE_SIZE)
    stream = encode_packets(payload)
    assert stream[-4:] == b"\x00\x00\x00\x01"
    assert PacketFramer().feed(stream + encode_packets(b"next", 2)) == [payload, b"next"]


def test_pieces_are_joined_over_many_buffers() -> None:
    payload = random.Random(1).randbytes(2 * MAX_PIECE_SIZE + 5)
    stream = encode_packets(payload, 250) + encode_packets(b"next", 253)
    framer = PacketFramer(sequence=250)
    found = []
    for at in range(0, len(stream), 1 << 18):
        found += framer.feed(stream[at : at + (1 << 18)])
    assert found == [payload, b"next"]


def test_limit_names_the_option_and_comes_before_the_bytes() -> None:
    framer = PacketFramer(1000)
    with pytest.raises(PacketTooLargeError, match="max_packet_size"):
        framer.feed(b"\xe9\x03\x00\x00")
    framer = PacketFramer(MAX_PIECE_SIZE + 10)
    with pytest.raises(PacketTooLargeError, match="max_packet_size"):
        framer.feed(encode_packets(bytes(MAX_PIECE_SIZE + 11)))


def test_wrong_sequence_number() -> None:
    with pytest.raises(PacketSequenceError, match="5, expected 0"):
        PacketFramer().feed(encode_packets(b"x", 5))


def test_nothing_before_a_fault_is_lost_and_the_fault_stays() -> None:
    framer = PacketFramer()
    assert framer.feed(encode_packets(b"good") + encode_packets(b"bad", 9)) == [b"good"]
    assert isinstance(framer.fault, PacketSequenceError)
    for _ in range(2):
        with pytest.raises(PacketSequenceError):
            framer.feed(b"")


def test_an_error_packet_numbered_zero_is_taken_at_any_time() -> None:
    stream = encode_packets(b"\0event", 1) + encode_packets(b"\xff\x1d\x04gone", 0)
    for size in (1, 2, 1000):
        framer = PacketFramer(sequence=1, events=True)
        events = []
        for at in range(0, len(stream), size):
            events += framer.feed(stream[at : at + size])
        assert events == [b"event"]
        assert framer.last == b"\xff\x1d\x04gone"


def test_event_mode_strips_the_status_byte_and_stops_at_the_end() -> None:
    framer = PacketFramer(sequence=1, events=True)
    stream = stream_of([b"\0one", b"\0two", b"\xfe\0\0\2\0", b"\0never"], 1)
    assert framer.feed(stream) == [b"one", b"two"]
    assert framer.last == b"\xfe\0\0\2\0"
    assert framer.feed(b"more") == []


def test_empty_packet_in_event_mode() -> None:
    with pytest.raises(MalformedPacketError):
        PacketFramer(events=True).feed(encode_packets(b""))


def test_semi_sync_header_is_found_in_the_first_event() -> None:
    framer = PacketFramer(sequence=1, events=True, semi_sync=True)
    stream = (
        encode_packets(b"\0\xef\0rotate", 1)
        + encode_packets(b"\0\xef\1commit", 2)
        + encode_packets(b"\0\xef\0next", 1)  # numbering restarts where a reply belongs
    )
    assert framer.feed(stream) == [b"rotate", b"commit", b"next"]
    assert framer.ack_wanted == 1
    assert framer.semi_sync


def test_semi_sync_that_the_source_does_not_do() -> None:
    framer = PacketFramer(sequence=1, events=True, semi_sync=True)
    assert framer.feed(stream_of([b"\0\0\0\0\0rotate", b"\0\xef\1\0\0x"], 1)) == [
        b"\0\0\0\0rotate",
        b"\xef\1\0\0x",
    ]
    assert not framer.semi_sync


def test_semi_sync_header_that_stops() -> None:
    framer = PacketFramer(sequence=1, events=True, semi_sync=True)
    framer.feed(encode_packets(b"\0\xef\0rotate", 1))
    with pytest.raises(MalformedPacketError, match="semi-synchronous"):
        framer.feed(encode_packets(b"\0abc", 2))


@given(st.lists(st.binary(max_size=300), max_size=8), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_random_bytes_raise_only_protocol_errors(chunks, events, semi_sync) -> None:
    framer = PacketFramer(1 << 20, events=events, semi_sync=semi_sync)
    for chunk in chunks:
        try:
            framer.feed(chunk)
        except ProtocolError:
            break


def _events(*sizes: int) -> bytes:
    out = b""
    for number, size in enumerate(sizes):
        out += bytes(9) + size.to_bytes(4, "little") + bytes([number % 251]) * (size - 13)
    return out


@pytest.mark.parametrize("sequence", [0, 1, 254, 255])
@pytest.mark.parametrize(
    "sizes", [(), (19,), (19, 20, 5000), (19,) * 300, tuple(range(19, 400, 7))]
)
def test_events_as_packets(sizes, sequence) -> None:
    data = _events(*sizes)
    expected, number, at = b"", sequence, 0
    for size in sizes:
        expected += encode_packets(b"\0" + data[at : at + size], number)
        number, at = (number + 1) & 0xFF, at + size
    assert event_packets(data, sequence) == (expected, at, number)
    for cut in {1, 12, 18, 19, max(len(data) - 1, 0), len(data) // 2}:
        packets, used, _ = event_packets(data[:cut], sequence)
        assert expected.startswith(packets)
        assert used <= cut


@pytest.mark.parametrize("size", [0, 18, MAX_PIECE_SIZE - 1, MAX_PIECE_SIZE, 0xFFFFFFFF])
def test_an_event_that_is_no_single_packet_ends_them(size) -> None:
    first = _events(30)
    bad = bytes(9) + size.to_bytes(4, "little") + bytes(40)
    packets, used, number = event_packets(first + bad, 7)
    assert (packets, used, number) == (encode_packets(b"\0" + first, 7), 30, 8)


def test_a_packet_may_be_as_large_as_the_limit() -> None:
    assert PacketFramer(max_packet_size=100).feed(encode_packets(bytes(100))) == [bytes(100)]
    with pytest.raises(PacketTooLargeError, match="at least 101 bytes"):
        PacketFramer(max_packet_size=100).feed(encode_packets(bytes(101)))
