# cython: boundscheck=False, wraparound=False, cdivision=True
"""The rows of a text result set as columns of bytes, without a Python object per value.

Callers interpret the bytes. This module is compiled where that is possible (Cython's pure Python
mode) and runs as it stands everywhere else.

Spec: MySQL "Text Resultset Row".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from replica_client.errors import MalformedPacketError

if not cython.compiled:
    from replica_client.protocol.codec.memory import (
        arrow_bytes,
        arrow_ints,
        copy_bytes,
        fill_bytes,
        load_le,
    )

_FIRST_ROOM = 16384
_MAX_SIZE = cython.declare(cython.Py_ssize_t, (1 << 31) - 1)
_NULL = cython.declare(cython.int, 0xFB)


@cython.final
@cython.cclass
class TextColumn:
    """The values of one column.

    Args:
        rows: maximum number of rows.
        allocate: returns a resizable buffer of a size in bytes.
    """

    def __init__(self, rows: int, allocate: Callable[[int], Any]) -> None:
        self._bits_buffer: Any = allocate((rows + 7) // 8)
        self._offsets_buffer: Any = allocate(4 * (rows + 1))
        self._data_buffer: Any = allocate(_FIRST_ROOM)
        self.bits = arrow_bytes(self._bits_buffer)
        self.offsets = arrow_ints(self._offsets_buffer)
        self.data: Any = arrow_bytes(self._data_buffer)
        self.room = _FIRST_ROOM
        self.used = self.nulls = 0
        self.offsets[0] = 0
        fill_bytes(self.bits, 0, 0xFF, (rows + 7) // 8)

    def buffers(self) -> tuple[list[Any], int]:
        """Return validity, offsets and data of an Arrow binary column, and the number of nulls."""
        if not cython.compiled:
            self.data = None
        self._data_buffer.resize(self.used)
        validity = self._bits_buffer if self.nulls else None
        return [validity, self._offsets_buffer, self._data_buffer], int(self.nulls)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self, size: cython.Py_ssize_t) -> cython.int:
        if self.used + size > _MAX_SIZE:
            raise OverflowError("the values of a column take more than 2 GiB")
        self.room = 2 * (self.used + size)
        if not cython.compiled:
            self.data = None
        self._data_buffer.resize(self.room)
        self.data = arrow_bytes(self._data_buffer)
        return 0


@cython.final
@cython.cclass
class TextColumns:
    """A collector of rows.

    Args:
        columns: number of columns in each row.
        rows: maximum number of rows.
        size: bytes of payloads after which no more rows are added.
        allocate: returns a resizable buffer of a size in bytes.

    Attributes:
        count: number of rows added.
    """

    def __init__(self, columns: int, rows: int, size: int, allocate: Callable[[int], Any]) -> None:
        self.columns = [TextColumn(rows, allocate) for _ in range(columns)]
        self.count = 0
        self._rows = rows
        self._left = size

    @property
    def is_full(self) -> bool:
        """Whether no more rows can be added."""
        return bool(self.count == self._rows or self._left <= 0)

    def add(self, payloads: list[bytes], start: int) -> int:
        """Add rows.

        Args:
            payloads: of the packets with the rows.
            start: index of the first payload to add.

        Returns:
            The index of the first payload that was not added.

        Raises:
            MalformedPacketError: a payload is not a row of so many columns.
            OverflowError: a column has more than 2 GiB.
        """
        at: cython.Py_ssize_t = start
        end: cython.Py_ssize_t = len(payloads)
        payload: bytes
        while at < end and self.count < self._rows and self._left > 0:
            payload = payloads[at]
            self._row(payload, len(payload))
            self._left -= len(payload)
            self.count += 1
            at += 1
        return int(at)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _row(self, data: cython.p_const_uchar, end: cython.Py_ssize_t) -> cython.int:
        columns: list[Any] = self.columns
        row: cython.Py_ssize_t = self.count
        at: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        width: cython.int
        number: cython.Py_ssize_t
        column: TextColumn
        for number in range(len(columns)):
            column = columns[number]
            if at >= end:
                raise MalformedPacketError("a row of a result set ends before its last column")
            size = data[at]
            at += 1
            if size == _NULL:
                column.bits[row >> 3] &= 0xFF ^ (1 << (row & 7))
                column.nulls += 1
                size = 0
            elif size > _NULL:
                width = 8 if size == 0xFE else size - 0xFA
                if size == 0xFF or width > end - at:
                    raise MalformedPacketError("a row of a result set has an invalid length")
                size = load_le(data, at, width)
                at += width
            if size < 0 or size > end - at:
                raise MalformedPacketError("a value of a result set is longer than its row")
            if size:
                if size > column.room - column.used:
                    column._grow(size)
                copy_bytes(column.data, column.used, data, at, size)
                column.used += size
                at += size
            column.offsets[row + 1] = column.used
        if at != end:
            raise MalformedPacketError("a row of a result set has bytes after its last column")
        return 0
