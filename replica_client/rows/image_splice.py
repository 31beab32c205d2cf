# cython: boundscheck=False, wraparound=False, cdivision=True
"""Rewriting of row images: dropped columns, replaced values, and added columns at both ends.

Unchanged values are copied as bytes without decoding. This module is compiled where that is
possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import cython

from replica_client.errors import ColumnDecodeError
from replica_client.rows.column_ops import ColumnOp

if not cython.compiled:
    from replica_client.protocol.codec.memory import copy_bytes, load_le
    from replica_client.rows.image import Column, RowImageDecoder

KEEP: Final = -1
DROP: Final = -2
_KEEP = cython.declare(cython.int, -1)
_DROP = cython.declare(cython.int, -2)
_UNKNOWN = cython.declare(cython.int, int(ColumnOp.UNKNOWN))
_MAX_PLANS = 1024


@cython.final
@cython.cclass
class SplicePlan:
    """The treatment of the columns in images with one bitmap."""

    def __init__(
        self, columns: list[Any], sources: list[int], bitmap: bytes, new_count: int
    ) -> None:
        self.columns = columns
        self.sources = sources
        self.bitmap = bitmap
        self.keeps_any = any(source != DROP for source in sources)
        self.null_size = (len(columns) + 7) >> 3
        self.new_null_size = (new_count + 7) >> 3


@cython.final
@cython.cclass
class ImageSplicer:
    """A rewriter of the row images of one table.

    Args:
        decoder: of the images.
        sources: for each column of the table: :data:`KEEP`, :data:`DROP`, or the index of its new
            value.
        first: values of columns added before the others, as bytes with their length.
        last: values of columns added after the others, likewise.
    """

    def __init__(
        self,
        decoder: RowImageDecoder,
        sources: Sequence[int],
        first: Sequence[bytes] = (),
        last: Sequence[bytes] = (),
    ) -> None:
        self._decoder = decoder
        self._sources = tuple(sources)
        self._first, self._first_count = b"".join(first), len(first)
        self._last, self._last_count = b"".join(last), len(last)
        self._width = sum(1 for source in sources if source != DROP) + len(first) + len(last)
        self._plans: dict[bytes, SplicePlan] = {}
        self._out = bytearray()
        self._used = 0

    def bitmap(self, bitmap: bytes) -> bytes:
        """Return the column bitmap of the new images, for a bitmap of the old ones."""
        new: bytes = self._plan(bitmap).bitmap
        return new

    def keeps_any(self, bitmap: bytes) -> bool:
        """Return whether any column in old images with a bitmap is in the new images."""
        plan: SplicePlan = self._plan(bitmap)
        return bool(plan.keeps_any)

    def nulls(self, bitmap: bytes) -> bytes:
        """Return a new image in which all columns are NULL."""
        plan: SplicePlan = self._plan(bitmap)
        return b"\xff" * int(plan.new_null_size)

    def images(
        self, data: bytes, before: bytes | None, after: bytes | None, values: list[Any]
    ) -> bytes:
        """Return all images of an event rewritten, with the same new values in each row.

        Args:
            data: the images.
            before: column bitmap of before images; None if there are none.
            after: column bitmap of after images; None if there are none.
            values: see :meth:`image`.

        Raises:
            ColumnDecodeError: see :meth:`image`.
        """
        offset: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = len(data)
        first: SplicePlan | None = None if before is None else self._plan(before)
        second: SplicePlan | None = None if after is None else self._plan(after)
        self._out = bytearray(len(data) + 64)
        self._used = 0
        while offset < end:
            if first is not None:
                offset = self._image(data, offset, first, values)
            if second is not None:
                offset = self._image(data, offset, second, values)
        return bytes(self._out[: self._used])

    def image(
        self,
        data: bytes,
        offset: cython.Py_ssize_t,
        bitmap: bytes,
        values: list[Any],
        out: bytearray,
    ) -> int:
        """Rewrite the image that begins at ``offset``; return where it ends.

        Args:
            data: holds the image.
            offset: of its null bits.
            bitmap: its column bitmap.
            values: new values: bytes with their length, or None for NULL. Values of columns that
                the image left out are not read.
            out: receives the new image.

        Raises:
            ColumnDecodeError: the image is cut off, or a column cannot be read.
        """
        self._out = bytearray(256)
        self._used = 0
        end = self._image(data, offset, self._plan(bitmap), values)
        out += self._out[: self._used]
        return int(end)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _reserve(self, size: cython.Py_ssize_t) -> cython.int:
        """Make room for more bytes."""
        lacking: cython.Py_ssize_t = self._used + size - len(self._out)
        if lacking > 0:
            self._out += bytes(max(lacking, len(self._out)))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _copy(
        self, data: cython.p_const_uchar, start: cython.Py_ssize_t, size: cython.Py_ssize_t
    ) -> cython.int:
        self._reserve(size)
        copy_bytes(self._out, self._used, data, start, size)
        self._used += size
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _image(
        self,
        data: bytes,
        offset: cython.Py_ssize_t,
        plan: SplicePlan,
        values: list[Any],
    ) -> cython.Py_ssize_t:
        raw: cython.p_const_uchar = data
        end: cython.Py_ssize_t = len(data)
        nulls: cython.Py_ssize_t = offset
        offset += plan.null_size
        if offset > end:
            raise ColumnDecodeError(f"{self._table()}: null bits are cut off at offset {nulls}")
        columns: list[Any] = plan.columns
        sources: list[int] = plan.sources
        column: Column
        i: cython.Py_ssize_t
        length: cython.Py_ssize_t
        begun: cython.Py_ssize_t
        # Start of adjacent values to copy together; -1: none.
        run: cython.Py_ssize_t = -1
        source: cython.Py_ssize_t
        is_null: cython.bint
        at: cython.Py_ssize_t = self._first_count
        value: bytes | None
        head: cython.Py_ssize_t = self._used
        self._reserve(plan.new_null_size)
        for i in range(plan.new_null_size):
            self._out[head + i] = 0
        self._used += plan.new_null_size
        if self._first_count:
            self._copy(self._first, 0, len(self._first))
        for i in range(len(columns)):
            column = cython.cast(Column, columns[i])
            source = sources[i]
            begun = offset
            is_null = (raw[nulls + (i >> 3)] >> (i & 7)) & 1
            if not is_null:
                length = column.size
                if column.prefix:
                    if column.prefix > end - offset:
                        raise self._cut_off(column, offset)
                    length = cython.cast(cython.Py_ssize_t, load_le(raw, offset, column.prefix))
                    offset += column.prefix
                if length > end - offset or length < 0 or column.op == _UNKNOWN:
                    raise self._cut_off(column, offset)
                offset += length
            if source == _KEEP:
                if is_null:
                    self._out[head + (at >> 3)] |= 1 << (at & 7)
                elif run < 0:
                    run = begun
                at += 1
                continue
            if run >= 0:
                self._copy(raw, run, begun - run)
                run = -1
            if source == _DROP:
                continue
            value = values[source]
            if value is None:
                self._out[head + (at >> 3)] |= 1 << (at & 7)
            else:
                self._copy(value, 0, len(value))
            at += 1
        if run >= 0:
            self._copy(raw, run, offset - run)
        if self._last_count:
            self._copy(self._last, 0, len(self._last))
        return offset

    @cython.cfunc
    def _plan(self, bitmap: bytes) -> SplicePlan:
        found: SplicePlan | None = self._plans.get(bitmap)
        if found is not None:
            return found
        columns: list[Any] = self._decoder._columns
        if len(bitmap) != (len(columns) + 7) >> 3:
            raise ColumnDecodeError(
                f"{self._table()}: a column bitmap of {len(bitmap)} bytes for {len(columns)} columns"
            )
        present = [at for at in range(len(columns)) if bitmap[at >> 3] >> (at & 7) & 1]
        new = bytearray((self._width + 7) >> 3)
        kept = [at for at in range(len(columns)) if self._sources[at] != DROP]
        numbers = [*range(self._first_count), *range(self._width - self._last_count, self._width)]
        numbers += [
            number
            for number, at in enumerate(kept, self._first_count)
            if bitmap[at >> 3] >> (at & 7) & 1
        ]
        for number in numbers:
            new[number >> 3] |= 1 << (number & 7)
        plan = SplicePlan(
            [columns[at] for at in present],
            [self._sources[at] for at in present],
            bytes(new),
            len(numbers),
        )
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        self._plans[bitmap] = plan
        return plan

    def _table(self) -> str:
        shape = self._decoder.shape
        return f"{shape.database}.{shape.table}"

    def _cut_off(self, column: Column, offset: int) -> ColumnDecodeError:
        return ColumnDecodeError(
            f"{self._table()} column {column.name} at offset {offset} of the rows: the value cannot be read"
        )
