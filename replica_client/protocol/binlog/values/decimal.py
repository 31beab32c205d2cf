"""DECIMAL as MySQL 5.0 and later write it, and the text form of older tables.

A DECIMAL(p, s) has its p - s digits before the point and its s digits after it in groups of nine,
counted from the point. A whole group is a 4-byte big-endian number; the odd digits at either end
take 1, 1, 2, 2, 3, 3, 4, 4 bytes for 1 to 8 digits. A negative number has all bits inverted; then
the top bit of the first byte is flipped, so that byte strings sort as the numbers do.

Spec: MySQL ``decimal2bin`` (decimal.cc).
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import cython

from replica_client.errors import EncodeError

if not cython.compiled:
    from replica_client.protocol.codec.memory import load_be, power_of_ten, put_digits

_GROUP_DIGITS = 9
_GROUP_SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
MAX_PRECISION = 65
MAX_SCALE = 38
"""MariaDB has up to 38 digits after the point, MySQL 30."""
# This many digits fit into 64 bits.
_SMALL_DIGITS = cython.declare(cython.int, 18)
_MAX_GROUPS = 10
_MAX_SCALE = cython.declare(cython.int, MAX_SCALE)
# By precision and scale: the number of groups, and the digits of each; zero until computed.
_PLAN_SIZE = cython.declare(cython.int, 16)
_PLANS_MEMORY = bytearray(_PLAN_SIZE * (MAX_PRECISION + 1) * (MAX_SCALE + 1))
# Literals would be Python integers in compiled code.
_LOW_32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_LOW_64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

if cython.compiled:
    _PLANS = cython.declare(cython.p_uchar)
    _PLANS = _PLANS_MEMORY
else:
    _PLANS = _PLANS_MEMORY


def decimal_exists(precision: int, scale: int) -> bool:
    """Return whether DECIMAL(precision, scale) is a valid type."""
    return 0 < precision <= MAX_PRECISION and 0 <= scale <= min(precision, MAX_SCALE)


def decimal_size(precision: int, scale: int) -> int:
    """Return the number of bytes of a DECIMAL(precision, scale).

    Raises:
        ValueError: no such DECIMAL exists.
    """
    if not decimal_exists(precision, scale):
        raise ValueError(f"DECIMAL({precision},{scale}) does not exist")
    whole_groups, whole_odd = divmod(precision - scale, _GROUP_DIGITS)
    groups, odd = divmod(scale, _GROUP_DIGITS)
    return 4 * (whole_groups + groups) + _GROUP_SIZES[whole_odd] + _GROUP_SIZES[odd]


@cython.cfunc
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def _plan(precision: cython.int, scale: cython.int) -> cython.int:
    """Compute the number of digits of each group of a DECIMAL(precision, scale)."""
    at: cython.int = _PLAN_SIZE * (precision * (_MAX_SCALE + 1) + scale)
    last: cython.int = at
    digits: cython.int = precision - scale
    if digits % 9:
        last += 1
        _PLANS[last] = digits % 9
    _i: cython.int
    for _i in range(digits // 9 + scale // 9):
        last += 1
        _PLANS[last] = 9
    if scale % 9:
        last += 1
        _PLANS[last] = scale % 9
    _PLANS[at] = last - at
    return 0


def _plan_all() -> None:
    """Compute all plans; several threads read them without a lock."""
    precision: cython.int
    scale: cython.int
    for precision in range(1, MAX_PRECISION + 1):
        for scale in range(min(precision, MAX_SCALE) + 1):
            _plan(precision, scale)


if cython.compiled:
    _plan_all()


@cython.cfunc
@cython.nogil
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def _split(
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
    precision: cython.int,
    scale: cython.int,
    groups: cython.p_uint,
    units: cython.p_uint,
) -> cython.int:
    """Split a number into groups and their powers of ten; return the number of groups."""
    at: cython.int = _PLAN_SIZE * (precision * (_MAX_SCALE + 1) + scale)
    if not cython.compiled and not _PLANS[at]:
        _plan(precision, scale)
    count: cython.int = _PLANS[at]
    # All bits of a negative number are inverted, then its top bit is flipped. The bits of a
    # group never reach the top bit.
    inverted: cython.uint = 0
    if data[offset] < 0x80:
        inverted = cython.cast(cython.uint, _LOW_32)
    flipped: cython.uint = 0x80
    digits: cython.int
    size: cython.int
    value: cython.uint
    unit: cython.uint
    i: cython.int
    for i in range(count):
        digits = _PLANS[at + 1 + i]
        size = (digits + 1) >> 1 if digits < 9 else 4
        value = cython.cast(cython.uint, load_be(data, offset, size))
        value ^= inverted >> (32 - 8 * size)
        value ^= flipped << (8 * (size - 1))
        flipped = 0
        offset += size
        unit = power_of_ten(digits)
        if value >= unit:
            with cython.gil:
                raise ValueError(f"DECIMAL({precision},{scale}) has a group beyond {digits} digits")
        groups[i] = value
        units[i] = unit
    return count


@cython.cfunc
@cython.nogil
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.exceptval(-1, check=False)
def decimal_fits(
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
    precision: cython.int,
    scale: cython.int,
) -> cython.bint:
    """Return whether no group of the number at ``offset`` has too many digits."""
    at: cython.int = _PLAN_SIZE * (precision * (_MAX_SCALE + 1) + scale)
    if not cython.compiled and not _PLANS[at]:
        _plan(precision, scale)
    inverted: cython.uint = 0
    if data[offset] < 0x80:
        inverted = cython.cast(cython.uint, _LOW_32)
    flipped: cython.uint = 0x80
    size: cython.int
    value: cython.uint
    i: cython.int
    for i in range(_PLANS[at]):
        size = (_PLANS[at + 1 + i] + 1) >> 1 if _PLANS[at + 1 + i] < 9 else 4
        value = cython.cast(cython.uint, load_be(data, offset, size))
        value ^= inverted >> (32 - 8 * size)
        value ^= flipped << (8 * (size - 1))
        flipped = 0
        offset += size
        if value >= power_of_ten(_PLANS[at + 1 + i]):
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.cdivision(True)
@cython.exceptval(-1, check=False)
def put_decimal(
    target: cython.p_uchar,
    to: cython.Py_ssize_t,
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
    precision: cython.int,
    scale: cython.int,
) -> cython.Py_ssize_t:
    """Write the number at ``offset`` in decimal; return where its digits end.

    Up to 68 bytes are written: a sign, the digits, a point and a zero before it.
    """
    groups: cython.uint[10]
    units: cython.uint[10]
    if not cython.compiled:
        groups, units = [0] * _MAX_GROUPS, [0] * _MAX_GROUPS
    count: cython.int = _split(data, offset, precision, scale, groups, units)
    left: cython.int = precision - scale
    i: cython.int
    at: cython.Py_ssize_t
    value: cython.uint
    unit: cython.uint
    if data[offset] < 0x80:
        target[to] = 45
        to += 1
    start: cython.Py_ssize_t = to
    for i in range(count):
        value = groups[i]
        unit = units[i]
        if not left:
            if to == start:
                target[to] = 48
                to += 1
            target[to] = 46
            to += 1
            left = -1
        if left > 0 and to == start:
            # Skip leading zeros.
            while unit > 1:
                unit //= 10
                left -= 1
            if value:
                to = put_digits(target, to, value)
            continue
        at = to
        while unit > 1:
            unit //= 10
            at += 1
            if left > 0:
                left -= 1
        to = at
        unit = units[i]
        while unit > 1:
            unit //= 10
            at -= 1
            target[at] = 48 + value % 10
            value //= 10
    if to == start:
        target[to] = 48
        to += 1
    return to


@cython.cfunc
@cython.boundscheck(False)
def decimal_at(
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
    precision: cython.int,
    scale: cython.int,
) -> object:
    """Return the number at ``offset``; the caller has checked the size."""
    text: cython.uchar[68]
    if not cython.compiled:
        text = bytearray(MAX_PRECISION + 3)
    end: cython.Py_ssize_t = put_decimal(text, 0, data, offset, precision, scale)
    return Decimal(text[:end].decode("ascii"))


@cython.cfunc
@cython.nogil
@cython.boundscheck(False)
@cython.wraparound(False)
@cython.exceptval(-1, check=False)
def decimal_words(
    data: cython.p_const_uchar,
    offset: cython.Py_ssize_t,
    precision: cython.int,
    scale: cython.int,
    words: cython.p_uint,
    word_count: cython.int,
) -> cython.int:
    """Write the unscaled number at ``offset`` in two's complement: 32-bit words, lowest first."""
    groups: cython.uint[10]
    units: cython.uint[10]
    if not cython.compiled:
        groups, units = [0] * _MAX_GROUPS, [0] * _MAX_GROUPS
    count: cython.int = _split(data, offset, precision, scale, groups, units)
    number: cython.ulonglong = 0
    i: cython.int
    j: cython.int
    negative: cython.bint = data[offset] < 0x80
    if precision <= _SMALL_DIGITS:
        for i in range(count):
            number = number * units[i] + groups[i]
        sign: cython.uint = 0
        if negative and number:
            number = _LOW_64 - number + 1
            sign = cython.cast(cython.uint, _LOW_32)
        words[0] = cython.cast(cython.uint, number & _LOW_32)
        words[1] = cython.cast(cython.uint, number >> 32)
        for j in range(2, word_count):
            words[j] = sign
        return 0
    for j in range(word_count):
        words[j] = 0
    for i in range(count):
        number = groups[i]
        for j in range(word_count):
            number += cython.cast(cython.ulonglong, words[j]) * units[i]
            words[j] = cython.cast(cython.uint, number & _LOW_32)
            number >>= 32
    if negative:
        number = 1
        for j in range(word_count):
            number += words[j] ^ _LOW_32
            words[j] = cython.cast(cython.uint, number & _LOW_32)
            number >>= 32
    return 0


def decode_decimal(data: bytes, precision: int, scale: int) -> Decimal:
    """Decode a DECIMAL(precision, scale), exactly, with ``scale`` digits after the point.

    Raises:
        ValueError: the bytes are not such a number.
    """
    size = decimal_size(precision, scale)
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes, DECIMAL({precision},{scale}) has {size}")
    value: Decimal = decimal_at(data, 0, precision, scale)
    return value


def encode_decimal(value: Decimal, precision: int, scale: int) -> bytes:
    """Encode a DECIMAL(precision, scale).

    Raises:
        EncodeError: the value does not fit exactly.
    """
    decimal_size(precision, scale)
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise EncodeError(f"DECIMAL cannot hold {value}")
    text = "".join(map(str, digits))
    if exponent + scale >= 0:
        text += "0" * (exponent + scale)
    elif text[exponent + scale :].strip("0"):
        raise EncodeError(f"a value has more than {scale} digits after the point")
    else:
        text = text[: exponent + scale]
    text = text.lstrip("0").rjust(precision, "0")
    if len(text) > precision:
        raise EncodeError(f"a value does not fit into DECIMAL({precision},{scale})")
    whole, fraction = text[: precision - scale], text[precision - scale :]
    odd = len(whole) % _GROUP_DIGITS
    groups = [whole[:odd]] if odd else []
    groups += [whole[i : i + 9] for i in range(odd, len(whole), 9)]
    groups += [fraction[i : i + 9] for i in range(0, len(fraction), 9)]
    out = bytearray()
    for group in groups:
        out += int(group).to_bytes(_GROUP_SIZES[len(group)], "big")
    if sign:
        out = bytearray(byte ^ 0xFF for byte in out)
    out[0] ^= 0x80
    return bytes(out)


def decode_old_decimal(data: bytes) -> Decimal:
    """Decode a DECIMAL of a table made before MySQL 5.0: a text padded with spaces or zeros.

    Raises:
        ValueError: the text is not a number.
    """
    try:
        return Decimal(data.decode("ascii").strip(" \0"))
    except (UnicodeDecodeError, InvalidOperation):
        raise ValueError("an old DECIMAL is not the text of a number") from None


def encode_old_decimal(value: Decimal, size: int) -> bytes:
    """Encode an old DECIMAL: a text, right-aligned in ``size`` bytes.

    Raises:
        EncodeError: the text is longer.
    """
    text = f"{value:f}".encode("ascii")
    if len(text) > size:
        raise EncodeError(f"a value does not fit into {size} characters")
    return text.rjust(size)
