"""Decoding of one member or element of a JSON document, without the others."""

from __future__ import annotations

from typing import Any

from replica_client.protocol.binlog.values.json_layout import (
    INT16,
    INT32,
    LITERAL,
    UINT16,
    UINT32,
    DocumentWalk,
    malformed,
)
from replica_client.protocol.binlog.values.json_reader import decode_json_value, scalar_value
from replica_client.protocol.binlog.values.json_writer import JsonTextWriter


def is_container(data: bytes) -> bool:
    """Return whether a document is an object or an array."""
    return bool(data) and data[0] < LITERAL


class DocumentTop(DocumentWalk):
    """The outermost object or array of a document, whose content is decoded on demand.

    Args:
        data: of a document for which :func:`is_container` is true.

    Attributes:
        members: the keys of an object, in order; None for an array.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """

    __slots__ = ("_entries", "_header", "_size", "members")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._size, self._header, keys, values = self.open(data[0], 1, len(data), 0)
        self._entries = list(values)
        self.members: list[str] | None = None
        if keys is not None:
            self.members = self.names(keys, 1, self._size, self._header)

    def __len__(self) -> int:
        return len(self._entries)

    def at(self, index: int) -> Any:
        """Return the value of an entry.

        Raises:
            ColumnDecodeError: there is no valid value at its offset.
        """
        data = self.data
        code, field = self._entries[index]
        if code == LITERAL:
            return scalar_value(field.to_bytes(4, "little"), code, 0, 4)
        if code in (INT16, UINT16):
            return scalar_value((field & 0xFFFF).to_bytes(2, "little"), code, 0, 2)
        if data[0] & 1 and code in (INT32, UINT32):
            return scalar_value(field.to_bytes(4, "little"), code, 0, 4)
        if field < self._header or field >= self._size:
            raise malformed("a value outside of its container", 1 + field)
        # Offsets inside a container count from its start, so type byte and bytes are a document.
        return decode_json_value(bytes((code,)) + data[1 + field : 1 + self._size])


def json_text(data: bytes) -> str:
    """Return the text of a document; ``null`` for an empty byte string.

    MySQL stores an empty document where NULL was forced into a NOT NULL column (``INSERT IGNORE``
    or lax SQL mode), and shows it as JSON null.

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    text: str = JsonTextWriter().text(data)
    return text
