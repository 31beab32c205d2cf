# cython: boundscheck=False, wraparound=False, cdivision=True
"""Row changes as lines of a table for people, written from row images.

A given function defines the form of a line; compiled code writes the same. This module is compiled
where that is possible; see :mod:`replica_client.rows.row_lines`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from replica_client.protocol.codec.printable import printable
from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.row_change import Change

if not cython.compiled:
    from replica_client.protocol.codec.memory import copy_bytes, put_literal, same_bytes
    from replica_client.rows.change import RowsOfEvent
    from replica_client.rows.image import Column, Plan, RowImageDecoder
    from replica_client.rows.row_lines import RowLines, TableHead

_INSERT = cython.declare(cython.int, 0)
_UPDATE = cython.declare(cython.int, 1)
_SIGNED = cython.declare(cython.int, int(ColumnOp.SIGNED))
_UNSIGNED = cython.declare(cython.int, int(ColumnOp.UNSIGNED))
_FLOAT = cython.declare(cython.int, int(ColumnOp.FLOAT))
_DOUBLE = cython.declare(cython.int, int(ColumnOp.DOUBLE))
_CONVERT = cython.declare(cython.int, int(ColumnOp.CONVERT))
_NULL = cython.declare(cython.int, int(ColumnOp.NULL))
_KINDS = ("insert", "update", "delete")
_ARROW = "→".encode()
# By column of an update: offset and length of the values before and after; length -1 for NULL.
_FIELDS = 4


@cython.final
@cython.cclass
class PlainHead(TableHead):
    """The common cells of a table's lines: kind and table."""


@cython.final
@cython.cclass
class TableLines(RowLines):
    """A writer of rows events as lines of a table, which :meth:`take` returns.

    Args:
        general: returns the line of a change, without its end.
        widths: of the cells before the row: position, time, kind and table.
    """

    def __init__(self, general: Callable[[Change], str], widths: tuple[int, int, int, int]) -> None:
        RowLines.__init__(self)
        self._head_type = PlainHead
        self._general_line: Any = general
        self._widths = widths
        self._position_width = widths[0]
        self._file_known = ""
        self._file_text = b":"
        self._file_width = 1
        self._time_text = b"  ".ljust(widths[1] + 2)
        self._cells = b""
        self._is_odd = False
        self._bounds_memory = bytearray()

    def set_time(self, text: str) -> None:
        """Set the cell with the time of the rows to come."""
        self._time_text = f"  {text.ljust(self._widths[1])}".encode()

    def _general(self, change: Change) -> str:
        return f"{self._general_line(change)}\n"

    def _new_head(self, rows: RowsOfEvent) -> TableHead:
        shape = rows.shape
        table = printable(f"{shape.database}.{shape.table}").ljust(self._widths[3])
        texts = [
            f"  {kind.ljust(self._widths[2])}  {table}  ".encode("utf-8", "backslashreplace")
            for kind in _KINDS
        ]
        # Without columns a line would end in spaces: the general function writes it.
        return PlainHead(shape, len(rows.decoder.column_names) > 0, texts)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, rows: RowsOfEvent, head: TableHead) -> cython.int:
        begun: cython.Py_ssize_t = self.used
        if self._file is not self._file_known:
            self._file_known = self._file
            text = printable(f"{self._file}:")
            self._file_width = len(text)
            self._file_text = text.encode("utf-8", "backslashreplace")
        self.put(self._file_text)
        digits: cython.Py_ssize_t = self.used
        self.put_number(self._position)
        digits = self.used - digits
        for _ in range(self._position_width - self._file_width - digits):
            self.put(b" ")
        self.put(self._time_text)
        self.put(cython.cast(bytes, head.texts[self._kind]))
        self._cells = bytes(self.out[begun : self.used])
        self.used = begun
        return 0

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
        self.put(self._cells)
        begun: cython.Py_ssize_t = self.used
        self._is_odd = False
        if self._kind == _UPDATE:
            # Different columns in the two images are unusual.
            at = self._two_images(decoder, before, data, at, end) if before is after else 0
        else:
            at = self._one_image(decoder, before, data, at, end)
        if not at or self.used == begun:
            return 0
        if self._is_odd:
            text: str = bytes(self.out[begun : self.used]).decode()
            if not text.isprintable():
                self.used = begun
                self.put(printable(text).encode())
        self.reserve(1)
        self.out[self.used] = 10
        self.used += 1
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_key(
        self, column: Column, length: cython.Py_ssize_t, comma: cython.Py_ssize_t
    ) -> cython.int:
        """Write a column's name, and make room for its value."""
        if column.plain_key is None:
            name = f", {column.name}="
            column.plain_key = name.encode("utf-8", "backslashreplace")
            column.plain_odd = not (name.isascii() and name.isprintable())
        self.reserve(len(column.plain_key) + length)
        key: cython.p_const_uchar = column.plain_key
        copy_bytes(self.out, self.used, key, comma, len(column.plain_key) - comma)
        self.used += len(column.plain_key) - comma
        self._is_odd |= column.plain_odd
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_checked(
        self,
        decoder: RowImageDecoder,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a value, NULL for a negative length, and record whether it is plain ASCII."""
        if length < 0:
            self.used = put_literal(self.out, self.used, 0)
            return 0
        at: cython.Py_ssize_t = self.used
        self.put_value(decoder, column, data, offset, length)
        out: cython.p_uchar = self.out
        odd: cython.int = 0
        i: cython.Py_ssize_t
        # DEL is the only control character that JSON strings leave unescaped.
        for i in range(at, self.used):
            odd |= out[i] + 1
        if odd & 0x80:
            self._is_odd = True
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _one_image(
        self,
        decoder: RowImageDecoder,
        plan: Plan,
        data: cython.p_const_uchar,
        nulls: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the row of an insert or delete; return its image's end, or 0 if malformed."""
        offset: cython.Py_ssize_t = nulls + plan.null_size
        if offset > end:
            return 0
        columns: list[Any] = plan.columns
        column: Column
        i: cython.Py_ssize_t
        length: cython.Py_ssize_t
        comma: cython.Py_ssize_t = 2
        for i in range(len(columns)):
            column = cython.cast(Column, columns[i])
            length = -1
            if not data[nulls + (i >> 3)] >> (i & 7) & 1:
                length = self._length(column, data, offset, end)
                if length < 0:
                    return 0
                offset += column.prefix
            if column.target >= 0:
                self._put_key(column, length if length > 0 else 0, comma)
                comma = 0
                self._put_checked(decoder, column, data, offset, length)
            if length > 0:
                offset += length
        return offset

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _find(
        self,
        plan: Plan,
        data: cython.p_const_uchar,
        nulls: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        bounds: cython.p_longlong,
        field: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Locate the values of an image; return its end, or 0 if it is malformed."""
        offset: cython.Py_ssize_t = nulls + plan.null_size
        if offset > end:
            return 0
        columns: list[Any] = plan.columns
        column: Column
        i: cython.Py_ssize_t
        length: cython.Py_ssize_t
        for i in range(len(columns)):
            column = cython.cast(Column, columns[i])
            length = -1
            if not data[nulls + (i >> 3)] >> (i & 7) & 1:
                length = self._length(column, data, offset, end)
                if length < 0:
                    return 0
                offset += column.prefix
            bounds[4 * i + field] = offset
            bounds[4 * i + field + 1] = length
            if length > 0:
                offset += length
        return offset

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _two_images(
        self,
        decoder: RowImageDecoder,
        plan: Plan,
        data: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the row of an update; return the end of its images, or 0 if malformed."""
        columns: list[Any] = plan.columns
        if len(self._bounds_memory) < 8 * _FIELDS * len(columns):
            self._bounds_memory = bytearray(8 * _FIELDS * len(columns))
        if cython.compiled:
            raw: cython.p_uchar = self._bounds_memory
            bounds: cython.p_longlong = cython.cast(cython.p_longlong, raw)
        else:
            bounds = memoryview(self._bounds_memory).cast("q")
        at = self._find(plan, data, at, end, bounds, 0)
        if not at:
            return 0
        at = self._find(plan, data, at, end, bounds, 2)
        if not at:
            return 0
        column: Column
        i: cython.Py_ssize_t
        was: cython.Py_ssize_t
        now: cython.Py_ssize_t
        old: cython.Py_ssize_t
        new: cython.Py_ssize_t
        comma: cython.Py_ssize_t = 2
        arrow: bytes = _ARROW
        for i in range(len(columns)):
            column = cython.cast(Column, columns[i])
            if column.target < 0:
                continue
            was = bounds[4 * i]
            old = bounds[4 * i + 1]
            now = bounds[4 * i + 2]
            new = bounds[4 * i + 3]
            self._put_key(column, (old if old > 0 else 0) + (new if new > 0 else 0), comma)
            comma = 0
            if not self._is_same(decoder, column, data, was, old, now, new):
                self._put_checked(decoder, column, data, was, old)
                self.put(arrow)
                self.reserve(new if new > 0 else 0)
            self._put_checked(decoder, column, data, now, new)
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _is_same(
        self,
        decoder: RowImageDecoder,
        column: Column,
        data: cython.p_const_uchar,
        was: cython.Py_ssize_t,
        old: cython.Py_ssize_t,
        now: cython.Py_ssize_t,
        new: cython.Py_ssize_t,
    ) -> cython.bint:
        """Return whether two values are equal as Python objects."""
        op: cython.int = column.op
        if old < 0 or new < 0:
            return old == new or op == _NULL
        if op != _FLOAT and op != _DOUBLE and op != _CONVERT:
            if old == new and same_bytes(data, was, data, now, old):
                return True
            if op in (_SIGNED, _UNSIGNED):
                return False
        before: Any = decoder._value(column, data, was, old)
        after: Any = decoder._value(column, data, now, new)
        return bool(before == after)
