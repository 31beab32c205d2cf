"""Compressed frames."""

import pytest
from hypothesis import given, settings, strategies as st

from replica_client.errors import MalformedPacketError, PacketSequenceError, ProtocolError
from replica_client.protocol.wire.dump_commands import DumpSession
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import (
    MAX_FRAME_SIZE,
    Compression,
    FrameDecoder,
    encode_frames,
)

BOTH = pytest.mark.parametrize("algorithm", list(Compression))


@BOTH
@given(pieces=st.lists(st.binary(max_size=300), max_size=6), size=st.integers(1, 90))
@settings(max_examples=100, deadline=None)
def test_any_split_gives_the_same_bytes(algorithm, pieces, size) -> None:
    stream, number = b"", 0
    for piece in pieces:
        frames, number = encode_frames(piece, algorithm, number)
        stream += frames
    decoder = FrameDecoder(algorithm, 0)
    found = b"".join(decoder.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    assert found == b"".join(pieces)
    assert not decoder.mid_frame


@BOTH
def test_short_payloads_are_not_compressed(algorithm) -> None:
    frames, number = encode_frames(b"\x01\0\0\0\x0e", algorithm)
    assert frames == b"\x05\0\0\0\0\0\0\x01\0\0\0\x0e"
    assert number == 1


@BOTH
def test_more_than_one_frame(algorithm) -> None:
    data = bytes(MAX_FRAME_SIZE + 100)
    frames, number = encode_frames(data, algorithm, 255)
    assert number == 1
    assert len(frames) < 100_000
    assert FrameDecoder(algorithm, 255).feed(frames) == data


@BOTH
def test_bombs_and_lies_about_the_size(algorithm) -> None:
    frames, _ = encode_frames(bytes(1_000_000), algorithm)
    for size in (100, 999_999, 1_000_001):
        lying = frames[:4] + size.to_bytes(3, "little") + frames[7:]
        with pytest.raises(MalformedPacketError, match="announced"):
            FrameDecoder(algorithm).feed(lying)


@BOTH
def test_other_sequence_numbers(algorithm) -> None:
    frames, _ = encode_frames(b"x" * 100, algorithm, 7)
    with pytest.raises(PacketSequenceError):
        FrameDecoder(algorithm, 3).feed(frames)


@BOTH
@given(data=st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_raise_only_protocol_errors(algorithm, data) -> None:
    frame = len(data).to_bytes(3, "little") + b"\0" + (5000).to_bytes(3, "little") + data
    for stream in (data, frame):
        try:
            FrameDecoder(algorithm).feed(stream)
        except ProtocolError:
            continue


@BOTH
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_compressed_dump(algorithm, size) -> None:
    events = [bytes([n]) * (20 + 90 * n) for n in range(1, 8)]
    # As servers number them: frames run on, packets inside begin with any number.
    packets = [encode_packets(b"\0" + event, 9 * n) for n, event in enumerate(events)]
    stream, number = encode_frames(b"".join(packets[:4])[:-3], algorithm, 1)
    more, number = encode_frames(
        b"".join(packets[:4])[-3:] + b"".join(packets[4:]), algorithm, number
    )
    stream += more + encode_frames(encode_packets(b"\xfe\0\0\2\0", 3), algorithm, number)[0]
    session = DumpSession(compression=algorithm)
    found = []
    for at in range(0, len(stream), size):
        found += session.receive_data(stream[at : at + size])
    assert found == events
    assert session.ended
    assert session.error is None
