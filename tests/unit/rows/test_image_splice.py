"""Row images without some columns and with new values in others: the bytes are those of the values."""

from __future__ import annotations

import random

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.image_splice import DROP, KEEP, ImageSplicer
from tests.unit.rows.images import SAMPLES, bitmap, encode_image, shape_of


@pytest.mark.parametrize("seed", range(12))
def test_spliced_images_are_those_of_their_values(seed: int) -> None:
    rng = random.Random(seed)
    samples = rng.sample(list(SAMPLES), rng.choice((1, 7, 8, 9, 16, 17)))
    count = len(samples)
    replaced = [at for at in range(count) if rng.random() < 0.3]
    sources = [KEEP if rng.random() < 0.6 else DROP for _ in samples]
    for number, at in enumerate(replaced):
        sources[at] = number
    kept = [at for at in range(count) if sources[at] != DROP]
    new = [None if rng.random() < 0.3 else samples[at].value(rng) for at in replaced]
    written = [
        None if value is None else samples[at].encode(value)
        for at, value in zip(replaced, new, strict=True)
    ]
    splicer = ImageSplicer(RowImageDecoder(shape_of(samples)), sources)
    kept_samples = [samples[at] for at in kept]
    for all_there in (True, False):
        flags = [[all_there or rng.random() < 0.7 for _ in samples] for _ in range(2)]
        bits = [bitmap(one) for one in flags]
        kept_flags = [[one[at] for at in kept] for one in flags]
        assert [splicer.bitmap(one) for one in bits] == [bitmap(one) for one in kept_flags]
        assert splicer.nulls(bits[0]) == b"\xff" * ((sum(kept_flags[0]) + 7) // 8)
        data = expected = b""
        for row in range(20):
            values = [None if rng.random() < 0.2 else one.value(rng) for one in samples]
            data += encode_image(samples, flags[row % 2], values)
            for at, value in zip(replaced, new, strict=True):
                values[at] = value
            expected += encode_image(kept_samples, kept_flags[row % 2], [values[at] for at in kept])
        assert splicer.images(data, bits[0], bits[1], written) == expected
        first = encode_image(samples, flags[0], [None] * count)
        assert splicer.image(first, 0, bits[0], written, bytearray()) == len(first)
        out = bytearray(b"before")
        assert splicer.image(first + data, 0, bits[0], written, out) == len(first)
        assert out.startswith(b"before")
        for end in range(1, len(first)):
            with pytest.raises(ColumnDecodeError, match="cut off"):
                splicer.image(first[:end], 0, bits[0], written, bytearray())
    with pytest.raises(ColumnDecodeError, match=f"bytes for {count} columns"):
        splicer.bitmap(bits[0] + b"\0")
