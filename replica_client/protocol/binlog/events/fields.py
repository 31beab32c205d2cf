"""Fields of events as data: each event declares its bytes once.

An event class lists its fields in the order of its bytes in ``FIELDS``. :class:`DeclaredEvent`
generates ``decode`` and ``encode`` from the list, as ``dataclass`` generates methods; ``replica-client
annotate`` and the text of ``replica-client events`` read the same list.

Conditions and sizes are Python expressions. They know the fields before them by name, the length
and count of a field as ``<name>_length`` and ``<name>_count``, ``post_header`` (the post-header length of the
type in this file), ``ctx`` (the :class:`~replica_client.protocol.binlog.event.EventContext`), what the
module of the class defines and, when bytes are read, ``reader`` (a :class:`ByteReader` or what
annotates). Integers are little-endian.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum, IntFlag
from typing import Any, ClassVar, Final, Literal, Self

from replica_client.errors import BinlogDecodeError, EncodeError
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.codec.quick_dataclass import dataclass

Kind = Literal[
    "uint", "sint", "lenenc", "bytes", "nul_string", "nul", "struct", "derived", "post_header"
]
Show = Literal["", "time", "microseconds", "uuid", "hex", "padded", "numbers", "status", "gtid_set"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field.

    Attributes:
        name: the attribute that has the value; of a hidden field, what others call it.
        kind: how its bytes are read.
        size: number of bytes: a number, an expression, ``"rest"``, or ``"prefix N"`` for an integer
            of N bytes before the value.
        unit: the unit, or what the value refers to.
        since: the first version that writes it.
        show: how the value is shown to people.
        names: numbers or flags with names.
        is_text: whether the bytes are text of a character set that contains ASCII.
        is_str: whether the attribute is a ``str``: UTF-8, with surrogate escapes for other bytes.
        is_hidden: whether the event has no attribute of the name.
        is_padded: whether shorter bytes are filled with NUL.
        label: what people see of a hidden field instead of its name.
        encoded: an expression of the value to encode.
        convert: what makes the attribute of the value.
        absent: the value without the field, if the class has no default.
        second: the attribute of a second value of the size; see :func:`pair`.
        second_bit: the bit of the first value that announces the second.
        struct: the class of a structure.
    """

    name: str
    kind: Kind
    size: int | str = 0
    unit: str = ""
    since: str = ""
    show: Show | Callable[[Any], str] = ""
    names: type[IntEnum] | type[IntFlag] | None = None
    is_text: bool = False
    is_str: bool = False
    is_hidden: bool = False
    is_padded: bool = False
    label: str = ""
    encoded: str = ""
    convert: Callable[[Any], Any] | None = None
    absent: Any = ...
    second: str = ""
    second_bit: int = 0
    struct: type[DeclaredEvent] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that are there under a condition.

    Attributes:
        condition: an expression.
        items: the fields.
        encoded: the condition when encoding, if it differs; by default the first attribute decides
            if it is None without the fields.
    """

    condition: str
    items: tuple[Item, ...]
    encoded: str = ""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A tuple of values, or of tuples of values.

    Attributes:
        name: the attribute.
        count: an expression; it knows the element's ``index``.
        items: the fields of an element.
    """

    name: str
    count: str
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that must hold.

    Attributes:
        condition: an expression.
        message: of the error, with expressions in braces.
        error: the error; an :class:`EncodeError` is for the encoder, others are for the decoder.
        back: number of bytes from the cursor back to the wrong ones; None: nowhere in particular.
    """

    condition: str
    message: str
    error: type[BinlogDecodeError] | type[EncodeError] = BinlogDecodeError
    back: int | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """The begin of a part of the event, as people see it."""

    name: str


Item = Field | Group | Repeated | Check | Section
BODY: Final = Section("body")


def uint(name: str, size: int, unit: str = "", **more: Any) -> Field:
    """Declare an unsigned integer."""
    return Field(name, "uint", size, unit, **more)


def sint(name: str, size: int, unit: str = "", **more: Any) -> Field:
    """Declare a two's complement integer."""
    return Field(name, "sint", size, unit, **more)


def lenenc(name: str, unit: str = "", **more: Any) -> Field:
    """Declare a length-encoded integer."""
    return Field(name, "lenenc", 0, unit, **more)


def pair(name: str, second: str, size: int, bit: int, unit: str = "", **more: Any) -> Field:
    """Declare a value, and a second one if it differs; a bit of the first announces the second."""
    return Field(name, "uint", size, unit, second=second, second_bit=bit, **more)


def raw(name: str, size: int | str, unit: str = "", **more: Any) -> Field:
    """Declare bytes."""
    return Field(name, "bytes", size, unit, **more)


def rest(name: str, unit: str = "", **more: Any) -> Field:
    """Declare all bytes that are left."""
    return Field(name, "bytes", "rest", unit, **more)


def prefixed(name: str, size: int, unit: str = "", **more: Any) -> Field:
    """Declare bytes after their length, an integer of ``size`` bytes."""
    return Field(name, "bytes", f"prefix {size}", unit, **more)


def nul_string(name: str, unit: str = "NUL-terminated", **more: Any) -> Field:
    """Declare bytes that end with a NUL."""
    return Field(name, "nul_string", 0, unit, **more)


def nul(name: str) -> Field:
    """Declare the NUL after a string."""
    return Field(f"{name}_end", "nul", 1, "end of string", is_hidden=True, label=f"{name} end")


def length(name: str, size: int, *, absent: int = 0) -> Field:
    """Declare the number of bytes of a later field."""
    return Field(
        f"{name}_length",
        "uint",
        size,
        "bytes",
        is_hidden=True,
        label=f"{name} length",
        encoded=f"len({name})",
        absent=absent,
    )


def count(name: str, size: int) -> Field:
    """Declare the number of a later field's values."""
    return Field(
        f"{name}_count",
        "uint",
        size,
        is_hidden=True,
        label=f"{name} count",
        encoded=f"len({name})",
        absent=0,
    )


def derived(name: str, expression: str) -> Field:
    """Declare an attribute that follows from other fields and has no bytes."""
    return Field(name, "derived", expression)


def struct(name: str, of: type[DeclaredEvent]) -> Field:
    """Declare a structure with fields of its own."""
    return Field(name, "struct", struct=of)


def when(condition: str, *items: Item, encoded: str = "") -> Group:
    """Declare fields that are there under a condition."""
    return Group(condition, items, encoded)


def repeated(name: str, times: str, *items: Item) -> Repeated:
    """Declare a tuple of values."""
    return Repeated(name, times, items)


def post_header(size: int, name: str = "extra_post_header") -> tuple[Field, Section]:
    """Declare the end of the post-header.

    Args:
        size: its length in known versions; bytes beyond it are kept.
        name: the attribute that keeps them.
    """
    return Field(name, "post_header", size), BODY


EXTRA: Final = rest("extra", "beyond the known fields")
"""Bytes after the known fields; empty in known versions."""


class DeclaredEvent:
    """A base of classes whose bytes are the fields in ``FIELDS``.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
    """

    __slots__ = ()
    FIELDS: ClassVar[tuple[Item, ...]] = ()
    """The fields, in the order of their bytes."""
    INFO: ClassVar[str] = ""
    """The Info column of SHOW BINLOG EVENTS, if it is a text with attributes in braces."""

    def __init_subclass__(cls) -> None:
        own = vars(cls)
        if "FIELDS" in own:
            for name, method in _FIRST_CALLS.items():
                if name not in own:
                    setattr(cls, name, method)

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        raise NotImplementedError

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        raise NotImplementedError


def _declaring(cls: type) -> Any:
    return next(base for base in cls.__mro__ if "FIELDS" in vars(base))


def _first_decode(cls: Any, body: ByteReader, ctx: EventContext) -> Any:
    """Decode post-header and body."""
    from replica_client.protocol.binlog.events.coding import decoder_of

    owner = _declaring(cls)
    owner.decode = classmethod(decoder_of(owner))
    return cls.decode(body, ctx)


def _first_encode(self: Any, ctx: EventContext = DEFAULT_CONTEXT) -> Any:
    """Return the encoded body."""
    from replica_client.protocol.binlog.events.coding import encoder_of

    owner = _declaring(type(self))
    owner.encode = encoder_of(owner)
    return self.encode(ctx)


# Compiling the methods of all events at import would be a fifth of a command's start.
_FIRST_CALLS: Final[dict[str, Any]] = {
    "decode": classmethod(_first_decode),
    "encode": _first_encode,
}


def walk(items: Sequence[Item]) -> Iterator[Field | Repeated | Check | Section]:
    """Yield all of a declaration, also what is under conditions, but not the fields of elements."""
    for item in items:
        if isinstance(item, Group):
            yield from walk(item.items)
        else:
            yield item


def attributes(items: Sequence[Item]) -> Iterator[str]:
    """Yield the names of the attributes that a declaration fills."""
    for item in walk(items):
        if isinstance(item, Repeated) or (isinstance(item, Field) and not item.is_hidden):
            yield item.name
        if isinstance(item, Field) and item.second:
            yield item.second


def text_names(items: Sequence[Item]) -> frozenset[str]:
    """Return the names of the fields whose bytes are text."""
    names = set()
    for item in walk(items):
        if isinstance(item, Repeated):
            if text_names(item.items):
                names.add(item.name)
        elif isinstance(item, Field) and item.is_text:
            names.add(item.name)
    return frozenset(names)
