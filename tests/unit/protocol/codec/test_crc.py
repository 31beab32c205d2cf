"""The Python form of what the compiled modules inline."""

import random
import zlib
from array import array

import pytest

from replica_client.protocol.codec.crc import cut_valid, valid_until


def test_the_first_event_with_a_wrong_checksum() -> None:
    rng = random.Random(1)
    data = bytearray()
    marks = array("q")
    for size in range(300):
        body = rng.randbytes(size)
        marks += array("q", (len(data), len(data) + size + 4))
        data += body + zlib.crc32(body).to_bytes(4, "little")
    assert valid_until(data, marks, 0, 300) == 300
    assert valid_until(data, marks, 7, 7) == 7
    for size in range(300):
        at = rng.randrange(marks[2 * size], marks[2 * size + 1])
        bit = 1 << rng.randrange(8)
        data[at] ^= bit
        assert valid_until(data, marks, 0, 300) == size
        assert valid_until(data, marks, size, 300) == size
        assert valid_until(data, marks, size + 1, 300) == 300
        data[at] ^= bit


def test_an_event_that_is_too_short() -> None:
    assert valid_until(bytes(8), array("q", (0, 3)), 0, 1) == 0


@pytest.mark.parametrize("wrong", [*range(9), 20])
def test_short_events_are_marked_up_to_one_that_is_not_sound(wrong: int) -> None:
    rng = random.Random(wrong)
    events = []
    for size in (19, 23, 24, 40, 512, 513, 30, 30):
        head = rng.randbytes(4) + b"\x02" + rng.randbytes(4) + size.to_bytes(4, "little")
        body = (head + rng.randbytes(size))[: size - 4]
        events.append(bytearray(body + zlib.crc32(body).to_bytes(4, "little")))
    if wrong < len(events):
        events[wrong][rng.choice((0, 5, 14, 18))] ^= 1 << rng.randrange(8)
    data = b"".join(events)
    marks = array("q", bytes(16 * 10))
    last = cut_valid(data, 3, len(data) + 3, marks, 1, 10, 1000, bytes(256))
    assert last == 1  # there is no event
    last = cut_valid(data, 0, len(data), marks, 1, 10, 1000, bytes(256))
    assert last == 1 + min(wrong, 5)
    ends = [sum(map(len, events[:at])) for at in range(6)]
    assert list(marks[2 : 2 * last]) == [ends[(at + 1) // 2] for at in range(2 * (last - 1))]
    assert cut_valid(data, 0, len(data), marks, 1, 3, 1000, bytes(256)) == min(last, 3)
    assert cut_valid(data, 0, len(data), marks, 1, 10, 23, bytes(256)) == min(last, 3)
    assert cut_valid(data, 0, len(data), marks, 1, 10, 1000, bytes((0, 0, 1)) + bytes(253)) == 1
