"""Values that JSON text has no syntax for, in MySQL's binary documents.

An opaque value is a column type code and bytes. DECIMAL is precision, scale and the packed decimal;
DATE, TIME, DATETIME and TIMESTAMP are eight little-endian bytes of the packed temporal. All other
types are shown as ``base64:type<code>:<bytes>``.

Packed temporal, as a signed number ``n``; a negative one is the packed absolute value, negated::

    date, datetime   n >> 24 = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6
                     | second; the low 24 bits are microseconds
    time             n >> 24 = hour << 12 | minute << 6 | second; the low 24 bits are microseconds

Spec: MySQL json_dom.h (``Json_opaque``, ``Json_decimal``, ``Json_datetime``), my_time.cc.
"""

from __future__ import annotations

from decimal import Decimal

from replica_client.binlog.values.temporal import Date, DateTime, Time
from replica_client.codec.quick_dataclass import dataclass
from replica_client.constants.column_types import ColumnType
from replica_client.errors import ColumnDecodeError, EncodeError

DATE = int(ColumnType.MYSQL_TYPE_DATE)
TIME = int(ColumnType.MYSQL_TYPE_TIME)
DATETIME = int(ColumnType.MYSQL_TYPE_DATETIME)
TIMESTAMP = int(ColumnType.MYSQL_TYPE_TIMESTAMP)
NEWDECIMAL = int(ColumnType.MYSQL_TYPE_NEWDECIMAL)
VAR_STRING = int(ColumnType.MYSQL_TYPE_VAR_STRING)

TEMPORAL_TYPES = frozenset((DATE, TIME, DATETIME, TIMESTAMP))

_GROUP = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_MAX_PRECISION = 81  # nine groups of nine digits, as in the server's decimal
_MAX_SCALE = 30


@dataclass(frozen=True, slots=True)
class JsonOpaque:
    """A value of a type without a Python type here, e.g. BLOB, BIT or VARBINARY.

    Attributes:
        type_code: column type code (:class:`~replica_client.constants.column_types.ColumnType`).
        data: the value's bytes.
    """

    type_code: int
    data: bytes


def decimal_text(payload: bytes) -> str:
    """Return the text of an opaque DECIMAL: all digits of its scale, no leading zeros.

    Raises:
        ColumnDecodeError: the bytes are not a decimal.
    """
    if len(payload) < 3:
        raise ColumnDecodeError(f"JSON: a decimal of {len(payload)} bytes")
    precision, scale = payload[0], payload[1]
    whole = precision - scale
    if not 0 < precision <= _MAX_PRECISION or scale > _MAX_SCALE or whole < 0:
        raise ColumnDecodeError(f"JSON: a decimal of precision {precision} and scale {scale}")
    whole_groups, whole_rest = divmod(whole, _GROUP)
    scale_groups, scale_rest = divmod(scale, _GROUP)
    sizes = [_GROUP_BYTES[whole_rest]] if whole_rest else []
    sizes += [4] * (whole_groups + scale_groups)
    if scale_rest:
        sizes.append(_GROUP_BYTES[scale_rest])
    if sum(sizes) != len(payload) - 2:
        raise ColumnDecodeError(
            f"JSON: {len(payload) - 2} bytes for a decimal of precision {precision}, scale {scale}"
        )
    packed = bytearray(payload[2:])
    negative = not packed[0] & 0x80
    packed[0] ^= 0x80
    if negative:
        packed = bytearray(byte ^ 0xFF for byte in packed)
    widths = [whole_rest] if whole_rest else []
    widths += [_GROUP] * (whole_groups + scale_groups)
    if scale_rest:
        widths.append(scale_rest)
    digits = ""
    at = 0
    for size, width in zip(sizes, widths, strict=True):
        group = str(int.from_bytes(packed[at : at + size], "big"))
        if len(group) > width:
            raise ColumnDecodeError(f"JSON: a decimal with {group} in {width} digits")
        digits += group.rjust(width, "0")
        at += size
    text = digits[:whole].lstrip("0") or "0"
    if scale:
        text += "." + digits[whole:]
    return "-" + text if negative else text


def decimal_payload(value: Decimal) -> bytes:
    """Return the bytes of an opaque DECIMAL.

    Raises:
        EncodeError: the value is not finite, or has more digits than a MySQL decimal.
    """
    sign, number, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise EncodeError(f"{value} is not a JSON number")
    digits = "".join(map(str, number)) + "0" * max(exponent, 0)
    scale = max(-exponent, 0)
    digits = digits.rjust(scale, "0")
    whole_digits = digits[: len(digits) - scale].lstrip("0")
    fraction = digits[len(digits) - scale :]
    precision = len(whole_digits) + scale or 1
    if precision > _MAX_PRECISION or scale > _MAX_SCALE:
        raise EncodeError(f"{value} has more digits than a MySQL decimal")
    whole_digits = whole_digits.rjust(precision - scale, "0")
    packed = bytearray()
    first = len(whole_digits) % _GROUP
    groups = [whole_digits[:first]] if first else []
    groups += [whole_digits[i : i + _GROUP] for i in range(first, len(whole_digits), _GROUP)]
    groups += [fraction[i : i + _GROUP] for i in range(0, scale, _GROUP)]
    for group in groups:
        packed += int(group).to_bytes(_GROUP_BYTES[len(group)], "big")
    if sign and any(packed):
        packed = bytearray(byte ^ 0xFF for byte in packed)
    packed[0] ^= 0x80
    return bytes((precision, scale)) + bytes(packed)


def temporal_fields(code: int, payload: bytes) -> tuple[bool, int, int, int, int, int, int, int]:
    """Return sign, year, month, day, hour, minute, second, microsecond of an opaque temporal.

    Raises:
        ColumnDecodeError: not eight bytes, or a field out of its range.
    """
    if len(payload) != 8:
        raise ColumnDecodeError(f"JSON: a date or time of {len(payload)} bytes")
    packed = int.from_bytes(payload, "little", signed=True)
    negative = packed < 0
    number = -packed if negative else packed
    microsecond = number & 0xFFFFFF
    number >>= 24
    second = number & 0x3F
    minute = number >> 6 & 0x3F
    if code == TIME:
        year = month = day = 0
        hour = number >> 12
        in_range = hour <= 838
    else:
        hour = number >> 12 & 0x1F
        day = number >> 17 & 0x1F
        year, month = divmod(number >> 22, 13)
        in_range = hour <= 23 and year <= 9999 and not negative
    if not in_range or minute > 59 or second > 59 or microsecond > 999_999:
        raise ColumnDecodeError(f"JSON: {payload.hex()} is no date or time of type {code}")
    return negative, year, month, day, hour, minute, second, microsecond


def temporal_value(code: int, payload: bytes) -> Date | DateTime | Time:
    """Return the value of an opaque temporal; a TIMESTAMP as DATETIME in the session's zone."""
    negative, year, month, day, hour, minute, second, micro = temporal_fields(code, payload)
    if code == DATE:
        return Date(year, month, day)
    if code == TIME:
        return Time(negative, hour, minute, second, micro, 6)
    return DateTime(year, month, day, hour, minute, second, micro, 6)


def temporal_opaque(value: Date | DateTime | Time) -> JsonOpaque:
    """Return the opaque form of a temporal value."""
    if isinstance(value, Time):
        number = value.hours << 12 | value.minutes << 6 | value.seconds
        return JsonOpaque(TIME, _packed(number, value.microseconds, value.negative))
    number = ((value.year * 13 + value.month) << 5 | value.day) << 17
    if isinstance(value, Date):
        return JsonOpaque(DATE, _packed(number, 0))
    number |= value.hour << 12 | value.minute << 6 | value.second
    return JsonOpaque(DATETIME, _packed(number, value.microsecond))


def temporal_text(code: int, payload: bytes) -> str:
    """Return MySQL's text of an opaque temporal, with six fraction digits (DATE has none)."""
    negative, year, month, day, hour, minute, second, micro = temporal_fields(code, payload)
    if code == DATE:
        return f"{year:04d}-{month:02d}-{day:02d}"
    clock = f"{hour:02d}:{minute:02d}:{second:02d}.{micro:06d}"
    if code == TIME:
        return "-" + clock if negative else clock
    return f"{year:04d}-{month:02d}-{day:02d} {clock}"


def _packed(number: int, microsecond: int, negative: bool = False) -> bytes:
    packed = number << 24 | microsecond
    return (-packed if negative else packed).to_bytes(8, "little", signed=True)
