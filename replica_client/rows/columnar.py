# cython: boundscheck=False, wraparound=False, cdivision=True
"""Reading of row images into the buffers of Arrow columns, without an object per value.

This module is compiled where that is possible (Cython's pure Python mode; the C types are here and
in ``columnar.pxd``) and runs as it stands everywhere else. It locates the values of row images as
:mod:`replica_client.rows.image` does; :mod:`replica_client.rows.column_writer` writes them, and
:mod:`replica_client.rows.batches` builds arrays from the buffers.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from typing import Any

import cython

from replica_client.errors import BinlogDecodeError, ColumnDecodeError
from replica_client.rows.column_writer import lossless_text
from replica_client.rows.special_values import ABSENT

if not cython.compiled:
    from replica_client.protocol.codec.memory import load_le, load_le_there, longs
    from replica_client.rows.column_layout import Layout
    from replica_client.rows.column_sink import ColumnSink
    from replica_client.rows.column_writer import ColumnWriter
    from replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from replica_client.rows.sink_ops import NO_STEP, OBJECTS, OP_PASS, OP_UNKNOWN

_FIRST_CAPACITY = 64
_MAX_LAYOUTS = 1024


@cython.final
@cython.cclass
class ColumnarRows(ColumnWriter):
    """The rows of one batch under construction, of one table and shape.

    Args:
        decoder: of the row images.
        sinks: one for each value of its rows.
        max_rows: maximum rows of a batch.
        max_size: bytes of row images after which a batch is full.

    Attributes:
        decoder: as given.
        sinks: as given.
        rows: number of rows.
        size: bytes of row images taken.
        appended: changes that the last :meth:`take` added.
        absent_before, absent_after: for the event: number in ``absent_lists``.
        absent_lists: names of columns that images left out; the first is None, for images that left
            out none.
        lossless: row, column and text of values that their columns cannot hold.
    """

    def __init__(
        self, decoder: RowImageDecoder, sinks: list[ColumnSink], max_rows: int, max_size: int
    ) -> None:
        ColumnWriter.__init__(self, decoder)
        self.sinks = sinks
        self._max_rows = max_rows
        self._max_size = max_size
        self._capacity = self._expected = 0
        self.rows = self.appended = 0
        self.size = 0
        self.absent_before = self.absent_after = 0
        self.absent_lists: list[list[str] | None] = [None]
        self._layouts: dict[bytes, Layout] = {}
        self._before: Layout | None = None
        self._after: Layout | None = None
        self._source = b""
        self._offset = 0
        self._offsets_room = 0
        self._offsets_memory: Any = b""
        self._last = 0
        self._written = 2
        self._together = False
        column: Column
        sink: ColumnSink
        self._passed: list[ColumnSink] = []
        for column in decoder._columns:
            if column.target >= 0:
                sink = sinks[column.target]
                sink._read_of(column)

    @property
    def sizes(self) -> tuple[int, list[int]]:
        """The number of rows, and each sink's bytes of data with a reserve."""
        return self.rows, [sink.data_size for sink in self.sinks]

    def expect(self, rows: int, data_sizes: list[int]) -> None:
        """Prepare room for a batch of the given :attr:`sizes`."""
        self._expected = rows
        for sink, size in zip(self.sinks, data_sizes, strict=True):
            sink.expect(size)

    @cython.cfunc
    def _layout(self, bitmap: bytes) -> Layout:
        """Return the layout of a column bitmap, created once."""
        found: Layout | None = self._layouts.get(bitmap)
        if found is not None:
            return found
        plan: Plan = self._decoder._plan(bitmap)
        sinks: list[Any] = []
        there = set()
        column: Column
        for column in plan.columns:
            sinks.append(self._sink_of(column))
            there.add(column.target)
        missing = [sink for at, sink in enumerate(self.sinks) if at not in there]
        absent: int = 0
        if missing:
            names = [sink.name for sink in missing]
            if names in self.absent_lists:
                absent = self.absent_lists.index(names)
            else:
                absent = len(self.absent_lists)
                self.absent_lists.append(names)
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        found = Layout(plan, sinks, missing, absent)
        self._layouts[bitmap] = found
        return found

    @cython.cfunc
    def _sink_of(self, column: Column) -> ColumnSink:
        """Return the sink of a column; one that discards its values if the column is not taken."""
        sink: ColumnSink
        if column.target >= 0:
            sink = self.sinks[column.target]
            return sink
        for sink in self._passed:
            if sink.column is column:
                return sink
        sink = ColumnSink(column.name, OBJECTS, 0, "", str, bytearray)
        sink._read_of(column)
        if sink.op != OP_UNKNOWN:
            sink.op = OP_PASS
        self._passed.append(sink)
        return sink

    def begin(
        self,
        kind: str,
        columns_before: bytes,
        columns_after: bytes | None,
        rows: bytes,
        start: int = 0,
        end: int = -1,
    ) -> None:
        """Set the images of an event to read; arguments as of ``RowImageDecoder.decode_rows``.

        Args:
            kind: of the changes.
            columns_before: the bitmap of the first images.
            columns_after: that of the second ones, of an update.
            rows: bytes with the images.
            start: where they begin.
            end: where they end; -1: at the end of the bytes.

        Raises:
            ColumnDecodeError: a bitmap does not fit the table.
        """
        insert = kind == "insert"
        delete = kind == "delete"
        raw: cython.p_const_uchar = rows
        self._begin(
            insert, delete, columns_before, columns_after, raw, start, len(rows) if end < 0 else end
        )
        self._source = rows

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(
        self,
        insert: cython.bint,
        delete: cython.bint,
        columns_before: bytes,
        columns_after: bytes | None,
        data: cython.p_const_uchar,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.int:
        """Set images from ``start`` to ``end`` of memory that stays valid until they are read."""
        self._source = b""
        self._offset = self._end = end
        self._before = self._layout(columns_before)
        self._after = None
        if not insert and not delete:
            self._after = self._before if columns_after is None else self._layout(columns_after)
        return self._start(self._before, self._after, data, start, end)

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _start(
        self,
        before: Layout,
        after: Layout | None,
        data: cython.p_const_uchar,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.int:
        """Set images with these layouts to read."""
        self._data = data
        self._base = self._offset = start
        self._end = end
        self.absent_before = before.absent
        self.absent_after = 0 if after is None else after.absent
        self._in_value = False
        self._together = after is None or after is before
        self.appended = 0
        return 0

    def skip(self, changes: int) -> None:
        """Skip changes, decoding them all the same.

        Raises:
            ColumnDecodeError: bytes that are not values of their columns.
        """
        cursor: Cursor = Cursor(self._source, self._offset, self._end)
        before: Any = self._before
        after: Layout | None = self._after
        second: Plan | None = None if after is None else after.plan
        while changes and cursor.offset < cursor.end:
            self._decoder._row(cursor, before.plan, second, False, False)
            changes -= 1
        self._offset = cursor.offset

    def take(self) -> bool:
        """Add changes until the event has no more (True) or the batch is full (False).

        Raises:
            ColumnDecodeError: bytes that are not values of their columns; the changes before are in
                the batch, and :attr:`appended` is their number.
        """
        try:
            done = bool(self._take() == 1)
        except BaseException:
            self._abandon()
            raise
        if done:
            # Do not keep a row of hundreds of megabytes until the next one comes.
            self._source = b""
            raw: cython.p_const_uchar = self._source
            self._data = raw
        return done

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take(self) -> cython.int:
        self._in_value = False
        self._together = self._after is None or self._after is self._before
        self.appended = 0
        while True:
            try:
                return self._take_images(self._before, self._after)
            except (ValueError, OverflowError, LookupError, BinlogDecodeError) as error:
                if self._together:
                    # Read changes one by one to find the faulty one and keep those before it.
                    self._together = False
                    self._forget_written()
                    continue
                if not self._in_value:
                    raise
                sink: ColumnSink = cython.cast(ColumnSink, self._value_sink)
                offset: cython.Py_ssize_t = self._value_offset - self._base
                column: Column = cython.cast(Column, sink.column)
                raise self.decoder._failure(column, offset, error) from error

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _take_images(self, before: Layout, after: Layout | None) -> cython.int:
        """Add images with these layouts; return 1 at the event's end, 0 if the batch is full."""
        step: cython.int = 1 if after is None else 2
        start: cython.Py_ssize_t
        while self._offset < self._end:
            if self.rows + step > self._max_rows or self.size >= self._max_size:
                return 0
            if self.rows + 2 > self._capacity:
                with cython.gil:
                    self._reserve()
            start = self._offset
            if self._together:
                if self._take_together(before, step):
                    continue
                self._together = False
            self._image(before, self.rows)
            if step == 2:
                self._image(after, self.rows + 1)
            self.rows += step
            self.size += self._offset - start
            self.appended += 1
        return 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _take_together(self, layout: Layout, step: cython.int) -> cython.bint:
        """Add as many changes as there is room for, column by column.

        Returns:
            Whether some were added; if not, the next change is incomplete.
        """
        start: cython.Py_ssize_t = self._offset
        most: cython.Py_ssize_t = self._capacity
        if most > self._max_rows:
            most = self._max_rows
        most -= self.rows
        if most > layout.images:
            most = layout.images
        count: cython.Py_ssize_t = self._measure(layout, most)
        end: cython.Py_ssize_t = self._offset
        changes: cython.Py_ssize_t = count
        if step == 2:
            changes >>= 1
            if count & 1:
                # The after image of the last change is missing: leave the change out.
                count -= 1
                end = self._last
        # Reading resumes here if a value cannot be read.
        self._offset = start
        if not count:
            return False
        self._written = count
        self._put_images(layout, count, self.rows)
        self._written = 2
        self._offset = end
        self.rows += count
        self.size += end - start
        self.appended += changes
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self) -> cython.int:
        capacity: cython.Py_ssize_t = 4 * self._capacity
        if capacity < _FIRST_CAPACITY:
            # As many rows as the previous batch had.
            capacity = max(self._expected, _FIRST_CAPACITY)
        # Two more rows, for images that are written before their change is complete.
        if capacity > self._max_rows + 2:
            capacity = self._max_rows + 2
        sink: ColumnSink
        for sink in self.sinks:
            sink._reserve(capacity)
        self._capacity = capacity
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _abandon(self) -> cython.int:
        """Discard the change that could not be read, and the rest of the event."""
        self._forget_written()
        self._offset = self._end
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _forget_written(self) -> cython.int:
        """Discard what was written beyond the last complete row."""
        sink: ColumnSink
        for sink in self.sinks:
            sink._abandon(self.rows, self._written)
        self._forget_texts(self.rows)
        self._written = 2
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _have_offsets(self, count: cython.Py_ssize_t) -> cython.int:
        """Allocate room for the offsets of ``count`` values."""
        self._offsets_room = count
        self._offsets_memory = bytearray(8 * count)
        self._value_offsets = longs(self._offsets_memory)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _measure(self, layout: Layout, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Locate the values of the next images, up to an incomplete one.

        Returns:
            The number of complete images, which are skipped; ``_last`` is where the last one
            begins.
        """
        if most * layout.count > self._offsets_room:
            with cython.gil:
                self._have_offsets(most * layout.count)
        # Local copies: to a compiler, writes through a pointer could change the attributes.
        data: cython.p_const_uchar = self._data
        value_offsets: cython.p_longlong = self._value_offsets
        steps: cython.p_longlong = layout.steps
        count: cython.Py_ssize_t = layout.count
        null_size: cython.Py_ssize_t = layout.null_size
        null_mask: cython.ulonglong = layout.null_mask
        end: cython.Py_ssize_t = self._end
        begin: cython.Py_ssize_t = self._offset
        stop: cython.longlong = begin + self._max_size - self.size
        offset: cython.Py_ssize_t = begin
        nulls: cython.Py_ssize_t
        step: cython.longlong
        absent: cython.longlong
        absent_bits: cython.ulonglong
        whole: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        self._has_absent = False
        while whole < most and offset < end and offset < stop:
            nulls = offset
            offset += null_size
            if offset > end:
                break
            # Common sizes are handled inline, as the others cost a call.
            if null_size == 1:
                absent_bits = data[nulls]
            elif null_size <= 8:
                absent_bits = load_le(data, nulls, cython.cast(cython.int, null_size))
            else:
                absent_bits = load_le(data, offset - 8, 8)
            absent_bits &= null_mask
            for i in range(nulls, offset - 8, 8):
                absent_bits |= load_le(data, i, 8)
            if not absent_bits:
                for i in range(count):
                    value_offsets[at + i] = offset
                    step = steps[i]
                    if step >= 0:
                        offset += cython.cast(cython.Py_ssize_t, step)
                    elif step == -1 and offset < end:
                        offset += 1 + data[offset]
                    elif step == NO_STEP or -step > end - offset:
                        offset = end + 1
                        break
                    elif step == -2:
                        offset += 2 + cython.cast(cython.Py_ssize_t, load_le(data, offset, 2))
                    else:
                        offset += cython.cast(
                            cython.Py_ssize_t,
                            load_le(data, offset, cython.cast(cython.int, -step)) - step,
                        )
            else:
                self._has_absent = True
                for i in range(count):
                    # Nulls are unpredictable, so the code does not branch on them: the offset of a
                    # null is -1 (all bits), and its size is masked to 0.
                    absent = -cython.cast(cython.longlong, data[nulls + (i >> 3)] >> (i & 7) & 1)
                    value_offsets[at + i] = offset | absent
                    step = steps[i]
                    if step >= 0:
                        offset += cython.cast(cython.Py_ssize_t, step & ~absent)
                    elif step == -1:
                        if offset >= end and not absent:
                            offset = end + 1
                            break
                        step = 1 + load_le_there(data, offset | absent, 1)
                        offset += cython.cast(cython.Py_ssize_t, step & ~absent)
                    elif not absent:
                        if step == NO_STEP or -step > end - offset:
                            offset = end + 1
                            break
                        offset += cython.cast(
                            cython.Py_ssize_t,
                            load_le(data, offset, cython.cast(cython.int, -step)) - step,
                        )
            if offset > end or offset < nulls:
                break
            at += count
            whole += 1
            self._last = nulls
            self._offset = offset
        return whole

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _image(self, layout: Layout, row: cython.Py_ssize_t) -> cython.int:
        """Read one row image into the row ``row``."""
        if self._measure(layout, 1):
            return self._put_images(layout, 1, row)
        with cython.gil:
            return self._cut_image(layout, row)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _cut_image(self, layout: Layout, row: cython.Py_ssize_t) -> cython.int:
        """Write the values before the cut of an incomplete image, then raise the error."""
        data: cython.p_const_uchar = self._data
        nulls: cython.Py_ssize_t = self._offset
        offset: cython.Py_ssize_t = nulls + layout.null_size
        length: cython.Py_ssize_t
        i: cython.Py_ssize_t
        sink: ColumnSink
        if offset > self._end:
            self._in_value = False
            raise ColumnDecodeError(
                f"{self.decoder._table()}: null bits are cut off at offset {nulls - self._base}"
            )
        # An earlier value may be faulty, and its error comes first.
        for i in range(layout.count):
            sink = layout.sinks[i]
            if not data[nulls + (i >> 3)] >> (i & 7) & 1:
                length = sink.size
                if sink.op == OP_UNKNOWN or sink.prefix > self._end - offset:
                    break
                if sink.prefix:
                    length = cython.cast(cython.Py_ssize_t, load_le(data, offset, sink.prefix))
                    offset += sink.prefix
                if length > self._end - offset or length < 0:
                    break
                offset += length
            self._put_column(sink, i, 1, 1, row)
        self._in_value = False
        column: Column = cython.cast(Column, sink.column)
        if sink.op == OP_UNKNOWN:
            raise self.decoder._failure(column, offset - self._base, column.convert)
        raise self.decoder._cut_off(column, offset - self._base)

    def append_values(self, before: Any, after: Any) -> bool:
        """Append a change by its values; one of them may be None. Return False without room.

        Args:
            before: the values of the before image, in the order of the sinks.
            after: those of the after image.
        """
        step = 2 if before is not None and after is not None else 1
        if self.rows + step > self._max_rows or self.size >= self._max_size:
            return False
        if self.rows + 2 > self._capacity:
            self._reserve()
        row: cython.Py_ssize_t = self.rows
        sink: ColumnSink
        try:
            for values in (before, after):
                if values is None:
                    continue
                for at in range(len(self.sinks)):
                    sink = self.sinks[at]
                    value = values[at]
                    if not sink._put_object(row, value):
                        self.lossless.append((row, sink.name, lossless_text(value)))
                row += 1
        except BaseException:
            self._abandon()
            raise
        self.rows = row
        return True

    def absent_of(self, values: Any) -> int:
        """Return the index in :attr:`absent_lists` of the columns that a row of values lacks."""
        names = [
            sink.name for sink, value in zip(self.sinks, values, strict=True) if value is ABSENT
        ]
        if not names:
            return 0
        if names not in self.absent_lists:
            self.absent_lists.append(names)
        return self.absent_lists.index(names)

    def reset(self) -> None:
        """Begin the next batch, after every sink's buffers were taken."""
        for sink in self.sinks:
            sink.forget()
        self._forget_texts(0)
        self._capacity = 0
        self._expected = self.rows
        self.rows = self.appended = 0
        self.size = 0
