# cython: boundscheck=False, wraparound=False
"""Row changes and the rows events that they come from.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import cython

from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType, event_type_name
from replica_client.errors import BinlogDecodeError
from replica_client.rows.image import placed
from replica_client.rows.row import Row
from replica_client.schema.shape import TableShape

if cython.compiled:
    from cython.cimports.replica_client.rows.image import Cursor, RowImageDecoder
else:
    from replica_client.rows.image import Cursor, RowImageDecoder

ChangeKind = Literal["insert", "update", "delete"]

_PARTIAL_UPDATE = cython.declare(cython.int, int(EventType.PARTIAL_UPDATE_ROWS_EVENT))


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ChangeOrigin:
    """What the changes of one rows event have in common.

    Args:
        gtid: the transaction's GTID, without its number where that is not 0.
        gtid_number: that number.

    The other arguments are attributes of :class:`Change`.
    """

    def __init__(
        self,
        kind: ChangeKind,
        database: str,
        table: str,
        shape: TableShape,
        file: str,
        position: cython.longlong,
        event_index: cython.longlong,
        gtid: str,
        timestamp: cython.longlong,
        gtid_number: cython.longlong = 0,
    ) -> None:
        self.kind: ChangeKind = kind
        self.shape: TableShape = shape
        self.database = database
        self.table = table
        self.file = file
        self.position = position
        self.event_index = event_index
        self._gtid = gtid
        self._gtid_number = gtid_number
        self.timestamp = timestamp

    @cython.cfunc
    def gtid(self) -> str:
        """The transaction's GTID as text, made when first asked for."""
        if self._gtid_number:
            self._gtid = f"{self._gtid}{self._gtid_number}"
            self._gtid_number = 0
        return self._gtid


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class Change:
    """One changed row.

    Attributes:
        kind: ``insert``, ``update`` or ``delete``.
        database: the table's database (schema) name.
        table: the table's name.
        before: the row before the change; None for an insert.
        after: the row after the change; None for a delete.
        file: binlog file of the rows event.
        position: 64-bit offset of the rows event in the file.
        event_index: index of the event in its transaction; the first event has 0, and the events
            inside a transaction payload count on from it.
        row_index: index of the row in its event.
        gtid: the transaction's GTID as text, ``""`` when it has none.
        timestamp: seconds since 1970 when the statement began on the source.
        shape: names and types of the columns.
    """

    __slots__ = ("_after", "_before", "_origin", "_row_index")
    __match_args__ = ("kind", "database", "table", "before", "after")

    def __init__(
        self,
        kind: ChangeKind,
        database: str,
        table: str,
        before: Row | None,
        after: Row | None,
        file: str,
        position: int,
        event_index: int,
        row_index: int,
        gtid: str,
        timestamp: int,
        shape: TableShape,
    ) -> None:
        self._origin = ChangeOrigin(
            kind, database, table, shape, file, position, event_index, gtid, timestamp
        )
        self._before: Row | None = before
        self._after: Row | None = after
        self._row_index = row_index

    @property
    def kind(self) -> ChangeKind:
        """See the class."""
        return self._origin.kind

    @property
    def database(self) -> str:
        """See the class."""
        return self._origin.database

    @property
    def table(self) -> str:
        """See the class."""
        return self._origin.table

    @property
    def before(self) -> Row | None:
        """See the class."""
        return self._before

    @property
    def after(self) -> Row | None:
        """See the class."""
        return self._after

    @property
    def row_index(self) -> int:
        """See the class."""
        return int(self._row_index)

    @property
    def file(self) -> str:
        """See the class."""
        return self._origin.file

    @property
    def position(self) -> int:
        """See the class."""
        return int(self._origin.position)

    @property
    def event_index(self) -> int:
        """See the class."""
        return int(self._origin.event_index)

    @property
    def gtid(self) -> str:
        """See the class."""
        gtid: str = self._origin.gtid()
        return gtid

    @property
    def timestamp(self) -> int:
        """See the class."""
        return int(self._origin.timestamp)

    @property
    def shape(self) -> TableShape:
        """See the class."""
        return self._origin.shape

    def _fields(self) -> tuple[Any, ...]:
        return (
            self.kind,
            self.database,
            self.table,
            self.before,
            self.after,
            self.file,
            self.position,
            self.event_index,
            self.row_index,
            self.gtid,
            self.timestamp,
            self.shape,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Change):
            return NotImplemented
        return bool(self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return (
            f"Change(kind={self.kind!r}, database={self.database!r}, table={self.table!r}, "
            f"before={self.before!r}, after={self.after!r}, file={self.file!r}, "
            f"position={self.position}, event_index={self.event_index}, "
            f"row_index={self.row_index}, gtid={self.gtid!r}, timestamp={self.timestamp})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Change, self._fields()


@dataclass(frozen=True, slots=True)
class RowsOfEvent:
    """The rows of one rows event, decoded when iterated.

    Attributes:
        event: the rows event with its place.
        shape: of the table that it changes.
        decoder: decodes its row images.
        event_index: see :class:`Change`.
        first_row: rows before this index were delivered already and are passed over.
        gtid: see :class:`Change`.
    """

    event: BinlogEvent
    shape: TableShape
    decoder: RowImageDecoder
    event_index: int
    first_row: int
    gtid: str

    def __iter__(self) -> Iterator[Change]:
        event, shape = self.event, self.shape
        body = event.body
        origin = ChangeOrigin(
            body.kind,
            shape.database,
            shape.table,
            shape,
            event.file,
            event.position,
            self.event_index,
            self.gtid,
            event.header.timestamp,
        )
        try:
            images = self.decoder.images_of(body)
            changes = ChangeIterator(origin, self.decoder, self.first_row, event.header.type_code)
            changes.begin(images, 0, len(images), body.columns_before, body.columns_after)
        except BinlogDecodeError as error:
            raise placed(error, event) from error.__cause__
        return changes


@cython.final
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class ChangeIterator:
    """The changes of a rows event, decoded one by one.

    Args:
        origin: what they have in common.
        decoder: of its row images.
        first_row: rows before this index are passed over.
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

    @cython.ccall
    def begin(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        columns_before: bytes,
        columns_after: bytes | None,
    ) -> object:
        """Have the row images before us.

        Args:
            data: holds them.
            start: offset of the first one.
            end: offset behind the last one.
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
        return None

    def __iter__(self) -> ChangeIterator:
        return self

    def __next__(self) -> Change:
        try:
            while self._cursor.offset < self._cursor.end:
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
    def _take(self) -> Change | None:
        """The next row; None for one that was delivered before."""
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


__all__ = ["Change", "ChangeKind", "DecodeOptions", "RowsOfEvent"]
