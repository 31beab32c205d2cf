# cython: boundscheck=False, wraparound=False
"""Rows events, from which row changes are decoded.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

# Over 500 lines: one compiled class and its iterator, whose C fields the fast paths fill in.

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, BinlogFormat
from replica_client.protocol.binlog.layout import EVENT_SIZE_OFFSET, SERVER_ID_OFFSET
from replica_client.protocol.constants.event_types import EventType, event_type_name
from replica_client.protocol.position import Position
from replica_client.rows.image import located
from replica_client.schema.shape import TableShape

if TYPE_CHECKING:  # the same types whether or not the user's environment has Cython
    from replica_client import _cython as cython
    from replica_client.rows.row_change import ChangeKind, ChangeTransaction
else:
    import cython

if not cython.compiled:
    from replica_client.rows.image import Cursor, Plan, RowImageDecoder
    from replica_client.rows.row_change import Change, ChangeOrigin
    from replica_client.rows.row_screen import RowScreen, Walk

_PARTIAL_UPDATE = cython.declare(cython.int, int(EventType.PARTIAL_UPDATE_ROWS_EVENT))
_KINDS: tuple[ChangeKind, ...] = ("insert", "update", "delete")


@cython.final
@cython.no_gc
@cython.freelist(64)
@cython.cclass
class RowsOfEvent:
    """The rows of one rows event, decoded when iterated.

    Two objects are equal if they yield the same rows of the same event. They can be pickled and
    copied; the encryption keys of a file do not go with them.

    Attributes:
        event: the rows event with its place.
        shape: of the table that it changes.
        decoder: decodes its row images.
        event_index: see :class:`Change`.
        first_row: rows before this index were already delivered and are skipped.
        gtid: see :class:`Change`.

    Examples:
        >>> transactions = list(rc.open_binlog("shop-bin.000001").transactions())
        >>> rows = transactions[4].rows[0]
        >>> rows.shape.table, len(list(rows))
        ('customers', 7)
    """

    __slots__ = (
        "_columns_after",
        "_columns_before",
        "_data",
        "_decoder",
        "_event",
        "_event_index",
        "_file",
        "_first_row",
        "_format",
        "_gtid",
        "_gtid_number",
        "_images_end",
        "_images_start",
        "_inner_index",
        "_kind",
        "_offset",
        "_shape",
        "_timestamp",
    )
    __match_args__ = ("event", "shape", "decoder", "event_index", "first_row", "gtid")

    def __init__(
        self,
        event: BinlogEvent,
        shape: TableShape,
        decoder: RowImageDecoder,
        event_index: int,
        first_row: int,
        gtid: str,
    ) -> None:
        # From these the event of the fast path is decoded on demand.
        self._data: Any = None
        self._inner_index = -1
        self._images_start = self._images_end = self._kind = self._offset = self._timestamp = 0
        self._columns_before = b""
        self._columns_after: bytes | None = None
        self._format: Any = None
        self._file = ""
        self._event: BinlogEvent | None = event
        self._shape = shape
        self._decoder = decoder
        self._event_index = event_index
        self._first_row = first_row
        self._gtid = gtid
        self._gtid_number = 0

    @property
    def event(self) -> BinlogEvent:
        event: BinlogEvent | None = self._event
        if event is None:
            decoder = BinlogDecoder(self._decoder.options, self._file, self._format)
            if self._inner_index < 0:
                event = decoder.decode(self._data, self._offset)
            else:
                event = decoder.decode_inner(
                    self._data, self._offset, self._file, self._inner_index
                )
            self._event = event
        return event

    @property
    def event_size(self) -> int:
        """Bytes of the event, from its header to its checksum; known without decoding it."""
        if self._data is None:
            return self.event.header.event_size
        return len(cython.cast(bytes, self._data))

    @property
    def type_code(self) -> int:
        """Type code of the event; known without decoding it."""
        if self._data is None:
            return self.event.header.type_code
        return int(cython.cast(bytes, self._data)[4])

    @property
    def kind(self) -> str:
        """``insert``, ``update`` or ``delete``; known without decoding, like those below."""
        return str(self.event.body.kind) if self._data is None else str(_KINDS[self._kind])

    @property
    def file(self) -> str:
        """Binlog file of the event."""
        return self.event.file if self._data is None else self._file

    @property
    def position(self) -> int:
        """Offset of the event in its file."""
        return self.event.position if self._data is None else int(self._offset)

    @property
    def timestamp(self) -> int:
        """Seconds since 1970 in the event's header."""
        return self.event.header.timestamp if self._data is None else int(self._timestamp)

    @property
    def server_id(self) -> int:
        """Id of the server that wrote the event."""
        if self._data is None:
            return self.event.header.server_id
        data: bytes = self._data
        return int.from_bytes(data[SERVER_ID_OFFSET : SERVER_ID_OFFSET + 4], "little")

    @property
    def column_bitmaps(self) -> tuple[bytes, bytes | None]:
        """Column bitmaps of before and after images; the second is None except for updates."""
        if self._data is None:
            return self.event.body.columns_before, self.event.body.columns_after
        return self._columns_before, self._columns_after

    @property
    def shape(self) -> TableShape:
        shape: TableShape = self._shape
        return shape

    @property
    def decoder(self) -> RowImageDecoder:
        return self._decoder

    @property
    def event_index(self) -> int:
        return int(self._event_index)

    @property
    def first_row(self) -> int:
        return int(self._first_row)

    @property
    def gtid(self) -> str:
        return f"{self._gtid}{self._gtid_number}" if self._gtid_number else self._gtid

    def __iter__(self) -> Iterator[Change]:
        changes: Iterator[Change] = self._changes(None)
        return changes

    @cython.cfunc
    def _changes(self, screen: RowScreen | None) -> Any:
        """Return an iterator of the changes that a screen lets pass; None: all changes."""
        if self._data is None:
            return self._iterate_event(screen)
        shape = self._shape
        origin: ChangeOrigin = ChangeOrigin(
            _KINDS[self._kind],
            shape.database,
            shape.table,
            shape,
            self._file,
            self._offset,
            self._event_index,
            self._gtid,
            self._timestamp,
            self._gtid_number,
        )
        changes: ChangeIterator = ChangeIterator(origin, self._decoder, 0, self._data[4])
        changes._screen = screen
        try:
            changes.begin(
                self._data,
                self._images_start,
                self._images_end,
                self._columns_before,
                self._columns_after,
            )
        except BinlogDecodeError as error:
            raise located(error, self.event) from error.__cause__
        return changes

    def count(self, skipper: RowImageDecoder | None = None) -> int:
        """Return the number of rows, without the skipped ones; no value is decoded.

        Args:
            skipper: a decoder of this table without columns, for callers that count often; None:
                create one.

        Raises:
            BinlogDecodeError: the row images do not match the table; the error has file and
                position.
        """
        found: cython.longlong = 0
        if skipper is None:
            skipper = RowImageDecoder(self._shape, self._decoder.options, columns=())
        if self._data is None:
            for _ in skipper.iter_event(self.event):
                found += 1
            return int(max(found - self._first_row, 0))
        kind: str = _KINDS[self._kind]
        insert: cython.bint = self._kind == 0
        cursor: Cursor = Cursor(self._data, self._images_start, self._images_end)
        before: Plan | None
        after: Plan | None
        try:
            before, after = skipper._plans_of(kind, self._columns_before, self._columns_after)
            while cursor.offset < cursor.end:
                skipper._row(cursor, before, after, insert, False)
                found += 1
        except BinlogDecodeError as error:
            raise located(error, self.event) from error.__cause__
        return int(found)

    @cython.cfunc
    def _iterate_event(self, screen: RowScreen | None) -> Any:
        event, shape = self.event, self.shape
        body = event.body
        origin = ChangeOrigin(
            body.kind,
            shape.database,
            shape.table,
            shape,
            event.file,
            event.position,
            self._event_index,
            self._gtid,
            event.header.timestamp,
        )
        try:
            images = self._decoder.images_of(body)
            changes: ChangeIterator = ChangeIterator(
                origin, self._decoder, self._first_row, event.header.type_code
            )
            changes._screen = screen
            changes.begin(images, 0, len(images), body.columns_before, body.columns_after)
        except BinlogDecodeError as error:
            raise located(error, event) from error.__cause__
        return changes

    @property
    def undecoded_images(self) -> bytes | None:
        """The row images of an event that is not decoded; None for a decoded one."""
        if self._data is None:
            return None
        images: bytes = self._data[self._images_start : self._images_end]
        return images

    def with_images(
        self,
        shape: TableShape,
        decoder: RowImageDecoder,
        columns_before: bytes,
        columns_after: bytes | None,
        images: bytes,
    ) -> RowsOfEvent:
        """Return the rows of an undecoded event with other images; the event stays undecoded.

        Args:
            shape: of the images, with at most 250 columns.
            decoder: of the images.
            columns_before: see :attr:`column_bitmaps`.
            columns_after: likewise.
            images: the images of as many rows as before.
        """
        data: bytes = self._data
        bitmaps: cython.Py_ssize_t = len(self._columns_before)
        if self._columns_after is not None:
            bitmaps += len(self._columns_after)
        tail: cython.Py_ssize_t = len(data) - self._images_end
        head = data[: self._images_start - bitmaps - 1] + bytes((len(shape.columns),))
        head += columns_before + (columns_after or b"")
        size = len(head) + len(images) + tail
        made = head[:EVENT_SIZE_OFFSET] + size.to_bytes(4, "little")
        made += head[EVENT_SIZE_OFFSET + 4 :] + images
        end: cython.Py_ssize_t = len(made)
        if tail:
            made += crc32(made).to_bytes(4, "little")
        rows: RowsOfEvent = undecoded_rows(
            made,
            len(head),
            end,
            self._kind,
            columns_before,
            columns_after,
            decoder,
            shape,
            self._format,
        )
        rows._file = self._file
        rows._gtid = self._gtid
        rows._gtid_number = self._gtid_number
        rows._offset = self._offset
        rows._event_index = self._event_index
        rows._inner_index = self._inner_index
        rows._timestamp = self._timestamp
        return rows

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.event,
            self.shape,
            self.decoder,
            self.event_index,
            self.first_row,
            self.gtid,
        )

    def __replace__(self, **changes: Any) -> RowsOfEvent:
        """Return a copy with some attributes changed, for :func:`copy.replace` of Python 3.13."""
        return RowsOfEvent(
            **{**dict(zip(RowsOfEvent.__match_args__, self._fields(), strict=True)), **changes}
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RowsOfEvent):
            return NotImplemented
        return bool(self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash((self.event.file, self.event.position, self.event_index, self.gtid))

    def __repr__(self) -> str:
        event = self.event
        return (
            f"RowsOfEvent({event.body.kind} {self.shape.database}.{self.shape.table}, file={event.file!r}, "
            f"position={event.position}, event_index={self.event_index}, first_row={self.first_row}, "
            f"gtid={self.gtid!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return RowsOfEvent, self._fields()


def undecoded_of(rows: RowsOfEvent) -> tuple[bytes, int, int] | None:
    """Return the bytes of an event that is not decoded, and where its images are; None if it is decoded.

    Such an event is neither partial nor compressed, and its images have the current format.
    """
    if rows._data is None:
        return None
    return rows._data, rows._images_start, rows._images_end


def passing_changes(rows: RowsOfEvent, screen: RowScreen | None) -> Iterator[Change]:
    """Return the changes of an event that a screen lets pass; the others are not decoded.

    Args:
        rows: of the event.
        screen: of its decoder; None: all pass.

    Raises:
        BinlogDecodeError: as for the rows themselves.
    """
    found: Iterator[Change] = rows._changes(screen)
    return found


def changes_of_transaction(
    rows: RowsOfEvent,
    before: Position | ChangeTransaction | None,
    transaction: ChangeTransaction,
) -> Iterator[Change]:
    """Return the changes of an event, linked to their transaction.

    Args:
        rows: of the event.
        before: the resume point before the transaction, or an object with that ``position``; None:
            only the start of ``transaction`` is known.
        transaction: the event's transaction, without its rows.

    Raises:
        BinlogDecodeError: as for the rows themselves.
    """
    changes: ChangeIterator = rows._changes(None)
    changes._origin._before = before
    changes._origin._transaction = transaction
    return changes


@cython.cfunc
def undecoded_rows(
    data: bytes,
    images_start: cython.Py_ssize_t,
    images_end: cython.Py_ssize_t,
    kind: cython.int,
    columns_before: bytes,
    columns_after: bytes | None,
    decoder: RowImageDecoder,
    shape: TableShape,
    format: BinlogFormat,
) -> RowsOfEvent:
    """Return the rows of an undecoded event; the caller sets the event's place.

    Args:
        data: the event.
        images_start: offset of its row images.
        images_end: offset after them.
        kind: 0 insert, 1 update, 2 delete.
        columns_before: see :meth:`~replica_client.rows.image.RowImageDecoder.decode_rows`.
        columns_after: see there.
        decoder: of its row images, which are neither partial nor compressed.
        shape: of its table.
        format: of the file.
    """
    rows: RowsOfEvent = RowsOfEvent.__new__(RowsOfEvent)
    rows._data = data
    rows._images_start = images_start
    rows._images_end = images_end
    rows._kind = kind
    rows._columns_before = columns_before
    rows._columns_after = columns_after
    rows._decoder = decoder
    rows._shape = shape
    rows._format = format
    rows._event = None
    rows._first_row = 0
    return rows


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ChangeIterator:
    """An iterator that decodes the changes of a rows event one by one.

    Args:
        origin: the common attributes of the changes.
        decoder: of its row images.
        first_row: rows before this index are skipped.
        type_code: of the event.
    """

    def __init__(
        self,
        origin: ChangeOrigin,
        decoder: RowImageDecoder,
        first_row: cython.longlong,
        type_code: cython.int,
    ) -> None:
        self._origin = origin
        self._decoder = decoder
        self._first_row = first_row
        self._row_index = 0
        self._type_code = type_code
        self._is_insert = origin.kind == "insert"
        self._is_delete = origin.kind == "delete"
        self._is_partial = type_code == _PARTIAL_UPDATE
        self._screen: RowScreen | None = None
        self._before_walk: Walk | None = None
        self._after_walk: Walk | None = None

    @cython.ccall
    def begin(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        columns_before: bytes,
        columns_after: bytes | None,
    ) -> object:
        """Set the row images to decode.

        Args:
            data: holds them.
            start: offset of the first one.
            end: offset after the last one.
            columns_before: see :meth:`~.image.RowImageDecoder.decode_rows`.
            columns_after: see there.

        Raises:
            ColumnDecodeError: the bitmaps do not fit the table.
        """
        self._cursor = Cursor(data, start, end)
        self._before = self._decoder._plan(columns_before)
        self._after = self._before
        if columns_after is not None and not self._is_insert:
            self._after = self._decoder._plan(columns_after)
        if self._is_partial:
            # A screen cannot find the values of partial images, which have more than lengths.
            self._screen = None
        screen: RowScreen | None = self._screen
        if screen is not None:
            if not self._is_insert:
                self._before_walk = screen._walk(self._before)
            if not self._is_delete:
                self._after_walk = screen._walk(self._after)
        return None

    def __iter__(self) -> ChangeIterator:
        return self

    def __next__(self) -> Change:
        try:
            while self._cursor.offset < self._cursor.end:
                if self._screen is not None and self._pass_over():
                    break
                change: Change | None = self._take()
                if change is not None:
                    return change
        except BinlogDecodeError as error:
            self._cursor.offset = self._cursor.end
            raise error.at(
                file=self._origin.file or None,
                position=self._origin.position,
                event_type=self._type_code,
                event_name=event_type_name(self._type_code),
            ) from error.__cause__
        raise StopIteration

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _pass_over(self) -> cython.bint:
        """Skip the rows that the screen rejects; return whether no row is left."""
        screen: RowScreen | None = self._screen
        if screen is None:
            return False
        self._row_index += screen._pass_over(self._cursor, self._before_walk, self._after_walk)
        return self._cursor.offset >= self._cursor.end

    @cython.cfunc
    def _take(self) -> Change | None:
        """Return the change of the next row; None for one that was delivered before."""
        decoder: RowImageDecoder = self._decoder
        cursor: Cursor = self._cursor
        before: Any = None
        after: Any = None
        partial_bits: bytes | None = None
        if not self._is_insert:
            before = decoder._image(cursor, self._before, None, None)
        if not self._is_delete:
            if self._is_partial:
                partial_bits = decoder._partial_bits(cursor)
            after = decoder._image(cursor, self._after, partial_bits, before)
        row_index: cython.longlong = self._row_index
        self._row_index += 1
        if row_index < self._first_row:
            return None
        change: Change = Change.__new__(Change)
        change._origin = self._origin
        change._before = before
        change._after = after
        change._row_index = row_index
        return change
