"""JSON documents of MySQL as python-mysql-replication gives them: strings and keys are bytes."""

from __future__ import annotations

import datetime
from enum import Enum
from typing import Any

from replica_client.compat.pymysqlreplication.util.bytes import *  # noqa: F403
from replica_client.compat.row_dicts import document_value as document_value
from replica_client.protocol.binlog.values.json_binary import JsonDocument

_MIDNIGHT = datetime.datetime(1970, 1, 1)  # noqa: DTZ001


def legacy_document_value(document: JsonDocument) -> Any:
    """Return a document's value as python-mysql-replication does: negative TIME loses its sign."""
    return _unsigned(document_value(document.data))


def _unsigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unsigned(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_unsigned(item) for item in value]
    if isinstance(value, datetime.timedelta) and value < datetime.timedelta():
        positive = -value
        if positive < datetime.timedelta(days=1):
            return (_MIDNIGHT + positive).time()
    return value


JSONB_TYPE_SMALL_OBJECT = 0x0
JSONB_TYPE_LARGE_OBJECT = 0x1
JSONB_TYPE_SMALL_ARRAY = 0x2
JSONB_TYPE_LARGE_ARRAY = 0x3
JSONB_TYPE_LITERAL = 0x4
JSONB_TYPE_INT16 = 0x5
JSONB_TYPE_UINT16 = 0x6
JSONB_TYPE_INT32 = 0x7
JSONB_TYPE_UINT32 = 0x8
JSONB_TYPE_INT64 = 0x9
JSONB_TYPE_UINT64 = 0xA
JSONB_TYPE_DOUBLE = 0xB
JSONB_TYPE_STRING = 0xC
JSONB_TYPE_OPAQUE = 0xF

JSONB_LITERAL_NULL = 0x0
JSONB_LITERAL_TRUE = 0x1
JSONB_LITERAL_FALSE = 0x2

JSONB_SMALL_OFFSET_SIZE = 2
JSONB_LARGE_OFFSET_SIZE = 4
JSONB_KEY_ENTRY_SIZE_SMALL = 2 + JSONB_SMALL_OFFSET_SIZE
JSONB_KEY_ENTRY_SIZE_LARGE = 2 + JSONB_LARGE_OFFSET_SIZE
JSONB_VALUE_ENTRY_SIZE_SMALL = 1 + JSONB_SMALL_OFFSET_SIZE
JSONB_VALUE_ENTRY_SIZE_LARGE = 1 + JSONB_LARGE_OFFSET_SIZE

_LITERALS = {0: None, 1: True, 2: False}
_INLINE = (JSONB_TYPE_LITERAL, JSONB_TYPE_INT16, JSONB_TYPE_UINT16)
_INLINE_LARGE = (*_INLINE, JSONB_TYPE_INT32, JSONB_TYPE_UINT32)


def _code(type: int | bytes) -> int:
    return type if isinstance(type, int) else type[0]


def is_json_inline_value(type: int | bytes, is_small: bool) -> bool:
    """Return whether values of a type are stored in the entries of a container."""
    return _code(type) in (_INLINE if is_small else _INLINE_LARGE)


def parse_literal(data: bytes) -> bool | None:
    """null, true or false.

    Raises:
        ValueError: none of them.
    """
    if data[0] not in _LITERALS:
        raise ValueError(f"{data[0]} is not a JSON literal")
    return _LITERALS[data[0]]


def parse_json(type: int | bytes, data: bytes) -> Any:
    """Return the value of a document, given its type code and the bytes after it.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    return document_value(bytes((_code(type),)) + data)


def parse_json_object_or_array(bytes: bytes, is_small: bool, is_object: bool) -> Any:
    """Return the value of an object or array."""
    return parse_json((0 if is_object else 2) + (not is_small), bytes)


def parse_opaque(data: bytes) -> Any:
    """Return a value of a type that JSON does not have."""
    return parse_json(JSONB_TYPE_OPAQUE, data)


class JsonDiffOperation(Enum):
    """An operation of a partial update."""

    Replace = 0
    Insert = 1
    Remove = 2

    @staticmethod
    def by_index(index: int) -> JsonDiffOperation:
        """Return the operation with a code."""
        return JsonDiffOperation(index)


class JsonDiff:
    """A partial update of a document.

    Attributes:
        op: the operation.
        path: where.
        value: the new value; None for a removal.
    """

    def __init__(self, op: JsonDiffOperation, path: bytes, value: Any = None) -> None:
        self.op = op
        self.path = path
        self.value = value

    def __str__(self) -> str:
        value = self.value.decode() if isinstance(self.value, bytes) else self.value
        return (
            f"JsonDiff(op :{self.op} path :{self.path.decode()} "
            f"value :{'' if value is None else value})"
        )


__all__ = [name for name in globals() if not name.startswith("_")]
