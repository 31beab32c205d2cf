"""Values as JSON and as text, in one form on every surface.

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
JSON                          the document itself; ``null``: :mod:`replica_client.rows.by_decoder`
BINARY, VARBINARY, BLOB       ``{"$binary": base64}``
GEOMETRY                      ``{"$wkb": base64, "srid": n}``
vectors                       list of numbers
MariaDB UUID, INET4, INET6    their text
NULL                          null
a column left out             left out
============================  ==========================================================
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any

from replica_client.protocol.binlog.values.binary_types import Geometry
from replica_client.protocol.binlog.values.enum_set import EnumValue, SetValue
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import JsonDiffs
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.rows.by_decoder import json_null_columns, json_null_member
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import RawJson

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


def json_text(value: Any) -> str:
    """Return the JSON text of a value, as ``changes --json`` writes numbers, texts and times.

    Lists are arrays; maps and structs are objects.
    """
    if isinstance(value, (date, timedelta)):
        return quote(plain_text(value))
    if isinstance(value, (list, tuple)):
        pairs = isinstance(value, list) and value and all(isinstance(one, tuple) for one in value)
        if pairs:
            return json_text(dict(value))  # PyArrow's form of a map
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{quote(str(k))}: {json_text(one)}" for k, one in value.items()) + "}"
        )
    try:
        return value_to_json(value)
    except TypeError:
        return quote(str(value))


def plain_text(value: Any) -> str:
    """Return the text of a value that is not None; dates and times in MySQL's form, in UTC."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"{moment:%Y-%m-%d %H:%M:%S.%f}" if value.year >= 1000 else _early(moment)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _time(value)
    if isinstance(value, (bytes, list, tuple, dict)):
        return json_text(value)
    return str(value)


def _early(moment: datetime) -> str:
    # The platform's %Y may not pad a year before 1000.
    return f"{moment.year:04d}{moment:-%m-%d %H:%M:%S.%f}"


def _time(value: timedelta) -> str:
    micros = value // timedelta(microseconds=1)
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    hours, rest = divmod(seconds, 3600)
    return f"{sign}{hours:02d}:{rest // 60:02d}:{rest % 60:02d}.{fraction:06d}"
