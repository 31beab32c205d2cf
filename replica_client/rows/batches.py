"""Row changes of one table and shape as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.codec.turns import Turn
from replica_client.rows.arrow_types import allocate, arrow_column, number_array, text_array
from replica_client.rows.change import RowsOfEvent, undecoded_of
from replica_client.rows.column_sink import ColumnSink
from replica_client.rows.columnar import ColumnarRows
from replica_client.rows.image import RowImageDecoder, is_partial, located
from replica_client.rows.row_change import Change
from replica_client.rows.runs import CHANGE_TYPES, FILE, GTID, KINDS, VERSION, EventRuns
from replica_client.rows.sink_ops import BYTES, DECIMAL, DICTIONARY, FIXED, OBJECTS
from replica_client.schema.names import check_names
from replica_client.schema.shape import ColumnShape, TableShape

_TEXT = pa.dictionary(pa.int32(), pa.string())
CHANGE_FIELDS = (
    pa.field("_change_type", _TEXT, nullable=False),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
    pa.field("_commit_version", _TEXT, nullable=False),
    pa.field("_gtid", _TEXT, nullable=False),
    pa.field("_file", _TEXT, nullable=False),
    pa.field("_offset", pa.int64(), nullable=False),
    pa.field("_event_index", pa.int64(), nullable=False),
    pa.field("_row_index", pa.int64(), nullable=False),
    pa.field("_absent", pa.list_(pa.string())),
    pa.field("_lossless", pa.map_(pa.string(), pa.string())),
)
"""The change columns, which come before a table's own.

Texts are dictionaries, as the rows of an event have the same ones. ``_absent`` names the columns that
the row image left out (they are null in the batch), null when it has all. ``_lossless`` holds MySQL's
text of values that the Arrow type cannot hold, by column (zero and partial dates, JSON differences
without the document; null in the batch), null when there is none. ``_commit_version`` is equal for
all rows of a transaction and sorts in the order of transactions.
"""

DEFAULT_MAX_ROWS = 16384
MAX_SIZE = 16 << 20
"""Bytes of row images after which a batch is full, whatever its number of rows."""

_CHANGE_TYPES = text_array([text.encode() for text in CHANGE_TYPES])
_INT32, _INT64, _STRING, _STAMP = pa.int32(), pa.int64(), pa.string(), CHANGE_FIELDS[1].type
_ALIGNMENT = 64
_ABSENT_TYPE = CHANGE_FIELDS[8].type
_LOSSLESS_TYPE = CHANGE_FIELDS[9].type
# Arrays are immutable, so batches share equal ones, up to this number of rows.
_MAX_SHARED = 1 << 16


BatchSizes: TypeAlias = dict[tuple[str, str, int], tuple[int, list[int]]]
"""Row count and data size per column of batches, by database, table and number of columns."""


class BatchBuilder:
    """A builder of record batches from changes of one table and shape.

    Args:
        shape: of the table.
        columns: names of the columns to take, None for all.
        options: how values are decoded.
        decoder: of the row images; None: create one.
        max_rows: maximum rows of a batch.
        sizes: of the largest batches of tables, shared between builders; kept up to date.
        turn: held by the thread that finishes batches, and released meanwhile.

    Attributes:
        shape: of the table.
        decoder: as given.
        schema: of the batches.
        rows: the columns.
        runs: the change columns.
        has_user_names: whether batches have the table's columns next to ours.

    Raises:
        ConfigError: a column has the name of one of ours.
    """

    has_user_names: ClassVar[bool] = True

    def __init__(
        self,
        shape: TableShape,
        columns: tuple[str, ...] | None = None,
        options: DecodeOptions | None = None,
        decoder: RowImageDecoder | None = None,
        max_rows: int = DEFAULT_MAX_ROWS,
        sizes: BatchSizes | None = None,
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn
        self.shape = shape
        self.decoder = RowImageDecoder(shape, options, columns) if decoder is None else decoder
        taken = frozenset(self.decoder.column_names)
        wanted = [column for column in shape.columns if column.name in taken]
        if self.has_user_names:
            check_names(
                "batches",
                f"{shape.database}.{shape.table}",
                (column.name for column in wanted),
                "record batches have",
                "leave it out (columns), or exclude the table",
            )
        self._types: list[pa.DataType] = []
        sinks = []
        for column in wanted:
            sink, kind = _sink(column, options)
            sinks.append(sink)
            self._types.append(kind)
        self.schema = pa.schema(
            [
                *CHANGE_FIELDS,
                *(pa.field(c.name, kind) for c, kind in zip(wanted, self._types, strict=True)),
            ],
            metadata={b"database": shape.database.encode(), b"table": shape.table.encode()},
        )
        self.rows = ColumnarRows(self.decoder, sinks, max_rows, MAX_SIZE)
        self._named = shape.database, shape.table, len(sinks)
        self._sizes: BatchSizes = {} if sizes is None else sizes
        known = self._sizes.get(self._named)
        if known is not None:
            self.rows.expect(*known)
        self.runs = EventRuns(allocate)
        self._dictionaries: list[pa.Array | None] = [None] * len(sinks)

    def __len__(self) -> int:
        return int(self.rows.rows)

    def append_rows(
        self, rows_of_event: RowsOfEvent, commit_version: str, commit_timestamp_us: int
    ) -> Iterator[pa.RecordBatch]:
        """Add the rows of an event; yield the batches that became full.

        Raises:
            BinlogDecodeError: the event does not fit the table; the error has file and position.
                The changes before it are in the batch.
        """
        undecoded = undecoded_of(rows_of_event)
        if undecoded is None and is_partial(rows_of_event.event.body):
            for change in rows_of_event:
                while not self.try_append(change, commit_version, commit_timestamp_us):
                    yield self.finish()
            return
        rows, row_index = self.rows, rows_of_event.first_row
        try:
            if undecoded is None:
                images = self.decoder.images_of(rows_of_event.event.body)
                undecoded = images, 0, len(images)
            before, after = rows_of_event.column_bitmaps
            rows.begin(rows_of_event.kind, before, after, *undecoded)
            if row_index:
                rows.skip(row_index)
            done = False
            while not done:
                try:
                    done = rows.take()
                finally:
                    if rows.appended:
                        self._run(rows_of_event, row_index, commit_version, commit_timestamp_us)
                        row_index += rows.appended
                if not done:
                    yield self.finish()
        except BinlogDecodeError as error:
            raise located(error, rows_of_event.event) from error.__cause__

    def _run(self, rows: RowsOfEvent, row_index: int, version: str, timestamp_us: int) -> None:
        runs = self.runs
        runs.add(
            KINDS.index(rows.kind),
            self.rows.appended,
            row_index,
            timestamp_us,
            rows.position,
            rows.event_index,
            runs.text(rows.file),
            runs.text(version),
            -1,
            runs.text(rows.gtid),
            -1,
            self.rows.absent_before,
            self.rows.absent_after,
        )

    def append(self, change: Change, commit_version: str, commit_timestamp_us: int) -> None:
        """Add a change: one row, or two for an update.

        Raises:
            ValueError: the batch is full.
        """
        if not self.try_append(change, commit_version, commit_timestamp_us):
            raise ValueError("the batch is full; finish it before more is added")

    def try_append(self, change: Change, version: str, timestamp_us: int) -> bool:
        """Add a change as :meth:`append` does; return False if the batch is full."""
        rows, runs = self.rows, self.runs
        before, after = change.before, change.after
        if not rows.append_values(before, after):
            return False
        absent = [0 if row is None else rows.absent_of(row) for row in (before, after)]
        runs.add(
            KINDS.index(change.kind),
            1,
            change.row_index,
            timestamp_us,
            change.offset,
            change.event_index,
            runs.text(change.file),
            runs.text(version),
            -1,
            runs.text(change.gtid),
            -1,
            absent[1] if before is None else absent[0],
            0 if before is None else absent[1],
        )
        return True

    def finish(self) -> pa.RecordBatch:
        """Return the batch; the builder is empty afterwards."""
        count = len(self)
        known = self._sizes.get(self._named)
        if known is None or known[0] < count:
            self._sizes[self._named] = self.rows.sizes
        arrays = self._change_columns(count)
        for at, sink in enumerate(self.rows.sinks):
            arrays.append(self._column(at, sink, count))
        self.rows.reset()
        self.runs.clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def finish_values(self) -> pa.RecordBatch:
        """Return a batch of the rows whose values were added to :attr:`rows`.

        The batch has no change columns except ``_lossless``.
        """
        count = len(self)
        arrays = [self._column(at, sink, count) for at, sink in enumerate(self.rows.sinks)]
        fields = [self.schema.field(sink.name) for sink in self.rows.sinks]
        arrays.append(self._lossless(count))
        self.rows.reset()
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*fields, CHANGE_FIELDS[9]]))

    def _column(self, at: int, sink: ColumnSink, count: int) -> pa.Array:
        kind = self._types[at]
        if sink.storage == OBJECTS:
            return pa.array(sink.objects, kind)
        if not count:
            return pa.nulls(0, kind)
        nulls, buffers = sink.take(count)
        if sink.storage != DICTIONARY:
            return pa.Array.from_buffers(kind, count, buffers, nulls)
        numbers = pa.Array.from_buffers(_INT32, count, buffers, nulls)
        dictionary = self._dictionaries[at]
        if dictionary is None or len(dictionary) != len(sink.entries):
            dictionary = self._dictionaries[at] = text_array(
                [entry.encode() for entry in sink.entries]
            )
        return pa.DictionaryArray.from_arrays(numbers, dictionary, safe=False)

    def _change_columns(self, count: int) -> list[pa.Array]:
        if not count:
            return [pa.nulls(0, field.type) for field in CHANGE_FIELDS]
        runs = self.runs
        # Calls of PyArrow are slow, so memory is allocated once for all columns.
        texts = [self._common_text(field, count) for field in (VERSION, GTID, FILE)]
        sizes = [8 * count] * 4
        for field, text in zip((VERSION, GTID, FILE), texts, strict=True):
            if text is None:
                sizes += [4 * count, 4 * (len(runs) + 1), runs.text_size(field)]
        parts = _Parts(sizes)
        starts, numbered = zip(*(parts.next() for _ in range(4)), strict=True)
        runs.fill_columns(parts.memory, self._turn, *starts)
        stamps, offsets, events, rows = (
            pa.Array.from_buffers(kind, count, [None, buffer], 0)
            for kind, buffer in zip((_STAMP, _INT64, _INT64, _INT64), numbered, strict=True)
        )
        numbers = None
        for index, field in enumerate((VERSION, GTID, FILE)):
            if texts[index] is None:
                # A transaction usually has one version and one GTID: then rows share their indexes.
                if field != GTID or not runs.change_together(VERSION, GTID):
                    numbers = None
                texts[index], numbers = self._texts(field, parts, numbers, count)
        version, gtid, file = texts
        return [
            self._change_types(count),
            stamps,
            version,
            gtid,
            file,
            offsets,
            events,
            rows,
            self._absent(count),
            self._lossless(count),
        ]

    def _change_types(self, count: int) -> pa.Array:
        kind = self.runs.common_kind()
        if kind is not None and count <= _MAX_SHARED:
            return _change_types_of(kind, _room(count)).slice(0, count)
        indexes = allocate(4 * count)
        self.runs.fill_change_types(indexes)
        numbers = pa.Array.from_buffers(_INT32, count, [None, indexes], 0)
        return pa.DictionaryArray.from_arrays(numbers, _CHANGE_TYPES, safe=False)

    def _common_text(self, field: int, count: int) -> pa.Array | None:
        """Return the text of all rows if they share one, else None."""
        common = self.runs.common_text(field)
        return (
            None
            if common is None or count > _MAX_SHARED
            else _repeated(common, _room(count)).slice(0, count)
        )

    def _texts(
        self, field: int, parts: _Parts, numbers: pa.Array | None, count: int
    ) -> tuple[pa.Array, pa.Array]:
        """Return a column of dictionary texts, and its indexes, which may be given."""
        (indexes_at, indexes), (offsets_at, offsets), (data_at, data) = (
            parts.next(),
            parts.next(),
            parts.next(),
        )
        if numbers is not None:
            indexes_at = -1
        found = self.runs.fill_text(parts.memory, indexes_at, offsets_at, data_at, field)
        texts = pa.Array.from_buffers(_STRING, found, [None, offsets, data], 0)
        if numbers is None:
            numbers = pa.Array.from_buffers(_INT32, count, [None, indexes], 0)
        return pa.DictionaryArray.from_arrays(numbers, texts, safe=False), numbers

    def _absent(self, count: int) -> pa.Array:
        if not self.runs.leaves_out():
            return _nulls(_ABSENT_TYPE, count)
        buffer = allocate(4 * count)
        self.runs.fill_absent(buffer)
        numbers = pa.Array.from_buffers(_INT32, count, [None, buffer], 0)
        return pa.array(self.rows.absent_lists, _ABSENT_TYPE).take(numbers)

    def _lossless(self, count: int) -> pa.Array:
        entries = self.rows.lossless
        if not entries:
            return _nulls(_LOSSLESS_TYPE, count)
        values: list[list[tuple[str, str]] | None] = [None] * count
        for row, name, text in entries:
            found = values[row]
            if found is None:
                found = values[row] = []
            found.append((name, text))
        return pa.array(values, _LOSSLESS_TYPE)


class _Parts:
    """A piece of memory cut into aligned buffers of the given sizes.

    Attributes:
        memory: all of it.
    """

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = iter(sizes)
        self._at = 0
        self.memory = allocate(sum((size + _ALIGNMENT - 1) & -_ALIGNMENT for size in sizes))

    def next(self) -> tuple[int, pa.Buffer]:
        """Return the next buffer and its offset."""
        at, size = self._at, next(self._sizes)
        self._at = at + ((size + _ALIGNMENT - 1) & -_ALIGNMENT)
        return at, self.memory.slice(at, size)


def _room(count: int) -> int:
    """Round a row count up to a power of two, so that batches of similar size share an array."""
    return 1 << max(count - 1, 0).bit_length()


@lru_cache(maxsize=8)
def _change_types_of(kind: int, count: int) -> pa.Array:
    """Return the change types of rows that all have one kind of change."""
    both = [CHANGE_TYPES.index(text) for text in ("update_preimage", "update_postimage")]
    indexes = both * (count // 2) if KINDS[kind] == "update" else [kind] * count
    return pa.DictionaryArray.from_arrays(number_array(indexes), _CHANGE_TYPES)


@lru_cache(maxsize=16)
def _repeated(text: bytes, count: int) -> pa.Array:
    """Return a column that repeats one text, which need not be UTF-8."""
    return pa.DictionaryArray.from_arrays(_zeros(count), text_array([text]), safe=False)


@lru_cache(maxsize=4)
def _zeros(count: int) -> pa.Array:
    return pa.Array.from_buffers(_INT32, count, [None, pa.py_buffer(bytes(4 * count))], 0)


@lru_cache(maxsize=8)
def _nulls(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind)


def _sink(column: ColumnShape, options: DecodeOptions | None) -> tuple[ColumnSink, pa.DataType]:
    """Return the sink of a column's values, and its Arrow type."""
    arrow = arrow_column(column, options)
    kind, convert, code = arrow.type, arrow.convert, ""
    storage, width = OBJECTS, 0
    if pa.types.is_dictionary(kind):
        storage = DICTIONARY
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        storage = BYTES
    elif pa.types.is_decimal(kind):
        storage, width = DECIMAL, kind.bit_width // 8
        convert = partial(_unscaled, kind.scale)
    elif pa.types.is_primitive(kind):
        storage, width = FIXED, kind.bit_width // 8
        if pa.types.is_floating(kind):
            code = "f" if width == 4 else "d"
    return ColumnSink(column.name, storage, width, code, convert, allocate), kind


def _unscaled(scale: int, value: Any) -> int:
    """Return the integer of a decimal's digits, without its point."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) * int(10 ** (exponent + scale))
    return -number if sign else number
