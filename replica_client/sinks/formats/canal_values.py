"""Values as Canal writes them: text with the code of a Java SQL type (``java.sql.Types``).

==========================  ==========================================  =================
column                      text                                        type code
==========================  ==========================================  =================
TINYINT … BIGINT            digits                                      -6, 5, 4, 4, -5; the
                                                                        next larger for an
                                                                        unsigned value beyond
                                                                        the signed range
FLOAT, DOUBLE               as Java writes them                         7, 8
DECIMAL                     plain                                       3
CHAR, VARCHAR               itself                                      1, 12
TEXT                        itself                                      2005 (CLOB)
BINARY, VARBINARY, BLOB,    each byte a character (ISO 8859-1)          2004 (BLOB)
GEOMETRY, VECTOR
DATE, TIME                  MySQL's                                     91, 92
DATETIME, TIMESTAMP         MySQL's                                     93
YEAR, JSON                  MySQL's                                     12
ENUM                        the index                                   4
SET, BIT                    the number                                  -7
==========================  ==========================================  =================
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from replica_client.binlog.values.geometry import encode_geometry
from replica_client.constants.column_types import ColumnType
from replica_client.rows.json_values import quote
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.column_models import is_binary

_T = ColumnType
_BLOB, _CLOB = 2004, 2005
_INTEGERS = {
    # bits, type code, type code of an unsigned value beyond the signed range
    _T.MYSQL_TYPE_TINY: (8, -6, 5),
    _T.MYSQL_TYPE_SHORT: (16, 5, 4),
    _T.MYSQL_TYPE_INT24: (24, 4, 4),
    _T.MYSQL_TYPE_LONG: (32, 4, -5),
    _T.MYSQL_TYPE_LONGLONG: (64, -5, 3),
}
_PLAIN = {
    _T.MYSQL_TYPE_DATE: 91,
    _T.MYSQL_TYPE_NEWDATE: 91,
    _T.MYSQL_TYPE_TIME: 92,
    _T.MYSQL_TYPE_TIME2: 92,
    _T.MYSQL_TYPE_DATETIME: 93,
    _T.MYSQL_TYPE_DATETIME2: 93,
    _T.MYSQL_TYPE_TIMESTAMP: 93,
    _T.MYSQL_TYPE_TIMESTAMP2: 93,
}
_BLOBS = frozenset(
    (
        _T.MYSQL_TYPE_TINY_BLOB,
        _T.MYSQL_TYPE_BLOB,
        _T.MYSQL_TYPE_MEDIUM_BLOB,
        _T.MYSQL_TYPE_LONG_BLOB,
        _T.MYSQL_TYPE_BLOB_COMPRESSED,
    )
)


class CanalColumn(msgspec.Struct, frozen=True):
    """The name of a column and the function that writes its values.

    Attributes:
        name: the column's name as JSON text.
        null_code: type code of a NULL.
        write: returns text and type code of a value.
    """

    name: str
    null_code: int
    write: Callable[[Any], tuple[str, int]]


def canal_column(column: ColumnShape) -> CanalColumn:
    """Return the name and the writer of a column."""
    code, write = _writer(column)
    return CanalColumn(quote(column.name), code, write)


def _writer(column: ColumnShape) -> tuple[int, Callable[[Any], tuple[str, int]]]:
    code = column.type_code
    if column.logical_type is not None and column.logical_type != "vector":
        return 12, lambda value: (str(value), 12)
    if code in _INTEGERS:
        bits, small, large = _INTEGERS[_T(code)]
        limit = 1 << (bits - 1)
        return small, lambda value: (str(value), small if value < limit else large)
    if code in _PLAIN:
        plain = _PLAIN[_T(code)]
        return plain, lambda value: (str(value), plain)
    if code == _T.MYSQL_TYPE_NEWDECIMAL:
        return 3, lambda value: (f"{value:f}", 3)
    if code in (_T.MYSQL_TYPE_FLOAT, _T.MYSQL_TYPE_DOUBLE):
        real = 7 if code == _T.MYSQL_TYPE_FLOAT else 8
        return real, lambda value: (java_float(value), real)
    if code == _T.MYSQL_TYPE_ENUM:
        return 4, lambda value: (str(value.index), 4)
    if code == _T.MYSQL_TYPE_SET:
        return -7, lambda value: (str(value.bits), -7)
    if code == _T.MYSQL_TYPE_BIT:
        return -7, lambda value: (str(value), -7)
    if code == _T.MYSQL_TYPE_JSON:
        return 12, lambda value: (value.text, 12)
    if code == _T.MYSQL_TYPE_GEOMETRY:
        return _BLOB, lambda value: (encode_geometry(value).decode("latin-1"), _BLOB)
    if code == _T.MYSQL_TYPE_YEAR:
        return 12, lambda value: (f"{value:04d}", 12)
    return _string(column)


def _string(column: ColumnShape) -> tuple[int, Callable[[Any], tuple[str, int]]]:
    if is_binary(column):
        return _BLOB, lambda value: (_bytes(value), _BLOB)
    if column.type_code in _BLOBS:
        kind = _CLOB
    else:
        kind = 1 if column.type_code == _T.MYSQL_TYPE_STRING else 12
    return kind, lambda value: (value if type(value) is str else _bytes(value), kind)


def _bytes(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def java_float(value: float) -> str:
    """Return a number as Java's ``String.valueOf`` writes it.

    The text has an exponent below 1e-3 and from 1e7 on.
    """
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    scale = len(digits) + int(exponent) - 1
    if 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else plain + ".0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{scale}"
