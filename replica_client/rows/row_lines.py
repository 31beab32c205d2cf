# cython: boundscheck=False, wraparound=False, cdivision=True
"""Rows events as lines of text: the common part of the JSON form and the form for people.

Compiled code writes lines directly from the row images. Anything unusual (a partial update, an
image that does not match its table map, duplicate names) sends the whole event to the general
functions, which handle everything and raise the errors.

This module is compiled where that is possible. As plain Python it calls the general functions.
"""

from __future__ import annotations

import cython

from replica_client.errors import BinlogDecodeError
from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.row_change import Change
from replica_client.schema.shape import TableShape

if not cython.compiled:
    from replica_client.protocol.codec.memory import load_le
    from replica_client.rows.change import RowsOfEvent
    from replica_client.rows.image import Column, Plan, RowImageDecoder
    from replica_client.rows.value_text import ValueText

_UNKNOWN = cython.declare(cython.int, int(ColumnOp.UNKNOWN))
_KINDS = {"insert": 0, "update": 1, "delete": 2}
_INSERT = cython.declare(cython.int, 0)
_DELETE = cython.declare(cython.int, 2)


@cython.cclass
class TableHead:
    """The common parts of a table's lines, created once per row decoder.

    Attributes:
        shape: of the table.
        works: whether compiled code can write its rows.
        texts: by kind of change.
    """

    def __init__(self, shape: TableShape, works: bool, texts: list[bytes]) -> None:
        self.shape = shape
        self.works = works
        self.texts = texts


@cython.cclass
class RowLines(ValueText):
    """A writer of the rows of rows events, one line each."""

    def __init__(self) -> None:
        ValueText.__init__(self)
        self._head_type: type[TableHead] = TableHead

    def rows(self, rows: RowsOfEvent) -> None:
        """Write a line for each row of an event.

        Raises:
            BinlogDecodeError: a row cannot be decoded; those before it were written.
        """
        begun: cython.Py_ssize_t = self.used
        if cython.compiled:
            try:
                if self._event(rows):
                    return
            except (ValueError, OverflowError, LookupError, BinlogDecodeError):
                # The general functions raise the error again, with its place.
                pass
            except BaseException:
                self.used = begun
                raise
            self.used = begun
        for change in rows:
            self.put(self._general(change).encode("utf-8", "backslashreplace"))

    def _general(self, change: Change) -> str:
        """Return the line of a change, with its end."""
        raise NotImplementedError

    def _new_head(self, rows: RowsOfEvent) -> TableHead:
        """Return the common parts of this table's lines."""
        raise NotImplementedError

    @cython.cfunc
    def _head_of(self, rows: RowsOfEvent) -> TableHead:
        decoder: RowImageDecoder = rows._decoder
        head: TableHead
        if isinstance(decoder.lines, TableHead):
            head = decoder.lines
            if head.shape is rows._shape and type(head) is self._head_type:
                return head
        head = self._new_head(rows)
        names = decoder.column_names
        if decoder.options.temporals == "python" or len(set(names)) < len(names):
            head.works = False
        decoder.lines = head
        return head

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _event(self, rows: RowsOfEvent) -> cython.bint:
        """Write the rows of an event; return False if the general functions must do it."""
        decoder: RowImageDecoder = rows._decoder
        head: TableHead = self._head_of(rows)
        if not head.works:
            return False
        data: bytes | None = rows._data
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        before: Plan
        after: Plan
        if data is not None:
            at = rows._images_start
            end = rows._images_end
            self._kind = rows._kind
            self._file = rows._file
            self._position = rows._offset
            self._timestamp = rows._timestamp
            before = after = decoder._plan(rows._columns_before)
            if rows._columns_after is not None:
                after = decoder._plan(rows._columns_after)
        else:
            event = rows.event
            body = event.body
            if type(body).__name__ == "PartialUpdateRowsEvent":
                return False
            data = decoder.images_of(body)
            at = 0
            end = len(data)
            self._kind = _KINDS[body.kind]
            self._file = event.file
            self._position = event.position
            self._timestamp = event.header.timestamp
            before = after = decoder._plan(body.columns_before)
            if body.columns_after is not None and self._kind != _INSERT:
                after = decoder._plan(body.columns_after)
        self._begin(rows, head)
        raw: cython.p_const_uchar = data
        begun: cython.Py_ssize_t
        index: cython.longlong = 0
        while at < end:
            begun = self.used
            at = self._row(decoder, before, after, raw, at, end, index)
            if not at:
                return False
            if index < rows._first_row:
                self.used = begun
            index += 1
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, rows: RowsOfEvent, head: TableHead) -> cython.int:
        """Prepare the common text of an event's lines."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _row(
        self,
        decoder: RowImageDecoder,
        before: Plan,
        after: Plan,
        data: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        index: cython.longlong,
    ) -> cython.Py_ssize_t:
        """Write a row whose images begin at ``at``; return where they end, or 0 if malformed."""
        raise NotImplementedError

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _length(
        self,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Return the size of a value after its length prefix; negative if it is malformed."""
        length: cython.Py_ssize_t = column.size
        left: cython.Py_ssize_t = end - offset
        if column.prefix:
            left -= column.prefix
            if left < 0:
                return -1
            length = cython.cast(cython.Py_ssize_t, load_le(data, offset, column.prefix))
        if length > left or length < 0 or column.op == _UNKNOWN:
            return -1
        return length
