# cython: boundscheck=False, wraparound=False, cdivision=True
"""Row images into the buffers of Arrow columns, without an object per value.

This module is compiled where that is possible (Cython's pure Python mode; the C types are here and
in ``columnar.pxd``) and runs as it stands everywhere else. It reads row images as
:mod:`replica_client.rows.image` does and shares with it what makes a number of a value's bytes;
values that are rare go through that module as objects. :mod:`replica_client.rows.batches` makes
arrays of the buffers.
"""

from __future__ import annotations

from typing import Any

import cython

from replica_client.errors import BinlogDecodeError, ColumnDecodeError
from replica_client.rows.absent import ABSENT

if cython.compiled:
    from cython.cimports.replica_client.binlog.values.decimal import decimal_words
    from cython.cimports.replica_client.binlog.values.json_writer import JsonTextWriter
    from cython.cimports.replica_client.binlog.values.temporal_storage import (
        date_days,
        datetime2_microseconds,
        time2_microseconds,
        timestamp2_microseconds,
    )
    from cython.cimports.replica_client.codec.memory import (
        clear_bit,
        copy_short_utf8,
        copy_utf8,
        load_be,
        load_le,
        load_le_there,
        load_signed,
        store_number,
    )
    from cython.cimports.replica_client.rows.column_sink import ColumnSink
    from cython.cimports.replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from cython.cimports.replica_client.rows.sink_ops import (
        LOOKUP_SIZE,
        OBJECTS,
        OP_BIT,
        OP_BYTES,
        OP_COPY_1,
        OP_COPY_2,
        OP_COPY_4,
        OP_COPY_8,
        OP_DATE,
        OP_DATETIME,
        OP_DECIMAL,
        OP_DOUBLE,
        OP_ENUM,
        OP_FLOAT,
        OP_JSON,
        OP_OBJECT,
        OP_PASS,
        OP_SET,
        OP_SIGNED,
        OP_TIME,
        OP_TIMESTAMP,
        OP_UNKNOWN,
        OP_UNSIGNED,
        OP_UTF8,
        OP_UTF8_CHAR,
    )
else:
    from replica_client.binlog.values.decimal import decimal_words
    from replica_client.binlog.values.json_writer import JsonTextWriter
    from replica_client.binlog.values.temporal_storage import (
        date_days,
        datetime2_microseconds,
        time2_microseconds,
        timestamp2_microseconds,
    )
    from replica_client.codec.memory import (
        clear_bit,
        copy_short_utf8,
        copy_utf8,
        load_be,
        load_le,
        load_le_there,
        load_signed,
        store_number,
    )
    from replica_client.rows.column_sink import ColumnSink
    from replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from replica_client.rows.sink_ops import (
        LOOKUP_SIZE,
        OBJECTS,
        OP_BIT,
        OP_BYTES,
        OP_COPY_1,
        OP_COPY_2,
        OP_COPY_4,
        OP_COPY_8,
        OP_DATE,
        OP_DATETIME,
        OP_DECIMAL,
        OP_DOUBLE,
        OP_ENUM,
        OP_FLOAT,
        OP_JSON,
        OP_OBJECT,
        OP_PASS,
        OP_SET,
        OP_SIGNED,
        OP_TIME,
        OP_TIMESTAMP,
        OP_UNKNOWN,
        OP_UNSIGNED,
        OP_UTF8,
        OP_UTF8_CHAR,
    )

_NOT_IN_CALENDAR = cython.declare(cython.longlong, -(1 << 62))
_FIRST_CAPACITY = 64
# What is copied of a text that is shorter, where so much is there.
_TEXT_ROOM = cython.declare(cython.Py_ssize_t, 32)
_MAX_LAYOUTS = 1024
_SPACE = cython.declare(cython.int, 0x20)
# Values whose places are found before they are written; a negative one is that of none.
_MAX_PLACES = cython.declare(cython.Py_ssize_t, 16384)
# The step of a column whose values nobody can pass over.
_NO_STEP = cython.declare(cython.int, -127)


@cython.cfunc
def _longs(memory: bytearray) -> cython.p_longlong:
    if cython.compiled:
        raw: cython.p_uchar = memory
        return cython.cast(cython.p_longlong, raw)
    return memoryview(memory).cast("q")


def lossless_text(value: Any) -> str:
    """The text of a value that its column cannot hold."""
    return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@cython.final
@cython.cclass
class Layout:
    """The columns in the images of an event, and where their values go.

    Attributes:
        steps: by column how many bytes a value has; negative: how many bytes its length has.
    """

    def __init__(
        self, plan: Plan, sinks: list[ColumnSink], missing: list[ColumnSink], absent: cython.int
    ) -> None:
        self.null_size = plan.null_size
        self.plan = plan
        self.sinks = sinks
        self.missing = missing
        self.absent = absent
        self.count = len(sinks)
        # How many images are looked at together: whole changes, be it one.
        self.images = max(_MAX_PLACES // max(self.count, 1), 2)
        self._steps = bytearray(8 * max(self.count, 1))
        self.steps: Any = _longs(self._steps)
        i: cython.Py_ssize_t
        if not cython.compiled:
            self.slots: Any = sinks
        else:
            self._slots = bytearray(8 * self.count)
            raw: cython.p_uchar = self._slots
            self.slots = cython.cast(cython.pp_void, raw)
            for i in range(self.count):
                self.slots[i] = cython.cast(cython.p_void, sinks[i])
        sink: ColumnSink
        for i in range(self.count):
            sink = sinks[i]
            if sink.op == OP_UNKNOWN:
                self.steps[i] = _NO_STEP
            else:
                self.steps[i] = -sink.prefix if sink.prefix else sink.size


@cython.final
@cython.cclass
class ColumnarRows:
    """Rows of one table and shape on their way into a batch.

    Args:
        decoder: of the row images.
        sinks: one for each value of its rows.
        max_rows: rows that a batch has at most.
        max_size: bytes of row images after which a batch is full.

    Attributes:
        decoder: as given.
        sinks: as given.
        rows: how many there are.
        size: bytes of row images taken.
        appended: changes that the last :meth:`take` gave.
        absent_before, absent_after: for the event: number in ``absent_lists``.
        absent_lists: names of columns that images left out; the first is of those that left out
            none.
        lossless: row, column and text of values that their columns cannot hold.
    """

    def __init__(
        self, decoder: RowImageDecoder, sinks: list[ColumnSink], max_rows: int, max_size: int
    ) -> None:
        self.decoder = decoder
        self._decoder = decoder
        self.sinks = sinks
        self._max_rows = max_rows
        self._max_size = max_size
        self._capacity = self._expected = 0
        self.rows = self.appended = 0
        self.size = 0
        self.absent_before = self.absent_after = 0
        self.absent_lists: list[list[str] | None] = [None]
        self.lossless: list[tuple[int, str, str]] = []
        self._layouts: dict[bytes, Layout] = {}
        self._before: Layout | None = None
        self._after: Layout | None = None
        self._source = b""
        self._data: Any = self._source
        self._offset = self._end = 0
        self._places_room = 0
        self._places_memory: Any = b""
        self._last = 0
        self._written = 2
        self._together = self._has_absent = False
        # The value that is being made, for what it may raise.
        self._in_value = False
        self._value_offset = 0
        if not cython.compiled:
            self._value_sink: Any = None
        self._json: JsonTextWriter = JsonTextWriter()
        column: Column
        sink: ColumnSink
        self._passed: list[ColumnSink] = []
        for column in decoder._columns:
            if column.target >= 0:
                sink = sinks[column.target]
                sink._read_of(column)

    @cython.cfunc
    def _layout(self, bitmap: bytes) -> Layout:
        """The layout of a column bitmap, made once."""
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
        """Where the values of a column go; nowhere, for one that is not taken."""
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
        self, kind: str, columns_before: bytes, columns_after: bytes | None, rows: bytes
    ) -> None:
        """Have the images of an event before us; arguments as of ``RowImageDecoder.decode_rows``.

        Raises:
            ColumnDecodeError: a bitmap does not fit the table.
        """
        insert = kind == "insert"
        delete = kind == "delete"
        raw: cython.p_const_uchar = rows
        self._begin(insert, delete, columns_before, columns_after, raw, 0, len(rows))
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
        """The same with images from ``start`` to ``end`` of a memory that stays until they are read."""
        self._source = b""
        self._data = data
        self._offset = self._end = end
        self._before = self._layout(columns_before)
        self._after = None
        self.absent_before = self._before.absent
        self.absent_after = 0
        if not insert and not delete:
            self._after = self._before if columns_after is None else self._layout(columns_after)
            self.absent_after = self._after.absent
        self._base = self._offset = start
        return 0

    def skip(self, changes: int) -> None:
        """Pass over changes, which are decoded all the same.

        Raises:
            ColumnDecodeError: bytes that are not values of their columns.
        """
        cursor: Cursor = Cursor(self._source)
        before: Any = self._before
        after: Layout | None = self._after
        second: Plan | None = None if after is None else after.plan
        while changes and cursor.offset < cursor.end:
            self._decoder._row(cursor, before.plan, second, False, False)
            changes -= 1
        self._offset = cursor.offset

    def take(self) -> bool:
        """Take changes until the event has no more (True) or the batch is full (False).

        Raises:
            ColumnDecodeError: bytes that are not values of their columns; the changes before are
                in the batch, and :attr:`appended` tells how many.
        """
        try:
            return bool(self._take() == 1)
        except BaseException:
            self._abandon()
            raise

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take(self) -> cython.int:
        self._in_value = False
        self._together = self._after is None or self._after is self._before
        self.appended = 0
        while True:
            try:
                return self._take_images()
            except (ValueError, OverflowError, LookupError, BinlogDecodeError) as error:
                if self._together:
                    # Which change it is, and what stands before it, is found one by one.
                    self._together = False
                    self._forget_written()
                    continue
                if not self._in_value:
                    raise
                sink: ColumnSink = cython.cast(ColumnSink, self._value_sink)
                offset: cython.Py_ssize_t = self._value_offset - self._base
                raise self.decoder._failure(sink.column, offset, error) from error

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_images(self) -> cython.int:
        step: cython.int = 1 if self._after is None else 2
        start: cython.Py_ssize_t
        while self._offset < self._end:
            if self.rows + step > self._max_rows or self.size >= self._max_size:
                return 0
            if self.rows + 2 > self._capacity:
                self._reserve()
            start = self._offset
            if self._together:
                if self._take_together(step):
                    continue
                self._together = False
            self._image(self._before, self.rows)
            if step == 2:
                self._image(self._after, self.rows + 1)
            self.rows += step
            self.size += self._offset - start
            self.appended += 1
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_together(self, step: cython.int) -> cython.bint:
        """Take as many changes as there is room for, column by column.

        Returns:
            whether some were taken; if not, the next one is not whole.
        """
        layout: Layout = cython.cast(Layout, self._before)
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
                # A change of which one image is here.
                count -= 1
                end = self._last
        # Where it goes on when one cannot be read.
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
            # As many as the batch before had.
            capacity = max(self._expected, _FIRST_CAPACITY)
        # One more than the last row needs, for what is written before a change is whole.
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
        """Forget the change that could not be read."""
        self._forget_written()
        self._offset = self._end
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _forget_written(self) -> cython.int:
        """Forget what was written for rows that are not there."""
        sink: ColumnSink
        for sink in self.sinks:
            sink._abandon(self.rows, self._written)
        self.lossless = [entry for entry in self.lossless if entry[0] < self.rows]
        self._written = 2
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _value_at(self, sink: ColumnSink, offset: cython.Py_ssize_t) -> cython.void:
        """What is raised from now on is a fault of this value."""
        self._in_value = True
        self._value_sink = cython.cast(cython.p_void, sink)
        self._value_offset = offset

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _measure(self, layout: Layout, most: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Find the places of the values of the next images, up to one that is not whole.

        Returns:
            how many images are whole, which are passed over; ``_last`` tells where the last begins.
        """
        if most * layout.count > self._places_room:
            self._places_room = most * layout.count
            self._places_memory = bytearray(8 * self._places_room)
            self._places: Any = _longs(self._places_memory)
        # Copies, as what is written to the places could be anything to a compiler.
        data: cython.p_const_uchar = self._data
        places: cython.p_longlong = self._places
        steps: cython.p_longlong = layout.steps
        count: cython.Py_ssize_t = layout.count
        null_size: cython.Py_ssize_t = layout.null_size
        end: cython.Py_ssize_t = self._end
        begin: cython.Py_ssize_t = self._offset
        stop: cython.longlong = begin + self._max_size - self.size
        offset: cython.Py_ssize_t = begin
        nulls: cython.Py_ssize_t
        step: cython.longlong
        absent: cython.longlong
        all_there: cython.bint
        whole: cython.Py_ssize_t = 0
        at: cython.Py_ssize_t = 0
        i: cython.Py_ssize_t
        self._has_absent = False
        while whole < most and offset < end and offset < stop:
            nulls = offset
            offset += null_size
            if offset > end:
                break
            # Sizes that are common are named, as the others take a jump.
            if null_size == 1:
                all_there = data[nulls] == 0
            else:
                all_there = null_size <= 8 and not load_le(
                    data, nulls, cython.cast(cython.int, null_size)
                )
            if all_there:
                for i in range(count):
                    places[at + i] = offset
                    step = steps[i]
                    if step >= 0:
                        offset += cython.cast(cython.Py_ssize_t, step)
                    elif step == -1 and offset < end:
                        offset += 1 + data[offset]
                    elif step == _NO_STEP or -step > end - offset:
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
                    # Which values are not there cannot be foreseen, so that nothing branches upon
                    # it: the place of such a one is -1, all bits, and it takes no room.
                    absent = -cython.cast(cython.longlong, data[nulls + (i >> 3)] >> (i & 7) & 1)
                    places[at + i] = offset | absent
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
                        if step == _NO_STEP or -step > end - offset:
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
    @cython.exceptval(-1, check=False)
    def _image(self, layout: Layout, row: cython.Py_ssize_t) -> cython.int:
        """One row image into the row ``row``."""
        if self._measure(layout, 1):
            return self._put_images(layout, 1, row)
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
        # What stands before the value that is cut off may have a fault, too.
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
        column: Column = sink.column
        if sink.op == OP_UNKNOWN:
            raise self.decoder._failure(column, offset - self._base, column.convert)
        raise self.decoder._cut_off(column, offset - self._base)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_images(
        self, layout: Layout, count: cython.Py_ssize_t, row: cython.Py_ssize_t
    ) -> cython.int:
        """Write the images that were measured into the rows from ``row`` on."""
        slots: cython.pp_void = layout.slots
        stride: cython.Py_ssize_t = layout.count
        sink: ColumnSink
        i: cython.Py_ssize_t
        for i in range(stride):
            sink = cython.cast(ColumnSink, slots[i])
            self._put_column(sink, i, stride, count, row)
        if layout.absent:
            for sink in layout.missing:
                for i in range(row, row + count):
                    sink._put_null(i)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_column(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write the values of a column.

        Args:
            sink: takes them.
            first: where the first one's place is found.
            stride: how far from one place to the next.
            count: how many there are.
            row: of the first one.
        """
        op: cython.int = sink.op
        if op == OP_COPY_4:
            return self._put_numbers(sink, first, stride, count, row, 4)
        if op == OP_COPY_8:
            return self._put_numbers(sink, first, stride, count, row, 8)
        if op == OP_COPY_1:
            return self._put_numbers(sink, first, stride, count, row, 1)
        if op == OP_COPY_2:
            return self._put_numbers(sink, first, stride, count, row, 2)
        if op in (OP_UTF8, OP_UTF8_CHAR):
            return self._put_texts(sink, first, stride, count, row)
        if op in (OP_ENUM, OP_SET):
            return self._put_entries(sink, first, stride, count, row)
        if op != OP_PASS:
            return self._put_others(sink, first, stride, count, row)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_numbers(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
        size: cython.int,
    ) -> cython.int:
        """Write numbers of ``size`` bytes as they stand in the images."""
        data: cython.p_const_uchar = self._data
        places: cython.p_longlong = self._places
        values: cython.p_uchar = sink.values
        bits: cython.p_uchar = sink.bits
        nulls: cython.Py_ssize_t = 0
        at: cython.longlong
        i: cython.Py_ssize_t
        if not self._has_absent:
            for i in range(row, row + count):
                store_number(values, i, size, load_le(data, places[first], size))
                first += stride
            return 0
        for i in range(row, row + count):
            at = places[first]
            first += stride
            store_number(values, i, size, load_le_there(data, at, size))
            nulls += clear_bit(bits, i, at)
        sink.nulls += nulls
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_texts(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write texts in UTF-8, those of CHAR without the spaces at their end."""
        data: cython.p_const_uchar = self._data
        places: cython.p_longlong = self._places
        prefix: cython.int = sink.prefix
        trims: cython.bint = sink.op == OP_UTF8_CHAR
        target: cython.p_uchar = sink.data
        offsets: cython.p_int = sink.offsets
        used: cython.Py_ssize_t = sink.used
        room: cython.Py_ssize_t = sink.room
        bits: cython.p_uchar = sink.bits
        last: cython.Py_ssize_t = self._end - _TEXT_ROOM
        nulls: cython.Py_ssize_t = 0
        has_absent: cython.bint = self._has_absent
        done: cython.bint
        at: cython.longlong
        length: cython.Py_ssize_t
        size: cython.Py_ssize_t
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            at = places[first]
            first += stride
            if has_absent:
                # One that is not there has no bytes.
                nulls += clear_bit(bits, i, at)
                length = cython.cast(cython.Py_ssize_t, load_le_there(data, at, prefix))
            elif prefix == 1:
                length = data[at]
            elif prefix == 2:
                length = cython.cast(cython.Py_ssize_t, load_le(data, at, 2))
            else:
                length = cython.cast(cython.Py_ssize_t, load_le(data, at, prefix))
            at += prefix
            size = length
            if trims:
                while size and data[at + size - 1] == _SPACE:
                    size -= 1
            if size + _TEXT_ROOM > room - used:
                self._in_value = False
                sink.used = used
                sink.nulls += nulls
                nulls = 0
                sink._make_room(size + _TEXT_ROOM)
                target = sink.data
                room = sink.room
            if size < _TEXT_ROOM and at <= last:
                done = copy_short_utf8(target, used, data, at, size)
            else:
                done = copy_utf8(target, used, data, at, size)
            if done:
                used += size
                offsets[i + 1] = cython.cast(cython.int, used)
            else:
                sink.used = used
                sink.nulls += nulls
                nulls = 0
                self._put_value(sink, data, at, length, i)
                target = sink.data
                used = sink.used
                room = sink.room
        sink.used = used
        sink.nulls += nulls
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_entries(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write the numbers that ENUMs and SETs have among the column's texts."""
        data: cython.p_const_uchar = self._data
        places: cython.p_longlong = self._places
        size: cython.int = cython.cast(cython.int, sink.size)
        values: cython.p_uchar = sink.values
        valid: cython.p_uchar = sink.bits
        lookup: cython.p_int = sink.lookup
        at: cython.longlong
        bits: cython.ulonglong
        entry: cython.int
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            at = places[first]
            first += stride
            sink.nulls += clear_bit(valid, i, at)
            bits = load_le_there(data, at, size)
            entry = -1
            if bits < cython.cast(cython.ulonglong, LOOKUP_SIZE):
                entry = lookup[bits]
            if entry < 0:
                entry = 0
                if at >= 0:
                    self._value_at(sink, cython.cast(cython.Py_ssize_t, at))
                    entry = self._entry_of(
                        sink, data, cython.cast(cython.Py_ssize_t, at), size, bits
                    )
            store_number(values, i, 4, entry)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_others(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write values that take more than copying."""
        data: cython.p_const_uchar = self._data
        places: cython.p_longlong = self._places
        op: cython.int = sink.op
        size: cython.int = cython.cast(cython.int, sink.size)
        prefix: cython.int = sink.prefix
        width: cython.int = sink.width
        values: cython.p_uchar = sink.values
        length: cython.Py_ssize_t = size
        place: cython.longlong
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            place = places[first]
            first += stride
            if place < 0:
                sink._put_null(i)
                continue
            at = cython.cast(cython.Py_ssize_t, place)
            if prefix:
                length = cython.cast(cython.Py_ssize_t, load_le(data, at, prefix))
                at += prefix
            self._value_at(sink, at)
            if op == OP_JSON:
                self._json.document(data, at, length)
                self._in_value = False
                sink._put_bytes(i, self._json.out, 0, self._json.used)
            elif op == OP_DECIMAL:
                self._put_decimal(sink, data, at, i)
            elif op == OP_BYTES:
                self._in_value = False
                sink._put_bytes(i, data, at, length)
            elif op == OP_BIT:
                store_number(values, i, width, load_be(data, at, size))
            elif op in (OP_UNSIGNED, OP_FLOAT, OP_DOUBLE):
                store_number(values, i, width, load_le(data, at, size))
            elif op == OP_OBJECT:
                self._put_value(sink, data, at, length, i)
            else:
                self._put_converted(sink, data, at, length, i)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_decimal(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a decimal of the image."""
        count: cython.int = sink.width >> 2
        if cython.compiled:
            decimal_words(
                data,
                offset,
                sink.precision,
                sink.digits,
                cython.cast(cython.p_uint, sink.values + row * sink.width),
                count,
            )
        else:
            words = [0] * count
            decimal_words(data, offset, sink.precision, sink.digits, words, count)
            for at, word in enumerate(words):
                sink.values[row * count + at] = word
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_converted(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a number, date or time that is kept in another form than the image's."""
        op: cython.int = sink.op
        digits: cython.int = sink.digits
        size: cython.int = cython.cast(cython.int, sink.size)
        number: cython.longlong
        if op == OP_DATETIME:
            number = datetime2_microseconds(load_be(data, offset, size), digits)
        elif op == OP_TIMESTAMP:
            number = timestamp2_microseconds(load_be(data, offset, size), digits)
        elif op == OP_DATE:
            number = date_days(cython.cast(cython.uint, load_le(data, offset, 3)))
        elif op == OP_TIME:
            number = time2_microseconds(load_be(data, offset, size), digits)
        elif op == OP_SIGNED:
            number = load_signed(data, offset, size)
        else:
            # The year, from 1901 on.
            number = data[offset] + 1900 if data[offset] else 0
        if number == _NOT_IN_CALENDAR:
            return self._put_value(sink, data, offset, length, row)
        store_number(sink.values, row, sink.width, cython.cast(cython.ulonglong, number))
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _entry_of(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        bits: cython.ulonglong,
    ) -> cython.int:
        """The number of an ENUM's or SET's text among the entries, where the lookup has none."""
        entry: cython.int = sink._numbers.get(bits, -1)
        if entry < 0:
            value = self._value(sink.column, data, offset, length)
            entry = sink._entry(bits, sink.convert(value))
        return entry

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_value(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a value by way of its object."""
        column: Column = sink.column
        self._value_at(sink, offset)
        value = self._value(column, data, offset, length)
        if column.as_python and value is not None:
            value = value.to_python()
        if not sink._put_object(row, value):
            self.lossless.append((row, sink.name, lossless_text(value)))
        return 0

    @cython.cfunc
    def _value(
        self,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> object:
        """A value as an object."""
        if not cython.compiled:
            data, offset = bytes(data[offset : offset + length]), 0
        return self._decoder._value(column, data, offset, length)

    def append_values(self, before: Any, after: Any) -> bool:
        """Append a change by its values; one of the two may be None. False when there is no room.

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
        """The number of the list of columns that a row of values leaves out."""
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
        self.lossless = []
        self._capacity = 0
        self._expected = self.rows
        self.rows = self.appended = 0
        self.size = 0
