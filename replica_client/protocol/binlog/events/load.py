"""LOAD, NEW_LOAD and CREATE_FILE: LOAD DATA statements of MySQL 3.23 to 4.1."""

from __future__ import annotations

from typing import Self

from replica_client.errors import BinlogDecodeError, EncodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType

_LOAD_HEADER_SIZE = 18
_CREATE_HEADER_SIZE = 4


@dataclass(frozen=True, slots=True)
class LoadSyntax:
    """The FIELDS and LINES clauses of a LOAD DATA statement.

    LOAD stores each text as one byte; a bit of ``empty_flags`` says that it is empty. NEW_LOAD and
    CREATE_FILE store each text after a one-byte length, without ``empty_flags``.

    Attributes:
        flags: bit 0: DUMPFILE, 1: OPTIONALLY ENCLOSED, 2: REPLACE, 3: IGNORE.
        empty_flags: None in the newer form; bit 0: field_terminator, 1: enclosed_by,
            2: line_terminator, 3: line_start, 4: escaped_by is empty.

    Spec: MySQL ``sql_ex_data_info`` and ``old_sql_ex`` (load_data_events.h, up to 5.7).
    """

    field_terminator: bytes = b"\t"
    enclosed_by: bytes = b""
    line_terminator: bytes = b"\n"
    line_start: bytes = b""
    escaped_by: bytes = b"\\"
    flags: int = 0
    empty_flags: int | None = None

    @classmethod
    def decode(cls, body: ByteReader, old: bool) -> Self:
        """Decode the one-byte form (``old``) or the form with lengths."""
        if old:
            a, b, c, d, e = (body.take(1) for _ in range(5))
            return cls(a, b, c, d, e, body.uint(1), body.uint(1))
        a, b, c, d, e = (body.take(body.uint(1), "LOAD DATA clause") for _ in range(5))
        return cls(a, b, c, d, e, body.uint(1))

    def encode(self, out: ByteWriter) -> None:
        """Append the bytes."""
        texts = (
            self.field_terminator,
            self.enclosed_by,
            self.line_terminator,
            self.line_start,
            self.escaped_by,
        )
        for text in texts:
            if self.empty_flags is None:
                out.uint(len(text), 1)
            elif len(text) != 1:
                raise EncodeError("LOAD holds each text of its clauses as one byte")
            out.raw(text)
        out.uint(self.flags, 1)
        if self.empty_flags is not None:
            out.uint(self.empty_flags, 1)


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """A LOAD DATA statement; the type LOAD has the old syntax form, NEW_LOAD the newer.

    Bytes (little-endian)::

        offset  size  field
        0       4     thread_id
        4       4     exec_time          seconds
        8       4     skip_lines         IGNORE n LINES
        12      1     table length
        13      1     schema length
        14      4     column count
        18      p-18  extra_post_header  p = post-header length of the type
        p       ...   syntax             :class:`LoadSyntax`
        ...     c     length of each column's name
        ...     ...   columns            each ends with NUL
        ...     ...   table, schema      each ends with NUL
        ...     rest  file_name          may end with NUL

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Load_event`` (load_data_events.h, up to 5.7).
    """

    thread_id: int
    exec_time: int
    skip_lines: int
    schema: bytes
    table: bytes
    columns: tuple[bytes, ...]
    file_name: bytes
    syntax: LoadSyntax = LoadSyntax()
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        head = _Head.decode(body, ctx.format.post_header_size(ctx.type_code, _LOAD_HEADER_SIZE))
        old = ctx.type_code == EventType.LOAD_EVENT
        syntax, columns, table, schema = head.names(body, old)
        return cls(
            head.thread_id,
            head.exec_time,
            head.skip_lines,
            schema,
            table,
            columns,
            body.rest(),
            syntax,
            head.extra,
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter()
        _Head.of(self).encode(out)
        _encode_names(out, self)
        return out.raw(self.file_name).done()


@dataclass(frozen=True, slots=True)
class CreateFileEvent:
    """A LOAD DATA statement and the first piece of its file.

    Bytes (little-endian)::

        offset  size  field
        0       p     as the post-header of LOAD; p = post-header length of LOAD
        p       4     file_id
        p+4     q-4   extra_file_header  q = post-header length of this type
        p+q     ...   as the body of NEW_LOAD; the file name ends with NUL
        ...     rest  block              first bytes of the file

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Create_file_event`` (load_data_events.h, up to 5.7).
    """

    thread_id: int
    exec_time: int
    skip_lines: int
    schema: bytes
    table: bytes
    columns: tuple[bytes, ...]
    file_name: bytes
    file_id: int
    block: bytes
    syntax: LoadSyntax = LoadSyntax()
    extra_post_header: bytes = b""
    extra_file_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.format.post_header_size(EventType.LOAD_EVENT, _LOAD_HEADER_SIZE)
        head = _Head.decode(body, size or _LOAD_HEADER_SIZE)
        file_id = body.uint(_CREATE_HEADER_SIZE)
        own_size = ctx.post_header_size(_CREATE_HEADER_SIZE)
        extra_file_header = body.take(own_size - _CREATE_HEADER_SIZE, "post-header")
        syntax, columns, table, schema = head.names(body, old=False)
        return cls(
            head.thread_id,
            head.exec_time,
            head.skip_lines,
            schema,
            table,
            columns,
            body.nul_string(),
            file_id,
            body.rest(),
            syntax,
            head.extra,
            extra_file_header,
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter()
        _Head.of(self).encode(out)
        out.uint(self.file_id, 4).raw(self.extra_file_header)
        _encode_names(out, self)
        return out.nul_string(self.file_name).raw(self.block).done()


@dataclass(frozen=True, slots=True)
class _Head:
    """The post-header of both events."""

    thread_id: int
    exec_time: int
    skip_lines: int
    table_size: int
    schema_size: int
    column_count: int
    extra: bytes

    @classmethod
    def of(cls, event: LoadEvent | CreateFileEvent) -> _Head:
        """Return the post-header of an event."""
        return cls(
            event.thread_id,
            event.exec_time,
            event.skip_lines,
            len(event.table),
            len(event.schema),
            len(event.columns),
            event.extra_post_header,
        )

    @classmethod
    def decode(cls, body: ByteReader, size: int) -> _Head:
        thread_id, exec_time, skip_lines = body.uint(4), body.uint(4), body.uint(4)
        table_size, schema_size, column_count = body.uint(1), body.uint(1), body.uint(4)
        extra = body.take(size - _LOAD_HEADER_SIZE, "post-header")
        return cls(thread_id, exec_time, skip_lines, table_size, schema_size, column_count, extra)

    def encode(self, out: ByteWriter) -> None:
        out.uint(self.thread_id, 4).uint(self.exec_time, 4).uint(self.skip_lines, 4)
        out.uint(self.table_size, 1).uint(self.schema_size, 1).uint(self.column_count, 4)
        out.raw(self.extra)

    def names(
        self, body: ByteReader, old: bool
    ) -> tuple[LoadSyntax, tuple[bytes, ...], bytes, bytes]:
        """Read syntax, column names, table and schema."""
        syntax = LoadSyntax.decode(body, old)
        sizes = body.take(self.column_count, "lengths of column names")
        columns = tuple(_name(body, size) for size in sizes)
        return syntax, columns, _name(body, self.table_size), _name(body, self.schema_size)


def _name(body: ByteReader, size: int) -> bytes:
    value = body.take(size, "name")
    if body.uint(1):
        raise BinlogDecodeError(f"name {value!r} does not end with NUL", offset=body.offset - 1)
    return value


def _encode_names(out: ByteWriter, event: LoadEvent | CreateFileEvent) -> None:
    event.syntax.encode(out)
    out.raw(bytes(map(len, event.columns)))
    for name in (*event.columns, event.table, event.schema):
        out.raw(name).uint(0, 1)
