"""The value of a JSON column: the document's bytes, decoded on demand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Self

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.values.json_encoder import (
    JsonNode,
    JsonOpaque,
    encode_json,
    serialize,
)
from replica_client.protocol.binlog.values.json_layout import (
    INT16,
    INT32,
    LITERAL,
    OPAQUE,
    STRING,
    UINT16,
    UINT32,
    DocumentWalk,
    malformed,
    opaque_bounds,
    sized,
)
from replica_client.protocol.binlog.values.json_lookup import DocumentTop, is_container, json_text
from replica_client.protocol.binlog.values.json_reader import scalar_value
from replica_client.protocol.binlog.values.temporal import Temporal

if TYPE_CHECKING:  # the same types with and without Cython installed
    from replica_client import _cython as cython
else:
    import cython

if not cython.compiled:
    from replica_client.protocol.binlog.values.json_reader import decode_json_value

__all__ = ["JsonDocument", "JsonOpaque", "encode_json"]

# Python types that a document can equal. None is SQL NULL, which differs from the document null.
_VALUE_TYPES = (dict, list, str, int, float, Decimal, Temporal, JsonOpaque)


@cython.final
@cython.freelist(64)
@cython.cclass
class JsonDocument:
    """A JSON document in MySQL's binary form, decoded on demand.

    It behaves like the Python objects of :attr:`value`: ``document["items"][0]``,
    ``"key" in document``, ``len(document)``, ``for key in document``, ``dict(document)``,
    ``if document``. A subscript decodes only its result. A wrong kind of document raises TypeError,
    as the Python value would.

    Two documents are equal if the server shows the same text for them. Their bytes may differ: an
    update in place leaves holes, and older servers use other type numbers. A document equals
    another Python object if :attr:`value` does. A document of one string, number, true, false or
    null has the hash of its JSON value, so that a dict finds it by that value; one DECIMAL or date
    is not found by its Python value.

    Attributes:
        data: the stored bytes. Empty bytes are JSON null, as on the server.

    Examples:
        >>> reader = rc.open_binlog("shop-bin.000001", tables=["shop.products"])
        >>> details = next(reader.changes()).after["details"]
        >>> details["volume_l"], details.text
        (1.7, '{"colours": ["steel", "red"], "volume_l": 1.7}')
    """

    __slots__ = ("_text", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._text: str | None = None

    @classmethod
    def of(cls, value: object) -> Self:
        """Encode Python objects as a document; see :func:`encode_json`."""
        return cls(encode_json(value))

    @property
    def text(self) -> str:
        """The text that ``CAST(j AS CHAR)`` returns on the server.

        Raises:
            ColumnDecodeError: the bytes are not a document.
        """
        text = self._text
        if text is None:
            text = self._text = json_text(self.data)
        return text

    @property
    def value(self) -> Any:
        """The document as new Python objects.

        dict, list, str, int, float, bool, None; DECIMAL is :class:`~decimal.Decimal`; DATE, TIME,
        DATETIME and TIMESTAMP are ``Date``, ``Time`` and ``DateTime``; other column types are
        :class:`JsonOpaque`.

        Raises:
            ColumnDecodeError: the bytes are not a document.
        """
        return decode_json_value(self.data)

    def _top(self, needed: str) -> DocumentTop:
        if not is_container(self.data):
            raise TypeError(
                f"the JSON document is {type(self.value).__name__}, neither object nor array: {needed}"
            )
        return DocumentTop(self.data)

    def __getitem__(self, key: str | int | slice) -> Any:
        top = self._top("it has no subscripts")
        if top.members is None:
            if isinstance(key, slice):
                return self.value[key]
            if isinstance(key, str):
                raise TypeError("the JSON document is an array: its indexes are integers")
            return top.at(key)
        if key not in top.members:
            raise KeyError(key)
        return top.at(top.members.index(str(key)))

    def get(self, key: str, default: Any = None) -> Any:
        """Return an object's member; ``default`` if there is none or the document is no object."""
        return self[key] if is_container(self.data) and key in self.keys() else default

    def keys(self) -> list[str]:
        """Return an object's keys, in the server's order; nothing for other documents."""
        return (DocumentTop(self.data).members or []) if is_container(self.data) else []

    def __len__(self) -> int:
        return len(self._top("it has no length"))

    def __iter__(self) -> Iterator[Any]:
        top = self._top("it cannot be iterated")
        return iter(self.value) if top.members is None else iter(top.members)

    def __contains__(self, item: object) -> bool:
        top = self._top("it contains nothing")
        return item in (self.value if top.members is None else top.members)

    def __bool__(self) -> bool:
        return bool(len(DocumentTop(self.data)) if is_container(self.data) else self.value)

    def compacted(self) -> JsonDocument:
        """Return the document without holes, as the server would write it again."""
        return JsonDocument(serialize(read_node(self.data)))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        try:
            return f"JsonDocument({self.text})"
        except ColumnDecodeError:
            return f"JsonDocument(malformed, {len(self.data)} bytes)"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonDocument):
            return self.data == other.data or self.text == other.text
        return bool(self.value == other) if isinstance(other, _VALUE_TYPES) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text if is_container(self.data) else json.loads(self.text))

    def __reduce__(self) -> tuple[type[JsonDocument], tuple[bytes]]:
        return type(self), (self.data,)


@cython.cfunc
def new_document(
    data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> JsonDocument:
    """Return the document of ``size`` bytes at ``offset``, without parsing arguments."""
    if not cython.compiled:
        return JsonDocument(data[offset : offset + size])
    document: JsonDocument = JsonDocument.__new__(JsonDocument)
    document.data = data[offset : offset + size]
    return document


def read_node(data: bytes) -> JsonNode:
    """Return the node of a document (:mod:`replica_client.protocol.binlog.values.json_encoder`).

    Raises:
        ColumnDecodeError: the bytes are not a document.
    """
    if not data:
        return bytes((LITERAL, 0))
    kind = data[0]
    if kind >= LITERAL:
        return _scalar_node(data, kind, 1, len(data))
    return _NodeReader(data).container(kind, 1, len(data), 0)


def _scalar_node(data: bytes, kind: int, at: int, end: int) -> bytes:
    """Return type byte and value bytes of a scalar, after checking them."""
    scalar_value(data, kind, at, end)
    if kind == STRING:
        stop = sized(data, at, end)[1]
    elif kind == OPAQUE:
        stop = opaque_bounds(data, at, end)[2]
    elif kind == LITERAL:
        stop = at + 1
    elif kind in (INT16, UINT16):
        stop = at + 2
    elif kind in (INT32, UINT32):
        stop = at + 4
    else:
        stop = at + 8
    return bytes((kind,)) + data[at:stop]


class _NodeReader(DocumentWalk):
    """A builder of nodes; scalars stay bytes."""

    __slots__ = ()

    def container(self, kind: int, start: int, limit: int, depth: int) -> JsonNode:
        size, header, keys, values = self.open(kind, start, limit, depth)
        items: list[JsonNode] = []
        for code, field in values:
            if code == LITERAL:
                item: JsonNode = _scalar_node(field.to_bytes(4, "little"), code, 0, 4)
            elif code in (INT16, UINT16):
                item = bytes((code,)) + (field & 0xFFFF).to_bytes(2, "little")
            elif kind & 1 and code in (INT32, UINT32):
                item = bytes((code,)) + field.to_bytes(4, "little")
            elif field < header or field >= size:
                raise malformed("a value outside of its container", start + field)
            elif code < LITERAL:
                item = self.container(code, start + field, start + size, depth + 1)
            else:
                item = _scalar_node(self.data, code, start + field, start + size)
                self.budget -= len(item)
                if self.budget < 0:
                    raise self.overspent()
            items.append(item)
        if keys is None:
            return items
        names = [name.encode() for name in self.names(keys, start, size, header)]
        return dict(zip(names, items, strict=True))
