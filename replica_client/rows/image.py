# cython: boundscheck=False
"""Decoding of row images of rows events to tuples of Python values.

This module is compiled where that is possible (Cython's pure Python mode; the C types are here and
in ``image.pxd``) and runs as it stands everywhere else. What it does not do itself is done by the
functions of :mod:`replica_client.protocol.binlog.values`; :mod:`replica_client.rows.column_ops` says which
column is read how.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import cython

from replica_client.errors import BinlogDecodeError, ColumnDecodeError
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events.rows import modern_images
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.protocol.binlog.values.json_diff import apply_diffs, decode_diffs
from replica_client.protocol.binlog.values.value_types import SetValue, enum_value, set_value
from replica_client.protocol.codec.compression import inflate_record
from replica_client.rows.column_ops import ColumnOp, ColumnReader, column_readers
from replica_client.rows.row import row_class
from replica_client.rows.special_values import ABSENT
from replica_client.schema.shape import TableShape

if not cython.compiled:
    from replica_client.protocol.binlog.values.decimal import decimal_at
    from replica_client.protocol.binlog.values.json_binary import new_document
    from replica_client.protocol.binlog.values.numbers import double_at, float_at
    from replica_client.protocol.binlog.values.temporal_storage import (
        date_of,
        datetime2_of,
        time2_of,
        timestamp2_of,
    )
    from replica_client.protocol.codec.ascii_text import text_of
    from replica_client.protocol.codec.memory import load_be, load_le, load_signed
    from replica_client.rows.tuples import empty_row, filled, put_value

RowPair = tuple[Any, Any]
"""The before and the after image of a row; None for an image that the kind does not have."""

_UNKNOWN = cython.declare(cython.int, int(ColumnOp.UNKNOWN))
_SIGNED = cython.declare(cython.int, int(ColumnOp.SIGNED))
_UNSIGNED = cython.declare(cython.int, int(ColumnOp.UNSIGNED))
_UTF8 = cython.declare(cython.int, int(ColumnOp.UTF8))
_UTF8_CHAR = cython.declare(cython.int, int(ColumnOp.UTF8_CHAR))
_DECIMAL = cython.declare(cython.int, int(ColumnOp.DECIMAL))
_DATE = cython.declare(cython.int, int(ColumnOp.DATE))
_TIME = cython.declare(cython.int, int(ColumnOp.TIME))
_DATETIME = cython.declare(cython.int, int(ColumnOp.DATETIME))
_TIMESTAMP = cython.declare(cython.int, int(ColumnOp.TIMESTAMP))
_YEAR = cython.declare(cython.int, int(ColumnOp.YEAR))
_FLOAT = cython.declare(cython.int, int(ColumnOp.FLOAT))
_DOUBLE = cython.declare(cython.int, int(ColumnOp.DOUBLE))
_BIT = cython.declare(cython.int, int(ColumnOp.BIT))
_ENUM = cython.declare(cython.int, int(ColumnOp.ENUM))
_SET = cython.declare(cython.int, int(ColumnOp.SET))
_BYTES = cython.declare(cython.int, int(ColumnOp.BYTES))
_BINARY = cython.declare(cython.int, int(ColumnOp.BINARY))
_NULL = cython.declare(cython.int, int(ColumnOp.NULL))
_JSON = cython.declare(cython.int, int(ColumnOp.JSON))

_PARTIAL_JSON = 1
_CUT_OFF = cython.declare(cython.int, 1)
_UNREADABLE = cython.declare(cython.int, 2)
_MAX_CACHED_SETS = 4096
_MAX_PLANS = 1024
_SPACE = cython.declare(cython.int, 0x20)


def is_partial(body: Any) -> bool:
    """Return whether a rows event is a PARTIAL_UPDATE_ROWS event."""
    return type(body).__name__ == "PartialUpdateRowsEvent"


def located(error: BinlogDecodeError, event: BinlogEvent) -> BinlogDecodeError:
    """Return the error with the event's place added."""
    header = event.header
    return error.at(
        file=event.file or None,
        position=event.position,
        event_type=header.type_code,
        event_name=header.type_name,
    )


@cython.final
@cython.cclass
class Column:
    """The reader of one column: the fields of :class:`~.column_ops.ColumnReader` as C values."""

    def __init__(
        self, name: str, reader: ColumnReader, target: int, json_index: int, as_python: bool
    ) -> None:
        self.name = name
        self.op = reader.op
        self.size = reader.size
        self.prefix = reader.prefix
        self.precision = reader.precision
        self.digits = reader.digits
        self.length = reader.length
        self.target = target
        self.json_index = json_index
        self.as_python = as_python and reader.is_temporal
        self.convert: Any = reader.convert
        self.enumeration = reader.enumeration
        self.labels = reader.labels
        self.sets: dict[int, SetValue] = {}
        # Caches of the text writers: the encoded name, and ENUM and SET values by number.
        self.key: bytes | None = None
        self.key_size = 0
        self.texts: dict[int, bytes] = {}
        self.plain_key: bytes | None = None
        self.plain_odd = False


@cython.final
@cython.cclass
class Plan:
    """The columns in the images of an event, by its column bitmap."""

    def __init__(self, columns: list[Column], missing: tuple[int, ...]) -> None:
        self.columns = columns
        self.null_size = (len(columns) + 7) >> 3
        self.missing = missing


@cython.final
@cython.cclass
class Cursor:
    """The position of decoding in the images of an event.

    Args:
        data: holds them.
        start: offset of the first one.
        end: offset after the last one.
    """

    def __init__(
        self, data: bytes, start: cython.Py_ssize_t = 0, end: cython.Py_ssize_t = -1
    ) -> None:
        self.data = data
        self.start = self.offset = start
        self.end = len(data) if end < 0 else end


@cython.final
@cython.cclass
class RowImageDecoder:
    """A decoder of the row images of one table.

    A row is a :class:`~replica_client.rows.row.Row` with one value per wanted column: None for NULL,
    :data:`~replica_client.rows.special_values.ABSENT` for a column that the image left out, else a value of

    ======================================  ======================================================
    column                                  value
    ======================================  ======================================================
    integers, YEAR, BIT                     int (signed while signedness is not known)
    FLOAT, DOUBLE                           float
    DECIMAL                                 :class:`decimal.Decimal`
    DATE, TIME, DATETIME, TIMESTAMP         :mod:`~replica_client.protocol.binlog.values.temporal` types, or
                                            those of :mod:`datetime` (``temporals="python"``)
    CHAR, VARCHAR, TEXT                     str
    BINARY, VARBINARY, BLOB                 bytes, and all strings while no character set is known
    ENUM, SET                               ``EnumValue``, ``SetValue``
    JSON                                    ``JsonDocument``
    JSON, changed in part, without the      ``JsonDiffs``, a tuple of ``JsonDiff``; ABSENT if there
    before image                            are none: the statement did not change the document
    GEOMETRY                                ``Geometry``
    vectors                                 tuple of float
    UUID, INET4, INET6 (by the shape)       str
    ======================================  ======================================================

    Args:
        shape: the table.
        options: text and temporal policies.
        columns: names of the wanted columns, which come in table order; None takes all. Others are
            skipped undecoded.
        keep_diffs: return the differences of a JSON document even if the document before is known.

    Attributes:
        shape: the table.
        options: the options.
        column_names: names of the values of a row.

    Spec: MySQL ``Rows_event`` (rows_event.h), ``unpack_row`` (rpl_record.cc).
    """

    def __init__(
        self,
        shape: TableShape,
        options: DecodeOptions | None = None,
        columns: Iterable[str] | None = None,
        keep_diffs: bool = False,
    ) -> None:
        self.shape = shape
        self._keep_diffs = keep_diffs
        self.options = DecodeOptions() if options is None else options
        wanted = None if columns is None else frozenset(columns)
        names: list[str] = []
        self._columns = []
        self._json_count = 0
        self._plans: dict[bytes, Plan] = {}
        as_python = self.options.temporals == "python"
        readers = column_readers(shape.columns, self.options)
        for column, reader in zip(shape.columns, readers, strict=True):
            target = -1
            if wanted is None or column.name in wanted:
                target = len(names)
                names.append(column.name)
            json_index = self._json_count if reader.is_json else -1
            self._columns.append(Column(column.name, reader, target, json_index, as_python))
            self._json_count += reader.is_json
        self.column_names = tuple(names)
        self._row_type: Any = row_class(self.column_names)
        self._width = len(names)
        # The beginnings of text lines of its rows, kept for their writer.
        self.lines: Any = None

    def column(self, at: int) -> Column:
        """Return the reader of a column, by its index."""
        column: Column = self._columns[at]
        return column

    def _fields(self) -> tuple[Any, ...]:
        # Without keys: row images are not encrypted, and keys must not be copied.
        return self.shape, replace(self.options, keys={}), self.column_names, self._keep_diffs

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RowImageDecoder):
            return NotImplemented
        return bool(self._fields() == other._fields())

    def __hash__(self) -> int:
        return hash((self.shape, self.column_names))

    def __reduce__(self) -> tuple[Any, ...]:
        return RowImageDecoder, self._fields()

    def decode_rows(
        self,
        kind: str,
        columns_before: bytes,
        columns_after: bytes | None,
        rows: bytes,
        partial: bool = False,
    ) -> list[RowPair]:
        """Decode all rows of an event.

        Args:
            kind: ``insert``, ``update`` or ``delete``.
            columns_before: bitmap of the columns in the before images; of an insert the only one.
            columns_after: bitmap of the columns in the after images of an update; None if it is the
                same.
            rows: the row images.
            partial: whether it is a PARTIAL_UPDATE_ROWS event.

        Returns:
            Pairs (before, after), one per row.

        Raises:
            ColumnDecodeError: bytes that are not values of their columns; the error has table,
                column and offset in ``rows``.
        """
        cursor: Cursor = Cursor(rows)
        before, after = self._plans_of(kind, columns_before, columns_after)
        first: Plan | None = before
        second: Plan | None = after
        insert: cython.bint = kind == "insert"
        in_parts: cython.bint = partial
        pairs: list[RowPair] = []
        while cursor.offset < cursor.end:
            pairs.append(self._row(cursor, first, second, insert, in_parts))
        return pairs

    def iter_rows(
        self,
        kind: str,
        columns_before: bytes,
        columns_after: bytes | None,
        rows: bytes,
        partial: bool = False,
    ) -> Iterator[RowPair]:
        """Yield the rows of an event, decoded on demand; see :meth:`decode_rows`."""
        cursor: Cursor = Cursor(rows)
        before, after = self._plans_of(kind, columns_before, columns_after)
        first: Plan | None = before
        second: Plan | None = after
        while cursor.offset < cursor.end:
            yield self._row(cursor, first, second, kind == "insert", partial)

    def iter_event(self, event: BinlogEvent) -> Iterator[RowPair]:
        """Yield the rows of a rows event, decoded on demand.

        Args:
            event: an event of this table with a
                :class:`~replica_client.protocol.binlog.events.rows.RowsEvent` as its body. MariaDB's
                compressed rows are decompressed.

        Raises:
            BinlogDecodeError: the event does not fit the table; the error has file and position.
        """
        try:
            body = event.body
            rows = self.images_of(body)
            yield from self.iter_rows(
                body.kind, body.columns_before, body.columns_after, rows, is_partial(body)
            )
        except BinlogDecodeError as error:
            raise located(error, event) from error.__cause__

    def images_of(self, body: Any) -> bytes:
        """Return the row images of a rows event, decompressed and in the current format.

        Raises:
            BinlogDecodeError: the event does not fit the table.
        """
        if body.column_count != len(self._columns):
            raise ColumnDecodeError(
                f"{self._table()}: the event has {body.column_count} columns, "
                f"the table {len(self._columns)}"
            )
        rows: bytes = body.rows
        if body.compressed:
            rows = inflate_record(rows, self.options.max_uncompressed_size)
        elif not body.version:
            types = bytes([column.type_code for column in self.shape.columns])
            rows = modern_images(body, types)
        return rows

    def _plans_of(
        self, kind: str, columns_before: bytes, columns_after: bytes | None
    ) -> tuple[Plan | None, Plan | None]:
        """Return the plans of before and after images."""
        if kind == "insert":
            return None, self._plan(columns_before)
        if kind == "delete":
            return self._plan(columns_before), None
        if kind != "update":
            raise ValueError(f"kind {kind!r} is not insert, update or delete")
        before = self._plan(columns_before)
        return before, before if columns_after is None else self._plan(columns_after)

    @cython.cfunc
    def _plan(self, bitmap: bytes) -> Plan:
        """Return the cached plan of a column bitmap; bits beyond the last column are ignored."""
        found: Plan | None = self._plans.get(bitmap)
        if found is not None:
            return found
        if len(bitmap) != (len(self._columns) + 7) >> 3:
            raise ColumnDecodeError(
                f"{self._table()}: a column bitmap of {len(bitmap)} bytes for "
                f"{len(self._columns)} columns"
            )
        present = []
        missing = []
        column: Column
        for at in range(len(self._columns)):
            column = cython.cast(Column, self._columns[at])
            if bitmap[at >> 3] >> (at & 7) & 1:
                present.append(column)
            elif column.target >= 0:
                missing.append(column.target)
        if not present:
            raise ColumnDecodeError(f"{self._table()}: row images without any column")
        if len(self._plans) >= _MAX_PLANS:
            self._plans.clear()
        plan = Plan(present, tuple(missing))
        self._plans[bitmap] = plan
        return plan

    @cython.cfunc
    def _row(
        self,
        cursor: Cursor,
        before: Plan | None,
        after: Plan | None,
        insert: cython.bint,
        partial: cython.bint,
    ) -> tuple[Any, Any]:
        """Decode the images of the next row."""
        old: Any = None
        partial_bits: bytes | None = None
        if not insert:
            old = self._image(cursor, before, None, None)
            if after is None:
                return (old, None)
            if partial:
                partial_bits = self._partial_bits(cursor)
        return (old, self._image(cursor, after, partial_bits, old))

    def _partial_bits(self, cursor: Cursor) -> bytes | None:
        """Read value options and partial bits before the after image of a partial update."""
        data, at, end = cursor.data, cursor.offset, cursor.end
        image_offset = at - cursor.start
        if at >= end or data[at] > _PARTIAL_JSON:
            raise ColumnDecodeError(
                f"{self._table()}: bad row value options at offset {image_offset}"
            )
        cursor.offset = at + 1
        if data[at] != _PARTIAL_JSON:
            return None
        stop = at + 1 + ((self._json_count + 7) >> 3)
        if stop > end:
            raise ColumnDecodeError(
                f"{self._table()}: partial bits are cut off at offset {image_offset}"
            )
        cursor.offset = stop
        return data[at + 1 : stop]

    @cython.cfunc
    @cython.wraparound(False)
    def _image(
        self,
        cursor: Cursor,
        plan: Plan,
        partial_bits: bytes | None,
        before: Any,
    ) -> object:
        """Decode one row image: null bits, then the values of the columns in it."""
        data: cython.p_const_uchar = cursor.data
        end: cython.Py_ssize_t = cursor.end
        nulls: cython.Py_ssize_t = cursor.offset
        offset: cython.Py_ssize_t = nulls + plan.null_size
        if offset > end:
            raise self._no_null_bits(nulls - cursor.start)
        columns: list[Any] = plan.columns
        row: Any = empty_row(self._row_type, self._width)
        for at in plan.missing:
            put_value(row, at, ABSENT)
        count: cython.Py_ssize_t = len(columns)
        length: cython.Py_ssize_t
        i: cython.Py_ssize_t
        column: Column
        value: Any
        fault: cython.int = 0
        try:
            for i in range(count):
                column = cython.cast(Column, columns[i])
                if data[nulls + (i >> 3)] >> (i & 7) & 1:
                    if column.target >= 0:
                        put_value(row, column.target, None)
                    continue
                length = column.size
                if column.prefix:
                    if column.prefix > end - offset:
                        fault = _CUT_OFF
                        break
                    length = cython.cast(cython.Py_ssize_t, load_le(data, offset, column.prefix))
                    offset += column.prefix
                if length > end - offset or length < 0:
                    fault = _CUT_OFF
                    break
                if column.op == _UNKNOWN:
                    fault = _UNREADABLE
                    break
                if column.target >= 0:
                    if column.json_index >= 0 and partial_bits is not None:
                        value = self._json(
                            column, cursor.data, offset, length, partial_bits, before
                        )
                    else:
                        value = self._value(column, data, offset, length)
                        if column.as_python:
                            value = value.to_python()
                    put_value(row, column.target, value)
                offset += length
        except (ValueError, OverflowError, LookupError, BinlogDecodeError) as error:
            raise self._failure(column, offset - cursor.start, error) from error
        if fault == _CUT_OFF:
            raise self._cut_off(column, offset - cursor.start)
        if fault:
            raise self._failure(column, offset - cursor.start, column.convert)
        cursor.offset = offset
        return filled(row, self._row_type)

    @cython.cfunc
    def _value(
        self,
        column: Column,
        data: cython.p_const_uchar,
        offset: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
    ) -> object:
        """Decode the value of ``length`` bytes at ``offset``, which must exist."""
        op: cython.int = column.op
        number: cython.ulonglong
        if op == _SIGNED:
            return load_signed(data, offset, column.size)
        if op == _UNSIGNED:
            return load_le(data, offset, column.size)
        if op in (_UTF8, _UTF8_CHAR):
            if op == _UTF8_CHAR:
                while length and data[offset + length - 1] == _SPACE:
                    length -= 1
            try:
                return text_of(data, offset, length)
            except UnicodeDecodeError:
                return column.convert(data[offset : offset + length])
        if op == _DECIMAL:
            return decimal_at(data, offset, column.precision, column.digits)
        if op == _DATETIME:
            return datetime2_of(load_be(data, offset, column.size), column.digits)
        if op == _TIMESTAMP:
            return timestamp2_of(load_be(data, offset, column.size), column.digits)
        if op == _DATE:
            return date_of(cython.cast(cython.uint, load_le(data, offset, 3)))
        if op == _ENUM:
            number = load_le(data, offset, column.size)
            if column.enumeration is not None and number < len(column.enumeration):
                return column.enumeration[number]
            return enum_value(number, column.enumeration)
        if op == _BYTES:
            return data[offset : offset + length]
        if op == _JSON:
            return new_document(data, offset, length)
        if op == _SET:
            return self._set(column, load_le(data, offset, column.size))
        if op == _BIT:
            return load_be(data, offset, column.size)
        if op == _DOUBLE:
            return double_at(data, offset)
        if op == _FLOAT:
            return float_at(data, offset)
        if op == _TIME:
            return time2_of(load_be(data, offset, column.size), column.digits)
        if op == _YEAR:
            return data[offset] + 1900 if data[offset] else 0
        if op == _BINARY:
            if length > column.length:
                raise ValueError(f"{length} bytes in BINARY({column.length})")
            return data[offset : offset + length] + bytes(column.length - length)
        if op == _NULL:
            return None
        return column.convert(data[offset : offset + length])

    @cython.cfunc
    def _set(self, column: Column, bits: Any) -> object:
        """Return a SET value from a cache, as few different ones occur."""
        found = column.sets.get(bits)
        if found is None:
            found = set_value(bits, column.labels)
            if len(column.sets) < _MAX_CACHED_SETS:
                column.sets[bits] = found
        return found

    def _json(
        self,
        column: Column,
        data: bytes,
        offset: int,
        length: int,
        partial_bits: bytes,
        before: Any,
    ) -> object:
        """Decode a JSON value of a partial update: whole, or differences to the before image."""
        value = data[offset : offset + length]
        index = column.json_index
        if not partial_bits[index >> 3] >> (index & 7) & 1:
            return JsonDocument(value)
        diffs = decode_diffs(value)
        if self._keep_diffs:
            return diffs
        old = None if before is None else before[column.target]
        if isinstance(old, JsonDocument):
            return apply_diffs(old, diffs)
        return diffs or ABSENT

    def _table(self) -> str:
        return f"{self.shape.database}.{self.shape.table}"

    def _no_null_bits(self, offset: int) -> ColumnDecodeError:
        return ColumnDecodeError(f"{self._table()}: null bits are cut off at offset {offset}")

    def _cut_off(self, column: Column, offset: int) -> ColumnDecodeError:
        return self._failure(column, offset, "the value is cut off")

    def _failure(self, column: Column, offset: int, reason: object) -> ColumnDecodeError:
        if isinstance(reason, BinlogDecodeError):
            reason = reason.reason
        elif isinstance(reason, UnicodeDecodeError):
            reason = (
                f"{reason}; invalid_text 'replace' puts U+FFFD there, 'bytes' gives its bytes "
                "(--invalid-text on the command line)"
            )
        return ColumnDecodeError(
            f"{self._table()} column {column.name} at offset {offset} of the rows: {reason}"
        )
