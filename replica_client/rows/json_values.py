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
JSON                          the document itself; ``null``: :mod:`replica_client.rows.json_values`
BINARY, VARBINARY, BLOB       ``{"$binary": base64}``
GEOMETRY                      ``{"$wkb": base64, "srid": n}``
vectors                       list of numbers
MariaDB UUID, INET4, INET6    their text
NULL                          null
a column left out             left out
============================  ==========================================================
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Generic, TypeVar
from weakref import ref

from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import JsonDiffs
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.value_types import EnumValue, Geometry, SetValue
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.special_values import RawJson

# Facts that are computed once per row decoder: unknown labels, JSON nulls.
#
# A decoder lives as long as its table is not altered: after each ALTER there is a new one. A cached
# fact must not keep its decoder alive, or a table that is altered every few seconds fills the memory.
#
# Both are ``null`` in a row's JSON. The object of a change with such a document has one more member::
#
#     "json_null": {"before": ["doc"], "after": ["doc", "notes"]}
#
# It names the columns of each image whose ``null`` is the document, in the table's order; an image, or
# the member, without any is left out. Every other ``null`` of an image's own members is SQL NULL.
#
# The JSON object of a row on its own, as a lake keeps those of tables without a primary key, names them in a member
# without a name (:func:`with_json_nulls`)::
#
#     {"id": 1, "doc": null, "": ["doc"]}


_Known = TypeVar("_Known")


class ByDecoder(Generic[_Known]):
    """A cache with one entry per row decoder.

    Args:
        make: computes the entry, which must not refer to the decoder.
    """

    def __init__(self, make: Callable[[RowsOfEvent], _Known]) -> None:
        self._make = make
        # Keys are ids, which are faster than references; an entry is dropped before its id is
        # reused.
        self._known: dict[int, tuple[ref[RowImageDecoder], _Known]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, rows: RowsOfEvent) -> _Known:
        """Return the entry for the decoder of these rows."""
        found = self._known.get(id(rows.decoder))
        return self._new(rows) if found is None else found[1]

    def _new(self, rows: RowsOfEvent) -> _Known:
        known, key = self._known, id(rows.decoder)

        def forget(_: object) -> None:
            known.pop(key, None)

        made = self._make(rows)
        known[key] = ref(rows.decoder, forget), made
        return made


_LONGEST = 2
"""Bytes of the document: its type and the literal. An empty document is JSON null, too."""


def json_null_columns(names: Sequence[str], row: Iterable[Any] | None, text: str) -> list[str]:
    """Return the names of a row's columns that hold the document ``null``.

    Args:
        names: of the row's columns, in order.
        row: its values; None: there is no row.
        text: the row as JSON, spelt ``"name": value``.

    Raises:
        ColumnDecodeError: the bytes of a document are malformed.
    """
    # Most rows have no null, and this check is faster than one of each value.
    if row is None or ": null" not in text:
        return []
    return [
        name
        for name, value in zip(names, row, strict=True)
        if (type(value) is JsonDocument and len(value.data) <= _LONGEST and value.text == "null")
        or (type(value) is RawJson and value == "null")
    ]


def with_json_nulls(text: str, names: Sequence[str]) -> str:
    """Add to a row's JSON object the names of its columns that hold the document ``null``.

    Args:
        text: the object; no column of it has an empty name, which MySQL does not allow.
        names: of these columns, in the table's order; if empty, the text is returned unchanged.
    """
    if not names:
        return text
    return f'{text[:-1]}, "": {json.dumps(list(names), ensure_ascii=False)}}}'


def json_null_member(before: Sequence[str], after: Sequence[str]) -> str:
    """Return the text after ``after`` in a change's object: a comma and the member, or nothing.

    Args:
        before: names of the columns whose before image holds the document ``null``.
        after: names of the columns whose after image does.
    """
    if not before and not after:
        return ""
    images = {"before": before, "after": after}
    found = {image: list(names) for image, names in images.items() if names}
    return f', "json_null": {json.dumps(found, ensure_ascii=False)}'


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
