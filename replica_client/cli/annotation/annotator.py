"""A cursor over an event that notes the meaning of each byte, by the declared fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum, IntFlag
from typing import Any

from replica_client.cli.output import clock
from replica_client.errors import ShortBufferError
from replica_client.protocol.binlog.event import EventContext
from replica_client.protocol.binlog.events.coding import names_of
from replica_client.protocol.binlog.events.fields import (
    DeclaredEvent,
    Field,
    Group,
    Item,
    Repeated,
    Section,
    walk,
)
from replica_client.protocol.binlog.events.query_status import VARIABLES
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.printable import printable
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import event_type_name
from replica_client.protocol.gtid import format_uuid

SHOWN_BYTES = 48
"""Bytes of a value that are shown; a longer one is cut, with its size after it."""


@dataclass(frozen=True, slots=True)
class AnnotatedBytes:
    """Some bytes of an event with their meaning.

    Attributes:
        section: ``header``, ``post-header``, ``body``, ``metadata``, ``row …`` or ``checksum``.
        offset: of the first byte, from the start of the event.
        data: the bytes.
        field: the name of the field.
        value: the value, for people.
        unit: of the value, or its reference.
        raw: the value in Python.
    """

    section: str
    offset: int
    data: bytes
    field: str
    value: str
    unit: str = ""
    raw: Any = None


def show_bytes(data: bytes) -> str:
    """Return bytes for people: as text when they are, else in hexadecimal; cut when long."""
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


def show_bits(data: bytes) -> str:
    """Return a bitmap for people, its first bit last."""
    return "0b" + "".join(f"{byte:08b}" for byte in reversed(data)) if len(data) < 9 else data.hex()


class Annotator:
    """A reader of an event that notes an :class:`AnnotatedBytes` for each read.

    Every method that reads takes the name of the field first and returns the value. All raise
    :class:`~replica_client.errors.ShortBufferError` where the field does not fit.

    Args:
        data: the bytes to read.
        start: offset of the first byte to read.
        end: offset after the last one.
        base: what the annotated bytes' offsets count from (0: the event's start).
    """

    def __init__(
        self, data: bytes, start: int = 0, end: int | None = None, base: int | None = None
    ) -> None:
        self._data = data
        self._start = start
        self._base = start if base is None else base
        self.reader = ByteReader(data, start, end)
        self.section = "body"
        self.annotated_bytes: list[AnnotatedBytes] = []

    @property
    def remaining(self) -> int:
        """Number of bytes that are not annotated yet."""
        return self.reader.remaining

    @property
    def offset(self) -> int:
        """Bytes annotated since the start."""
        return self.reader.offset

    def note(self, start: int, field: str, value: str, unit: str = "", raw: Any = None) -> None:
        """Note the meaning of the bytes from ``start`` (an :attr:`offset`) to here."""
        data = self.data_from(start)
        self.annotated_bytes.append(
            AnnotatedBytes(self.section, self._base + start, data, field, value, unit, raw)
        )

    def uint(self, field: str, size: int, unit: str = "", show: Callable[[int], str] = str) -> int:
        """Read an unsigned little-endian integer."""
        start = self.offset
        value = self.reader.uint(size)
        self.note(start, field, show(value), unit, value)
        return value

    def lenenc(self, field: str, unit: str = "") -> int:
        """Read a length-encoded integer."""
        start = self.offset
        value = self.reader.lenenc()
        self.note(start, field, str(value), unit, value)
        return value

    def take(
        self, field: str, size: int, unit: str = "", show: Callable[[bytes], str] = show_bytes
    ) -> bytes:
        """Read ``size`` bytes; note nothing for none."""
        start = self.offset
        value = self.reader.take(size)
        if size:
            self.note(start, field, show(value), unit, value)
        return value

    def rest(self, field: str, unit: str = "", show: Callable[[bytes], str] = show_bytes) -> bytes:
        """Read all bytes that are left; note nothing for none."""
        return self.take(field, self.remaining, unit, show)

    def lenenc_string(self, field: str, unit: str = "") -> bytes:
        """Read a length-encoded length and as many bytes."""
        return self.take(field, self.lenenc(f"{field} length", "bytes"), unit)

    def peek(self) -> int:
        """Return the next byte, without moving."""
        return self.reader.peek()

    def data_from(self, start: int) -> bytes:
        """Return the bytes from ``start`` (an :attr:`offset`) to here."""
        return bytes(self._data[self._start + start : self._start + self.reader.offset])

    def left(self) -> bytes:
        """Return all bytes that are left, without moving."""
        return self.reader.left()

    def read(
        self,
        field: str,
        function: Callable[[ByteReader], Any],
        unit: str = "",
        show: Callable[[Any], str] = str,
    ) -> Any:
        """Read a value by a function of a decoder."""
        start = self.offset
        value = function(self.reader)
        self.note(start, field, show(value), unit, value)
        return value

    def fail(self, error: Exception) -> None:
        """Note the reason why the bytes that are left cannot be explained."""
        self.rest("unexplained", " ".join(str(error).split()))


def show_flags(value: int, kind: type[IntFlag]) -> str:
    """Return a number with the names of its flags."""
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


def moment(seconds: int) -> str:
    """Return seconds since 1970 with their date and time."""
    text = clock(seconds)
    return f"{seconds} = {text}" if text else str(seconds)


def _microseconds(value: int) -> str:
    return f"{value} = {clock(value // 1_000_000)}.{value % 1_000_000:06}" if value else "0"


def show_name(value: int, names: type[IntEnum] | type[IntFlag]) -> str:
    """Return a number with its name, or the names of its flags."""
    if issubclass(names, IntFlag):
        return show_flags(value, names)
    try:
        return f"{value} {names(value).name}"
    except ValueError:
        return str(value)


def show(value: Any, field: Field | None = None) -> str:
    """Return a value for people."""
    if field is not None and field.names is not None:
        return show_name(value, field.names)
    how = "" if field is None else field.show
    if callable(how):
        return how(value)
    if how == "time":
        return moment(value)
    if how == "microseconds":
        return _microseconds(value)
    if how == "hex":
        return hex(value)
    if how == "uuid" and len(value) == 16:
        return format_uuid(value)
    if how == "padded":
        return show_bytes(value.rstrip(b"\0"))
    if isinstance(value, (bytes, str)):
        return show_bytes(value.encode() if isinstance(value, str) else value)
    return str(value)


class DeclaredFields:
    """The annotation of declared fields.

    Args:
        annotator: the cursor.
        ctx: the event's context.
        cls: the class of the event.
    """

    def __init__(self, annotator: Annotator, ctx: EventContext, cls: type[DeclaredEvent]) -> None:
        self._a = annotator
        self._ctx = ctx
        self._values: dict[str, Any] = names_of(cls) | {"reader": annotator, "ctx": ctx}
        self._items = cls.FIELDS

    def annotate(self, prefix: str = "") -> None:
        """Annotate all fields."""
        for item in walk(self._items):
            if isinstance(item, Section):
                self._a.section = "post-header"
            elif isinstance(item, Field) and item.kind == "post_header":
                self._values["post_header"] = self._ctx.post_header_size(int(item.size))
        self.annotate_items(self._items, prefix)

    def annotate_items(self, items: Sequence[Item], prefix: str = "") -> None:
        """Annotate some fields."""
        for item in items:
            if isinstance(item, Group):
                if self._value(item.condition):
                    self.annotate_items(item.items, prefix)
                else:
                    for field in walk(item.items):
                        if isinstance(field, Field):
                            self._values[field.name] = field.absent
            elif isinstance(item, Repeated):
                self._repeat(item)
            elif isinstance(item, Section):
                self._a.section = item.name
            elif isinstance(item, Field):
                self._values[item.name] = self._field(item, prefix)

    def _value(self, expression: str) -> Any:
        # Of declarations of this package alone.
        return eval(expression, self._values)  # noqa: S307

    def _repeat(self, item: Repeated) -> None:
        count = self._value(item.count)
        require(self._a, count, item.name)
        is_single = (
            sum(not field.is_hidden for field in item.items if isinstance(field, Field)) == 1
        )
        for index in range(count):
            self._values["index"] = index
            label = f"{item.name}[{index}]"
            self.annotate_items(item.items, label if is_single else f"{label}.")

    def _field(self, field: Field, prefix: str) -> Any:
        a, size = self._a, field.size
        name = prefix + (field.label or field.name)
        if prefix and not prefix.endswith("."):
            name = prefix if not field.is_hidden else f"{prefix} end"
        if field.kind == "derived":
            return None
        if field.kind == "struct":
            assert field.struct is not None
            DeclaredFields(a, self._ctx, field.struct).annotate_items(
                field.struct.FIELDS, f"{name}."
            )
            return None
        if field.second:
            return self._pair(field, name)
        if field.kind == "post_header":
            a.take(name, self._values["post_header"] - a.offset)
            return None
        if isinstance(size, str):
            if size.startswith("prefix "):
                size = a.uint(f"{name} length", int(size[7:]), "bytes")
            else:
                size = a.remaining if size == "rest" else int(self._value(size))
        start = a.offset
        reader = a.reader
        if isinstance(field.show, str) and field.show in _PARTS:
            require(a, size, name)
            _PARTS[field.show](self, field, name, size)
            return a.data_from(start)
        value: Any
        if field.kind == "bytes":
            value = reader.take(size)
            if not size:
                return value
        elif field.kind in ("uint", "sint", "nul"):
            value = (reader.sint if field.kind == "sint" else reader.uint)(size)
        else:
            value = getattr(reader, field.kind)()
        text = "NUL" if field.kind == "nul" and not value else show(value, field)
        a.note(start, name, text, field.unit, value)
        return value

    def _pair(self, field: Field, name: str) -> int:
        a, bit = self._a, field.second_bit
        start = a.offset
        word = a.reader.uint(int(field.size))
        value = word & ~bit
        mark = " (original follows)" if word & bit else ""
        a.note(start, name, show(value, field) + mark, field.unit, value)
        if word & bit:
            a.uint(field.second, int(field.size), field.unit, lambda second: show(second, field))
        return value

    def _numbers(self, field: Field, name: str, size: int) -> None:
        for index in range(size):
            unit = field.unit or f"bytes in {event_type_name(index + 1)}"
            self._a.uint(f"{name}[{index}]", 1, unit)

    def _status(self, field: Field, name: str, size: int) -> None:
        a, section = self._a, self._a.section
        a.section = "status"
        end = a.offset + size
        while a.offset < end:
            code = a.uint("status variable", 1, "code")
            if code in VARIABLES:
                self.annotate_items(VARIABLES[code])
            else:
                a.take("unparsed", end - a.offset, f"code {code} is not known")
        a.section = section

    def _gtid_set(self, field: Field, name: str, size: int) -> None:
        a = self._a
        head = a.left()[:8]
        if len(head) == 8 and head[7] == 1 and head[0] == 1:
            a.rest("gtid_set", "GTID set with tags")
        elif size:
            for index in range(a.uint("sid count", 8, "uuids")):
                sid = f"sid[{index}]"
                a.take(sid, 16, "uuid", format_uuid)
                intervals = a.uint(f"{sid} interval count", 8)
                require(a, 16 * intervals, "intervals")
                for at in range(intervals):
                    a.uint(f"{sid}[{at}].start", 8, "gno, inclusive")
                    a.uint(f"{sid}[{at}].end", 8, "gno, exclusive")


_PARTS: dict[str, Callable[[DeclaredFields, Field, str, int], None]] = {
    "numbers": DeclaredFields._numbers,
    "status": DeclaredFields._status,
    "gtid_set": DeclaredFields._gtid_set,
}
"""Bytes that are shown in parts."""
