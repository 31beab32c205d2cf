"""One form for values of SELECT and for those that were delivered, so that they can be compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from replica_client import ABSENT
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue

Row = dict[str, Any]

UNREADABLE = "a value whose labels are no text"
"""CONVERT TO leaves labels whose bytes are no text in the new character set: there is a number only."""

_WHOLE = frozenset((1, 2, 3, 8, 9, 13))
_DECIMAL = frozenset((0, 246))
_FLOAT, _DOUBLE, _BIT, _JSON = 4, 5, 16, 245
_STRINGS = frozenset((15, 249, 250, 251, 252, 253, 254))
_BINARY = 63
_ENUM_FLAG, _SET_FLAG = 256, 2048


@dataclass
class Rows:
    """The rows of a table, in any order."""

    names: tuple[str, ...]
    rows: list[Row]


def selected(value: bytes | None, type_code: int, collation: int, flags: int) -> Any:
    """A value of SELECT."""
    if value is None:
        return None
    if type_code == _BIT:
        return Decimal(int.from_bytes(value, "big"))
    if type_code in _WHOLE:
        return Decimal(int(value))
    if type_code in _DECIMAL:
        return Decimal(value.decode())
    if type_code in (_FLOAT, _DOUBLE):
        return _rounded(float(value), type_code == _FLOAT)
    if type_code == _JSON:
        return _json(value.decode())
    if type_code in _STRINGS and collation == _BINARY and not flags & (_ENUM_FLAG | _SET_FLAG):
        return value
    return value.decode("utf-8", "surrogateescape")


def delivered(value: Any, type_code: int) -> Any:
    """A delivered value in the same form."""
    if value is None or value is ABSENT:
        return value
    if isinstance(value, EnumValue):
        return UNREADABLE if value.label is None else value.label
    if isinstance(value, SetValue):
        return UNREADABLE if value.labels is None else str(value)
    if isinstance(value, bool | int | Decimal):
        return Decimal(value)
    if isinstance(value, float):
        return _rounded(value, type_code == _FLOAT)
    if isinstance(value, JsonDocument):
        return _json(value.text)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return str(value)


def _rounded(value: float, single: bool) -> str:
    return f"{value:.5g}" if single else f"{value:.14g}"


def _json(text: str) -> Any:
    return json.dumps(json.loads(text), sort_keys=True)
