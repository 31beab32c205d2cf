"""Texts of values, made by the server in SQL and here from Parquet: the verifier's own rules.

The writer of the lake may not judge itself. So nothing here, nor in the modules of this package
that compare, uses the code that decodes, converts or writes values of the lake. One side of a
comparison is text that the server made; the other is made here from the values that PyArrow reads
from a data file. ``tests/unit/test_structure.py`` checks this.

Checksums of these texts are compared first. A server may format FLOAT or DOUBLE in another way; the
rows of a group that differs are then compared by :func:`comparable_text`. Zeros of both signs
differ.
"""

from __future__ import annotations

import datetime
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from replica_client.errors import SchemaError
from replica_client.schema.model import ColumnModel
from replica_client.schema.names import mysql_name

LakeText = Callable[[Any], bytes]
RowTexts = tuple[bytes | None, ...]
"""The texts of a row's columns, in the table's order; None for NULL."""

_LOSSLESS: Final = "_lossless"


@dataclass(frozen=True)
class _Kind:
    """A kind of column.

    Attributes:
        sql: SQL expression of the text, ``{}`` for the column.
        lake: formats a value of a data file that is not None.
    """

    sql: str
    lake: LakeText


def _plain(value: Any) -> bytes:
    found: bytes = value if isinstance(value, bytes) else str(value).encode()
    return found


def _number(value: Any) -> bytes:
    return format(value, "f").encode() if isinstance(value, Decimal) else _plain(value)


def _decimal(scale: int) -> LakeText:
    """Return a function that formats decimals with ``scale`` digits, also from older data files.

    Such a file may have been written before the column had this many digits.
    """

    def text(value: Any) -> bytes:
        if isinstance(value, Decimal):
            whole, _, fraction = format(value, "f").partition(".")
            if len(fraction) < scale:
                return f"{whole}.{fraction.ljust(scale, '0')}".encode()
        return _number(value)

    return text


def _double(value: float) -> bytes:
    """Return the shortest digits, with an exponent below 1e-15 and from 1e15 on, like servers."""
    if value == 0:
        return b"-0" if str(value)[0] == "-" else b"0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    number = "".join(map(str, digits))
    point = len(number) + exponent
    if -14 <= point <= 15:
        text = format(Decimal(repr(value)).normalize(), "f")
        return text.encode()
    rest = f".{number[1:]}" if len(number) > 1 else ""
    return f"{'-' if sign else ''}{number[0]}{rest}e{point - 1}".encode()


def _geometry(value: Mapping[str, Any]) -> bytes:
    data: bytes = struct.pack("<I", value["srid"]) + value["wkb"]
    return data.hex().upper().encode()


def _vector(value: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(value)}f", *value).hex().upper().encode()


def _date(value: Any) -> bytes:
    return value.isoformat().encode() if isinstance(value, datetime.date) else _plain(value)


def _time(digits: int) -> LakeText:
    """Return a function that formats a TIME: the text of a lake, or a duration of record batches."""

    def text(value: Any) -> bytes:
        if not isinstance(value, datetime.timedelta):
            return _plain(value)
        seconds, micros = divmod(abs(value // datetime.timedelta(microseconds=1)), 1_000_000)
        sign = "-" if value < datetime.timedelta() else ""
        whole = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return f"{whole}.{micros:06}"[: len(whole) + 1 + digits if digits else len(whole)].encode()

    return text


def _moment(digits: int) -> LakeText:
    def text(value: datetime.datetime) -> bytes:
        whole = (
            f"{value.year:04}-{value.month:02}-{value.day:02} "
            f"{value.hour:02}:{value.minute:02}:{value.second:02}"
        )
        return f"{whole}.{value.microsecond:06}"[: 20 + digits if digits else 19].encode()

    return text


_BYTES: Final = _Kind("{}", _plain)
_TEXT: Final = _Kind("CAST(CONVERT({} USING utf8mb4) AS BINARY)", _plain)
_AS_CHAR: Final = "CAST(CAST({} AS CHAR) AS BINARY)"
_FLOAT: Final = _Kind("CAST({} * 1e0 AS BINARY)", _double)
_NUMBER: Final = _Kind(_AS_CHAR, _number)
_GEOMETRY: Final = _Kind("CAST(HEX({}) AS BINARY)", _geometry)
# The kinds stand here once more: a checker that takes the writer's table agrees with each of its mistakes.
_KINDS: Final[dict[str, Callable[[ColumnModel], _Kind]]] = {
    kind: rule
    for kinds, rule in (
        ("tinyint smallint mediumint int bigint", lambda _: _NUMBER),
        ("year", lambda _: _Kind("CAST({} + 0 AS BINARY)", _plain)),
        ("bit", lambda _: _Kind("CAST(CAST({} AS UNSIGNED) AS BINARY)", _number)),
        ("float double", lambda _: _FLOAT),
        ("decimal", lambda column: _Kind(_AS_CHAR, _decimal(column.scale or 0))),
        ("date", lambda _: _Kind(_AS_CHAR, _date)),
        ("time", lambda column: _Kind(_AS_CHAR, _time(column.fraction_digits or 0))),
        (
            "datetime timestamp",
            lambda column: _Kind(_AS_CHAR, _moment(column.fraction_digits or 0)),
        ),
        (
            "char varchar tinytext text mediumtext longtext enum set json",
            lambda column: _BYTES if column.charset == "binary" else _TEXT,
        ),
        ("binary varbinary tinyblob blob mediumblob longblob", lambda _: _BYTES),
        ("uuid inet4 inet6", lambda _: _Kind(_AS_CHAR, _plain)),
        (
            "geometry point linestring polygon multipoint multilinestring multipolygon"
            " geomcollection geometrycollection",
            lambda _: _GEOMETRY,
        ),
        # LENGTH and CONCAT do not take a vector (error 1210).
        ("vector", lambda _: _Kind("CAST(HEX({}) AS BINARY)", _vector)),
    )
    for kind in kinds.split()
}


def _kind(column: ColumnModel) -> _Kind:
    rule = _KINDS.get(column.kind)
    if rule is None:
        raise SchemaError(f"the column type {column.kind!r:.80} is not known")
    return rule(column)


def sql_text(column: ColumnModel) -> str:
    """Return the SQL expression of a value's text; it is NULL for NULL."""
    return _kind(column).sql.format(mysql_name(column.name))


def lake_text(column: ColumnModel) -> LakeText:
    """Return a function that formats a value of a data file that is not None."""
    return _kind(column).lake


def comparable_text(column: ColumnModel) -> Callable[[bytes], bytes]:
    """Return a function that converts a text of the server to the layout of :func:`lake_text`."""
    if _kind(column) is _FLOAT:
        return lambda text: _double(float(text))
    return lambda text: text


def row_texts(columns: Sequence[ColumnModel]) -> Callable[[Mapping[str, Any]], RowTexts]:
    """Return a function that formats the values of a row, as PyArrow reads it.

    A date that Arrow cannot hold is null, and its text is in ``_lossless``.
    """
    makers = [(column.name, lake_text(column)) for column in columns]

    def texts(row: Mapping[str, Any]) -> RowTexts:
        lossless = dict(row.get(_LOSSLESS) or ())
        found: list[bytes | None] = []
        for name, make in makers:
            value = row[name]
            if value is not None:
                found.append(make(value))
            else:
                found.append(lossless[name].encode() if name in lossless else None)
        return tuple(found)

    return texts


def sql_row(columns: list[str]) -> str:
    """Return the SQL expression of a row's bytes; lengths delimit the values and mark NULL."""
    parts = (f"IFNULL(CONCAT(LENGTH({text}), ':', {text}), '-')" for text in columns)
    return f"CONCAT({', '.join(parts)})"


def row_bytes(texts: Sequence[bytes | None]) -> bytes:
    """Return the bytes of a row from its texts, in the format of :func:`sql_row`."""
    return b"".join(b"-" if text is None else b"%d:%b" % (len(text), text) for text in texts)


_PRINTABLE: Final = re.compile(rb"[^\x00-\x1f\x7f]*")


def shown_text(text: bytes | None) -> str | None:
    """Return a text for a message; bytes that are not printable text as ``0x…``."""
    if text is None:
        return None
    try:
        if _PRINTABLE.fullmatch(text):
            return text.decode()
    except UnicodeDecodeError:
        pass
    return f"0x{text.hex()}"
