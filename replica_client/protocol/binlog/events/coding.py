"""``decode`` and ``encode`` of events, generated from their fields."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import MISSING, fields
from struct import Struct
from typing import Any, Final, TypeGuard

from replica_client.errors import BinlogDecodeError, EncodeError, ShortBufferError
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT
from replica_client.protocol.binlog.events.fields import (
    Check,
    Field,
    Group,
    Item,
    Repeated,
    attributes,
    walk,
)
from replica_client.protocol.codec.byte_fields import ByteWriter


def decoder_of(cls: Any) -> Callable[..., Any]:
    """Return the function of the class method ``decode`` of a class with ``FIELDS``."""
    return _Generator(cls.FIELDS, cls).decode()


def encoder_of(cls: Any) -> Callable[..., Any]:
    """Return the method ``encode`` of a class with ``FIELDS``."""
    return _Generator(cls.FIELDS, cls).encode()


def names_of(cls: type) -> dict[str, Any]:
    """Return what expressions of a class know from its module."""
    return dict(vars(sys.modules[cls.__module__]))


_FORMATS: Final = {
    "uint 1": "B",
    "uint 2": "H",
    "uint 4": "I",
    "uint 8": "Q",
    "sint 4": "i",
    "sint 8": "q",
}


def _fixed(item: Item) -> str:
    """Return the letter of :mod:`struct` for a field of fixed size, or ``""``."""
    if not isinstance(item, Field) or item.second or item.convert is not None:
        return ""
    if item.kind == "bytes":
        return f"{item.size}s" if isinstance(item.size, int) and not item.is_str else ""
    return _FORMATS.get(f"{item.kind} {item.size}", "")


def _is_head(item: Item | None) -> TypeGuard[Group]:
    """Return whether a condition depends on the format of the file alone."""
    return (
        isinstance(item, Group)
        and item.condition.startswith("post_header ")
        and all(map(_fixed, item.items))
    )


def _arguments(names: Sequence[str], filled: Collection[str]) -> Iterator[str]:
    """Yield the arguments that make an object; by name after the first that is left out."""
    all_before = True
    for name in names:
        if name in filled:
            yield name if all_before else f"{name}={name}"
        else:
            all_before = False


def reader_of(items: Sequence[Item]) -> Callable[..., dict[str, Any]]:
    """Return a function that reads some fields into a ``dict``."""
    return _Generator(items).read()


class _Generator:
    """The source of functions that read and write fields.

    Args:
        items: the fields.
        cls: the class that they fill, if any.
    """

    def __init__(self, items: Sequence[Item], cls: Any = None) -> None:
        self._items = items
        self._cls = cls
        self._known = ({} if cls is None else names_of(cls)) | {
            "ByteWriter": ByteWriter,
            "ShortBufferError": ShortBufferError,
            "_default_context": DEFAULT_CONTEXT,
        }
        self._defaults: dict[str, Any] = {}
        for one in () if cls is None else fields(cls):
            if one.default is not MISSING:
                self._defaults[one.name] = one.default
        self._lines: list[str] = []

    def _function(self, head: str) -> Callable[..., Any]:
        # Of declarations of this package alone.
        exec("\n".join((head, *self._lines)), self._known)  # noqa: S102
        made: Callable[..., Any] = self._known[head[4 : head.index("(")]]
        if self._cls is not None:
            made.__qualname__ = f"{self._cls.__qualname__}.{made.__name__}"
            made.__module__ = self._cls.__module__
        return made

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += [" " * depth + line for line in lines]

    def _name(self, prefix: str, value: Any) -> str:
        name = f"_{prefix}{len(self._known)}"
        self._known[name] = value
        return name

    def _add_post_header(self) -> None:
        for item in walk(self._items):
            if isinstance(item, Field) and item.kind == "post_header":
                self._add(1, f"post_header = ctx.post_header_size({item.size})")

    def decode(self) -> Callable[..., Any]:
        """Return the function of the class method ``decode``."""
        items = self._items
        self._add_post_header()
        self._absent(items, top=True)
        self._decode(items, 1)
        filled = set(attributes(items))
        names = [one.name for one in fields(self._cls)]
        self._add(1, f"return cls({', '.join(_arguments(names, filled))})")
        return self._function("def decode(cls, reader, ctx):")

    def _absent(self, items: Sequence[Item], *, top: bool = False) -> None:
        """Give the fields under conditions the values that they have without bytes."""
        for item in items:
            if isinstance(item, Group):
                self._absent(item.items)
            elif isinstance(item, (Field, Repeated)) and not top:
                for name in filter(None, (item.name, getattr(item, "second", ""))):
                    value = getattr(item, "absent", ...)
                    if value is ...:
                        value = self._defaults.get(name)
                    plain = value is None or type(value) in (int, bytes)
                    text = repr(value) if plain else self._name("absent", value)
                    self._add(1, f"{name} = {text}")

    def _decode(self, items: Sequence[Item], depth: int) -> None:
        at = 0
        while at < len(items):
            run = at
            while run < len(items) and _fixed(items[run]):
                run += 1
            if run - at > 1:
                group = items[run] if run < len(items) else None
                if _is_head(group):
                    # A head that is longer in later formats: one read for either.
                    self._add(depth, f"if {group.condition}:")
                    self._decode_run((*items[at:run], *group.items), depth + 1)
                    self._add(depth, "else:")
                    self._decode_run(items[at:run], depth + 1)
                    at = run + 1
                    continue
                self._decode_run(items[at:run], depth)
                at = run
                continue
            self._decode_item(items[at], depth)
            at += 1

    def _decode_run(self, run: Sequence[Any], depth: int) -> None:
        """Read fields of fixed sizes at once; one by one where they are cut, for the error."""
        form = Struct("<" + "".join(map(_fixed, run)))
        unpack = self._name("unpack", form.unpack)
        names = ", ".join(item.name for item in run)
        self._add(depth, "try:", f" {names} = {unpack}(reader.take({form.size}))")
        self._add(depth, "except ShortBufferError:")
        for item in run:
            self._decode_item(item, depth + 1)

    def _decode_item(self, item: Item, depth: int) -> None:
        if isinstance(item, Group):
            self._add(depth, f"if {item.condition}:")
            self._decode(item.items, depth + 1)
        elif isinstance(item, Repeated):
            names = list(attributes(item.items))
            value = names[0] if len(names) == 1 else f"({', '.join(names)})"
            self._add(depth, f"{item.name} = []", f"for index in range({item.count}):")
            self._decode(item.items, depth + 1)
            self._add(depth, f" {item.name}.append({value})", f"{item.name} = tuple({item.name})")
        elif isinstance(item, Check):
            if item.error is not EncodeError:
                self._raise_unless(item, depth)
        elif isinstance(item, Field):
            self._decode_field(item, depth)

    def _raise_unless(self, item: Check, depth: int) -> None:
        where = "" if item.back is None else f", offset=reader.offset - {item.back}"
        error = self._name("error", item.error)
        self._add(depth, f"if not ({item.condition}):", f" raise {error}(f{item.message!r}{where})")

    def _decode_field(self, item: Field, depth: int) -> None:
        name, size = item.name, item.size
        if item.kind == "nul":
            error = self._name("error", BinlogDecodeError)
            message = repr(f"no NUL follows the {item.label.removesuffix(' end')}")
            self._add(depth, "if reader.uint(1):")
            self._add(depth, f" raise {error}({message}, offset=reader.offset - 1)")
            return
        if item.second:
            mask = ~item.second_bit
            self._add(depth, f"{name} = {item.second} = reader.uint({size})")
            self._add(depth, f"if {name} & {item.second_bit}:", f" {name} &= {mask}")
            self._add(depth, f" {item.second} = reader.uint({size})")
            return
        what = repr(name.replace("_", " "))
        if item.kind == "struct":
            value = f"{self._name('struct', item.struct)}.decode(reader, ctx)"
        elif item.kind == "derived":
            value = str(size)
        elif item.kind == "lenenc":
            value = "reader.lenenc()"
        elif item.kind == "nul_string":
            value = "reader.nul_string()"
        elif item.kind == "post_header":
            left = "reader.take(post_header - reader.offset, 'post-header')"
            value = f"b'' if post_header == {size} else {left}"
        elif item.kind != "bytes":
            value = f"reader.{item.kind}({size})"
        elif size == "rest":
            value = "reader.rest()"
        elif isinstance(size, str) and size.startswith("prefix "):
            value = f"reader.take(reader.uint({size[7:]}), {what})"
        else:
            value = f"reader.take({size}, {what})"
        if item.is_str:
            value += ".decode('utf-8', 'surrogateescape')"
        if item.convert is not None:
            value = f"{self._name('convert', item.convert)}({value})"
        self._add(depth, f"{name} = {value}")

    def read(self) -> Callable[..., Any]:
        """Return a function that reads the fields into a ``dict``."""
        self._absent(self._items, top=True)
        self._decode(self._items, 1)
        names = ", ".join(f"{name!r}: {name}" for name in attributes(self._items))
        self._add(1, f"return {{{names}}}")
        return self._function("def read(reader):")

    def encode(self) -> Callable[..., Any]:
        """Return the function of the method ``encode``."""
        items = self._items
        bytes_like = {
            item.name: item
            for item in walk(items)
            if isinstance(item, Field) and item.kind in ("bytes", "nul_string")
        }
        self._add_post_header()
        for name in attributes(items):
            value = f"self.{name}"
            item = bytes_like.get(name)
            if item is not None and item.is_str:
                value += ".encode('utf-8', 'surrogateescape')"
            elif item is not None and self._defaults.get(name, b"") is None:
                value += " or b''"
            self._add(1, f"{name} = {value}")
        self._add(1, "out = ByteWriter()")
        self._encode(items, 1)
        self._add(1, "return out.done()")
        return self._function("def encode(self, ctx=_default_context):")

    def _encode(self, items: Sequence[Item], depth: int) -> None:
        for item in items:
            if isinstance(item, Group):
                self._add(depth, f"if {self._encoded_condition(item)}:")
                self._encode(item.items, depth + 1)
            elif isinstance(item, Repeated):
                names = list(attributes(item.items))
                self._add(depth, f"for {', '.join(names)} in {item.name}:")
                self._encode(item.items, depth + 1)
            elif isinstance(item, Check):
                if item.error is EncodeError:
                    self._raise_unless(item, depth)
            elif isinstance(item, Field):
                self._encode_field(item, depth)

    def _encoded_condition(self, group: Group) -> str:
        if group.encoded:
            return group.encoded
        first = next(attributes(group.items), "")
        if first and self._defaults.get(first, MISSING) is None:
            return f"self.{first} is not None"
        return group.condition

    def _encode_field(self, item: Field, depth: int) -> None:
        name, size = item.name, item.size
        value = item.encoded or name
        if item.second:
            self._add(depth, f"if {item.second} is None or {item.second} == {name}:")
            self._add(depth, f" out.uint({name}, {size})", "else:")
            self._add(depth, f" out.uint({name} | {item.second_bit}, {size})")
            self._add(depth, f" out.uint({item.second}, {size})")
        elif item.kind == "nul":
            self._add(depth, "out.raw(b'\\0')")
        elif item.kind == "struct":
            self._add(depth, f"out.raw({name}.encode(ctx))")
        elif item.kind in ("uint", "sint"):
            self._add(depth, f"out.{item.kind}({value}, {size})")
        elif item.kind in ("lenenc", "nul_string"):
            self._add(depth, f"out.{item.kind}({value})")
        elif item.kind == "bytes":
            if isinstance(size, int):
                wrong = f"len({value}) > {size}" if item.is_padded else f"len({value}) != {size}"
                message = f"{item.name} has {size} bytes"
                error = self._name("error", EncodeError)
                self._add(depth, f"if {wrong}:", f" raise {error}({message!r})")
                value += f".ljust({size}, b'\\0')" if item.is_padded else ""
            elif str(size).startswith("prefix "):
                self._add(depth, f"out.uint(len({value}), {str(size)[7:]})")
            self._add(depth, f"out.raw({value})")
        elif item.kind == "post_header":
            self._add(depth, f"out.raw({name})")
