"""The binary layout of MySQL's JSON documents: type codes, containers, lengths, limits.

A document is one type byte and a value. Offsets count from the first byte of the container's value
(the byte after its type), integers are little-endian::

    container  element count, size in bytes        2+2 (small) or 4+4 (large)
               key entries, objects only           offset 2|4, length 2, one per member
               value entries                       type 1, offset or inlined value 2|4, one each
               keys, then values
    string     variable length, UTF-8
    opaque     column type code 1, variable length, bytes
    literal    0 null, 1 true, 2 false
    int16 … int64, uint16 … uint64, double         2, 4 or 8 bytes

Literals and 16-bit integers are inlined in value entries; 32-bit integers too in large containers.
A variable length has seven bits per byte, low first, the high bit saying that more follow (at most
five bytes). A document that the server updated in place may have holes between its values.

Spec: MySQL json_binary.h.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from replica_client.errors import ColumnDecodeError

SMALL_OBJECT = 0x00
LARGE_OBJECT = 0x01
SMALL_ARRAY = 0x02
LARGE_ARRAY = 0x03
LITERAL = 0x04
INT16 = 0x05
UINT16 = 0x06
INT32 = 0x07
UINT32 = 0x08
INT64 = 0x09
UINT64 = 0x0A
DOUBLE = 0x0B
STRING = 0x0C
OPAQUE = 0x0F

LITERAL_NULL = 0
LITERAL_TRUE = 1
LITERAL_FALSE = 2

MAX_DEPTH = 100
"""The most nested containers that the server allows."""

EXPANSION_LIMIT = 2
"""The most that all values together may take, as a multiple of the document's size.

In a document from a server, values never share bytes. In a hostile document a few bytes could be
used by values of gigabytes.
"""

DOUBLE_STRUCT = Struct("<d")

_SMALL_KEYS = Struct("<HH")
_LARGE_KEYS = Struct("<IH")
_SMALL_VALUES = Struct("<BH")
_LARGE_VALUES = Struct("<BI")

_SCALAR_SIZES = {INT16: 2, UINT16: 2, INT32: 4, UINT32: 4, INT64: 8, UINT64: 8}
_SIGNED = frozenset((INT16, INT32, INT64))


def malformed(what: str, at: int) -> ColumnDecodeError:
    """Return the error for byte ``at`` of a document."""
    return ColumnDecodeError(f"malformed JSON document: {what} at its byte {at}")


def variable_length(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Read the length at ``data[at]``; return it and the offset of the byte after it.

    Raises:
        ColumnDecodeError: more than five bytes or 32 bits, or past ``end``.
    """
    length = 0
    for shift in (0, 7, 14, 21, 28):
        if at >= end:
            raise malformed("a length that is cut off", at)
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            if length > 0xFFFFFFFF:
                break
            return length, at
    raise malformed("a length of more than 32 bits", at)


def sized(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return start and stop of the bytes after the variable length at ``at``."""
    length, at = variable_length(data, at, end)
    if length > end - at:
        raise malformed(f"{length} bytes where {end - at} are left", at)
    return at, at + length


def opaque_bounds(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return column type code, start and stop of the bytes of an opaque value."""
    if at >= end:
        raise malformed("an opaque value that is cut off", at)
    start, stop = sized(data, at + 1, end)
    return data[at], start, stop


def integer(data: bytes, kind: int, at: int, end: int) -> int:
    """Return the integer of type ``kind`` at ``at``."""
    size = _SCALAR_SIZES.get(kind)
    if size is None:
        raise malformed(f"unknown type 0x{kind:02x}", at)
    if size > end - at:
        raise malformed("an integer that is cut off", at)
    return int.from_bytes(data[at : at + size], "little", signed=kind in _SIGNED)


def double(data: bytes, at: int, end: int) -> float:
    """Return the double at ``at``."""
    if end - at < 8:
        raise malformed("a double that is cut off", at)
    value: float = DOUBLE_STRUCT.unpack_from(data, at)[0]
    return value


def utf8(data: bytes, start: int, stop: int) -> str:
    """Return ``data[start:stop]`` decoded as UTF-8."""
    try:
        return data[start:stop].decode()
    except UnicodeDecodeError as error:
        raise malformed(f"a string that is not UTF-8 ({error.reason})", start) from None


class DocumentWalk:
    """The base of walks over a document: its bytes, and a budget against overlapping values.

    Attributes:
        data: the document.
        budget: bytes that values may still take.
    """

    __slots__ = ("budget", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = EXPANSION_LIMIT * len(data)

    def overspent(self) -> ColumnDecodeError:
        """Return the error for a budget below zero."""
        return ColumnDecodeError(
            f"malformed JSON document: overlapping values take more than {EXPANSION_LIMIT} times "
            f"its {len(self.data)} bytes"
        )

    def open(
        self, kind: int, start: int, limit: int, depth: int
    ) -> tuple[int, int, Iterator[tuple[int, int]] | None, Iterator[tuple[int, int]]]:
        """Check a container's header and charge it to the budget.

        Args:
            kind: type code, below :data:`LITERAL`.
            start: offset of its value.
            limit: offset at which it must end at the latest.
            depth: number of containers around it.

        Returns:
            size of the container; size of its header with all entries, before which no key or value
            may be; its key entries (offset, length), None for an array; its value entries (type,
            offset or inlined value).
        """
        if depth >= MAX_DEPTH:
            raise ColumnDecodeError(f"JSON document with more than {MAX_DEPTH} nested levels")
        data = self.data
        large = kind & 1
        width = 4 if large else 2
        at = start + 2 * width
        if at > limit:
            raise malformed("a container that is cut off", start)
        count = int.from_bytes(data[start : start + width], "little")
        size = int.from_bytes(data[start + width : at], "little")
        key_bytes = count * (width + 2) if kind < SMALL_ARRAY else 0
        value_bytes = count * (width + 1)
        header = 2 * width + key_bytes + value_bytes
        if size > limit - start:
            raise malformed(f"a container of {size} bytes where {limit - start} are left", start)
        if header > size:
            raise malformed(f"{count} elements in a container of {size} bytes", start)
        self.budget -= header
        if self.budget < 0:
            raise self.overspent()
        values = (_LARGE_VALUES if large else _SMALL_VALUES).iter_unpack(
            data[at + key_bytes : start + header]
        )
        if kind >= SMALL_ARRAY:
            return size, header, None, values
        keys = (_LARGE_KEYS if large else _SMALL_KEYS).iter_unpack(data[at : at + key_bytes])
        return size, header, keys, values

    def names(
        self, keys: Iterator[tuple[int, int]], start: int, size: int, header: int
    ) -> list[str]:
        """Return the keys of an object, and charge them to the budget."""
        data = self.data
        names = []
        left = self.budget
        for key_at, key_size in keys:
            if key_at < header or key_at + key_size > size:
                raise malformed("a key outside of its object", start + key_at)
            left -= key_size
            if left < 0:
                raise self.overspent()
            names.append(utf8(data, start + key_at, start + key_at + key_size))
        self.budget = left
        return names
