"""Rows of text result sets as columns."""

import random

import pyarrow as pa
import pytest

from replica_client.errors import MalformedPacketError
from replica_client.rows.arrow_types import allocate
from replica_client.rows.text_columns import TextColumns


def lenenc(size):
    if size < 0xFB:
        return bytes([size])
    width, head = (2, 0xFC) if size < 1 << 16 else (3, 0xFD) if size < 1 << 24 else (8, 0xFE)
    return bytes([head]) + size.to_bytes(width, "little")


def payload(row):
    return b"".join(b"\xfb" if one is None else lenenc(len(one)) + one for one in row)


def columns_of(taken):
    found = []
    for column in taken.columns:
        buffers, nulls = column.buffers()
        array = pa.Array.from_buffers(pa.binary(), taken.count, buffers, nulls)
        array.validate(full=True)
        assert array.null_count == nulls
        found.append(array.to_pylist())
    return found


def test_random_rows_in_pieces():
    rng = random.Random(5)
    sizes = (0, 1, 7, 250, 251, 252, 300, 65535, 65536)
    rows = [
        tuple(
            None if rng.random() < 0.2 else rng.randbytes(rng.choice(sizes[: 7 if n % 9 else 9]))
            for _ in range(5)
        )
        for n in range(200)
    ]
    payloads, at, found = [payload(row) for row in rows], 0, []
    while at < len(payloads):
        taken = TextColumns(5, rng.randrange(1, 30), 1 << 17, allocate)
        before, at = at, taken.add(payloads, at)
        assert at - before == taken.count > 0
        assert taken.is_full or at == len(payloads)
        found += zip(*columns_of(taken), strict=True)
    assert found == rows


def test_a_value_of_more_than_16_mib():
    row = (b"a", b"x" * (1 << 24), None)
    taken = TextColumns(3, 4, 1, allocate)
    assert taken.add([payload(row)] * 2, 0) == 1, "it is full behind the first"
    assert columns_of(taken) == [[one] for one in row]


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x01a",
        b"\x01a\x02b",
        b"\x01a\x01bc",
        b"\x01a\xff",
        b"\x01a\xfc\x01",
        b"\x01a\xfd\x01\x00",
        b"\x01a\xfe" + b"\xff" * 8,
        b"\x01a\xfe" + (1 << 62).to_bytes(8, "little") + b"x",
        b"\xfe\x00\x00\x02\x00",  # an EOF packet where a row should be
    ],
)
def test_what_is_no_row(broken):
    with pytest.raises(MalformedPacketError):
        TextColumns(2, 8, 1 << 20, allocate).add([broken], 0)


def test_every_cut_of_a_row_is_refused():
    whole = payload((b"abc", None, b"y" * 300))
    for end in range(len(whole)):
        with pytest.raises(MalformedPacketError):
            TextColumns(3, 8, 1 << 20, allocate).add([whole[:end]], 0)
