"""ENUM and SET, and values that are bytes with a meaning: GEOMETRY, VECTOR, UUID, INET4 and INET6.

ENUM is a 1-based index of 1 or 2 bytes, little-endian; 0 is the empty string that the server stores
for an invalid value. SET is a bitmap of 1, 2, 3, 4 or 8 bytes, little-endian; bit 0 is the first
label. The labels are not in the row: :mod:`replica_client.schema.shape` has them.

====== =====================================================
size   field
====== =====================================================
4      srid, little-endian
rest   WKB (the OGC format; longitude or x first, as stored)
====== =====================================================

Spec: MySQL "Internal Geometry Storage Format".

In a table map they look like BINARY columns of 16, 4 and 16 bytes; only the table's definition
shows the type. As for any BINARY column, row images omit trailing zero bytes.

Spec: MariaDB ``sql_type_uuid``, ``sql_type_inet`` (text forms as their ``to_string``).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

from replica_client.errors import EncodeError
from replica_client.protocol.binlog.values.numbers import decode_float
from replica_client.protocol.codec.quick_dataclass import dataclass


class EnumValue(str):
    """An ENUM value: a string, its label; without known labels, the index as text.

    Comparison with a string uses the label, so a value without a label equals no string.
    Comparison with an integer uses the index.

    Attributes:
        index: 1-based index of the label; 0 for the empty string of an invalid value.
        label: the label; None when the table's labels are not known.

    Examples:
        >>> change = next(rc.open_binlog("shop-bin.000001").changes())
        >>> tier = change.after["tier"]
        >>> tier == "basic", tier.label
        (True, 'basic')
    """

    __slots__ = ("index", "label")

    index: int  # type: ignore[assignment]  # str.index() gives way
    label: str | None

    def __new__(cls, index: int, label: str | None = None) -> Self:
        """Make a value; the label of index 0 is always the empty string."""
        if index == 0:
            label = ""
        value = str.__new__(cls, index if label is None else label)
        _set_index(value, index)
        _set_label(value, label)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"EnumValue.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EnumValue):
            return self.index == other.index and self.label == other.label
        if isinstance(other, str):
            return self.label is not None and str.__eq__(self, other)
        if isinstance(other, int):
            return self.index == other
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __int__(self) -> int:
        return self.index

    def __repr__(self) -> str:
        return f"EnumValue({self.index}, {self.label!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return EnumValue, (self.index, self.label)


# Slot descriptors are faster than object.__setattr__, for columns with thousands of labels.
_set_index: Callable[[EnumValue, int], None] = vars(EnumValue)["index"].__set__
_set_label: Callable[[EnumValue, str | None], None] = vars(EnumValue)["label"].__set__


class SetValue:
    """A SET value: some of the column's labels, in the order of the definition.

    ``str()`` is MySQL's own text (:func:`joined`; the number when the labels are not known).
    A value equals such a string, another value with the same bits and labels, a Python set of
    labels, and the integer of its bits.

    Attributes:
        bits: the stored bitmap; bit 0 is the first label.
        labels: the labels that are set; None when the table's labels are not known.

    Examples:
        >>> tags = rc.SetValue(5, ("new", "eco"))
        >>> str(tags), tags.labels
        ('new,eco', ('new', 'eco'))
    """

    __slots__ = ("bits", "labels")

    bits: int
    labels: tuple[str, ...] | None

    def __init__(self, bits: int, labels: Iterable[str] | None = None) -> None:
        known = () if bits == 0 else labels
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "labels", None if known is None else tuple(known))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"SetValue.{name} cannot be changed")

    def __contains__(self, label: object) -> bool:
        return self.labels is not None and label in self.labels

    def __iter__(self) -> Iterator[str]:
        if self.labels is None:
            raise ValueError("the labels of this SET column are not known")
        return iter(self.labels)

    def __len__(self) -> int:
        return self.bits.bit_count()

    def __str__(self) -> str:
        return str(self.bits) if self.labels is None else joined(self.labels)

    def __repr__(self) -> str:
        return f"SetValue({self.bits}, {self.labels!r})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SetValue):
            return self.bits == other.bits and self.labels == other.labels
        if isinstance(other, str):
            return self.labels is not None and str(self) == other
        if isinstance(other, set | frozenset):
            return self.labels is not None and frozenset(self.labels) == other
        if isinstance(other, int):
            return self.bits == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __int__(self) -> int:
        return self.bits

    def __reduce__(self) -> tuple[Any, ...]:
        return SetValue, (self.bits, self.labels)


def joined(labels: Iterable[str]) -> str:
    """Return the text of a SET value; as on the server, no comma follows an empty text."""
    text = ""
    for label in labels:
        text = f"{text},{label}" if text else label
    return text


def enum_values(labels: Sequence[str]) -> tuple[EnumValue, ...]:
    """Return all values of an ENUM column, by index, to compute once per table."""
    return (EnumValue(0, ""), *map(EnumValue, range(1, len(labels) + 1), labels))


def enum_value(index: int, values: Sequence[EnumValue] | None) -> EnumValue:
    """Return the value of an index, given :func:`enum_values`, or None for unknown labels.

    Raises:
        ValueError: the index is beyond the labels.
    """
    if values is None:
        return EnumValue(index)
    if not 0 <= index < len(values):
        raise ValueError(f"ENUM index {index}, but there are {len(values) - 1} labels")
    return values[index]


def set_value(bits: int, labels: Sequence[str] | None) -> SetValue:
    """Return the value of a bitmap, given the column's labels, or None for unknown labels.

    Raises:
        ValueError: a bit beyond the labels is set.
    """
    if labels is None:
        return SetValue(bits)
    if bits >> len(labels):
        raise ValueError(f"SET has bits 0x{bits:x}, but there are {len(labels)} labels")
    return SetValue(bits, (label for at, label in enumerate(labels) if bits >> at & 1))


def decode_enum(data: bytes, labels: Sequence[str] | None = None) -> EnumValue:
    """Decode an ENUM of 1 or 2 bytes."""
    if len(data) not in (1, 2):
        raise ValueError(f"ENUM has 1 or 2 bytes, not {len(data)}")
    values = None if labels is None else enum_values(labels)
    return enum_value(int.from_bytes(data, "little"), values)


def decode_set(data: bytes, labels: Sequence[str] | None = None) -> SetValue:
    """Decode a SET of 1 to 8 bytes."""
    if not 1 <= len(data) <= 8:
        raise ValueError(f"SET has 1 to 8 bytes, not {len(data)}")
    return set_value(int.from_bytes(data, "little"), labels)


def encode_enum(value: EnumValue, size: int) -> bytes:
    """Encode an ENUM of ``size`` bytes."""
    return _bytes(value.index, size, "ENUM")


def encode_set(value: SetValue, size: int) -> bytes:
    """Encode a SET of ``size`` bytes."""
    return _bytes(value.bits, size, "SET")


def _bytes(number: int, size: int, what: str) -> bytes:
    try:
        return number.to_bytes(size, "little")
    except OverflowError as error:
        raise EncodeError(f"{what} of {size} bytes cannot hold {number}") from error


_SRID_SIZE = 4


@dataclass(frozen=True, slots=True)
class Geometry:
    """A geometry value.

    Attributes:
        srid: spatial reference system, 0 for the flat plane.
        wkb: well-known binary. Empty for the empty string that old servers store in place of a
            missing value.

    Examples:
        >>> point = rc.Geometry(srid=4326, wkb=bytes.fromhex("0101000000" + "00" * 16))
        >>> point.srid, len(point.wkb)
        (4326, 21)
    """

    srid: int
    wkb: bytes


def decode_geometry(data: bytes) -> Geometry:
    """Decode a geometry's SRID and WKB.

    Raises:
        ValueError: one to three bytes, too few for an SRID.
    """
    if not data:
        return Geometry(0, b"")
    if len(data) < _SRID_SIZE:
        raise ValueError(f"a geometry of {len(data)} bytes has no srid")
    return Geometry(int.from_bytes(data[:_SRID_SIZE], "little"), data[_SRID_SIZE:])


def encode_geometry(value: Geometry) -> bytes:
    """Encode a geometry; return no bytes for ``Geometry(0, b"")``."""
    if not (value.srid or value.wkb):
        return b""
    if not 0 <= value.srid < 1 << 32:
        raise EncodeError(f"srid {value.srid} does not fit into 4 bytes")
    return value.srid.to_bytes(_SRID_SIZE, "little") + value.wkb


_ITEM_SIZE = 4


def decode_vector(data: bytes) -> tuple[float, ...]:
    """Return the vector's numbers, each the shortest that reads back as its 4-byte float.

    Raises:
        ValueError: the number of bytes is no multiple of four.
    """
    if len(data) % _ITEM_SIZE:
        raise ValueError(f"a vector of {len(data)} bytes is not a whole number of floats")
    return tuple(decode_float(data[at : at + 4]) for at in range(0, len(data), _ITEM_SIZE))


def encode_vector(value: Sequence[float]) -> bytes:
    """Encode a vector."""
    try:
        return struct.pack(f"<{len(value)}f", *value)
    except OverflowError as error:
        raise EncodeError("a number is too large for a vector") from error


UUID_SIZE = 16
INET4_SIZE = 4
INET6_SIZE = 16


def decode_uuid(data: bytes) -> str:
    """Return a UUID's text, in lower case with dashes."""
    text = _padded(data, UUID_SIZE).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def decode_inet4(data: bytes) -> str:
    """Return an INET4's dotted text."""
    return str(ipaddress.IPv4Address(_padded(data, INET4_SIZE)))


def decode_inet6(data: bytes) -> str:
    """Return an INET6's text, as MariaDB writes it.

    The first longest run of zero groups becomes ``::``, even a run of one group; mapped and
    compatible IPv4 addresses (``::ffff:1.2.3.4``, ``::1.2.3.4``) have dots.
    """
    data = _padded(data, INET6_SIZE)
    groups = [int.from_bytes(data[at : at + 2], "big") for at in range(0, INET6_SIZE, 2)]
    start, size = _longest_zero_run(groups)
    if start == 0 and (size == 6 or (size == 5 and groups[5] == 0xFFFF)):
        return ("::" if size == 6 else "::ffff:") + decode_inet4(data[12:])
    if not size:
        return ":".join(f"{group:x}" for group in groups)
    head = ":".join(f"{group:x}" for group in groups[:start])
    tail = ":".join(f"{group:x}" for group in groups[start + size :])
    return f"{head}::{tail}"


def _longest_zero_run(groups: list[int]) -> tuple[int, int]:
    """Return start and length of the first longest run of zeros."""
    best, start = (0, 0), None
    for at, group in enumerate([*groups, 1]):
        if group == 0:
            start = at if start is None else start
        elif start is not None:
            if at - start > best[1]:
                best = (start, at - start)
            start = None
    return best


def encode_uuid(value: str) -> bytes:
    """Encode a UUID as 16 bytes."""
    import uuid  # no reader needs it

    return uuid.UUID(value).bytes


def encode_inet4(value: str) -> bytes:
    """Encode an INET4 as 4 bytes."""
    return ipaddress.IPv4Address(value).packed


def encode_inet6(value: str) -> bytes:
    """Encode an INET6 as 16 bytes."""
    return ipaddress.IPv6Address(value).packed


def _padded(data: bytes, size: int) -> bytes:
    if len(data) > size:
        raise ValueError(f"{len(data)} bytes, must be at most {size}")
    return data.ljust(size, b"\0")
