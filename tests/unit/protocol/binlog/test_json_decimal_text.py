"""DECIMAL values inside JSON documents: the text writer gives what the general function gives."""

import random
from decimal import Decimal

import pytest

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_encoder import decimal_text
from replica_client.protocol.binlog.values.json_writer import JsonTextWriter

NEWDECIMAL = 246


def in_array(payload: bytes) -> bytes:
    """An array whose one element is an opaque value."""
    value = bytes((NEWDECIMAL, len(payload))) + payload
    body = b"\x01\x00" + (7 + len(value)).to_bytes(2, "little") + b"\x0f\x07\x00" + value
    return b"\x02" + body


def stated(payload: bytes) -> str:
    try:
        return f"[{decimal_text(payload)}]"
    except ColumnDecodeError as error:
        return str(error)


def written(payload: bytes) -> str:
    try:
        return JsonTextWriter().text(in_array(payload))
    except ColumnDecodeError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(20))
def test_any_payload(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        precision, scale = rng.randint(0, 82), rng.randint(0, 32)
        size = 4 * ((precision - scale) // 9 + scale // 9) if precision >= scale else 3
        size += ((precision - scale) % 9 + 1) // 2 + (scale % 9 + 1) // 2
        payload = bytes((precision, scale)) + rng.randbytes(
            max(size + rng.choice((0, 0, 0, 1, -1)), 0)
        )
        assert written(payload) == stated(payload)


@pytest.mark.parametrize(
    "text", ["0", "0.00", "-0.5", "1.0", "999999999.999999999", "-1" + "0" * 30]
)
def test_known_numbers(text: str) -> None:
    assert JsonDocument.of([Decimal(text)]).text == f"[{text}]"
