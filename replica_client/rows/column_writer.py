# cython: boundscheck=False, wraparound=False, cdivision=True
"""Writing of values from row images into the buffers of columns, a column at a time.

This module is compiled where that is possible and runs as it stands everywhere else. It shares with
:mod:`replica_client.rows.image` what makes a number of a value's bytes; values that are rare go through
that module as objects.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from typing import Any

import cython

from replica_client.protocol.binlog.values.json_diff import JsonDiffs

if not cython.compiled:
    from replica_client.protocol.binlog.values.decimal import decimal_words
    from replica_client.protocol.binlog.values.json_writer import JsonTextWriter
    from replica_client.protocol.binlog.values.temporal_storage import (
        date_days,
        datetime2_microseconds,
        time2_microseconds,
        timestamp2_microseconds,
    )
    from replica_client.protocol.codec.memory import (
        clear_bit,
        copy_short_utf8,
        copy_utf8,
        load_be,
        load_le,
        load_le_there,
        load_signed,
        store_number,
    )
    from replica_client.rows.column_layout import Layout
    from replica_client.rows.column_sink import ColumnSink
    from replica_client.rows.image import Column, RowImageDecoder
    from replica_client.rows.sink_ops import (
        LOOKUP_SIZE,
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
        OP_UNSIGNED,
        OP_UTF8,
        OP_UTF8_CHAR,
    )

_NOT_IN_CALENDAR = cython.declare(cython.longlong, -(1 << 62))
# A shorter text is copied in a block of this size, if the image has so many bytes.
_TEXT_ROOM = cython.declare(cython.Py_ssize_t, 32)
_SPACE = cython.declare(cython.int, 0x20)


def lossless_text(value: Any) -> str:
    """Return the text of a value that its column cannot hold; of differences to a document, their JSON."""
    return value.text if isinstance(value, JsonDiffs) else str(value)


@cython.cclass
class ColumnWriter:
    """A writer of values whose places in row images are known.

    Args:
        decoder: of the row images.

    Attributes:
        decoder: as given.
        lossless: row, column and text of values that their columns cannot hold.
    """

    def __init__(self, decoder: RowImageDecoder) -> None:
        self.decoder = decoder
        self._decoder = decoder
        self.lossless: list[tuple[int, str, str]] = []
        self._data: Any = b""
        self._end = 0
        self._has_absent = False
        # The value being decoded, to locate an error.
        self._in_value = False
        self._value_offset = 0
        if not cython.compiled:
            self._value_sink: Any = None
            self._value_offsets: Any = None
        self._json: JsonTextWriter = JsonTextWriter()

    def _forget_texts(self, row: int) -> None:
        """Drop the lossless texts from a row on."""
        self.lossless = [entry for entry in self.lossless if entry[0] < row]

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def _value_at(self, sink: ColumnSink, offset: cython.Py_ssize_t) -> cython.void:
        """Set the value to which errors raised from now on belong."""
        self._in_value = True
        self._value_sink = cython.cast(cython.p_void, sink)
        self._value_offset = offset

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_images(
        self, layout: Layout, count: cython.Py_ssize_t, row: cython.Py_ssize_t
    ) -> cython.int:
        """Write the measured images into the rows from ``row`` on."""
        slots: cython.pp_void = layout.slots
        stride: cython.Py_ssize_t = layout.count
        slot: cython.p_void
        i: cython.Py_ssize_t
        for i in range(stride):
            slot = slots[i]
            self._put_column(cython.cast(ColumnSink, slot), i, stride, count, row)
        if layout.absent:
            with cython.gil:
                self._put_missing(layout, count, row)
        return 0

    @cython.final
    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_missing(
        self, layout: Layout, count: cython.Py_ssize_t, row: cython.Py_ssize_t
    ) -> cython.int:
        """Write null for columns that the images left out."""
        sink: ColumnSink
        i: cython.Py_ssize_t
        for sink in layout.missing:
            for i in range(row, row + count):
                sink._put_null(i)
        return 0

    @cython.final
    @cython.cfunc
    @cython.nogil
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
            first: index of the first value's offset.
            stride: distance between two offsets.
            count: number of values.
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

    @cython.final
    @cython.cfunc
    @cython.nogil
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
        """Write numbers of ``size`` bytes unchanged."""
        data: cython.p_const_uchar = self._data
        value_offsets: cython.p_longlong = self._value_offsets
        values: cython.p_uchar = sink.values
        bits: cython.p_uchar = sink.bits
        nulls: cython.Py_ssize_t = 0
        at: cython.longlong
        i: cython.Py_ssize_t
        if not self._has_absent:
            for i in range(row, row + count):
                store_number(values, i, size, load_le(data, value_offsets[first], size))
                first += stride
            return 0
        for i in range(row, row + count):
            at = value_offsets[first]
            first += stride
            store_number(values, i, size, load_le_there(data, at, size))
            nulls += clear_bit(bits, i, at)
        sink.nulls += nulls
        return 0

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_texts(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write texts in UTF-8, those of CHAR without trailing spaces."""
        data: cython.p_const_uchar = self._data
        value_offsets: cython.p_longlong = self._value_offsets
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
            at = value_offsets[first]
            first += stride
            if has_absent:
                # The length of a null value is read as 0.
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
                with cython.gil:
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
                with cython.gil:
                    self._put_value(sink, data, at, length, i)
                target = sink.data
                used = sink.used
                room = sink.room
        sink.used = used
        sink.nulls += nulls
        return 0

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_entries(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write the indexes of ENUM and SET values among the column's texts."""
        data: cython.p_const_uchar = self._data
        value_offsets: cython.p_longlong = self._value_offsets
        size: cython.int = cython.cast(cython.int, sink.size)
        values: cython.p_uchar = sink.values
        valid: cython.p_uchar = sink.bits
        lookup: cython.p_int = sink.lookup
        at: cython.longlong
        bits: cython.ulonglong
        entry: cython.int
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            at = value_offsets[first]
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
                    with cython.gil:
                        entry = self._entry_of(
                            sink, data, cython.cast(cython.Py_ssize_t, at), size, bits
                        )
            store_number(values, i, 4, entry)
        return 0

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_others(
        self,
        sink: ColumnSink,
        first: cython.Py_ssize_t,
        stride: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write values that need more than copying."""
        data: cython.p_const_uchar = self._data
        value_offsets: cython.p_longlong = self._value_offsets
        op: cython.int = sink.op
        size: cython.int = cython.cast(cython.int, sink.size)
        prefix: cython.int = sink.prefix
        width: cython.int = sink.width
        values: cython.p_uchar = sink.values
        length: cython.Py_ssize_t = size
        value_offset: cython.longlong
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            value_offset = value_offsets[first]
            first += stride
            if value_offset < 0:
                sink._put_null(i)
                continue
            at = cython.cast(cython.Py_ssize_t, value_offset)
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
                with cython.gil:
                    self._put_value(sink, data, at, length, i)
            else:
                self._put_converted(sink, data, at, length, i)
        return 0

    @cython.final
    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _put_decimal(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a decimal from the image."""
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

    @cython.final
    @cython.cfunc
    @cython.nogil
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
        """Write a number, date or time whose stored form differs from the image's."""
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
            # YEAR is stored as the difference to 1900; 0 is the zero year.
            number = data[offset] + 1900 if data[offset] else 0
        if number == _NOT_IN_CALENDAR:
            with cython.gil:
                return self._put_value(sink, data, offset, length, row)
        store_number(sink.values, row, sink.width, cython.cast(cython.ulonglong, number))
        return 0

    @cython.final
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
        """Return the entry index of an ENUM or SET value that the lookup lacks."""
        entry: cython.int = sink._numbers.get(bits, -1)
        if entry < 0:
            value = self._value(sink.column, data, offset, length)
            entry = sink._entry(bits, sink.convert(value))
        return entry

    @cython.final
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
        """Write a value by way of its Python object."""
        column: Column = cython.cast(Column, sink.column)
        self._value_at(sink, offset)
        value = self._value(column, data, offset, length)
        if column.as_python and value is not None:
            value = value.to_python()
        if not sink._put_object(row, value):
            self.lossless.append((row, sink.name, lossless_text(value)))
        return 0

    @cython.final
    @cython.cfunc
    def _value(
        self,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> object:
        """Return a value as a Python object."""
        if not cython.compiled:
            data, offset = bytes(data[offset : offset + length]), 0
        return self._decoder._value(column, data, offset, length)
