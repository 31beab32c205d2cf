# cython: boundscheck=False, wraparound=False, cdivision=True
"""The buffers of one Arrow column while a batch is filled.

:mod:`replica_client.rows.columnar` writes the values of row images into them. This module is compiled
where that is possible (Cython's pure Python mode; the C types are here and in ``column_sink.pxd``) and
runs as it stands everywhere else.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import cython

from replica_client.errors import LimitExceededError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.column_ops import ColumnOp
from replica_client.rows.special_values import ABSENT

if not cython.compiled:
    from replica_client.protocol.codec.memory import (
        arrow_bytes,
        arrow_ints,
        copy_bytes,
        fill_bytes,
        store_number,
    )
    from replica_client.rows.image import Column
    from replica_client.rows.sink_ops import (
        BYTES,
        DECIMAL,
        DICTIONARY,
        FIXED,
        LOOKUP_SIZE,
        OBJECTS,
        OP_COPY_1,
        OP_COPY_2,
        OP_COPY_4,
        OP_COPY_8,
        OP_JSON,
        OP_OBJECT,
        OP_PASS,
        OP_UNKNOWN,
    )

# Operations that write directly to each storage; others go through a Python object.
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
_MAX_DATA = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
# A larger batch has few very long values, and the next one will differ.
_MOST_EXPECTED = cython.declare(cython.Py_ssize_t, 96 << 20)
_MAX_ENTRIES = 4096
_COPIES = {1: OP_COPY_1, 2: OP_COPY_2, 4: OP_COPY_4, 8: OP_COPY_8}
_COPIED = frozenset((ColumnOp.SIGNED, ColumnOp.UNSIGNED, ColumnOp.FLOAT, ColumnOp.DOUBLE))
_VIEWS = {1: "B", 2: "H", 4: "I", 8: "Q"}


@cython.cfunc
def _cut(buffer: Any, size: int) -> Any:
    """Shrink a buffer to a size; keep memory that is mostly used, as returning it costs more."""
    room = buffer.size
    if room - size > room >> 3:
        buffer.resize(size)
        return buffer
    return buffer if room == size else buffer.slice(0, size)


@cython.final
@cython.cclass
class ColumnSink:
    """The buffers of one column.

    Args:
        name: of the column.
        storage: one of the kinds of :mod:`replica_client.rows.sink_ops`.
        width: bytes of a number or decimal.
        code: ``f`` or ``d`` for numbers that are floating.
        convert: turns a Python value that is neither None nor absent into the number, text, bytes
            or object to store; None for a value that the column cannot hold.
        allocate: returns a resizable buffer of a size in bytes.

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
            self._lookup_buffer = allocate(4 * LOOKUP_SIZE)
            self.lookup = arrow_ints(self._lookup_buffer)
            self._forget_entries()
        if not cython.compiled:
            self.values: Any = None
            self.offsets: Any = None
            self.data: Any = None
        self.room = 0
        self._reset(0)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _read_of(self, column: Column) -> cython.int:
        """Set the column whose values come, and the operation to read them."""
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
        """Drop the buffers; remember the size of the data."""
        self.capacity = self.used = self.nulls = 0
        self._values_buffer = self._bits_buffer = self._offsets_buffer = self._data_buffer = None
        self.room = room

    def _forget_entries(self) -> None:
        self._numbers = {}
        self.entries = []
        i: cython.int
        for i in range(LOOKUP_SIZE):
            self.lookup[i] = -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, rows: cython.Py_ssize_t) -> cython.int:
        """Make room for a number of rows."""
        if self.storage == OBJECTS:
            return 0
        old: cython.Py_ssize_t = (self.capacity + 7) >> 3
        new: cython.Py_ssize_t = (rows + 7) >> 3
        self._bits_buffer = self._sized(self._bits_buffer, new)
        self.bits = arrow_bytes(self._bits_buffer)
        fill_bytes(self.bits, old, 0xFF, new - old)
        if self.storage == BYTES:
            first: cython.bint = self.capacity == 0
            self._offsets_buffer = self._sized(self._offsets_buffer, 4 * (rows + 1))
            self.offsets = arrow_ints(self._offsets_buffer)
            if first:
                self.offsets[0] = 0
                self._data_buffer = self._allocate(max(self.room, 64))
                self.data = arrow_bytes(self._data_buffer)
                self.room = max(self.room, 64)
        else:
            self._values_buffer = self._sized(self._values_buffer, self.width * rows)
            self.values = arrow_bytes(self._values_buffer)
            if not cython.compiled and self.storage != DECIMAL:
                self.values = self.values.cast(_VIEWS[self.width])
            elif not cython.compiled:
                self.values = self.values.cast("I")
        self.capacity = rows
        return 0

    def _sized(self, buffer: Any, size: int) -> Any:
        if buffer is None:
            return self._allocate(size)
        if buffer.size != size:
            buffer.resize(size)
        return buffer

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _make_room(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes of data."""
        wanted: cython.Py_ssize_t = self.used + size
        if wanted > _MAX_DATA:
            raise LimitExceededError(f"column {self.name}: more than 2 GiB in one batch")
        self.room = wanted if wanted > 2 * self.room else 2 * self.room
        self._data_buffer.resize(self.room)
        self.data = arrow_bytes(self._data_buffer)
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _put_null(self, row: cython.Py_ssize_t) -> cython.int:
        storage: cython.int = self.storage
        if self.op == OP_PASS:
            return 0
        if storage == OBJECTS:
            with cython.gil:
                self.objects.append(None)
            return 0
        self.bits[row >> 3] &= 0xFF ^ (1 << (row & 7))
        self.nulls += 1
        if storage == BYTES:
            self.offsets[row + 1] = cython.cast(cython.int, self.used)
        elif storage != DECIMAL:
            store_number(self.values, row, self.width, 0)
        elif cython.compiled:
            fill_bytes(self.values, row * self.width, 0, self.width)
        return 0

    @cython.cfunc
    @cython.nogil
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
            with cython.gil:
                self._make_room(size)
        copy_bytes(self.data, self.used, data, offset, size)
        self.used += size
        self.offsets[row + 1] = cython.cast(cython.int, self.used)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_object(self, row: cython.Py_ssize_t, value: Any) -> cython.bint:
        """Write a Python value; write null and return False if the column cannot hold it."""
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
            store_number(self.values, row, self.width, self._entry(None, converted))
        elif self.storage == DECIMAL:
            self._put_decimal(row, converted)
        elif self.code:
            packed = struct.pack("<" + self.code, converted)
            store_number(self.values, row, self.width, int.from_bytes(packed, "little"))
        else:
            store_number(self.values, row, self.width, int(converted) & 0xFFFFFFFFFFFFFFFF)
        return True

    def _put_decimal(self, row: int, number: int) -> None:
        """Write a decimal, given as an integer without its point."""
        data = number.to_bytes(self.width, "little", signed=True)
        view = memoryview(self._values_buffer).cast("B")
        view[row * self.width : (row + 1) * self.width] = data

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _entry(self, number: Any, text: Any) -> cython.int:
        """Return the index of an entry, added if new; ``number`` is its number in the image."""
        found = self._numbers.get(text)
        if found is None:
            text.encode()
            found = self._numbers[text] = len(self.entries)
            self.entries.append(text)
        if number is not None:
            if number < LOOKUP_SIZE:
                self.lookup[number] = found
            else:
                self._numbers[number] = found
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _abandon(self, row: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.int:
        """Discard what was written for ``count`` rows from ``row`` on."""
        if self.storage == OBJECTS:
            del self.objects[row:]
            return 0
        if row + count > self.capacity:
            return 0  # nothing was written
        i: cython.Py_ssize_t
        for i in range(row, row + count):
            if not self.bits[i >> 3] >> (i & 7) & 1:
                self.bits[i >> 3] |= 1 << (i & 7)
                self.nulls -= 1
        if self.storage == BYTES:
            self.used = self.offsets[row]
        return 0

    def take(self, rows: int) -> tuple[int, list[Any]]:
        """Return the number of nulls and the buffers, and detach the buffers from the sink.

        The buffers are validity (None without nulls), then values, or offsets and data.
        """
        nulls, used = self.nulls, self.used
        # A validity buffer without nulls is reused by the next batch.
        bits = None if nulls else self._bits_buffer
        buffers = [_cut(self._bits_buffer, (rows + 7) >> 3) if nulls else None]
        if self.storage == BYTES:
            if not cython.compiled:
                self.offsets = self.data = None
            buffers.append(_cut(self._offsets_buffer, 4 * (rows + 1)))
            buffers.append(_cut(self._data_buffer, used))
        elif self.storage != OBJECTS:
            buffers.append(_cut(self._values_buffer, self.width * rows))
        self._reset(self.data_size)
        self._bits_buffer = bits
        return nulls, buffers

    @property
    def data_size(self) -> int:
        """Bytes of data with a reserve, as an estimate for the next batch."""
        return int(self.used + (self.used >> 3)) if self.used <= _MOST_EXPECTED else 0

    def expect(self, room: int) -> None:
        """Set the first size of the data buffer, before there is one."""
        self.room = max(self.room, room)

    def forget(self) -> None:
        """Drop the values, and the entries if they are many."""
        self.objects = []
        if len(self.entries) > _MAX_ENTRIES:
            self._forget_entries()
