"""A cursor over an event that notes what each byte means."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntFlag
from typing import Any

from replica_client.errors import ShortBufferError
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.codec.quick_dataclass import dataclass

SHOWN_BYTES = 48
"""Bytes of a value that are shown; a longer one is cut, with its size beside it."""


@dataclass(frozen=True, slots=True)
class AnnotatedBytes:
    """Some bytes of an event and what they mean.

    Attributes:
        section: ``header``, ``post-header``, ``body``, ``metadata``, ``row …`` or ``checksum``.
        offset: of the first byte, from the start of the event.
        data: the bytes.
        field: name of what they hold.
        value: the value, for people.
        unit: of the value, or what it refers to.
        raw: the value as Python has it.
    """

    section: str
    offset: int
    data: bytes
    field: str
    value: str
    unit: str = ""
    raw: Any = None


def show_bytes(data: bytes) -> str:
    """Bytes for people: as text when they are, else in hexadecimal; cut when long."""
    shown = data[:SHOWN_BYTES]
    more = f"… ({len(data)} bytes)" if len(data) > SHOWN_BYTES else ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return f"0x{shown.hex()}{more}"
    if not all(c.isprintable() or c in "\n\t\r" for c in text):
        return f"0x{shown.hex()}{more}"
    cut = text if not more else text[:SHOWN_BYTES]
    return f"'{printable(cut)}'{more}"


class Annotator:
    """Reads an event from its first byte to its last, and notes a :class:`AnnotatedBytes` for each read.

    Every method that reads takes the name of the field first and gives the value back. All raise
    :class:`~replica_client.errors.ShortBufferError` where the field does not fit.

    Args:
        data: the bytes to read.
        start: offset of the first byte to read.
        end: offset behind the last one.
        base: what the annotated bytes' offsets count from (0: the event's start).
    """

    def __init__(
        self, data: bytes, start: int = 0, end: int | None = None, base: int | None = None
    ) -> None:
        self._data = data
        self._start = start
        self._base = start if base is None else base
        self._reader = ByteReader(data, start, end)
        self.section = "body"
        self.annotated_bytes: list[AnnotatedBytes] = []

    @property
    def remaining(self) -> int:
        """Bytes that are not annotated yet."""
        return self._reader.remaining

    @property
    def offset(self) -> int:
        """Bytes annotated since the start."""
        return self._reader.offset

    def note(self, start: int, field: str, value: str, unit: str = "", raw: Any = None) -> None:
        """Note what the bytes from ``start`` (an :attr:`offset`) to here mean."""
        begin, end = self._start + start, self._start + self._reader.offset
        data = bytes(self._data[begin:end])
        self.annotated_bytes.append(
            AnnotatedBytes(self.section, self._base + start, data, field, value, unit, raw)
        )

    def uint(self, field: str, size: int, unit: str = "", show: Callable[[int], str] = str) -> int:
        """An unsigned little-endian integer."""
        start = self.offset
        value = self._reader.uint(size)
        self.note(start, field, show(value), unit, value)
        return value

    def sint(self, field: str, size: int, unit: str = "") -> int:
        """A signed little-endian integer."""
        start = self.offset
        value = self._reader.sint(size)
        self.note(start, field, str(value), unit, value)
        return value

    def flags(self, field: str, size: int, kind: type[IntFlag], unit: str = "flags") -> int:
        """An integer of flags, shown with the names of those that are set."""
        return self.uint(field, size, unit, lambda value: show_flags(value, kind))

    def lenenc(self, field: str, unit: str = "") -> int:
        """A length-encoded integer."""
        start = self.offset
        value = self._reader.lenenc()
        self.note(start, field, str(value), unit, value)
        return value

    def take(
        self, field: str, size: int, unit: str = "", show: Callable[[bytes], str] = show_bytes
    ) -> bytes:
        """``size`` bytes; nothing is noted for none."""
        start = self.offset
        value = self._reader.take(size)
        if size:
            self.note(start, field, show(value), unit, value)
        return value

    def rest(self, field: str, unit: str = "", show: Callable[[bytes], str] = show_bytes) -> bytes:
        """All bytes that are left; nothing is noted for none."""
        return self.take(field, self.remaining, unit, show)

    def nul(self, field: str) -> None:
        """The NUL that ends a string."""
        self.uint(field, 1, "end of string", lambda value: "NUL" if not value else str(value))

    def nul_string(self, field: str, unit: str = "") -> bytes:
        """Bytes up to a NUL, and the NUL."""
        start = self.offset
        value = self._reader.nul_string()
        self.note(start, field, show_bytes(value), unit or "NUL-terminated", value)
        return value

    def short_string(self, field: str, unit: str = "") -> bytes:
        """A one-byte length and as many bytes."""
        return self.take(field, self.uint(f"{field} length", 1, "bytes"), unit)

    def lenenc_string(self, field: str, unit: str = "") -> bytes:
        """A length-encoded length and as many bytes."""
        return self.take(field, self.lenenc(f"{field} length", "bytes"), unit)

    def peek(self) -> int:
        """The next byte, without moving."""
        return self._reader.peek()

    def view(self, size: int) -> bytes:
        """The next bytes, without moving; fewer when there are no more."""
        begin = self._start + self.offset
        return bytes(self._data[begin : begin + min(size, self.remaining)])

    def fail(self, error: Exception) -> None:
        """Cover what is left with the reason why it cannot be explained."""
        self.rest("unexplained", " ".join(str(error).split()))


def show_flags(value: int, kind: type[IntFlag]) -> str:
    """A number and the names of its flags."""
    names = [flag.name or "" for flag in kind if flag.value and value & flag.value == flag.value]
    text = f"0x{value:x}"
    return f"{text} {'|'.join(names)}" if names else text


def require(annotator: Annotator, size: int, what: str) -> None:
    """Make sure that ``size`` bytes are left.

    Raises:
        ShortBufferError: fewer are.
    """
    if size > annotator.remaining:
        raise ShortBufferError(annotator.offset, size, annotator.remaining, what)
