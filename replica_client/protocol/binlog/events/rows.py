"""WRITE, UPDATE and DELETE_ROWS: row images of one table."""

from __future__ import annotations

from struct import Struct
from typing import Final, Literal, Self

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.binlog.events.rows_extra import RowsExtra, parse_rows_extra
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType

RowsKind = Literal["insert", "update", "delete"]

STMT_END_F = 0x1
"""Flag of the last rows event of a statement."""

NO_TABLE_ID: Final = (0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF)
"""Table ids of a rows event without rows that only ends a statement."""

_KINDS: dict[int, RowsKind] = {
    EventType.PRE_GA_WRITE_ROWS_EVENT: "insert",
    EventType.PRE_GA_UPDATE_ROWS_EVENT: "update",
    EventType.PRE_GA_DELETE_ROWS_EVENT: "delete",
    EventType.WRITE_ROWS_EVENT_V1: "insert",
    EventType.UPDATE_ROWS_EVENT_V1: "update",
    EventType.DELETE_ROWS_EVENT_V1: "delete",
    EventType.WRITE_ROWS_EVENT: "insert",
    EventType.UPDATE_ROWS_EVENT: "update",
    EventType.DELETE_ROWS_EVENT: "delete",
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: "insert",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: "update",
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: "delete",
    EventType.WRITE_ROWS_COMPRESSED_EVENT: "insert",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: "update",
    EventType.DELETE_ROWS_COMPRESSED_EVENT: "delete",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "update",
}
_VERSION_2 = frozenset(
    (
        EventType.WRITE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT,
        EventType.DELETE_ROWS_EVENT,
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        EventType.WRITE_ROWS_COMPRESSED_EVENT,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT,
        EventType.DELETE_ROWS_COMPRESSED_EVENT,
    )
)
_PRE_GA = frozenset(
    (
        EventType.PRE_GA_WRITE_ROWS_EVENT,
        EventType.PRE_GA_UPDATE_ROWS_EVENT,
        EventType.PRE_GA_DELETE_ROWS_EVENT,
    )
)
_FIRST_COMPRESSED = int(EventType.WRITE_ROWS_COMPRESSED_EVENT_V1)
_EXTRA_LENGTH_SIZE = 2
_HEAD_6 = Struct("<IHH")


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
        is_v2 = type_code in _VERSION_2
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
                parse_rows_extra(extra_info, _KINDS[type_code] == "update")
        else:
            extra_post_header = body.take(max(0, size - known))
        column_count = body.lenenc()
        bitmap_size = (column_count + 7) >> 3
        before = body.take(bitmap_size, "column bitmap")
        after = None
        if _KINDS[type_code] == "update" and type_code not in _PRE_GA:
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
        n     extra_info          v2 only; see :class:`~.rows_extra.RowsExtra`
        1..9  column_count        length-encoded
        b     columns_before      bitmap, b = (column_count + 7) / 8: columns in the images
        b     columns_after       update from v1 on: columns in the after images
        rest  rows                row images; an update has before and after in turns

    In MariaDB's compressed types (:attr:`compressed`) ``rows`` stays compressed, so that tables
    that are not selected cost no decompression.
    :func:`replica_client.protocol.binlog.events.compressed_rows.row_images` returns the images of both
    forms.

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
        return self.type_code >= _FIRST_COMPRESSED

    @property
    def version(self) -> int:
        """0 (pre-GA, 5.1.5 to 5.1.17), 1 (5.1 to 5.5, MariaDB) or 2 (5.6 and later)."""
        if self.type_code in _VERSION_2:
            return 2
        return 0 if self.type_code in _PRE_GA else 1

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
            _KINDS[type_code],
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
    if event.type_code in _VERSION_2:
        out.uint(_EXTRA_LENGTH_SIZE + len(event.extra_info), _EXTRA_LENGTH_SIZE)
    out.raw(event.extra_post_header).raw(event.extra_info)
    out.lenenc(event.column_count).raw(event.columns_before)
    return out.raw(event.columns_after or b"").done()
