"""Integers, FLOAT, DOUBLE and BIT.

Integers are little-endian, signed ones in two's complement, of 1, 2, 3, 4 or 8 bytes. FLOAT and
DOUBLE are IEEE 754, little-endian. BIT(n) is a big-endian number of ``(n + 7) // 8`` bytes.

Spec: MySQL "Data Type Storage Requirements"; ``Field_bit`` (field.cc).
"""

from __future__ import annotations

import struct

import cython

from replica_client.errors import EncodeError

if cython.compiled:
    from cython.cimports.libc.string import memcpy
else:
    from replica_client.protocol.codec.memory import put_ten_thousandths

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
# Below this limit, the fast search finds every float of up to 7 digits.
_EXACT_LIMIT = cython.declare(cython.double, 16777216.0)


@cython.cfunc
@cython.exceptval(check=False)
@cython.inline
def uint_le(
    data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.int
) -> cython.ulonglong:
    """Return an unsigned little-endian integer of 1 to 8 bytes."""
    value: cython.ulonglong = 0
    i: cython.Py_ssize_t
    for i in range(offset + size - 1, offset - 1, -1):
        value = value << 8 | data[i]
    return value


@cython.cfunc
@cython.exceptval(check=False)
@cython.inline
def _as_single(value: cython.double) -> cython.double:
    """Round a value to a 4-byte float."""
    if cython.compiled:
        return cython.cast(cython.double, cython.cast(cython.float, value))
    return _FLOAT.unpack(_FLOAT.pack(value))[0]


@cython.cfunc
def _shortest(single: cython.double) -> object:
    """Return the number with the fewest digits that rounds to ``single`` as a 4-byte float."""
    magnitude: cython.double = -single if single < 0 else single
    if 0.0001 <= magnitude < _EXACT_LIMIT:
        power: cython.double = 1.0
        scaled: cython.double
        near: cython.double
        whole: cython.longlong
        for _ in range(10):
            scaled = magnitude * power
            whole = cython.cast(cython.longlong, scaled + 0.5)
            if whole - scaled == 0.5 and whole & 1:
                whole -= 1
            near = whole / power
            if _as_single(near) == magnitude:
                return -near if single < 0 else near
            power *= 10.0
    if single - single != 0.0:
        return single
    i: cython.int
    # A float keeps at least six digits, except numbers too small for a full mantissa.
    for i in range(1 if magnitude < 1.2e-38 else 6, 9):
        near = float(f"{single:.{i}g}")
        if _as_single(near) == single:
            return near
    return float(f"{single:.9g}")


@cython.cfunc
def float_at(data: cython.p_const_uchar, offset: cython.Py_ssize_t) -> object:
    """Return the FLOAT of 4 bytes at ``offset``, as :func:`decode_float` does."""
    if cython.compiled:
        bits: cython.uint = cython.cast(cython.uint, uint_le(data, offset, 4))
        single: cython.float = 0
        memcpy(cython.address(single), cython.address(bits), 4)
        return _shortest(single)
    return _shortest(_FLOAT.unpack_from(data, offset)[0])


@cython.cfunc
def double_at(data: cython.p_const_uchar, offset: cython.Py_ssize_t) -> object:
    """Return the DOUBLE of 8 bytes at ``offset``."""
    if cython.compiled:
        bits: cython.ulonglong = uint_le(data, offset, 8)
        value: cython.double = 0
        memcpy(cython.address(value), cython.address(bits), 8)
        return value
    return _DOUBLE.unpack_from(data, offset)[0]


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_double(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the DOUBLE at ``offset`` in the form of ``repr()``; return where it ends.

    Up to 32 bytes are written; nothing for infinity or NaN.
    """
    value: cython.double = double_at(data, offset)
    magnitude: cython.double = -value if value < 0 else value
    number: cython.longlong
    if 0.0001 <= magnitude < 1e9:
        # If a decimal of at most 15 digits reads back as the double, it is the shortest one.
        number = cython.cast(cython.longlong, magnitude * 1e4 + 0.5)
        if cython.cast(cython.double, number) / 1e4 == magnitude:
            if value < 0:
                target[to] = 45
                to += 1
            return put_ten_thousandths(target, to, number)
    return _put_repr(target, to, value)


@cython.cfunc
@cython.exceptval(-1, check=False)
def put_float(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
) -> cython.Py_ssize_t:
    """Write the FLOAT at ``offset`` in the form of ``repr()``; return where it ends.

    The value is that of :func:`decode_float`; see :func:`put_double`.
    """
    value: cython.double
    if cython.compiled:
        bits: cython.uint = cython.cast(cython.uint, uint_le(data, offset, 4))
        single: cython.float = 0
        memcpy(cython.address(single), cython.address(bits), 4)
        value = single
    else:
        value = _FLOAT.unpack_from(data, offset)[0]
    magnitude: cython.double = -value if value < 0 else value
    number: cython.longlong
    if 0.0001 <= magnitude < 100.0:
        # Different decimals of up to six digits are different floats.
        number = cython.cast(cython.longlong, magnitude * 1e4 + 0.5)
        if number < 1_000_000 and _as_single(cython.cast(cython.double, number) / 1e4) == magnitude:
            if value < 0:
                target[to] = 45
                to += 1
            return put_ten_thousandths(target, to, number)
    return _put_repr(target, to, float_at(data, offset))


@cython.cfunc
@cython.exceptval(-1, check=False)
def _put_repr(target: cython.p_uchar, to: cython.Py_ssize_t, value: object) -> cython.Py_ssize_t:
    text: bytes = repr(value).encode()
    if text[-1] > 57:  # inf, nan
        return to
    raw: cython.p_const_uchar = text
    i: cython.Py_ssize_t
    for i in range(len(text)):
        target[to + i] = raw[i]
    return to + len(text)


def decode_integer(data: bytes, unsigned: bool = False) -> int:
    """Decode a TINYINT, SMALLINT, MEDIUMINT, INT or BIGINT, by the number of bytes."""
    if len(data) not in (1, 2, 3, 4, 8):
        raise ValueError(f"an integer has 1, 2, 3, 4 or 8 bytes, not {len(data)}")
    return int.from_bytes(data, "little", signed=not unsigned)


def decode_float(data: bytes) -> float:
    """Decode a FLOAT as the shortest decimal number that reads back as the 4-byte float.

    The result is 5.61, not 5.610000133514404; as a 4-byte float it has the same bytes.
    """
    if len(data) != 4:
        raise ValueError(f"{len(data)} bytes, FLOAT has 4")
    value: float = float_at(data, 0)
    return value


def decode_double(data: bytes) -> float:
    """Decode a DOUBLE."""
    if len(data) != 8:
        raise ValueError(f"{len(data)} bytes, DOUBLE has 8")
    value: float = double_at(data, 0)
    return value


def decode_bit(data: bytes) -> int:
    """Decode a BIT(n)."""
    if not 1 <= len(data) <= 8:
        raise ValueError(f"BIT has 1 to 8 bytes, not {len(data)}")
    return int.from_bytes(data, "big")


def encode_integer(value: int, size: int, unsigned: bool = False) -> bytes:
    """Encode an integer in ``size`` bytes."""
    try:
        return value.to_bytes(size, "little", signed=not unsigned)
    except OverflowError as error:
        raise EncodeError(f"an integer does not fit into {size} bytes") from error


def encode_float(value: float) -> bytes:
    """Encode a FLOAT in 4 bytes, rounded."""
    try:
        return _FLOAT.pack(value)
    except OverflowError as error:
        raise EncodeError("a number is too large for FLOAT") from error


def encode_double(value: float) -> bytes:
    """Encode a DOUBLE in 8 bytes."""
    return _DOUBLE.pack(value)


def encode_bit(value: int, bits: int) -> bytes:
    """Encode a BIT(bits)."""
    if not 1 <= bits <= 64 or value >> bits:
        raise EncodeError(f"BIT({bits}) cannot hold a value")
    return value.to_bytes((bits + 7) // 8, "big")
