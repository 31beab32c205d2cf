"""Columns with random values, and row images made of them by the encoders."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replica_client.protocol.binlog.values import temporal_storage as storage
from replica_client.protocol.binlog.values.decimal import encode_decimal
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.numbers import (
    encode_bit,
    encode_double,
    encode_float,
    encode_integer,
)
from replica_client.protocol.binlog.values.strings import encode_binary, encode_string
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import (
    EnumValue,
    Geometry,
    SetValue,
    encode_enum,
    encode_geometry,
    encode_set,
    encode_vector,
)
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.schema.shape import ColumnShape, TableShape

UTF8MB4, LATIN1, BINARY = 255, 8, 63
LABELS = tuple(f"l{at}" for at in range(300))
_SIZES = {
    T.MYSQL_TYPE_TINY: 1,
    T.MYSQL_TYPE_SHORT: 2,
    T.MYSQL_TYPE_INT24: 3,
    T.MYSQL_TYPE_LONG: 4,
    T.MYSQL_TYPE_LONGLONG: 8,
}


@dataclass(frozen=True)
class Sample:
    """A column, random values for it, and their bytes."""

    column: ColumnShape
    value: Callable[[random.Random], Any]
    encode: Callable[[Any], bytes]


def _integer(code: T, unsigned: bool) -> Sample:
    size = _SIZES[code]
    low, high = (0, 2 ** (8 * size) - 1) if unsigned else (-(2 ** (8 * size - 1)), 0)
    if not unsigned:
        high = -low - 1
    return Sample(
        ColumnShape("", code, length=size, unsigned=unsigned),
        lambda rng: rng.choice((low, high, 0, rng.randint(low, high))),
        lambda value: encode_integer(value, size, unsigned),
    )


def _decimal(precision: int, scale: int) -> Sample:
    return Sample(
        ColumnShape("", T.MYSQL_TYPE_NEWDECIMAL, length=precision, scale=scale),
        lambda rng: Decimal(f"{rng.choice((1, -1)) * rng.randrange(10**precision)}E-{scale}"),
        lambda value: encode_decimal(value, precision, scale),
    )


def _temporal(
    code: T, digits: int, value: Callable[[random.Random, int], Any], encode: Any
) -> Sample:
    return Sample(
        ColumnShape("", code, fraction_digits=digits),
        lambda rng: value(rng, rng.randrange(10**digits) * 10 ** (6 - digits)),
        lambda value: encode(value, digits),
    )


def _string(
    code: T, length: int, collation: int | None, characters: str, metadata: int = 0
) -> Sample:
    prefix = metadata or (2 if length > 255 else 1)

    def value(rng: random.Random) -> str | bytes:
        text = "".join(rng.choice(characters) for _ in range(rng.randint(0, 9)))
        if collation in (BINARY, None):
            data = text.encode()[:length]
            is_binary = code == T.MYSQL_TYPE_STRING and collation == BINARY
            return data.ljust(length, b"\0") if is_binary else data
        return text.rstrip(" ") if code == T.MYSQL_TYPE_STRING else text

    def encode(value: str | bytes) -> bytes:
        if isinstance(value, bytes) and code == T.MYSQL_TYPE_STRING:
            value = encode_binary(value)
        return encode_string(value, prefix, collation)

    shape = ColumnShape("", code, length=length, collation_id=collation, metadata=metadata)
    return Sample(shape, value, encode)


SAMPLES: tuple[Sample, ...] = (
    *(_integer(code, unsigned) for code in _SIZES for unsigned in (False, True)),
    *(_decimal(*column) for column in ((12, 2), (18, 18), (19, 0), (65, 30), (1, 0))),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_FLOAT, metadata=4, length=4),
        lambda rng: rng.choice((5.61, -0.1, 1e-45, 0.0)),
        encode_float,
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_DOUBLE, metadata=8, length=8),
        lambda rng: rng.uniform(-1e300, 1e300),
        encode_double,
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_YEAR, length=1),
        lambda rng: rng.choice((0, 1901, 2155)),
        storage.encode_year,
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_DATE),
        lambda rng: Date(rng.randrange(10000), rng.randrange(13), rng.randrange(32)),
        storage.encode_date,
    ),
    *(
        _temporal(
            T.MYSQL_TYPE_TIME2,
            digits,
            lambda rng, us, digits=digits: Time(  # type: ignore[misc]
                rng.random() < 0.5, rng.randrange(839), rng.randrange(60), 1, us, digits
            ),
            storage.encode_time2,
        )
        for digits in range(7)
    ),
    *(
        _temporal(
            T.MYSQL_TYPE_DATETIME2,
            digits,
            lambda rng, us, digits=digits: DateTime(  # type: ignore[misc]
                rng.randrange(10000), rng.randrange(13), rng.randrange(32), 23, 59, 1, us, digits
            ),
            storage.encode_datetime2,
        )
        for digits in range(7)
    ),
    *(
        _temporal(
            T.MYSQL_TYPE_TIMESTAMP2,
            digits,
            lambda rng, us, digits=digits: Timestamp(  # type: ignore[misc]
                rng.randrange(1, 2**32), us, digits
            ),
            storage.encode_timestamp2,
        )
        for digits in range(7)
    ),
    *(
        Sample(
            ColumnShape("", T.MYSQL_TYPE_BIT, length=bits),
            lambda rng, bits=bits: rng.getrandbits(bits),  # type: ignore[misc]
            lambda value, bits=bits: encode_bit(value, bits),  # type: ignore[misc]
        )
        for bits in (1, 8, 9, 33, 64)
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_ENUM, length=2, labels=LABELS),
        lambda rng: EnumValue(at := rng.randint(1, 300), LABELS[at - 1]),
        lambda value: encode_enum(value, 2),
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_ENUM, length=1),
        lambda rng: EnumValue(rng.randrange(256)),
        lambda value: encode_enum(value, 1),
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_SET, length=8, labels=LABELS[:64]),
        lambda rng: SetValue(bit := 1 << rng.randrange(64), (LABELS[bit.bit_length() - 1],)),
        lambda value: encode_set(value, 8),
    ),
    _string(T.MYSQL_TYPE_VARCHAR, 80, UTF8MB4, "aé漢😀 "),
    _string(T.MYSQL_TYPE_VARCHAR, 400, UTF8MB4, "aé漢😀 "),
    _string(T.MYSQL_TYPE_VARCHAR, 80, LATIN1, "aé€ "),
    _string(T.MYSQL_TYPE_VARCHAR, 80, BINARY, "a\0 "),
    _string(T.MYSQL_TYPE_VARCHAR, 80, None, "a\0 "),
    _string(T.MYSQL_TYPE_STRING, 80, UTF8MB4, "aé😀 "),
    _string(T.MYSQL_TYPE_STRING, 80, LATIN1, "aé "),
    _string(T.MYSQL_TYPE_STRING, 1020, UTF8MB4, "aé😀 "),
    _string(T.MYSQL_TYPE_STRING, 9, BINARY, "a\0 "),
    _string(T.MYSQL_TYPE_STRING, 9, None, "a b"),
    *(_string(T.MYSQL_TYPE_BLOB, 0, UTF8MB4, "aé ", metadata=size) for size in (1, 2, 3, 4)),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_BLOB, metadata=2, collation_id=BINARY),
        lambda rng: rng.randbytes(rng.randint(0, 20)),
        lambda value: encode_string(value, 2),
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_GEOMETRY, metadata=4),
        lambda rng: Geometry(rng.getrandbits(32), rng.randbytes(21)),
        lambda value: encode_string(encode_geometry(value), 4),
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_VECTOR, metadata=4),
        lambda rng: (1.0, rng.choice((5.61, -0.5))),
        lambda value: encode_string(encode_vector(value), 4),
    ),
    Sample(
        ColumnShape("", T.MYSQL_TYPE_JSON, metadata=4),
        lambda rng: JsonDocument.of({"a": rng.randint(-9, 9), "b": [None, "é"]}),
        lambda value: encode_string(value.data, 4),
    ),
    Sample(ColumnShape("", T.MYSQL_TYPE_NULL), lambda rng: None, lambda value: b""),
)


def bitmap(flags: Sequence[bool]) -> bytes:
    """Bits, the lowest of the first byte first."""
    data = bytearray((len(flags) + 7) // 8)
    for at, flag in enumerate(flags):
        data[at >> 3] |= flag << (at & 7)
    return bytes(data)


def shape_of(samples: Sequence[Sample]) -> TableShape:
    """A table with a column for each sample: c1, c2 …"""
    from dataclasses import replace

    columns = [replace(sample.column, name=f"c{at}") for at, sample in enumerate(samples, 1)]
    return TableShape("shop", "things", tuple(columns))


def encode_image(samples: Sequence[Sample], present: Sequence[bool], row: Sequence[Any]) -> bytes:
    """One row image."""
    chosen = [(s, v) for s, p, v in zip(samples, present, row, strict=True) if p]
    out = bitmap([value is None for _, value in chosen])
    return out + b"".join(s.encode(value) for s, value in chosen if value is not None)
