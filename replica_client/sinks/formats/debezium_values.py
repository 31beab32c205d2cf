"""Values as Debezium's MySQL connector writes them with ``time.precision.mode``'s default.

==========================  =========================================================
column                      JSON
==========================  =========================================================
integers, YEAR              number
BIT(1)                      true or false
BIT(2 and more)             base64 of the bits, little-endian
FLOAT, DOUBLE               number
DECIMAL                     by ``decimal.handling.mode``
CHAR, VARCHAR, TEXT         string
ENUM, SET                   label; labels joined with commas
BINARY, VARBINARY, BLOB     by ``binary.handling.mode``
JSON                        string of the document
DATE                        days since 1970-01-01
TIME                        microseconds
DATETIME(0 to 3)            milliseconds since 1970-01-01 00:00 as if it were UTC
DATETIME(4 to 6)            microseconds, likewise
TIMESTAMP                   ``2018-06-20T13:37:03Z``, with the column's fraction digits
GEOMETRY                    ``{"wkb": base64, "srid": n}``
VECTOR                      array of numbers
==========================  =========================================================

Zero and partial dates are null where the column can be NULL, else 0 (1970-01-01).
"""

from __future__ import annotations

import datetime
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Literal

from replica_client.binlog.values.geometry import Geometry
from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.constants.column_types import ColumnType
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.row_text import ValueWriter

DecimalMode = Literal["precise", "string", "double"]
BinaryMode = Literal["bytes", "base64", "base64-url-safe", "hex"]

_T = ColumnType
# Python's default context would round to 28 digits; MySQL has up to 65.
_EXACT = Context(prec=100)
_EPOCH = datetime.datetime.fromordinal(datetime.date(1970, 1, 1).toordinal())
_DAYS = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND = datetime.timedelta(microseconds=1)
_DATES = (_T.MYSQL_TYPE_DATE, _T.MYSQL_TYPE_NEWDATE)
_TIMES = (_T.MYSQL_TYPE_TIME, _T.MYSQL_TYPE_TIME2)
_DATETIMES = (_T.MYSQL_TYPE_DATETIME, _T.MYSQL_TYPE_DATETIME2)
_TIMESTAMPS = (_T.MYSQL_TYPE_TIMESTAMP, _T.MYSQL_TYPE_TIMESTAMP2)
_DECIMALS: dict[DecimalMode, ValueWriter] = {
    "string": lambda value: f'"{value:f}"',
    "double": lambda value: repr(float(value)),
}
_BINARIES: dict[BinaryMode, Callable[[bytes], str]] = {
    "bytes": lambda value: b64encode(value).decode(),
    "base64": lambda value: b64encode(value).decode(),
    "base64-url-safe": lambda value: urlsafe_b64encode(value).decode(),
    "hex": lambda value: value.hex(),
}


def debezium_writer(
    column: ColumnShape, decimals: DecimalMode, binaries: BinaryMode
) -> ValueWriter:
    """The function that writes a column's values."""
    code = column.type_code
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return _DECIMALS.get(decimals) or _precise(column.scale)
    if code == _T.MYSQL_TYPE_BIT:
        return _bit(column.length)
    missing = "null" if column.nullable else "0"
    if code in _DATES:
        return lambda value: _date(value, missing)
    if code in _TIMES:
        return _time
    if code in _DATETIMES:
        divisor = 1000 if column.fraction_digits <= 3 else 1
        return lambda value: _datetime(value, divisor, missing)
    if code in _TIMESTAMPS:
        instead = "null" if column.nullable else '"1970-01-01T00:00:00Z"'
        return lambda value: _timestamp(value, instead)
    if code in (_T.MYSQL_TYPE_ENUM, _T.MYSQL_TYPE_SET):
        return lambda value: quote(str(value))
    if code == _T.MYSQL_TYPE_JSON:
        return _json
    if code == _T.MYSQL_TYPE_GEOMETRY:
        return _geometry
    encode = _BINARIES[binaries]
    return lambda value: f'"{encode(value)}"' if isinstance(value, bytes) else value_to_json(value)


def _precise(scale: int) -> ValueWriter:
    def write(value: Decimal) -> str:
        number = int(value.scaleb(scale, _EXACT))
        size = (number + (number < 0)).bit_length() // 8 + 1
        return f'"{b64encode(number.to_bytes(size, "big", signed=True)).decode()}"'

    return write


def _bit(length: int) -> ValueWriter:
    if length == 1:
        return lambda value: "true" if value else "false"
    size = (length + 7) // 8
    return lambda value: f'"{b64encode(value.to_bytes(size, "little")).decode()}"'


def _date(value: Any, missing: str) -> str:
    if isinstance(value, Date):
        try:
            value = value.to_python()
        except ValueError:
            return missing
    return str(value.toordinal() - _DAYS)


def _time(value: Any) -> str:
    return str(value.total_microseconds if isinstance(value, Time) else value // _MICROSECOND)


def _datetime(value: Any, divisor: int, missing: str) -> str:
    if isinstance(value, DateTime):
        try:
            value = value.to_python()
        except ValueError:
            return missing
    return str((value - _EPOCH) // _MICROSECOND // divisor)


def _timestamp(value: Any, instead: str) -> str:
    if isinstance(value, Timestamp):
        if value.is_zero:
            return instead
        return quote(str(value).replace(" ", "T") + "Z")
    return quote(str(value.replace(tzinfo=None).isoformat()) + "Z")


def _json(value: Any) -> str:
    return value_to_json(value) if isinstance(value, tuple) else quote(str(value.text))


def _geometry(value: Geometry) -> str:
    return f'{{"wkb":"{b64encode(value.wkb).decode()}","srid":{value.srid}}}'
