"""The Python form of what the compiled modules inline."""

import random
import zlib
from array import array

from replica_client.codec.memory import sound_until


def test_the_first_event_with_a_wrong_checksum() -> None:
    rng = random.Random(1)
    data = bytearray()
    marks = array("q")
    for size in range(300):
        body = rng.randbytes(size)
        marks += array("q", (len(data), len(data) + size + 4))
        data += body + zlib.crc32(body).to_bytes(4, "little")
    assert sound_until(data, marks, 0, 300) == 300
    assert sound_until(data, marks, 7, 7) == 7
    for size in range(300):
        at = rng.randrange(marks[2 * size], marks[2 * size + 1])
        bit = 1 << rng.randrange(8)
        data[at] ^= bit
        assert sound_until(data, marks, 0, 300) == size
        assert sound_until(data, marks, size, 300) == size
        assert sound_until(data, marks, size + 1, 300) == 300
        data[at] ^= bit


def test_an_event_that_is_too_short() -> None:
    assert sound_until(bytes(8), array("q", (0, 3)), 0, 1) == 0
