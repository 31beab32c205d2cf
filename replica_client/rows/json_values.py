"""Values as JSON, in the same form in the command line, sinks and Spark.

============================  ==========================================================
value                         JSON
============================  ==========================================================
integer, YEAR, BIT            number
FLOAT, DOUBLE                 the shortest number that reads back the same
DECIMAL                       string
CHAR, VARCHAR, TEXT           string
ENUM                          its label; its index where the label is not known
SET                           its labels joined with commas; its bits where not known
DATE, TIME, DATETIME,         MySQL's own text with all fraction digits; TIMESTAMP in UTC
TIMESTAMP
JSON                          the document itself; ``null``: :mod:`replica_client.rows.json_nulls`
BINARY, VARBINARY, BLOB       ``{"$binary": base64}``
GEOMETRY                      ``{"$wkb": base64, "srid": n}``
VECTOR                        list of numbers
MariaDB UUID, INET4, INET6    their text
NULL                          null
a column left out             left out
============================  ==========================================================
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from replica_client.binlog.values.enum_set import EnumValue, SetValue
from replica_client.binlog.values.geometry import Geometry
from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.binlog.values.json_diff import JsonDiffs
from replica_client.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.rows.json_nulls import json_null_columns, json_null_member
from replica_client.rows.raw_json import RawJson
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change

quote: Callable[[str], str] = encode_basestring
"""Return the JSON text of a string; characters outside ASCII are not escaped."""


def _text(value: Any) -> str:
    return quote(str(value))


def _float(value: float) -> str:
    # JSON has no spelling for these; no MySQL column can hold them.
    if value != value or value in (float("inf"), float("-inf")):
        return _text(value)
    return repr(value)


def _binary(value: bytes) -> str:
    return f'{{"$binary": "{b64encode(value).decode()}"}}'


def _geometry(value: Geometry) -> str:
    return f'{{"$wkb": "{b64encode(value.wkb).decode()}", "srid": {value.srid}}}'


def _enum(value: EnumValue) -> str:
    return str(value.index) if value.label is None else _text(value.label)


def _set(value: SetValue) -> str:
    return str(value.bits) if value.labels is None else _text(str(value))


def _sequence(value: Any) -> str:
    return "[" + ", ".join(value_to_json(item) for item in value) + "]"


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    int: int.__repr__,
    float: _float,
    str: quote,
    Decimal: lambda value: f'"{value:f}"',
    bytes: _binary,
    Date: _text,
    DateTime: _text,
    Time: _text,
    Timestamp: _text,
    date: _text,
    datetime: _text,
    timedelta: _text,
    EnumValue: _enum,
    SetValue: _set,
    Geometry: _geometry,
    JsonDocument: lambda value: value.text,
    JsonDiffs: lambda value: value.text,
    tuple: _sequence,
    list: _sequence,
    RawJson: str,
}


def value_to_json(value: Any) -> str:
    """Return the JSON text of one column value.

    Raises:
        TypeError: a type that no column delivers.
    """
    writer = _WRITERS.get(type(value))
    if writer is None:
        for known, found in _WRITERS.items():
            if isinstance(value, known):
                writer = found
                break
        else:
            raise TypeError(f"{type(value).__name__} is not a column value")
    return writer(value)


def row_to_json(row: Row | None) -> str:
    """Return the JSON object of a row without absent columns; ``null`` for None."""
    return "null" if row is None else cells_to_json(row.as_dict())


def cells_to_json(cells: Mapping[str, Any]) -> str:
    """Return the JSON object of values by column name."""
    return "{" + ", ".join(f"{quote(name)}: {value_to_json(v)}" for name, v in cells.items()) + "}"


def change_to_json(change: Change) -> str:
    """Return one line of ``replica-client changes --json``, without the line end."""
    before, after = row_to_json(change.before), row_to_json(change.after)
    return (
        f'{{"file": {quote(change.file)}, "position": {change.offset}, '
        f'"event_index": {change.event_index}, "row_index": {change.row_index}, '
        f'"gtid": {quote(change.gtid)}, "timestamp": {change.timestamp}, '
        f'"kind": "{change.kind}", "database": {quote(change.database)}, '
        f'"table": {quote(change.table)}, "before": {before}, '
        f'"after": {after}{_json_null(change, before, after)}}}'
    )


def _json_null(change: Change, before: str, after: str) -> str:
    if ": null" not in before and ": null" not in after:
        return ""
    found = [
        [] if row is None else json_null_columns(row.columns, row, text)
        for row, text in ((change.before, before), (change.after, after))
    ]
    return json_null_member(*found)
