"""Values and column types of mirrors, and values that a database cannot store.

==============================  ====================================================
column                          stored as
==============================  ====================================================
TINYINT … BIGINT, YEAR          INTEGER
BIGINT UNSIGNED, BIT            INTEGER; from 9223372036854775808 on TEXT of the digits
FLOAT, DOUBLE                   REAL; SQLite and DuckDB have one zero
DECIMAL                         TEXT with all its digits
DATE, TIME, DATETIME,           TEXT as MySQL writes it, with all fraction digits;
TIMESTAMP                       TIMESTAMP in UTC
CHAR, VARCHAR, TEXT, ENUM, SET  TEXT
BINARY, VARBINARY, BLOB         BLOB
JSON                            TEXT of the document
GEOMETRY                        BLOB as MySQL stores it: srid, then well-known binary
VECTOR                          TEXT of a JSON array
UUID, INET4, INET6              TEXT
==============================  ====================================================
"""

from __future__ import annotations

import logging
import re
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from replica_client.errors import SinkError
from replica_client.protocol.binlog.values.binary_types import encode_geometry
from replica_client.protocol.binlog.values.enum_set import EnumValue
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.json_values import value_to_json
from replica_client.rows.raw_json import RawJson
from replica_client.schema.model import TEXT_KINDS, ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder

INTEGER_LIMIT: Final = 1 << 63
_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year"))
REALS: Final = frozenset(("float", "double"))
_GEOMETRIES: Final = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
        *("multipolygon", "geometrycollection", "geomcollection"),
    )
)
BLOBS: Final = _GEOMETRIES | frozenset(
    ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
)


def declared_type(column: ColumnModel) -> str:
    """Return the type in CREATE TABLE; ``""`` if SQLite must not convert values."""
    if column.kind == "bit" or (column.kind == "bigint" and column.unsigned):
        return ""
    if column.kind in _INTEGERS:
        return "INTEGER"
    if column.kind in REALS:
        return "REAL"
    return "BLOB" if column.kind in BLOBS else "TEXT"


def stored_encoder(column: ColumnModel) -> ValueEncoder | None:
    """Return the encoder of a column's values; None if they are stored as they are."""
    kind = column.kind
    if kind == "bit" or (kind == "bigint" and column.unsigned):
        return _large
    if kind in _INTEGERS or kind in REALS:
        return None
    if kind == "decimal":
        return _decimal
    if kind == "enum":
        return _enum
    if kind == "json":
        return _json
    if kind in _GEOMETRIES:
        return encode_geometry
    if kind == "vector":
        return value_to_json
    if kind in ("char", "varchar") or kind in BLOBS or kind.endswith("text"):
        return None
    return str


def one_zero(value: float) -> float:
    """Return a number with ``0.0`` in place of ``-0.0``."""
    return value + 0.0


def _large(value: int) -> int | str:
    return value if value < INTEGER_LIMIT else str(value)


def _decimal(value: Any) -> str:
    return f"{value:f}"


def _enum(value: EnumValue) -> str:
    return str(value.index) if value.label is None else value.label


def _json(value: Any) -> str:
    if isinstance(value, RawJson):
        return str(value)
    if not isinstance(value, JsonDocument):
        raise SinkError(
            "a JSON column was changed in parts of its document; set binlog_row_image=FULL, or "
            "binlog_row_value_options='' on the source"
        )
    return value.text


_DECIMAL_DIGITS = 10
"""Digits of a DECIMAL without a given precision."""


@dataclass(frozen=True)
class StoredTypes:
    """The column types of a database.

    Attributes:
        whole: types of integer kinds: signed, unsigned.
        others: types of further kinds; ``{length}``, ``{scale}`` and ``{digits}`` are those of the
            column.
        blob: type of kinds whose values are bytes.
        text: type of all other kinds.
    """

    whole: Mapping[str, tuple[str, str]]
    others: Mapping[str, str]
    blob: str
    text: str

    def of(self, column: ColumnModel) -> str:
        """Return the type of a column."""
        kind = column.kind
        if kind in self.whole:
            return self.whole[kind][column.unsigned]
        if kind in BLOBS:
            return self.blob
        return self.others.get(kind, self.text).format(
            length=decimal_length(column), scale=column.scale, digits=column.fraction_digits
        )


def decimal_length(column: ColumnModel) -> int:
    """Return the number of digits of a DECIMAL."""
    return column.length or _DECIMAL_DIGITS


_LOG = logging.getLogger("replica_client.sinks")
_DATES: Final = frozenset(("date", "datetime", "timestamp"))
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")


class ReplacedValues:
    """Counts values that were stored as NULL, and logs the first one of each column.

    Attributes:
        count: number of values.
    """

    def __init__(self) -> None:
        self.count = 0
        self._columns: set[str] = set()

    def add(self, where: str, column: str, why: str) -> None:
        """Count a value."""
        self.count += 1
        if column not in self._columns:
            self._columns.add(column)
            _LOG.warning(
                "%s: NULL is stored for a value of column %s: %s (unstorable_values = 'null'); the metric "
                "replica_client_replaced_values counts these",
                where,
                column,
                why,
            )


def storable_encoder(
    column: ColumnModel,
    product: str,
    where: str,
    *,
    nulls: bool,
    zero_character: bool,
    years: tuple[int, int] = (1, 9999),
    replaced: ReplacedValues,
) -> ValueEncoder:
    """Return the encoder of a column's values for a database that cannot store all of them.

    Args:
        column: column of a mirrored table.
        product: name of the database product, for messages.
        where: the mirror, for messages.
        nulls: whether such a value becomes NULL; otherwise it is an error.
        zero_character: whether text may hold U+0000.
        years: first and last year that the database stores.
        replaced: counts values that become NULL.
    """
    encode = stored_encoder(column)

    def checked(value: Any) -> Any:
        stored = value if encode is None else encode(value)
        why = _why_not(column, stored, product, zero_character=zero_character, years=years)
        if not why:
            return stored
        if nulls:
            replaced.add(where, column.name, f"{product} does not have the value")
            return None
        raise SinkError(
            f"{where}: column {column.name}: {why}; set unstorable_values = 'null', or leave the table out"
        )

    return checked


def _why_not(
    column: ColumnModel, value: Any, product: str, *, zero_character: bool, years: tuple[int, int]
) -> str:
    """Return why a value cannot be stored; ``""`` if it can."""
    if type(value) is not str:
        return ""
    if column.kind in _DATES:
        return "" if _has_day(value, *years) else f"{product} has no date {value}"
    if zero_character or "\0" not in value:
        return ""
    if column.kind in TEXT_KINDS or column.kind == "json":
        return f"{product} has no text with a character U+0000"
    return ""


def _has_day(value: str, first: int, last: int) -> bool:
    """Return whether a date that MySQL wrote is valid, unlike zero dates or February 31st."""
    found = _DATE.match(value)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    return (
        first <= year <= last
        and 0 < month <= 12
        and 0 < day <= (day if day <= 28 else monthrange(year, month)[1])
    )
