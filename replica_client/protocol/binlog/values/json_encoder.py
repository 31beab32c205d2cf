"""An encoder of JSON documents in MySQL's binary form, byte for byte as the server writes them.

An opaque value is a column type code and bytes. DECIMAL is precision, scale and the packed decimal;
DATE, TIME, DATETIME and TIMESTAMP are eight little-endian bytes of the packed temporal. All other
types are shown as ``base64:type<code>:<bytes>``.

Packed temporal, as a signed number ``n``; a negative one is the packed absolute value, negated::

    date, datetime   n >> 24 = ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6
                     | second; the low 24 bits are microseconds
    time             n >> 24 = hour << 12 | minute << 6 | second; the low 24 bits are microseconds

Spec: MySQL json_dom.h (``Json_opaque``, ``Json_decimal``, ``Json_datetime``), my_time.cc.

Encoding uses nodes: an object is a dict from key bytes to nodes, an array a list of nodes, and a
scalar its type byte and value bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, TypeAlias

from replica_client.errors import ColumnDecodeError, EncodeError
from replica_client.protocol.binlog.values.json_layout import (
    DOUBLE,
    DOUBLE_STRUCT,
    INT16,
    INT32,
    INT64,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    LITERAL_FALSE,
    LITERAL_NULL,
    LITERAL_TRUE,
    MAX_DEPTH,
    OPAQUE,
    SMALL_ARRAY,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    UINT64,
)
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType

_MIN_DECIMAL_POINT = -14


def double_text(value: float) -> str:
    """Return the shortest text that reads back as ``value``, formatted as MySQL does in JSON.

    For a value ``0.DDDD x 10**point``, MySQL writes no exponent if ``-14 <= point <= 15``, or if
    ``point > 15`` and the value has a fraction. Otherwise it writes ``D.DDDeN``, without plus sign
    or leading zeros in the exponent. A text that would read as an integer gets ``.0``.

    Raises:
        ValueError: infinity or not a number, which JSON cannot hold.

    Spec: MySQL ``my_gcvt`` (dtoa.cc) and ``wrapper_to_string`` (json_dom.cc).
    """
    text = repr(value)
    if -1e15 < value < 1e15:
        if "e" not in text:
            return text
    elif value - value != 0.0:
        raise ValueError(f"{text} is not a JSON number")
    elif "e" not in text and not text.endswith(".0"):
        return text
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text[len(sign) :].partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).rstrip("0")
    point = len(whole) + int(exponent or 0)
    if _MIN_DECIMAL_POINT <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1}"


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
        type_code: column type code (:class:`~replica_client.protocol.constants.column_types.ColumnType`).
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
        raise ColumnDecodeError(f"JSON: {payload.hex()} is not a date or time of type {code}")
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


JsonNode: TypeAlias = "dict[bytes, JsonNode] | list[JsonNode] | bytes"

_SMALL_LIMIT = 0xFFFF
_LARGE_LIMIT = 0xFFFFFFFF
_INLINED_SMALL = frozenset((LITERAL, INT16, UINT16))
_INLINED_LARGE = frozenset((LITERAL, INT16, UINT16, INT32, UINT32))


def encode_json(value: object) -> bytes:
    """Encode Python objects as a document.

    Args:
        value: None, bool, int, float, str, :class:`~decimal.Decimal`, ``Date``, ``Time``,
            ``DateTime``, :class:`JsonOpaque`, or a mapping with str keys, a list or a tuple of
            these.

    Raises:
        EncodeError: another type, a number or key that a document cannot hold, or more than 100
            nested levels.
    """
    return serialize(to_node(value))


def to_node(value: Any, depth: int = 0) -> JsonNode:
    """Return the node of a Python object; see :func:`encode_json`."""
    if isinstance(value, str):
        raw = _utf8(value)
        return bytes((STRING,)) + variable_length_bytes(len(raw)) + raw
    if value is None:
        return bytes((LITERAL, LITERAL_NULL))
    if isinstance(value, bool):
        return bytes((LITERAL, LITERAL_TRUE if value else LITERAL_FALSE))
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise EncodeError(f"{value} is not a JSON number")
        return bytes((DOUBLE,)) + DOUBLE_STRUCT.pack(value)
    if isinstance(value, Mapping | list | tuple):
        if depth >= MAX_DEPTH:
            raise EncodeError(f"JSON with more than {MAX_DEPTH} nested levels")
        if not isinstance(value, Mapping):
            return [to_node(item, depth + 1) for item in value]
        return {_key(key): to_node(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Decimal):
        value = JsonOpaque(NEWDECIMAL, decimal_payload(value))
    elif isinstance(value, Date | DateTime | Time):
        value = temporal_opaque(value)
    if isinstance(value, JsonOpaque):
        head = bytes((OPAQUE, value.type_code)) + variable_length_bytes(len(value.data))
        return head + value.data
    raise EncodeError(f"{type(value).__name__} has no form in a JSON document")


def variable_length_bytes(length: int) -> bytes:
    """Encode a length in seven bits per byte, low bits first."""
    if length > _LARGE_LIMIT:
        raise EncodeError(f"{length} bytes do not fit into a JSON document")
    out = bytearray()
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out)


def serialize(node: JsonNode) -> bytes:
    """Encode a node as a document: type byte and value.

    Raises:
        EncodeError: more than 4 GiB, or more than 100 nested levels.
    """
    kind, value = _typed(node, 0)
    return bytes((kind,)) + value


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"text that is not UTF-8: {error.reason}") from error


def _key(key: object) -> bytes:
    if not isinstance(key, str):
        raise EncodeError(f"a JSON key is str, not {type(key).__name__}")
    raw = _utf8(key)
    if len(raw) > _SMALL_LIMIT:
        raise EncodeError(f"a JSON key of {len(raw)} bytes; at most {_SMALL_LIMIT} fit")
    return raw


def _key_order(key: bytes) -> tuple[int, bytes]:
    """Return the sort key of a member: shorter keys first, then by bytes."""
    return len(key), key


def _integer(value: int) -> bytes:
    for kind, size in ((INT16, 2), (INT32, 4), (INT64, 8)):
        if -1 << (8 * size - 1) <= value < 1 << (8 * size - 1):
            return bytes((kind,)) + value.to_bytes(size, "little", signed=True)
    if 0 <= value < 1 << 64:
        return bytes((UINT64,)) + value.to_bytes(8, "little")
    raise EncodeError(f"{value} does not fit into 64 bits; use Decimal")


def _typed(node: JsonNode, depth: int) -> tuple[int, bytes]:
    if isinstance(node, bytes):
        return node[0], node[1:]
    if depth >= MAX_DEPTH:
        raise EncodeError(f"JSON with more than {MAX_DEPTH} nested levels")
    is_object = isinstance(node, dict)
    keys: list[bytes] = []
    if isinstance(node, dict):
        keys = sorted(node, key=_key_order)
        items = [_typed(node[key], depth + 1) for key in keys]
    else:
        items = [_typed(item, depth + 1) for item in node]
    value = _container(keys, items, is_object, 2)
    if value is not None:
        return SMALL_OBJECT if is_object else SMALL_ARRAY, value
    value = _container(keys, items, is_object, 4)
    if value is None:
        raise EncodeError("a JSON document of more than 4 GiB")
    return LARGE_OBJECT if is_object else LARGE_ARRAY, value


def _container(
    keys: list[bytes], items: list[tuple[int, bytes]], is_object: bool, width: int
) -> bytes | None:
    """Encode a container with offsets of ``width`` bytes; return None if it is too large."""
    inlined = _INLINED_SMALL if width == 2 else _INLINED_LARGE
    at = 2 * width + len(items) * (width + 1)
    if is_object:
        at += len(keys) * (width + 2)
    size = at + sum(map(len, keys)) + sum(len(raw) for kind, raw in items if kind not in inlined)
    if size > (_SMALL_LIMIT if width == 2 else _LARGE_LIMIT):
        return None
    head = bytearray(len(items).to_bytes(width, "little") + size.to_bytes(width, "little"))
    for key in keys:
        head += at.to_bytes(width, "little") + len(key).to_bytes(2, "little")
        at += len(key)
    body = []
    for kind, raw in items:
        head.append(kind)
        if kind in inlined:
            head += raw.ljust(width, _sign_fill(kind, raw))
        else:
            head += at.to_bytes(width, "little")
            body.append(raw)
            at += len(raw)
    return b"".join((head, *keys, *body))


def _sign_fill(kind: int, raw: bytes) -> bytes:
    return b"\xff" if kind == INT16 and raw[1] & 0x80 else b"\0"
