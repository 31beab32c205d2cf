# cython: boundscheck=False, wraparound=False, cdivision=True
"""Row images into the buffers of Arrow columns, without an object per value.

This module is compiled where that is possible (Cython's pure Python mode; the C types are here and
in ``columnar.pxd``) and runs as it stands everywhere else. It reads row images as
:mod:`replica_client.rows.image` does and shares with it what makes a number of a value's bytes;
values that are rare go through that module as objects. :mod:`replica_client.rows.batches` makes
arrays of the buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cython

from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.errors import BinlogDecodeError, ColumnDecodeError, LimitExceededError
from replica_client.rows.absent import ABSENT
from replica_client.rows.column_ops import ColumnOp

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
        copy_bytes,
        copy_utf8,
        fill_bytes,
        load_be,
        load_le,
        load_signed,
    )
    from cython.cimports.replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from cython.cimports.replica_client.rows.sink_ops import (
        BYTES,
        DECIMAL,
        DICTIONARY,
        FIXED,
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
        OP_YEAR,
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
        copy_bytes,
        copy_utf8,
        fill_bytes,
        load_be,
        load_le,
        load_signed,
    )
    from replica_client.rows.image import Column, Cursor, Plan, RowImageDecoder
    from replica_client.rows.sink_ops import (
        BYTES,
        DECIMAL,
        DICTIONARY,
        FIXED,
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
        OP_YEAR,
    )

# Which operations write to which storage themselves.
_NATIVE = {
    FIXED: frozenset(
        (
            ColumnOp.SIGNED,
            ColumnOp.UNSIGNED,
            ColumnOp.DATE,
            ColumnOp.TIME,
            ColumnOp.DATETIME,
            ColumnOp.TIMESTAMP,
            ColumnOp.YEAR,
            ColumnOp.FLOAT,
            ColumnOp.DOUBLE,
            ColumnOp.BIT,
        )
    ),
    BYTES: frozenset((ColumnOp.UTF8, ColumnOp.UTF8_CHAR, ColumnOp.BYTES)),
    DICTIONARY: frozenset((ColumnOp.ENUM, ColumnOp.SET)),
    DECIMAL: frozenset((ColumnOp.DECIMAL,)),
    OBJECTS: frozenset(),
}

_NOT_IN_CALENDAR = cython.declare(cython.longlong, -(1 << 62))
_MAX_DATA = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
_FIRST_CAPACITY = 64
_LOOKUP_SIZE = cython.declare(cython.int, 256)
_MAX_ENTRIES = 4096
_MAX_LAYOUTS = 1024
_SPACE = cython.declare(cython.int, 0x20)
_COPIES = {1: OP_COPY_1, 2: OP_COPY_2, 4: OP_COPY_4, 8: OP_COPY_8}
_COPIED = frozenset((ColumnOp.SIGNED, ColumnOp.UNSIGNED, ColumnOp.FLOAT, ColumnOp.DOUBLE))
_VIEWS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cython.cfunc
def _memory(buffer: Any) -> cython.p_uchar:
    if cython.compiled:
        return cython.cast(cython.p_uchar, cython.cast(cython.size_t, buffer.address))
    return memoryview(buffer).cast("B")


@cython.cfunc
def _ints(buffer: Any) -> cython.p_int:
    if cython.compiled:
        return cython.cast(cython.p_int, cython.cast(cython.size_t, buffer.address))
    return memoryview(buffer).cast("B").cast("i")


def lossless_text(value: Any) -> str:
    """The text of a value that its column cannot hold."""
    return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@cython.final
@cython.cclass
class ColumnSink:
    """The buffers of one column.

    Args:
        name: of the column.
        storage: one of the kinds above.
        width: bytes of a number or decimal.
        code: ``f`` or ``d`` for numbers that are floating.
        convert: turns a Python value that is neither None nor absent into the number, text, bytes
            or object to store; None for a value that the column cannot hold.
        allocate: gives a buffer of so many bytes that can be resized.

    Attributes:
        entries: DICTIONARY: the texts, by number.
        objects: OBJECTS: the values.
    """

    def __init__(
        self,
        name: str,
        storage: int,
        width: int,
        code: str,
        convert: Callable[[Any], Any],
        allocate: Callable[[int], Any],
    ) -> None:
        self.name = name
        self.storage = storage
        self.width = 4 if storage == DICTIONARY else width
        self.code = code
        self.convert: Any = convert
        self._allocate: Any = allocate
        self._values_buffer: Any = None
        self._bits_buffer: Any = None
        self._offsets_buffer: Any = None
        self._data_buffer: Any = None
        self.op = OP_OBJECT
        self.size = self.prefix = self.precision = self.digits = 0
        self.column: Column | None = None
        self._numbers: dict[int, int] = {}
        self.entries: list[str] = []
        self.objects: list[Any] = []
        self._lookup_buffer: Any = None
        if storage == DICTIONARY:
            self._lookup_buffer = allocate(4 * _LOOKUP_SIZE)
            self.lookup = _ints(self._lookup_buffer)
            self._forget_entries()
        self.room = 0
        self._reset(0)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _read_of(self, column: Column) -> cython.int:
        """Know which column's values come."""
        self.column = column
        self.size = column.size
        self.prefix = column.prefix
        self.precision = column.precision
        self.digits = column.digits
        if column.json_index >= 0 or column.convert is JsonDocument:
            if self.storage == BYTES:
                self.op = OP_JSON
        elif column.op in _NATIVE[self.storage]:
            self.op = column.op
            if column.op in _COPIED and column.size == self.width:
                self.op = _COPIES[self.width]
        if column.op == OP_UNKNOWN:
            self.op = OP_UNKNOWN
        return 0

    def _reset(self, room: int) -> None:
        """Have no buffers; remember how many bytes of data there were."""
        self.capacity = self.used = self.nulls = 0
        self._values_buffer = self._bits_buffer = self._offsets_buffer = self._data_buffer = None
        self.room = room

    def _forget_entries(self) -> None:
        self._numbers = {}
        self.entries = []
        i: cython.int
        for i in range(_LOOKUP_SIZE):
            self.lookup[i] = -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, rows: cython.Py_ssize_t) -> cython.int:
        """Have room for so many rows."""
        if self.storage == OBJECTS:
            return 0
        old: cython.Py_ssize_t = (self.capacity + 7) >> 3
        new: cython.Py_ssize_t = (rows + 7) >> 3
        self._bits_buffer = self._sized(self._bits_buffer, new)
        self.bits = _memory(self._bits_buffer)
        fill_bytes(self.bits, old, 0xFF, new - old)
        if self.storage == BYTES:
            first: cython.bint = self.capacity == 0
            self._offsets_buffer = self._sized(self._offsets_buffer, 4 * (rows + 1))
            self.offsets = _ints(self._offsets_buffer)
            if first:
                self.offsets[0] = 0
                self._data_buffer = self._allocate(max(self.room, 64))
                self.data = _memory(self._data_buffer)
                self.room = max(self.room, 64)
        else:
            self._values_buffer = self._sized(self._values_buffer, self.width * rows)
            self.values = _memory(self._values_buffer)
            if not cython.compiled and self.storage != DECIMAL:
                self.values = self.values.cast(_VIEWS[self.width])
            elif not cython.compiled:
                self.values = self.values.cast("I")
        self.capacity = rows
        return 0

    def _sized(self, buffer: Any, size: int) -> Any:
        if buffer is None:
            return self._allocate(size)
        buffer.resize(size)
        return buffer

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Have room for so many more bytes of data."""
        wanted: cython.Py_ssize_t = self.used + size
        if wanted > _MAX_DATA:
            raise LimitExceededError(f"column {self.name}: more than 2 GiB in one batch")
        self.room = wanted if wanted > 2 * self.room else 2 * self.room
        self._data_buffer.resize(self.room)
        self.data = _memory(self._data_buffer)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _store(self, row: cython.Py_ssize_t, number: cython.ulonglong) -> cython.void:
        """Write a number, of which the lowest ``width`` bytes count."""
        if cython.compiled:
            if self.width == 8:
                cython.cast(cython.p_ulonglong, self.values)[row] = number
            elif self.width == 4:
                cython.cast(cython.p_uint, self.values)[row] = cython.cast(cython.uint, number)
            elif self.width == 2:
                cython.cast(cython.p_ushort, self.values)[row] = cython.cast(cython.ushort, number)
            else:
                self.values[row] = cython.cast(cython.uchar, number)
        else:
            self.values[row] = number & ((1 << 8 * self.width) - 1)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put(
        self,
        rows: ColumnarRows,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write the value at ``offset``; returns the offset behind it.

        It is here, and not a method of the rows, as what is passed to a function is counted as a
        reference and its own object is not.
        """
        op: cython.int = self.op
        length: cython.Py_ssize_t = self.size
        size: cython.Py_ssize_t
        if self.prefix:
            if self.prefix > end - offset:
                raise rows._cut_off(self, offset)
            if self.prefix == 1:
                length = data[offset]
            else:
                length = cython.cast(cython.Py_ssize_t, load_le(data, offset, self.prefix))
            offset += self.prefix
        if length > end - offset or length < 0:
            raise rows._cut_off(self, offset)
        if op == OP_COPY_4:
            self._copy(row, data, offset, 4)
        elif op in (OP_UTF8, OP_UTF8_CHAR):
            size = length
            if op == OP_UTF8_CHAR:
                while size and data[offset + size - 1] == _SPACE:
                    size -= 1
            if size > self.room - self.used:
                rows._in_value = False
                self._make_room(size)
            if copy_utf8(self.data, self.used, data, offset, size):
                self.used += size
                self.offsets[row + 1] = cython.cast(cython.int, self.used)
            else:
                rows._put_value(self, data, offset, length, row)
        elif op == OP_COPY_8:
            self._copy(row, data, offset, 8)
        elif op == OP_BYTES:
            rows._in_value = False
            self._put_bytes(row, data, offset, length)
        elif op == OP_COPY_1:
            self._copy(row, data, offset, 1)
        elif op == OP_COPY_2:
            self._copy(row, data, offset, 2)
        elif op != OP_PASS:
            rows._put_other(self, data, offset, length, row)
        return offset + length

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _copy(
        self,
        row: cython.Py_ssize_t,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.void:
        """Write a number of ``size`` bytes as it stands in the image."""
        if cython.compiled:
            copy_bytes(self.values, row * size, data, offset, size)
        else:
            self.values[row] = load_le(data, offset, size)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_null(self, row: cython.Py_ssize_t) -> cython.int:
        storage: cython.int = self.storage
        if self.op == OP_PASS:
            return 0
        if storage == OBJECTS:
            self.objects.append(None)
            return 0
        self.bits[row >> 3] &= 0xFF ^ (1 << (row & 7))
        self.nulls += 1
        if storage == BYTES:
            self.offsets[row + 1] = cython.cast(cython.int, self.used)
        elif storage != DECIMAL:
            self._store(row, 0)
        elif cython.compiled:
            fill_bytes(self.values, row * self.width, 0, self.width)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    @cython.inline
    def _put_bytes(
        self,
        row: cython.Py_ssize_t,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.int:
        if size > self.room - self.used:
            self._make_room(size)
        copy_bytes(self.data, self.used, data, offset, size)
        self.used += size
        self.offsets[row + 1] = cython.cast(cython.int, self.used)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_object(self, row: cython.Py_ssize_t, value: Any) -> cython.bint:
        """Write a value of the object path; False, and null, for one that the column cannot hold."""
        if value is None or value is ABSENT:
            self._put_null(row)
            return True
        converted = self.convert(value)
        if converted is None:
            self._put_null(row)
            return False
        if self.storage == OBJECTS:
            self.objects.append(converted)
        elif self.storage == BYTES:
            data: bytes = converted.encode() if isinstance(converted, str) else bytes(converted)
            self._put_bytes(row, data, 0, len(data))
        elif self.storage == DICTIONARY:
            self._store(row, self._entry(None, converted))
        elif self.storage == DECIMAL:
            self._put_decimal(row, converted)
        elif self.code:
            packed = struct.pack("<" + self.code, converted)
            self._store(row, int.from_bytes(packed, "little"))
        else:
            self._store(row, int(converted) & 0xFFFFFFFFFFFFFFFF)
        return True

    def _put_decimal(self, row: int, number: int) -> None:
        """Write a decimal, of which the number without its point is given."""
        data = number.to_bytes(self.width, "little", signed=True)
        view = memoryview(self._values_buffer).cast("B")
        view[row * self.width : (row + 1) * self.width] = data

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _entry(self, number: Any, text: Any) -> cython.int:
        """The number of an entry, new or not; ``number`` is the one that the image has for it."""
        found = self._numbers.get(text)
        if found is None:
            text.encode()
            found = self._numbers[text] = len(self.entries)
            self.entries.append(text)
        if number is not None:
            if number < _LOOKUP_SIZE:
                self.lookup[number] = found
            else:
                self._numbers[number] = found
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _abandon(self, row: cython.Py_ssize_t) -> cython.int:
        """Forget what was written for ``row`` and the one behind it."""
        if self.storage == OBJECTS:
            del self.objects[row:]
            return 0
        if row + 2 > self.capacity:
            return 0  # nothing was written
        i: cython.Py_ssize_t
        for i in range(row, row + 2):
            if not self.bits[i >> 3] >> (i & 7) & 1:
                self.bits[i >> 3] |= 1 << (i & 7)
                self.nulls -= 1
        if self.storage == BYTES:
            self.used = self.offsets[row]
        return 0

    def take(self, rows: int) -> tuple[int, list[Any]]:
        """How many of the rows are null, and the buffers, which the sink then has no more.

        Validity (None where nothing is null), then values, or offsets and data.
        """
        nulls, used = self.nulls, self.used
        buffers = [self._bits_buffer if nulls else None]
        if nulls:
            self._bits_buffer.resize((rows + 7) >> 3)
        if self.storage == BYTES:
            if not cython.compiled:
                self.offsets = self.data = None
            self._offsets_buffer.resize(4 * (rows + 1))
            self._data_buffer.resize(used)
            buffers += [self._offsets_buffer, self._data_buffer]
        elif self.storage != OBJECTS:
            self._values_buffer.resize(self.width * rows)
            buffers.append(self._values_buffer)
        self._reset(used + (used >> 3))
        return nulls, buffers

    def forget(self) -> None:
        """Forget values, and entries where they are many."""
        self.objects = []
        if len(self.entries) > _MAX_ENTRIES:
            self._forget_entries()


@cython.final
@cython.cclass
class Layout:
    """The columns in the images of an event, and where their values go."""

    def __init__(
        self, plan: Plan, sinks: list[ColumnSink], missing: list[ColumnSink], absent: cython.int
    ) -> None:
        self.null_size = plan.null_size
        self.plan = plan
        self.sinks = sinks
        self.missing = missing
        self.absent = absent
        self.count = len(sinks)
        i: cython.Py_ssize_t
        if not cython.compiled:
            self.slots: Any = sinks
        else:
            self._slots = bytearray(8 * self.count)
            raw: cython.p_uchar = self._slots
            self.slots = cython.cast(cython.pp_void, raw)
            for i in range(self.count):
                self.slots[i] = cython.cast(cython.p_void, sinks[i])


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
        try:
            return self._take_images()
        except (ValueError, OverflowError, LookupError, BinlogDecodeError) as error:
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
        self.appended = 0
        while self._offset < self._end:
            if self.rows + step > self._max_rows or self.size >= self._max_size:
                return 0
            if self.rows + 2 > self._capacity:
                self._reserve()
            start = self._offset
            self._image(self._before, self.rows)
            if step == 2:
                self._image(self._after, self.rows + 1)
            self.rows += step
            self.size += self._offset - start
            self.appended += 1
        return 1

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
        sink: ColumnSink
        for sink in self.sinks:
            sink._abandon(self.rows)
        self.lossless = [entry for entry in self.lossless if entry[0] < self.rows]
        self._offset = self._end
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _image(self, layout: Layout, row: cython.Py_ssize_t) -> cython.int:
        """One row image into the row ``row``."""
        data: cython.p_const_uchar = self._data
        end: cython.Py_ssize_t = self._end
        nulls: cython.Py_ssize_t = self._offset
        offset: cython.Py_ssize_t = nulls + layout.null_size
        if offset > end:
            self._in_value = False
            raise ColumnDecodeError(
                f"{self.decoder._table()}: null bits are cut off at offset {nulls - self._base}"
            )
        slots: cython.pp_void = layout.slots
        op: cython.int
        i: cython.Py_ssize_t
        for i in range(layout.count):
            if data[nulls + (i >> 3)] >> (i & 7) & 1:
                cython.cast(ColumnSink, slots[i])._put_null(row)
                continue
            # The commonest need no call.
            op = cython.cast(ColumnSink, slots[i]).op
            if op == OP_COPY_4 and offset + 4 <= end:
                cython.cast(ColumnSink, slots[i])._copy(row, data, offset, 4)
                offset += 4
            elif op == OP_COPY_8 and offset + 8 <= end:
                cython.cast(ColumnSink, slots[i])._copy(row, data, offset, 8)
                offset += 8
            else:
                offset = cython.cast(ColumnSink, slots[i])._put(self, data, offset, end, row)
        sink: ColumnSink
        if layout.absent:
            for sink in layout.missing:
                sink._put_null(row)
        self._offset = offset
        return 0

    def _cut_off(self, sink: ColumnSink, offset: int) -> ColumnDecodeError:
        self._in_value = False
        error: ColumnDecodeError = self.decoder._cut_off(sink.column, offset - self._base)
        return error

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
    def _put_other(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write a value of ``length`` bytes that takes more than copying."""
        op: cython.int = sink.op
        digits: cython.int = sink.digits
        number: cython.longlong = 0
        self._value_at(sink, offset)
        if op == OP_DECIMAL:
            if cython.compiled:
                decimal_words(
                    data,
                    offset,
                    sink.precision,
                    digits,
                    cython.cast(cython.p_uint, sink.values + row * sink.width),
                    sink.width >> 2,
                )
            else:
                count = sink.width >> 2
                words = [0] * count
                decimal_words(data, offset, sink.precision, digits, words, count)
                for at, word in enumerate(words):
                    sink.values[row * count + at] = word
            return 0
        if op == OP_JSON:
            self._json.document(data, offset, length)
            return sink._put_bytes(row, self._json.out, 0, self._json.used)
        if op == OP_DATETIME:
            number = datetime2_microseconds(load_be(data, offset, sink.size), digits)
        elif op == OP_TIMESTAMP:
            number = timestamp2_microseconds(load_be(data, offset, sink.size), digits)
        elif op == OP_DATE:
            number = date_days(cython.cast(cython.uint, load_le(data, offset, 3)))
        elif op in (OP_ENUM, OP_SET):
            return self._put_entry(sink, data, offset, length, row)
        elif op == OP_SIGNED:
            number = load_signed(data, offset, sink.size)
        elif op in (OP_UNSIGNED, OP_FLOAT, OP_DOUBLE):
            sink._store(row, load_le(data, offset, sink.size))
            return 0
        elif op == OP_TIME:
            number = time2_microseconds(load_be(data, offset, sink.size), digits)
        elif op == OP_BIT:
            sink._store(row, load_be(data, offset, sink.size))
            return 0
        elif op == OP_YEAR:
            number = data[offset] + 1900 if data[offset] else 0
        elif op == OP_UNKNOWN:
            self._in_value = False
            column: Column = sink.column
            raise self.decoder._failure(column, offset - self._base, column.convert)
        else:
            return self._put_value(sink, data, offset, length, row)
        if number == _NOT_IN_CALENDAR:
            return self._put_value(sink, data, offset, length, row)
        sink._store(row, cython.cast(cython.ulonglong, number))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_entry(
        self,
        sink: ColumnSink,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        row: cython.Py_ssize_t,
    ) -> cython.int:
        """Write an ENUM or SET: the number of its text among the column's entries."""
        bits: cython.ulonglong = load_le(data, offset, sink.size)
        entry: cython.int = -1
        if bits < cython.cast(cython.ulonglong, _LOOKUP_SIZE):
            entry = sink.lookup[bits]
        else:
            entry = sink._numbers.get(bits, -1)
        if entry < 0:
            value = self._value(sink.column, data, offset, length)
            entry = sink._entry(bits, sink.convert(value))
        sink._store(row, entry)
        return 0

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
