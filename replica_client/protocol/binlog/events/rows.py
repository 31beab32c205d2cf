"""WRITE, UPDATE and DELETE_ROWS of all versions: row images of one table."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import Final, Literal, Self

from replica_client.errors import (
    BinlogDecodeError,
    EncodeError,
    ShortBufferError,
    TruncatedEventError,
    UnsupportedEventError,
)
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, DecodeOptions, EventContext
from replica_client.protocol.binlog.events.fields import DeclaredEvent, rest, uint, when
from replica_client.protocol.binlog.layout import (
    ROWS_COMPRESSED,
    ROWS_EXTRA,
    ROWS_FORMS,
    ROWS_KIND,
    ROWS_OTHER,
    UPDATE,
)
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.compression import deflate_record, inflate_record
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import TYPE_FACTS, ColumnType, types_of

RowsKind = Literal["insert", "update", "delete"]

STMT_END_F = 0x1
"""Flag of the last rows event of a statement."""

NO_TABLE_ID: Final = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)
"""Table ids of a rows event without rows that only ends a statement."""

_KINDS: Final[tuple[RowsKind, ...]] = ("insert", "update", "delete")
_EXTRA_LENGTH_SIZE = 2
_HEAD_6 = Struct("<IHH")


_NDB, PARTITION = 0, 1
_NDB_HEAD_SIZE = 2


@dataclass(frozen=True, slots=True)
class RowsExtra:
    """The tagged fields between post-header and column count of v2 rows events.

    Bytes (little-endian), repeated to the end::

        tag  value
        0    NDB: length (1 byte, counts itself and the format), format (1 byte), data
        1    partition: partition_id (2 bytes); in updates also source_partition_id (2 bytes)

    An unknown tag ends the parsing; the tag and all bytes after it are ``unparsed``.

    Spec: MySQL ``Rows_event::Extra_row_info`` (rows_event.h).
    """

    ndb_format: int | None = None
    ndb_data: bytes | None = None
    partition_id: int | None = None
    source_partition_id: int | None = None
    unparsed: bytes = b""


def parse_rows_extra(data: bytes, is_update: bool) -> RowsExtra:
    """Parse extra row info.

    Raises:
        ShortBufferError: a field is cut.
        BinlogDecodeError: an NDB length that is too small.
    """
    ndb_format = ndb_data = partition = source = None
    unparsed = b""
    block = ByteReader(data)
    while block.remaining:
        start = block.offset
        tag = block.uint(1)
        if tag == _NDB:
            size = block.uint(1)
            if size < _NDB_HEAD_SIZE:
                raise BinlogDecodeError(f"NDB extra row info of length {size}")
            ndb_format = block.uint(1)
            ndb_data = block.take(size - _NDB_HEAD_SIZE, "NDB extra row info")
        elif tag == PARTITION:
            partition = block.uint(2)
            source = block.uint(2) if is_update else None
        else:
            unparsed = data[start:]
            break
    return RowsExtra(ndb_format, ndb_data, partition, source, unparsed)


@dataclass(frozen=True, slots=True)
class RowsHead:
    """The first part of a rows event, up to the row images."""

    table_id: int
    flags: int
    extra_info: bytes
    column_count: int
    columns_before: bytes
    columns_after: bytes | None
    extra_post_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Read post-header, extra info and bitmaps; ``body`` is at the row images then."""
        type_code = ctx.type_code
        form = ROWS_FORMS[type_code]
        is_v2, is_update = bool(form & ROWS_EXTRA), form & ROWS_KIND == UPDATE
        size = ctx.post_header_size(10 if is_v2 else 8)
        if size == 6:
            table_id, flags, known = body.uint(4), body.uint(2), 6
        else:
            low, high, flags = _HEAD_6.unpack(body.take(8, "post-header"))
            table_id, known = low | high << 32, 8
        extra_info = b""
        if is_v2:
            extra_size = body.uint(_EXTRA_LENGTH_SIZE)
            known += _EXTRA_LENGTH_SIZE
            if extra_size < _EXTRA_LENGTH_SIZE:
                raise BinlogDecodeError(f"extra row info of length {extra_size}")
            extra_post_header = body.take(max(0, size - known))
            extra_info = body.take(extra_size - _EXTRA_LENGTH_SIZE, "extra row info")
            if extra_info:
                parse_rows_extra(extra_info, is_update)
        else:
            extra_post_header = body.take(max(0, size - known))
        column_count = body.lenenc()
        bitmap_size = (column_count + 7) >> 3
        before = body.take(bitmap_size, "column bitmap")
        after = None
        if is_update and (is_v2 or not form & ROWS_OTHER):
            after = body.take(bitmap_size, "column bitmap")
        return cls(table_id, flags, extra_info, column_count, before, after, extra_post_header)


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """The rows that one statement inserted, updated or deleted in one table.

    Bytes (little-endian)::

        size  field
        6     table_id            of the TABLE_MAP before; 4 bytes if the post-header length is 6
        2     flags               1 STMT_END_F, 2 no foreign key checks, 4 relaxed unique checks,
                                  8 complete rows
        2     extra length        v2 only; counts itself
        p-…   extra_post_header   p = post-header length of the type; empty in known versions
        n     extra_info          v2 only; see :class:`RowsExtra`
        1..9  column_count        length-encoded
        b     columns_before      bitmap, b = (column_count + 7) / 8: columns in the images
        b     columns_after       update from v1 on: columns in the after images
        rest  rows                row images; an update has before and after in turns

    In MariaDB's compressed types (:attr:`compressed`) ``rows`` stays compressed, so that tables
    that are not selected cost no decompression.
    :func:`row_images` returns the images of both forms.

    Attributes:
        kind: ``"insert"``, ``"update"`` or ``"delete"``, by the type code.
        type_code: the type that it was decoded from.
        columns_before: for an insert, the only bitmap.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: the extra info does not add up.

    Spec: MySQL ``Rows_event`` (rows_event.h); MariaDB ``Rows_log_event`` (log_event.h);
    pre-GA: ``Old_rows_log_event`` (log_event_old.h).
    """

    kind: RowsKind
    type_code: int
    table_id: int
    flags: int
    extra_info: bytes
    column_count: int
    columns_before: bytes
    columns_after: bytes | None
    rows: bytes
    extra_post_header: bytes = b""

    @property
    def ends_statement(self) -> bool:
        """Whether this is the last rows event of its statement."""
        return bool(self.flags & STMT_END_F)

    @property
    def compressed(self) -> bool:
        """Whether ``rows`` is a compressed record (MariaDB ``log_bin_compress``)."""
        return bool(ROWS_FORMS[self.type_code] & ROWS_COMPRESSED)

    @property
    def version(self) -> int:
        """0 (pre-GA, 5.1.5 to 5.1.17), 1 (5.1 to 5.5, MariaDB) or 2 (5.6 and later)."""
        form = ROWS_FORMS[self.type_code]
        if form & ROWS_EXTRA:
            return 2
        return 0 if form & ROWS_OTHER else 1

    @property
    def extra(self) -> RowsExtra:
        """The parsed extra info of v2."""
        return parse_rows_extra(self.extra_info, self.kind == "update")

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body, but not the row images."""
        head = RowsHead.decode(body, ctx)
        type_code = ctx.type_code
        return cls(
            _KINDS[ROWS_FORMS[type_code] & ROWS_KIND],
            type_code,
            head.table_id,
            head.flags,
            head.extra_info,
            head.column_count,
            head.columns_before,
            head.columns_after,
            body.rest(),
            head.extra_post_header,
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        head = encode_rows_head(self, ctx.format.post_header_size(self.type_code, 8))
        return head + self.rows


def encode_rows_head(event: RowsEvent, post_header_size: int) -> bytes:
    """Encode a rows event up to the row images."""
    out = ByteWriter().uint(event.table_id, 4 if post_header_size == 6 else 6).uint(event.flags, 2)
    if ROWS_FORMS[event.type_code] & ROWS_EXTRA:
        out.uint(_EXTRA_LENGTH_SIZE + len(event.extra_info), _EXTRA_LENGTH_SIZE)
    out.raw(event.extra_post_header).raw(event.extra_info)
    out.lenenc(event.column_count).raw(event.columns_before)
    return out.raw(event.columns_after or b"").done()


PARTIAL_JSON_UPDATES = 1
"""Bit of a row's value options: its partial bits follow."""


@dataclass(frozen=True, slots=True)
class PartialUpdateRowsEvent(RowsEvent):
    """Updated rows of one statement, with some JSON values as differences.

    Bytes: as an UPDATE_ROWS event v2, but
    each after image of ``rows`` begins with value options::

        size  field
        1..9  value_options  length-encoded; bit 0 (PARTIAL_JSON_UPDATES): partial bits follow
        b     partial_bits   b = (JSON columns of the table + 7) / 8; bit i: JSON column i of the
                             table is a difference (it is in the after image then)
        ...   null bits and values, as in any image; a difference is a JSON value's length (4 bytes)
              and its operations

    The value options of each row say whether partial bits follow. Only the rows layer, which knows
    the columns' types, can find where a row ends; ``rows`` has the bytes of all rows.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: the extra info does not add up.

    Spec: MySQL ``Partial_update_rows`` (rows_event.h), ``pack_row`` (rpl_record.cc).
    """


FIRST_FRAGMENT_SIZE = 0x01
"""Flag of a fragment that states the size of the whole rows event (``FL_ORIG_EVENT_SIZE``)."""


@dataclass(frozen=True, slots=True)
class RowsFragmentEvent(DeclaredEvent):
    """A fragment of a rows event that is larger than MariaDB's ``binlog_row_event_fragment_threshold``.

    The fragments of a rows event follow each other. Joined, they are the rows event with its header, or a
    compressed rows event; :meth:`replica_client.protocol.binlog.decoder.BinlogDecoder.inner_events`
    gives it after the last fragment.

    Attributes:
        fragment_count: number of fragments of the rows event.
        fragment_number: of this fragment, from 1.
        rows_event_size: bytes of the rows event; only the first fragment has it.
        fragment: its part of the rows event.

    Spec: MariaDB KB "PARTIAL_ROW_DATA_EVENT" (12.3). By this published format; not yet read from a server.
    """

    FIELDS = (
        uint("fragment_count", 4),
        uint("fragment_number", 4, "from 1"),
        uint("flags", 1, "1: the size follows"),
        when(
            f"flags & {FIRST_FRAGMENT_SIZE}",
            uint("rows_event_size", 8, "bytes of the rows event"),
        ),
        rest("fragment", "part of the rows event"),
    )
    INFO = "fragment {0.fragment_number} of {0.fragment_count}"

    fragment_count: int
    fragment_number: int
    flags: int
    rows_event_size: int | None
    fragment: bytes


def row_images(event: RowsEvent, options: DecodeOptions) -> bytes:
    """Return the row images of any rows event, decompressed if necessary.

    In a compressed event everything after the column bitmaps is one record
    (:func:`replica_client.protocol.codec.compression.inflate_record`).

    Raises:
        BinlogDecodeError: broken compression.
        LimitExceededError: larger than the option max_uncompressed_size.
    """
    if not event.compressed:
        return event.rows
    return inflate_record(event.rows, options.max_uncompressed_size)


def compress_rows(event: RowsEvent) -> RowsEvent:
    """Return the rows as an event of the compressed type; a compressed event itself.

    Raises:
        EncodeError: the type has no compressed form.
    """
    if event.compressed:
        return event
    form = ROWS_FORMS[event.type_code] | ROWS_COMPRESSED
    type_code = ROWS_FORMS.find(form)
    if type_code < 0:
        raise EncodeError(f"rows events of type {event.type_code} have no compressed form")
    return replace(event, type_code=type_code, rows=deflate_record(event.rows))


# Row images of the types 20 to 22, which 5.1.5 to 5.1.17 and the development trees wrote.
#
# An image is the null bytes of the server's own record, and then every column, NULL or not::
#
#     size  field
#     n     null bytes   the record's: bit 0 is the record's own mark if its format is fixed; then one
#                        bit per column that can be NULL; bits that are left over are 1
#     ...   columns      each packed, also where it is NULL
#
# The binlog does not say how many columns can be NULL, or whether there is a mark. The table maps of
# these versions do not have the maximal length of a CHAR or VARCHAR. Therefore only unambiguous rows
# are read: all columns can be NULL and are not, and the type codes imply the sizes. Other rows are
# refused.
#
# Spec: MySQL ``unpack_row_old`` (rpl_record_old.cc, 5.1 to 5.7).


_WITH_SIZE: Final = types_of("integer", "real", "year", "date", "old_time")


def modern_images(event: RowsEvent, column_types: bytes) -> bytes:
    """Return the event's rows in the form of later versions.

    Args:
        event: a rows event of version 0.
        column_types: of its table map.

    Raises:
        UnsupportedEventError: the rows are ambiguous.
        TruncatedEventError: a row is cut.
    """
    try:
        return b"".join(_images(event, column_types))
    except ShortBufferError as error:
        raise TruncatedEventError(str(error)) from error


def _images(event: RowsEvent, column_types: bytes) -> list[bytes]:
    count = event.column_count
    every = ((1 << count) - 1).to_bytes((count + 7) >> 3, "little")
    present = int.from_bytes(event.columns_before, "little") & ((1 << count) - 1)
    if present.to_bytes(len(every), "little") != every or len(column_types) != count:
        raise _refused("not all columns are in the images")
    null_size = (count + 8) >> 3
    not_null = 1 | ((1 << (8 * null_size)) - 1) >> (count + 1) << (count + 1)
    no_nulls = bytes(len(every))
    rows = ByteReader(event.rows)
    images: list[bytes] = []
    while rows.remaining:
        if rows.uint(null_size) != not_null:
            raise _refused("a column is NULL or cannot be, which the event does not distinguish")
        parts = [no_nulls]
        for code in column_types:
            if code == ColumnType.MYSQL_TYPE_STRING:
                size = rows.uint(1)
                parts.append(bytes((size,)) + rows.take(size, "CHAR"))
            elif code in _WITH_SIZE:
                parts.append(rows.take(TYPE_FACTS[code].size, "column"))
            else:
                raise _refused(f"the size of a column of type {code} is not known")
        images += parts
    return images


def _refused(reason: str) -> UnsupportedEventError:
    return UnsupportedEventError(f"rows of a version before 5.1.18: {reason}")
