"""An encoder of JSON documents in MySQL's binary form, byte for byte as the server writes them.

Encoding uses nodes: an object is a dict from key bytes to nodes, an array a list of nodes, and a
scalar its type byte and value bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import isfinite
from typing import Any, TypeAlias

from replica_client.binlog.values.json_layout import (
    DOUBLE,
    DOUBLE_STRUCT,
    INT16,
    INT32,
    INT64,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    LITERAL_FALSE,
    LITERAL_NULL,
    LITERAL_TRUE,
    MAX_DEPTH,
    OPAQUE,
    SMALL_ARRAY,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    UINT64,
)
from replica_client.binlog.values.json_opaque import (
    NEWDECIMAL,
    JsonOpaque,
    decimal_payload,
    temporal_opaque,
)
from replica_client.binlog.values.temporal import Date, DateTime, Time
from replica_client.errors import EncodeError

JsonNode: TypeAlias = "dict[bytes, JsonNode] | list[JsonNode] | bytes"

_SMALL_LIMIT = 0xFFFF
_LARGE_LIMIT = 0xFFFFFFFF
_INLINED_SMALL = frozenset((LITERAL, INT16, UINT16))
_INLINED_LARGE = frozenset((LITERAL, INT16, UINT16, INT32, UINT32))


def encode_json(value: object) -> bytes:
    """Encode Python objects as a document.

    Args:
        value: None, bool, int, float, str, :class:`~decimal.Decimal`, ``Date``, ``Time``,
            ``DateTime``, :class:`JsonOpaque`, or a mapping with str keys, a list or a tuple of
            these.

    Raises:
        EncodeError: another type, a number or key that a document cannot hold, or more than 100
            nested levels.
    """
    return serialize(to_node(value))


def to_node(value: Any, depth: int = 0) -> JsonNode:
    """Return the node of a Python object; see :func:`encode_json`."""
    if isinstance(value, str):
        raw = _utf8(value)
        return bytes((STRING,)) + variable_length_bytes(len(raw)) + raw
    if value is None:
        return bytes((LITERAL, LITERAL_NULL))
    if isinstance(value, bool):
        return bytes((LITERAL, LITERAL_TRUE if value else LITERAL_FALSE))
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        if not isfinite(value):
            raise EncodeError(f"{value} is not a JSON number")
        return bytes((DOUBLE,)) + DOUBLE_STRUCT.pack(value)
    if isinstance(value, Mapping | list | tuple):
        if depth >= MAX_DEPTH:
            raise EncodeError(f"JSON with more than {MAX_DEPTH} nested levels")
        if not isinstance(value, Mapping):
            return [to_node(item, depth + 1) for item in value]
        return {_key(key): to_node(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Decimal):
        value = JsonOpaque(NEWDECIMAL, decimal_payload(value))
    elif isinstance(value, Date | DateTime | Time):
        value = temporal_opaque(value)
    if isinstance(value, JsonOpaque):
        head = bytes((OPAQUE, value.type_code)) + variable_length_bytes(len(value.data))
        return head + value.data
    raise EncodeError(f"{type(value).__name__} has no form in a JSON document")


def variable_length_bytes(length: int) -> bytes:
    """Encode a length in seven bits per byte, low bits first."""
    if length > _LARGE_LIMIT:
        raise EncodeError(f"{length} bytes do not fit into a JSON document")
    out = bytearray()
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out)


def serialize(node: JsonNode) -> bytes:
    """Encode a node as a document: type byte and value.

    Raises:
        EncodeError: more than 4 GiB, or more than 100 nested levels.
    """
    kind, value = _typed(node, 0)
    return bytes((kind,)) + value


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise EncodeError(f"text that is not UTF-8: {error.reason}") from error


def _key(key: object) -> bytes:
    if not isinstance(key, str):
        raise EncodeError(f"a JSON key is str, not {type(key).__name__}")
    raw = _utf8(key)
    if len(raw) > _SMALL_LIMIT:
        raise EncodeError(f"a JSON key of {len(raw)} bytes; at most {_SMALL_LIMIT} fit")
    return raw


def _key_order(key: bytes) -> tuple[int, bytes]:
    """Return the sort key of a member: shorter keys first, then by bytes."""
    return len(key), key


def _integer(value: int) -> bytes:
    for kind, size in ((INT16, 2), (INT32, 4), (INT64, 8)):
        if -1 << (8 * size - 1) <= value < 1 << (8 * size - 1):
            return bytes((kind,)) + value.to_bytes(size, "little", signed=True)
    if 0 <= value < 1 << 64:
        return bytes((UINT64,)) + value.to_bytes(8, "little")
    raise EncodeError(f"{value} does not fit into 64 bits; use Decimal")


def _typed(node: JsonNode, depth: int) -> tuple[int, bytes]:
    if isinstance(node, bytes):
        return node[0], node[1:]
    if depth >= MAX_DEPTH:
        raise EncodeError(f"JSON with more than {MAX_DEPTH} nested levels")
    is_object = isinstance(node, dict)
    keys: list[bytes] = []
    if isinstance(node, dict):
        keys = sorted(node, key=_key_order)
        items = [_typed(node[key], depth + 1) for key in keys]
    else:
        items = [_typed(item, depth + 1) for item in node]
    value = _container(keys, items, is_object, 2)
    if value is not None:
        return SMALL_OBJECT if is_object else SMALL_ARRAY, value
    value = _container(keys, items, is_object, 4)
    if value is None:
        raise EncodeError("a JSON document of more than 4 GiB")
    return LARGE_OBJECT if is_object else LARGE_ARRAY, value


def _container(
    keys: list[bytes], items: list[tuple[int, bytes]], is_object: bool, width: int
) -> bytes | None:
    """Encode a container with offsets of ``width`` bytes; return None if it is too large."""
    inlined = _INLINED_SMALL if width == 2 else _INLINED_LARGE
    at = 2 * width + len(items) * (width + 1)
    if is_object:
        at += len(keys) * (width + 2)
    size = at + sum(map(len, keys)) + sum(len(raw) for kind, raw in items if kind not in inlined)
    if size > (_SMALL_LIMIT if width == 2 else _LARGE_LIMIT):
        return None
    head = bytearray(len(items).to_bytes(width, "little") + size.to_bytes(width, "little"))
    for key in keys:
        head += at.to_bytes(width, "little") + len(key).to_bytes(2, "little")
        at += len(key)
    body = []
    for kind, raw in items:
        head.append(kind)
        if kind in inlined:
            head += raw.ljust(width, _sign_fill(kind, raw))
        else:
            head += at.to_bytes(width, "little")
            body.append(raw)
            at += len(raw)
    return b"".join((head, *keys, *body))


def _sign_fill(kind: int, raw: bytes) -> bytes:
    return b"\xff" if kind == INT16 and raw[1] & 0x80 else b"\0"
