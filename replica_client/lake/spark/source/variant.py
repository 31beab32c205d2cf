"""JSON text to Spark's VARIANT.

=======  ==================================================================================
part     layout
=======  ==================================================================================
metadata header (version 1, size of offsets), number of keys, offsets, keys in UTF-8
value    header; the two low bits tell primitive (0), short string (1), object (2), array (3)
=======  ==================================================================================

Numbers are what ``parse_json`` makes of them: the smallest integer that holds them, decimals of up
to 38 digits, else double. Spec: Apache Parquet "Variant Binary Encoding".
"""

from __future__ import annotations

import json
from decimal import Decimal
from struct import pack
from typing import Any

import pyarrow as pa

from replica_client.errors import ColumnDecodeError

_VERSION = 1
_NULL, _TRUE, _FALSE = b"\x00", b"\x04", b"\x08"
_DOUBLE, _STRING = 7 << 2, 16 << 2
_SHORT_STRING = 63
_MAX_DIGITS = 38
_MAX_DEPTH_TEXT = "a JSON document with too many nested levels for VARIANT"


class _Number(str):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ()


def variant_array(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """JSON texts as variants; nulls stay.

    Raises:
        ColumnDecodeError: a document is nested too deeply.
    """
    values: list[bytes] = []
    metadata: list[bytes] = []
    for text in texts.to_pylist():
        value, keys = (b"", b"") if text is None else encode_variant(text)
        values.append(value)
        metadata.append(keys)
    parts = {"value": pa.array(values, pa.binary()), "metadata": pa.array(metadata, pa.binary())}
    mask = texts.is_null() if texts.null_count else None
    return pa.StructArray.from_arrays(
        [parts[field.name] for field in kind], fields=list(kind), mask=mask
    )


def encode_variant(text: str) -> tuple[bytes, bytes]:
    """Value and metadata of a JSON text.

    Raises:
        ColumnDecodeError: it is nested too deeply.
    """
    keys: dict[str, int] = {}
    try:
        value = _value(json.loads(text, parse_float=_Number), keys)
    except RecursionError:
        raise ColumnDecodeError(_MAX_DEPTH_TEXT) from None
    return value, _metadata(keys)


def _size_of(number: int) -> int:
    return (number.bit_length() + 7) // 8 or 1


def _offsets(lengths: list[int], size: int) -> bytes:
    at, found = 0, [b"\0" * size]
    for length in lengths:
        at += length
        found.append(at.to_bytes(size, "little"))
    return b"".join(found)


def _metadata(keys: dict[str, int]) -> bytes:
    names = [key.encode() for key in keys]
    text = b"".join(names)
    size = max(_size_of(len(text)), _size_of(len(names)))
    header = _VERSION | (size - 1) << 6
    count = len(names).to_bytes(size, "little")
    return bytes((header,)) + count + _offsets([len(name) for name in names], size) + text


def _value(value: Any, keys: dict[str, int]) -> bytes:
    kind = type(value)
    if kind is str:
        data: bytes = value.encode()
        if len(data) <= _SHORT_STRING:
            return bytes((len(data) << 2 | 1,)) + data
        return pack("<BI", _STRING, len(data)) + data
    if kind is dict:
        return _object(value, keys)
    if kind is list:
        return _array(value, keys)
    if value is None:
        return _NULL
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    number: bytes = _integer(value) if kind is int else _number(value)
    return number


def _integer(value: int) -> bytes:
    if -128 <= value < 128:
        return pack("<Bb", 3 << 2, value)
    if -(1 << 15) <= value < 1 << 15:
        return pack("<Bh", 4 << 2, value)
    if -(1 << 31) <= value < 1 << 31:
        return pack("<Bi", 5 << 2, value)
    if -(1 << 63) <= value < 1 << 63:
        return pack("<Bq", 6 << 2, value)
    if abs(value) < 10**_MAX_DIGITS:
        return _decimal(value, 0)
    return pack("<Bd", _DOUBLE, float(value))


def _number(text: str) -> bytes:
    if "e" not in text and "E" not in text:
        _, digits, exponent = Decimal(text).as_tuple()
        scale = -int(exponent)
        if max(len(digits), scale) <= _MAX_DIGITS:
            unscaled = int("".join(map(str, digits)))
            return _decimal(-unscaled if text.startswith("-") else unscaled, scale)
    return pack("<Bd", _DOUBLE, float(text))


def _decimal(unscaled: int, scale: int) -> bytes:
    digits = max(len(str(abs(unscaled))), scale)
    kind, size = (8, 4) if digits <= 9 else (9, 8) if digits <= 18 else (10, 16)
    return bytes((kind << 2, scale)) + unscaled.to_bytes(size, "little", signed=True)


def _object(members: dict[str, Any], keys: dict[str, int]) -> bytes:
    # Fields are found by name, values stand in the order of the text.
    fields = []
    values = []
    size = 0
    for name, member in members.items():
        number = keys.setdefault(name, len(keys))
        value = _value(member, keys)
        fields.append((name.encode(), number, size))
        values.append(value)
        size += len(value)
    fields.sort()
    id_size = _size_of(max((number for _, number, _ in fields), default=0))
    offset_size = _size_of(size)
    large = len(fields) > 255
    header = large << 4 | (id_size - 1) << 2 | (offset_size - 1)
    return b"".join(
        (
            bytes((header << 2 | 2,)),
            len(fields).to_bytes(4 if large else 1, "little"),
            *(number.to_bytes(id_size, "little") for _, number, _ in fields),
            *(at.to_bytes(offset_size, "little") for _, _, at in fields),
            size.to_bytes(offset_size, "little"),
            *values,
        )
    )


def _array(items: list[Any], keys: dict[str, int]) -> bytes:
    values = [_value(item, keys) for item in items]
    offset_size = _size_of(sum(map(len, values)))
    large = len(values) > 255
    header = large << 2 | (offset_size - 1)
    return b"".join(
        (
            bytes((header << 2 | 3,)),
            len(values).to_bytes(4 if large else 1, "little"),
            _offsets([len(value) for value in values], offset_size),
            *values,
        )
    )
