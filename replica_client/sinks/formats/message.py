"""Messages and their storage until a commit; rows and spatial values as text.

======  ========================================
size    field
======  ========================================
1       byte order: 0 big-endian, 1 little-endian
4       type: 1 POINT … 7 GEOMETRYCOLLECTION
rest    POINT: two doubles; LINESTRING: count and
        points; POLYGON: count and rings, each a
        count and points; others: count and
        geometries, each whole
======  ========================================
"""

from __future__ import annotations

import tempfile
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import call
from struct import error as StructError, unpack_from
from typing import IO, Any, Final, Literal, NamedTuple

import msgspec

from replica_client.errors import PoisonChangeError, SinkError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import ColumnShape, TableShape

ValueWriter = Callable[[Any], str]
"""Returns the JSON text of a value that is neither None nor absent."""


class RowWriter:
    """Writes rows of one shape.

    Args:
        columns: columns of the row values, in order.
        writer_of: returns the writer of a column.
        space: what follows ``:`` and ``,``.
        null_of: returns the text for NULL in a column; None: ``null``.
        of_strings: writers that only quote if the value is a string.
    """

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        writer_of: Callable[[ColumnShape], ValueWriter],
        space: str = "",
        null_of: Callable[[ColumnShape], str] | None = None,
        of_strings: Collection[ValueWriter] = (),
    ) -> None:
        self._fields = []
        for column in columns:
            name, null = f"{quote(column.name)}:{space}", "null"
            if null_of is not None:
                null = null_of(column)
            self._fields.append((name, writer_of(column), name + null))
        self._comma = "," + space
        names = (name.replace("%", "%%") + "%s" for name, _, _ in self._fields)
        self._whole = "{" + self._comma.join(names) + "}"
        self._writers = tuple(
            quote if write in of_strings else write for _, write, _ in self._fields
        )

    def text(self, row: Sequence[Any] | None) -> str:
        """Return the row as an object without absent columns; ``null`` for None."""
        if row is None:
            return "null"
        values = tuple(row)
        if None not in values and ABSENT not in values:
            try:
                return self._whole % (*map(call, self._writers, values),)
            except TypeError:
                pass  # bytes in a column of text
        return "{" + self._comma.join(self.members(row)) + "}"

    def members(self, row: Sequence[Any]) -> list[str]:
        """Return ``"name":value`` for each column that is present in the row."""
        found = []
        for (name, write, null), value in zip(self._fields, row, strict=True):
            if value is None:
                found.append(null)
            elif value is not ABSENT:
                found.append(name + write(value))
        return found

    def changed(self, before: Sequence[Any], after: Sequence[Any]) -> list[str]:
        """Return ``"name":value`` for the columns of ``before`` that differ in ``after``."""
        found = []
        for (name, write, null), old, new in zip(self._fields, before, after, strict=True):
            if old is ABSENT or new is ABSENT or old == new:
                continue
            found.append(null if old is None else name + write(old))
        return found


def delivered_columns(rows: RowsOfEvent) -> tuple[ColumnShape, ...]:
    """Return the columns of the rows' values: all columns, or those that were selected."""
    wanted = frozenset(rows.decoder.column_names)
    return tuple(column for column in rows.shape.columns if column.name in wanted)


def numbered_rows(rows: RowsOfEvent) -> Iterator[tuple[int, Any, Any]]:
    """Yield row index, before image and after image of each row not delivered before."""
    for change in rows:
        yield change.row_index, change.before, change.after


def base64_text(value: bytes) -> str:
    """Return bytes as a JSON string in base64."""
    return f'"{b64encode(value).decode()}"'


def array(texts: Iterator[str] | Sequence[str]) -> str:
    """Return a JSON array of JSON texts."""
    return "[" + ",".join(texts) + "]"


_NAMES = (
    "",
    "POINT",
    "LINESTRING",
    "POLYGON",
    "MULTIPOINT",
    "MULTILINESTRING",
    "MULTIPOLYGON",
    "GEOMETRYCOLLECTION",
)
_MAX_DEPTH = 64


def well_known_text(wkb: bytes) -> str:
    """Return the well-known text of a geometry.

    Raises:
        ValueError: the bytes are no well-known binary.
    """
    reader = _Reader(wkb)
    try:
        text = reader.geometry(0)
    except StructError as error:
        raise ValueError(f"a geometry of {len(wkb)} bytes ends early") from error
    if reader.at != len(wkb):
        raise ValueError(f"a geometry has {len(wkb) - reader.at} bytes too many")
    return text


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.order = "<"

    def geometry(self, depth: int, *, named: bool = True) -> str:
        if depth > _MAX_DEPTH:
            raise ValueError("geometries are nested too deep")
        (order,) = self._take("B")
        self.order = "<" if order else ">"
        (kind,) = self._take("I")
        if not 1 <= kind <= 7:
            raise ValueError(f"geometry type {kind} is not known")
        text = self._body(kind, depth)
        return f"{_NAMES[kind]} {text}" if named else text

    def _body(self, kind: int, depth: int) -> str:
        if kind == 1:
            return f"({self._point()})"
        if kind == 2:
            return self._points()
        (count,) = self._take("I")
        if not count:
            return "EMPTY"
        if kind == 3:
            parts = [self._points() for _ in range(count)]
        else:
            parts = [self.geometry(depth + 1, named=kind == 7) for _ in range(count)]
        return "(" + ", ".join(parts) + ")"

    def _points(self) -> str:
        (count,) = self._take("I")
        if not count:
            return "EMPTY"
        return "(" + ", ".join(self._point() for _ in range(count)) + ")"

    def _point(self) -> str:
        x, y = self._take("dd")
        return f"{_number(x)} {_number(y)}"

    def _take(self, form: str) -> tuple[int, ...]:
        found = unpack_from(self.order + form, self.data, self.at)
        self.at += {"B": 1, "I": 4, "dd": 16}[form]
        return found


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


MessageKind = Literal["row", "schema", "transaction"]

NEW_KEY: Final = "__debezium.newkey"
"""Header of a message, and of its tombstone, whose row goes on under another key."""


class Message(NamedTuple):
    """A message, its key and other attributes.

    Attributes:
        kind: ``row``: a row change, or a TRUNCATE; ``schema``: a schema change, or a loss;
            ``transaction``: beginning or end of a transaction.
        database: the changed database, ``""`` for none.
        table: the changed table, ``""`` for none.
        key: JSON of the row's key; None if the table has no key.
        value: the line, without a line end; empty if the format writes no lines.
        gone: key of which no row is left after this change; None for none.
        headers: names and values of the message's headers.
        rows: the rows event of the row, if known.
        row_index: index of the row in its event.
        topic: explicit destination; ``""``: the table decides.
        schemas: Connect schemas of keys and of the value, as JSON, if the format keeps them apart
            from the texts.
        binary: the value, if the format writes no lines.
    """

    kind: MessageKind
    database: str
    table: str
    key: str | None
    value: str
    gone: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    rows: RowsOfEvent | None = None
    row_index: int = 0
    topic: str = ""
    schemas: tuple[str, str] = ("", "")
    binary: bytes | None = None

    @property
    def data(self) -> bytes:
        """The value as bytes; a line is encoded in UTF-8."""
        if self.binary is not None:
            return self.binary
        return self.value.encode("utf-8", "backslashreplace")


def row_message(
    database: str,
    table: str,
    key: str | None,
    value: str,
    gone: str | None,
    headers: tuple[tuple[str, str], ...],
    rows: RowsOfEvent,
    row_index: int,
    schemas: tuple[str, str] = ("", ""),
) -> Message:
    """Return the message of a row.

    Nearly all messages are built here, so the function skips the overhead of ``Message(…)``.
    """
    members = (
        "row",
        database,
        table,
        key,
        value,
        gone,
        headers,
        rows,
        row_index,
        "",
        schemas,
        None,
    )
    return tuple.__new__(Message, members)


def unwritable(message: Message, text: str) -> SinkError:
    """Return the error for a message that can never be written.

    The error names the row if it is known.

    Args:
        message: the message.
        text: what is wrong.
    """
    rows = message.rows
    if rows is None:
        return SinkError(text)
    return PoisonChangeError(
        text,
        event_index=rows.event_index,
        row_index=message.row_index,
        file=rows.event.file,
        position=rows.event.position,
        table_name=(rows.shape.database, rows.shape.table),
    )


class KeyWriter:
    """Writes the key of a table's rows as a JSON object.

    Args:
        columns: columns of the row values, in order.
        key: names of the key's columns, in order.
        writer_of: returns the writer of a column.
        space: what follows ``:`` and ``,``.
        prefix: put before each name.
        first: members that stand before those of the row.
        unique: whether a key has at most one row.
    """

    def __init__(
        self,
        columns: Sequence[ColumnShape],
        key: Sequence[str],
        writer_of: Callable[[ColumnShape], ValueWriter],
        *,
        space: str = "",
        prefix: str = "",
        first: Sequence[str] = (),
        unique: bool = True,
    ) -> None:
        names = [column.name for column in columns]
        # A key with a column that is not delivered does not identify rows.
        self.indexes = tuple(names.index(name) for name in key) if set(key) <= set(names) else ()
        chosen = [columns[at] for at in self.indexes]
        self._fields = [
            (f"{quote(prefix + column.name)}:{space}", writer_of(column)) for column in chosen
        ]
        self._one = self._fields[0] if len(self._fields) == 1 else None
        self._unique = unique
        self._head = "{" + "".join(f"{member},{space}" for member in first)
        self._comma = "," + space

    def text(self, row: Sequence[Any]) -> str | None:
        """Return the key of a row; None if the table has no key or the image lacks a key column."""
        if self._one is not None:
            name, write = self._one
            value = row[self.indexes[0]]
            if value is ABSENT:
                return None
            return f"{self._head}{name}{'null' if value is None else write(value)}}}"
        if not self._fields:
            return None
        found = []
        for (name, write), at in zip(self._fields, self.indexes, strict=True):
            value = row[at]
            if value is ABSENT:
                return None
            found.append(name + ("null" if value is None else write(value)))
        return self._head + self._comma.join(found) + "}"

    def of_change(
        self, before: Sequence[Any] | None, after: Sequence[Any] | None
    ) -> tuple[str | None, str | None]:
        """Return the key of a changed row, and the key that no row has any more.

        Key columns that the after image leaves out are taken from the before image.
        """
        if before is None:
            return (None if after is None else self.text(after)), None
        old = self.text(before)
        if after is None:
            return old, old if self._unique else None
        if not self.is_changed(before, after):
            return old, None
        if any(after[at] is ABSENT for at in self.indexes):
            after = [old if new is ABSENT else new for old, new in zip(before, after, strict=True)]
        return self.text(after), old if self._unique else None

    def is_changed(self, before: Sequence[Any], after: Sequence[Any]) -> bool:
        """Return whether an update changed the key.

        A column that the after image leaves out did not change.
        """
        for at in self.indexes:
            new = after[at]
            if new is not ABSENT and before[at] != new:
                return True
        return False


class KeyChoice:
    """The choice of the key columns of each table.

    Args:
        columns: names of columns by pattern of the table (``shop.orders``, ``*.orders``), instead
            of the primary key.
    """

    def __init__(self, columns: Mapping[str, Sequence[str]] | None = None) -> None:
        self._columns = dict(columns or {})

    def of(self, shape: TableShape) -> tuple[list[str], bool]:
        """Return the key's columns, and whether they are the primary key."""
        name = f"{shape.database}.{shape.table}"
        for pattern, columns in self._columns.items():
            if fnmatchcase(name, pattern):
                return list(columns), False
        return [shape.columns[at].name for at in shape.primary_key], True


_MEMORY_BYTES: Final = 16 << 20


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The stored part of a message. Schemas are stored by number, as they are long and few."""

    kind: MessageKind
    database: str
    table: str
    key: str | None
    value: str
    gone: str | None
    headers: tuple[tuple[str, str], ...]
    topic: str
    schemas: int
    binary: bytes | None


class MessageSpool:
    """Stores messages in order, without their rows events."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(_Stored)
        self._schemas: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return self._file is not None

    def take(self, messages: Iterable[Message]) -> None:
        """Add messages."""
        if self._file is None:
            # Closed by clear, in another call.
            self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
        for message in messages:
            number = self._schemas.setdefault(message.schemas, len(self._schemas))
            stored = _Stored(*message[:7], message.topic, number, message.binary)
            self._file.write(self._encoder.encode(stored) + b"\n")

    def messages(self) -> Iterator[Message]:
        """Yield all stored messages."""
        if self._file is None:
            return
        self._file.seek(0)
        schemas = list(self._schemas)
        for line in self._file:
            one = self._decoder.decode(line)
            yield Message(
                *(one.kind, one.database, one.table, one.key, one.value, one.gone, one.headers),
                topic=one.topic,
                schemas=schemas[one.schemas],
                binary=one.binary,
            )

    def clear(self) -> None:
        """Remove all messages."""
        file, self._file = self._file, None
        self._schemas.clear()
        if file is not None:
            file.close()
