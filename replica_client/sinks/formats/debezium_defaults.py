"""Default values of columns, from their definitions."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from replica_client.constants.column_types import ColumnType
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape

_T = ColumnType
_WHOLE: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year"))
_TEXTS: Final = frozenset(
    ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set")
)
_BYTES: Final = frozenset(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"))
_EPOCH: Final = datetime.datetime.fromordinal(datetime.date(1970, 1, 1).toordinal())
_BITS: Final = re.compile(r"(?:[bB]'([01]*)'|0b([01]*))")
_CLOCK: Final = re.compile(r"(-?)(\d+):(\d+):(\d+)(?:\.(\d+))?")


def default_value(column: ColumnShape) -> Any:
    """Return a column's default as a row value; None if it has none or it is unknown.

    ``CURRENT_TIMESTAMP`` becomes 1970-01-01 00:00:00, as in Debezium.
    """
    model = column.definition
    if model is None or model.default is None:
        return None
    if column.nullable and model.kind == "timestamp" and model.default == "CURRENT_TIMESTAMP":
        return None  # Debezium has a default only if the column cannot be NULL
    try:
        return _value(model, model.default)
    except (ValueError, InvalidOperation):
        return None


def _value(model: ColumnModel, text: str) -> Any:
    kind = model.kind
    if kind in _WHOLE:
        return {"TRUE": 1, "FALSE": 0}.get(text) if text.isalpha() else int(Decimal(text))
    if kind == "decimal":
        return Decimal(text).quantize(Decimal(1).scaleb(-model.scale))
    if kind in ("float", "double"):
        return float(text)
    if kind == "bit":
        bits = _BITS.fullmatch(text)
        return int(text) if bits is None else int(bits[1] or bits[2] or "0", 2)
    if kind in _TEXTS:
        return text
    if kind in _BYTES:
        is_hex = text[:2].lower() == "0x"
        data = (
            bytes.fromhex(text[2:].rjust(len(text[2:]) + len(text) % 2, "0"))
            if is_hex
            else text.encode()
        )
        return data.ljust(model.length or 0, b"\0") if kind == "binary" else data
    if kind == "date":
        return datetime.date.fromisoformat(text)
    if kind == "time":
        return _time(text)
    if kind in ("datetime", "timestamp"):
        if text == "CURRENT_TIMESTAMP":
            return _EPOCH
        return datetime.datetime.fromisoformat(text)
    return None


def _time(text: str) -> datetime.timedelta | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    whole = datetime.timedelta(
        hours=int(hours),
        minutes=int(minutes),
        seconds=int(seconds),
        microseconds=int((fraction or "").ljust(6, "0")[:6]),
    )
    return -whole if sign else whole
