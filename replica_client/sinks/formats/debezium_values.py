"""Values as Debezium's MySQL connector writes them.

==========================  =========================================================
column                      JSON
==========================  =========================================================
integers, YEAR              number
BIGINT UNSIGNED             by ``bigint.unsigned.handling.mode``
BIT(1)                      true or false
BIT(2 and more)             base64 of the bits, little-endian
FLOAT, DOUBLE               number
DECIMAL                     by ``decimal.handling.mode``
CHAR, VARCHAR, TEXT         string
ENUM, SET                   label; labels joined with commas
BINARY, VARBINARY, BLOB     by ``binary.handling.mode``
JSON                        string of the document
DATE, TIME, DATETIME        by ``time.precision.mode``, see debezium_times
TIMESTAMP                   ``2018-06-20T13:37:03Z``, with the column's fraction digits
POINT                       ``{"x": n, "y": n, "wkb": base64, "srid": n}``
other geometries            ``{"wkb": base64, "srid": n}``; null for SRID 0
VECTOR                      array of numbers
==========================  =========================================================
"""

from __future__ import annotations

import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, Literal

import msgspec

from replica_client.binlog.values.geometry import Geometry
from replica_client.constants.column_types import ColumnType
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.debezium_times import TimeMode, time_writer
from replica_client.sinks.formats.row_text import ValueWriter

DecimalMode = Literal["precise", "string", "double"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]
BigintMode = Literal["number", "long", "precise"]

_T = ColumnType
# Python's default context would round to 28 digits; MySQL has up to 65.
_EXACT = Context(prec=100)
_POINT = 1
_POINT_SIZE = 21
_SIGN = 1 << 63
_DECIMALS: dict[DecimalMode, ValueWriter] = {
    "string": lambda value: f'"{value:f}"',
    "double": lambda value: repr(float(value)),
}
_BIGINTS: dict[BigintMode, ValueWriter] = {
    "number": str,
    "long": lambda value: str(value - 2 * _SIGN if value >= _SIGN else value),
    "precise": lambda value: unscaled(value),
}
_WHOLE: Final = frozenset(
    (
        *(_T.MYSQL_TYPE_TINY, _T.MYSQL_TYPE_SHORT, _T.MYSQL_TYPE_INT24),
        *(_T.MYSQL_TYPE_LONG, _T.MYSQL_TYPE_LONGLONG),
    )
)
_BINARIES: dict[BinaryMode, Callable[[bytes], str]] = {
    "bytes": lambda value: b64encode(value).decode(),
    "base64": lambda value: b64encode(value).decode(),
    "base64-url-safe": lambda value: urlsafe_b64encode(value).decode(),
    "hex": lambda value: value.hex(),
}


class ValueModes(msgspec.Struct, frozen=True, kw_only=True):
    """The modes in which values are written; see the options of the same names."""

    decimal: DecimalMode = "precise"
    binary: BinaryMode = "bytes"
    bigint_unsigned: BigintMode = "number"
    time: TimeMode = "adaptive_time_microseconds"


def debezium_writer(column: ColumnShape, modes: ValueModes) -> ValueWriter:
    """Return the function that writes a column's values."""
    code = column.type_code
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return _DECIMALS.get(modes.decimal) or _precise(column.scale)
    if code == _T.MYSQL_TYPE_LONGLONG and column.unsigned:
        return _BIGINTS[modes.bigint_unsigned]
    if code == _T.MYSQL_TYPE_BIT:
        return _bit(column.length)
    writer = time_writer(column, modes.time)
    if writer is not None:
        return writer
    if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        return lambda value: quote(str(value))
    if code == _T.MYSQL_TYPE_JSON:
        return _json
    if code == _T.MYSQL_TYPE_GEOMETRY:
        return _point if is_point(column) else _geometry
    if code in _WHOLE:
        return str
    return _STRINGS[modes.binary]


def _text_or_bytes(encode: Callable[[bytes], str]) -> ValueWriter:
    def write(value: Any) -> str:
        if type(value) is str:
            return quote(value)
        return f'"{encode(value)}"' if isinstance(value, bytes) else value_to_json(value)

    return write


_STRINGS: dict[BinaryMode, ValueWriter] = {
    mode: _text_or_bytes(encode) for mode, encode in _BINARIES.items()
}
STRING_WRITERS: Final = frozenset(_STRINGS.values())
"""Functions that only quote if the value is a string."""


def is_point(column: ColumnShape) -> bool:
    """Return whether a column is known to be a POINT."""
    known = column.definition
    return column.geometry_type == _POINT or (known is not None and known.type_name == "POINT")


def unscaled(number: int) -> str:
    """Return the JSON text of a whole number in Connect's form of decimals.

    It is base64 of the number's bytes in two's complement.
    """
    size = (number + (number < 0)).bit_length() // 8 + 1
    return f'"{b64encode(number.to_bytes(size, "big", signed=True)).decode()}"'


def _precise(scale: int) -> ValueWriter:
    def write(value: Decimal) -> str:
        return unscaled(int(value.scaleb(scale, _EXACT)))

    return write


def _bit(length: int) -> ValueWriter:
    if length == 1:
        return lambda value: "true" if value else "false"
    size = (length + 7) // 8
    return lambda value: f'"{b64encode(value.to_bytes(size, "little")).decode()}"'


def _json(value: Any) -> str:
    return quote(str(value.text))


def _geometry(value: Geometry) -> str:
    return f'{{"wkb":"{b64encode(value.wkb).decode()}","srid":{value.srid or "null"}}}'


def _point(value: Geometry) -> str:
    if len(value.wkb) != _POINT_SIZE:
        return _geometry(value)
    x, y = struct.unpack_from("<dd" if value.wkb[0] else ">dd", value.wkb, 5)
    return f'{{"x":{x!r},"y":{y!r},{_geometry(value)[1:]}'
