"""Stored values that compare with a literal, for DECIMAL, temporal, float and JSON columns."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Final

from replica_client.binlog.values.decimal import encode_decimal
from replica_client.binlog.values.temporal import Date, DateTime, Temporal, Time, Timestamp
from replica_client.binlog.values.temporal_storage import (
    encode_date,
    encode_datetime2,
    encode_time2,
    encode_timestamp2,
    fraction_size,
)
from replica_client.errors import ConfigError, EncodeError
from replica_client.rows.column_ops import ColumnOp, ColumnReader
from replica_client.rows.conditions import as_double, temporal_literal
from replica_client.rows.stored_tests import DATE, DATETIME, TIME, TIMESTAMP
from replica_client.rows.where import Operator, Value

_MAX_EXPONENT: Final = 200
"""Longer literals are not converted to numbers."""
KINDS: Final = {
    ColumnOp.DATE: DATE,
    ColumnOp.TIME: TIME,
    ColumnOp.DATETIME: DATETIME,
    ColumnOp.TIMESTAMP: TIMESTAMP,
}
"""Kinds of temporal columns."""
_SAMPLES: Final[dict[ColumnOp, Temporal]] = {
    ColumnOp.DATE: Date(0, 0, 0),
    ColumnOp.TIME: Time(False, 0, 0, 0),
    ColumnOp.DATETIME: DateTime(0, 0, 0, 0, 0, 0),
    ColumnOp.TIMESTAMP: Timestamp(None),
}


def numbers_between(
    low: int, high: int, sign: Operator, first: int, last: int
) -> tuple[int, int] | None:
    """Return the range of integers that compare with a number.

    Args:
        low: the greatest integer that is not above the number.
        high: the least integer that is not below it; equal to ``low`` if the number is an integer.
        sign: the comparison; ``!=`` gives the equal ones.
        first: the least integer allowed.
        last: the greatest integer allowed.

    Returns:
        The first and the last; None if there are none.
    """
    if sign in ("=", "!="):
        first, last = max(first, high), min(last, low)
    elif sign in ("<", "<="):
        last = min(last, high - 1 if sign == "<" else low)
    else:
        first = max(first, low + 1 if sign == ">" else high)
    return (first, last) if first <= last else None


def decimal_ranges(
    reader: ColumnReader, literals: tuple[Value, ...], sign: Operator
) -> list[tuple[bytes, bytes]] | None:
    """Return ranges of a DECIMAL's bytes that match a literal; None if only the rules decide."""
    found = []
    most = 10**reader.precision - 1
    for one in literals:
        if isinstance(one, Decimal) and (
            not one.is_finite() or (one and abs(one.adjusted()) > _MAX_EXPONENT)
        ):
            return None
        if not isinstance(one, (int, Decimal)) or len(str(one)) > _MAX_EXPONENT:
            return None
        number = Fraction(one) * 10**reader.digits
        between = numbers_between(math.floor(number), math.ceil(number), sign, -most, most)
        if between is not None:
            found.append((_decimal(reader, between[0]), _decimal(reader, between[1])))
    return found


def negative_zero(reader: ColumnReader) -> bytes:
    """Return the bytes of a negative zero in a DECIMAL column."""
    return bytes(byte ^ 0xFF for byte in _decimal(reader, 0))


def _decimal(reader: ColumnReader, number: int) -> bytes:
    digits = tuple(map(int, str(abs(number))))
    value = Decimal((int(number < 0), digits, -reader.digits))
    return encode_decimal(value, reader.precision, reader.digits)


def float_literals(reader: ColumnReader, literals: tuple[Value, ...]) -> list[float] | None:
    """Return literals as numbers of a FLOAT or DOUBLE column; None if only the rules decide."""
    found = []
    for one in literals:
        if isinstance(one, (str, bytes)):
            return None
        number = as_double(one)
        found.append(_single(number) if reader.op == ColumnOp.FLOAT else number)
    return found


def _single(number: float) -> float:
    """Round a number to a 4-byte float."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def json_texts(literals: tuple[Value, ...], sign: Operator) -> list[bytes] | None:
    """Return the literals that are JSON texts, in UTF-8; None if only the rules decide."""
    if sign not in ("=", "!=") or any(isinstance(one, bytes) for one in literals):
        return None
    texts = [one for one in literals if isinstance(one, str)]
    # No document contains a lone surrogate.
    return [one.encode() for one in texts if not any("\ud800" <= part <= "\udfff" for part in one)]


def temporal_ranges(
    column: str, reader: ColumnReader, literals: tuple[Value, ...], sign: Operator
) -> list[tuple[int, int]] | None:
    """Return ranges of a temporal column's numbers that match a literal; None as above."""
    found = []
    last = (1 << 8 * reader.size) - 1
    for one in literals:
        if not isinstance(one, str):
            return None
        try:
            value = temporal_literal(column, _SAMPLES[reader.op], one)
            low, high = _numbers(value, reader.digits)
        except (ConfigError, EncodeError):
            return None
        between = numbers_between(low, high, sign, 0, last)
        if between is not None:
            found.append((between[0] - (1 << 63), between[1] - (1 << 63)))
    return found


def _numbers(value: Temporal, digits: int) -> tuple[int, int]:
    """Return the nearest numbers of a column's bytes at or below, and at or above a value.

    Raises:
        EncodeError: the column cannot hold such a value.
    """
    if isinstance(value, Date):
        if value.month > 12 or value.day > 31:
            raise EncodeError("no such month or day")
        number = int.from_bytes(encode_date(value), "little")
        return number, number
    size = fraction_size(digits)
    unit: int = 10 ** (6 - 2 * size)
    if isinstance(value, Time):
        whole = Time(False, value.hours, value.minutes, value.seconds)
        zero = 1 << (23 + 8 * size)
        # Truncate the magnitude's fraction to the column's digits.
        distance = int.from_bytes(encode_time2(whole, 0), "big") - (1 << 23) << (8 * size)
        distance += value.microseconds // unit
        more = int(value.microseconds % unit > 0)
        if value.negative:
            return zero - distance - more, zero - distance
        return zero + distance, zero + distance + more
    if isinstance(value, DateTime):
        if (
            value.month > 12
            or value.day > 31
            or value.hour > 23
            or value.minute > 59
            or value.second > 59
        ):
            raise EncodeError("no such moment")
        at = DateTime(value.year, value.month, value.day, value.hour, value.minute, value.second)
        raw, micros = encode_datetime2(at, 0), value.microsecond
    else:
        assert isinstance(value, Timestamp)
        if value.seconds is None:
            return 0, 0
        raw, micros = encode_timestamp2(Timestamp(value.seconds), 0), value.microseconds
    low = (int.from_bytes(raw, "big") << (8 * size)) + micros // unit
    # All-zero bytes are the zero timestamp, which sorts before 1970.
    is_first = isinstance(value, Timestamp) and not low
    return low, low + int(micros % unit > 0 or is_first)
