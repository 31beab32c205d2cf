"""Values as Maxwell writes them.

============================  =====================================================
value                         JSON
============================  =====================================================
integer, YEAR, BIT            number
FLOAT, DOUBLE, DECIMAL        number
text, ENUM                    string; ENUM's empty string of an invalid value: null
SET                           array of strings
DATE, TIME, DATETIME,         MySQL's text with the column's fraction digits
TIMESTAMP
BINARY, VARBINARY, BLOB       string of base64
JSON                          the document itself
GEOMETRY                      well-known text
============================  =====================================================

VECTOR is an array of numbers; MariaDB's UUID, INET4 and INET6 are text.
"""

from __future__ import annotations

from typing import Any

from replica_client.binlog.values.enum_set import EnumValue, SetValue
from replica_client.binlog.values.geometry import Geometry
from replica_client.constants.column_types import ColumnType
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.row_text import ValueWriter, array, base64_text
from replica_client.sinks.formats.well_known_text import well_known_text


def maxwell_writer(column: ColumnShape) -> ValueWriter:
    """Return the function that writes a column's values."""
    code = column.type_code
    if code == ColumnType.MYSQL_TYPE_NEWDECIMAL:
        return lambda value: f"{value:f}"
    if code == ColumnType.MYSQL_TYPE_SET:
        return _set
    if code == ColumnType.MYSQL_TYPE_ENUM:
        return _enum
    if code == ColumnType.MYSQL_TYPE_GEOMETRY:
        return _geometry
    return _value


def _value(value: Any) -> str:
    if type(value) is bytes:
        return base64_text(value)
    return value_to_json(value)


def _set(value: SetValue) -> str:
    if value.labels is None:
        return str(value.bits)
    return array([quote(label) for label in value.labels])


def _enum(value: EnumValue) -> str:
    if not value.index:
        return "null"
    return str(value.index) if value.label is None else quote(value.label)


def _geometry(value: Geometry) -> str:
    return quote(well_known_text(value.wkb)) if value.wkb else "null"
