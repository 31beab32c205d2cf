r"""Partial updates of JSON columns: paths, and diffs of PARTIAL_UPDATE_ROWS events.

A path is ``$`` and legs: ``.name``, ``."any \"name\""``, ``[3]``, ``[last]``, ``[last-2]``.
Wildcards and ranges, which name several values, never occur in an update.

Spec: MySQL json_path.cc.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias

from replica_client.errors import ColumnDecodeError, EncodeError, ShortBufferError
from replica_client.protocol.binlog.values.json_binary import JsonDocument, read_node
from replica_client.protocol.binlog.values.json_encoder import JsonNode, serialize
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

JsonPathLeg: TypeAlias = str | int
"""A member's name, or an array index: negative ones count from the end, -1 is ``[last]``."""

_SPACE = re.compile(r"[ \t\r\n]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NAME = re.compile(r"[^\s.\[\]*\"]+")
_CELL = re.compile(r"\[\s*(?:(?P<index>\d{1,10})|last(?:\s*-\s*(?P<back>\d{1,10}))?)\s*\]")


def parse_path(text: str) -> tuple[JsonPathLeg, ...]:
    """Return the legs of a path; none for ``$``, the whole document.

    Raises:
        ColumnDecodeError: the text is not a path to exactly one value.
    """
    at = _skip(text, 0)
    if text[at : at + 1] != "$":
        raise _invalid(text, at)
    legs: list[JsonPathLeg] = []
    at = _skip(text, at + 1)
    while at < len(text):
        leg: JsonPathLeg
        if text[at] == ".":
            leg, at = _path_member(text, _skip(text, at + 1))
        else:
            cell = _CELL.match(text, at)
            if cell is None:
                raise _invalid(text, at)
            index, back = cell.group("index", "back")
            leg = int(index) if index is not None else -1 - int(back or 0)
            at = cell.end()
        legs.append(leg)
        at = _skip(text, at)
    return tuple(legs)


def _path_member(text: str, at: int) -> tuple[str, int]:
    quoted = _QUOTED.match(text, at)
    found = quoted or _NAME.match(text, at)
    if found is None:
        raise _invalid(text, at)
    source = quoted.group() if quoted else f'"{found.group()}"'
    try:
        name: str = json.loads(source, strict=False)
        name.encode()
    except ValueError:
        raise _invalid(text, at) from None
    return name, found.end()


def _skip(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    return space.end() if space else at


def _invalid(text: str, at: int) -> ColumnDecodeError:
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ColumnDecodeError(f"JSON path {shown!r} is not understood at its character {at}")


JSON_DIFF: Final = '{"$json_diff"'
"""Prefix of the text of differences, in place of a document."""


class JsonDiffOperation(IntEnum):
    """The operation of a diff at its path."""

    REPLACE = 0
    """Replace the value at the path."""
    INSERT = 1
    """Add a member, or insert an array element before the one at the path."""
    REMOVE = 2
    """Remove the member or array element at the path; later elements move up."""


@dataclass(frozen=True, slots=True)
class JsonDiff:
    """One change inside a JSON document.

    Bytes::

        size  field
        1     operation   0 replace, 1 insert, 2 remove
        1-9   path size   length-encoded
        n     path        UTF-8, e.g. ``$.tags[2]``
        1-9   value size  length-encoded; not for remove
        n     value       a document; not for remove

    Attributes:
        operation: replace, insert or remove.
        path: the path's text.
        value: the new value; None for remove.

    Spec: MySQL ``Json_diff_vector::write_binary`` (json_diff.cc).
    """

    operation: JsonDiffOperation
    path: str
    value: JsonDocument | None = None

    def __str__(self) -> str:
        name = self.operation.name.lower()
        return f"{name} {self.path}" + ("" if self.value is None else f" {self.value}")


class JsonDiffs(tuple[JsonDiff, ...]):
    """The diffs of a document that is not in the binlog, in the order of application.

    They have their own type because a tuple is also the value of a vector column.
    """

    __slots__ = ()

    @property
    def text(self) -> str:
        """The diffs as JSON.

        For example ``{"$json_diff": [{"operation": "replace", "path": "$.a", "value": 2}]}``.
        """
        return JSON_DIFF + ": [" + ", ".join(map(_diff_text, self)) + "]}"


def _diff_text(diff: JsonDiff) -> str:
    parts = [
        f'"operation": "{diff.operation.name.lower()}"',
        f'"path": {encode_basestring(diff.path)}',
    ]
    if diff.value is not None:
        parts.append(f'"value": {diff.value.text}')
    return "{" + ", ".join(parts) + "}"


def decode_diffs(data: bytes) -> JsonDiffs:
    """Decode all diffs of a column.

    Args:
        data: the column's bytes in the after image, without the four-byte length.

    Raises:
        ColumnDecodeError: the bytes are not diffs.
    """
    reader = ByteReader(data)
    diffs = []
    try:
        while reader.remaining:
            code = reader.uint(1)
            if code > JsonDiffOperation.REMOVE:
                raise ColumnDecodeError(f"JSON diff with unknown operation {code}")
            operation = JsonDiffOperation(code)
            path = reader.lenenc_bytes().decode()
            value = None
            if operation != JsonDiffOperation.REMOVE:
                value = JsonDocument(reader.lenenc_bytes())
            diffs.append(JsonDiff(operation, path, value))
    except ShortBufferError as error:
        raise ColumnDecodeError(f"JSON diff is cut off: {error}") from error
    except UnicodeDecodeError as error:
        raise ColumnDecodeError(f"JSON diff's path is not UTF-8: {error.reason}") from error
    return JsonDiffs(diffs)


def encode_diffs(diffs: Iterable[JsonDiff]) -> bytes:
    """Encode diffs; the inverse of :func:`decode_diffs`."""
    out = ByteWriter()
    for diff in diffs:
        out.uint(diff.operation, 1).lenenc_bytes(diff.path.encode())
        if diff.value is not None:
            out.lenenc_bytes(diff.value.data)
    return out.done()


def apply_diffs(document: JsonDocument, diffs: Iterable[JsonDiff]) -> JsonDocument:
    """Return the document after the diffs, as on a replica.

    Raises:
        ColumnDecodeError: a diff does not fit the document (a replica stops with
            ``ER_COULD_NOT_APPLY_JSON_DIFF``), or bytes are malformed.
    """
    root = read_node(document.data)
    for diff in diffs:
        legs = parse_path(diff.path)
        if diff.value is None:
            _remove(root, legs, diff)
            continue
        node = read_node(diff.value.data)
        if diff.operation == JsonDiffOperation.INSERT:
            _insert(root, legs, node, diff)
        else:
            root = _replace(root, legs, node, diff)
    try:
        return JsonDocument(serialize(root))
    except EncodeError as error:
        raise ColumnDecodeError(f"JSON diffs give a document that cannot be: {error}") from error


def _misfit(diff: JsonDiff) -> ColumnDecodeError:
    operation = diff.operation.name.lower()
    return ColumnDecodeError(f"JSON diff '{operation} {diff.path}' does not fit the document")


def _cell(array: list[JsonNode], leg: JsonPathLeg, diff: JsonDiff) -> int:
    """Return the index of an existing element."""
    if not isinstance(leg, str):
        index = leg if leg >= 0 else len(array) + leg
        if 0 <= index < len(array):
            return index
    raise _misfit(diff)


def _member(node: dict[bytes, JsonNode], leg: JsonPathLeg, diff: JsonDiff) -> bytes:
    """Return the key of an existing member."""
    if isinstance(leg, str):
        key = leg.encode()
        if key in node:
            return key
    raise _misfit(diff)


def _step(node: JsonNode, leg: JsonPathLeg, diff: JsonDiff) -> tuple[Any, JsonNode]:
    """Return key or index of the next node, and that node; None as key for the node itself.

    A value that is no array counts as an array of itself: ``[0]`` and ``[last]`` mean the value.
    """
    if isinstance(node, list):
        index = _cell(node, leg, diff)
        return index, node[index]
    if leg in (0, -1):
        return None, node
    if not isinstance(node, dict):
        raise _misfit(diff)
    key = _member(node, leg, diff)
    return key, node[key]


def _seek(root: JsonNode, legs: Sequence[JsonPathLeg], diff: JsonDiff) -> JsonNode:
    node = root
    for leg in legs:
        _, node = _step(node, leg, diff)
    return node


def _replace(
    root: JsonNode, legs: Sequence[JsonPathLeg], new: JsonNode, diff: JsonDiff
) -> JsonNode:
    """Replace the node at the path by ``new``; return the root."""
    holder: Any = None
    slot: Any = None
    node = root
    for leg in legs:
        parent = node
        child_at, node = _step(parent, leg, diff)
        if child_at is not None:
            holder, slot = parent, child_at
    if holder is None:
        return new
    holder[slot] = new
    return root


def _insert(root: JsonNode, legs: Sequence[JsonPathLeg], new: JsonNode, diff: JsonDiff) -> None:
    if not legs:
        raise _misfit(diff)
    parent, leg = _seek(root, legs[:-1], diff), legs[-1]
    if isinstance(parent, dict) and isinstance(leg, str) and leg.encode() not in parent:
        parent[leg.encode()] = new
    elif isinstance(parent, list) and not isinstance(leg, str):
        parent.insert(leg if leg >= 0 else max(len(parent) + leg, 0), new)
    else:
        raise _misfit(diff)


def _remove(root: JsonNode, legs: Sequence[JsonPathLeg], diff: JsonDiff) -> None:
    if not legs:
        raise _misfit(diff)
    parent, leg = _seek(root, legs[:-1], diff), legs[-1]
    if isinstance(parent, dict):
        del parent[_member(parent, leg, diff)]
    elif isinstance(parent, list):
        del parent[_cell(parent, leg, diff)]
    else:
        raise _misfit(diff)
