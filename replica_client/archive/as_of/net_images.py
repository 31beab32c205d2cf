"""Net images: the rows that remain of many images, by key or by count, in bounded memory.

Of the images of a key only one counts: the last one going forward, the first one going backward.
Rows of a table without a key are counted. Images that exceed the memory are spilled to disk, in
parts by key, each of which fits in memory.
"""

from __future__ import annotations

import shutil
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal
from weakref import finalize

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.archive.as_of.segment_images import LOSSLESS, PRESENT, WEIGHT
from replica_client.archive.net_positions import net_positions
from replica_client.errors import DataLossError

Winner = Literal["first", "last"]

MEMORY: Final = 256 << 20
"""Approximate bytes of Arrow data kept in memory; merging takes twice as much for a moment."""

_PARTS: Final = 64
_STEP: Final = 32 << 20
_MAX_NUMBER: Final = 1 << 62


class NetImages:
    """The net of images that are added in the order of the binlog.

    Args:
        schema: the schema of the rows, without the additional columns of images.
        key: the columns of the key; empty: equal rows are counted.
        winner: the image of a key that counts.
        memory: bytes of Arrow data, see :data:`MEMORY`.
    """

    def __init__(
        self, schema: pa.Schema, key: Sequence[str], winner: Winner, memory: int = MEMORY
    ) -> None:
        self._schema, self._winner, self._memory = schema, winner, memory
        self._by_key = bool(key)
        self._names = list(key) or [name for name in schema.names if name != LOSSLESS]
        self._kept: pa.Table | None = None
        self._pending: list[pa.RecordBatch] = []
        self._size = 0
        self._directory: Path | None = None
        self._writers: dict[int, Any] = {}

    def add(self, images: pa.RecordBatch) -> None:
        """Add images.

        Raises:
            OSError: the disk is full.
        """
        self._pending.append(images)
        self._size += images.nbytes
        kept = 0 if self._kept is None else self._kept.nbytes
        if self._size >= max(min(_STEP, self._memory), kept):
            self._reduce()

    def rows(self, *, exact: bool = True) -> Iterator[pa.Table]:
        """Yield the rows that exist, each with its number of occurrences in :data:`WEIGHT`.

        Args:
            exact: the rows at the start are those of one moment, so that every row must fit its
                changes.

        Raises:
            DataLossError: images contradict each other.
        """
        for table in self.differences():
            yield self._there(table, exact)

    def differences(self) -> Iterator[pa.Table]:
        """Yield all remaining images; of a table without a key, those whose weight is not 0."""
        self._reduce()
        if self._directory is None:
            if self._kept is not None:
                yield self._kept
            return
        while self._writers:
            self._writers.popitem()[1].close()
        for path in sorted(self._directory.iterdir()):
            with pa.memory_map(str(path)) as stream:
                yield self._net(pa.ipc.open_stream(stream).read_all())

    def _reduce(self) -> None:
        """Merge the pending images into the kept ones, or spill them if they exceed the memory."""
        if not self._pending:
            return
        table = pa.Table.from_batches(self._pending)
        self._pending, self._size = [], 0
        if self._kept is not None:
            table = pa.concat_tables([self._kept, table])
        table = self._net(table)
        if self._directory is None and table.nbytes < self._memory:
            self._kept = table
            return
        self._kept = None
        self._write(table)

    def _net(self, table: pa.Table) -> pa.Table:
        """Return one image for each key."""
        first = self._winner == "first" or not self._by_key
        keys, weights = _memory(key_numbers(self._grouping(table))), _memory(table[WEIGHT])
        found = net_positions(keys, weights, table.num_rows, first)
        chosen, weight = map(_numbers, found)
        if not self._by_key:
            some = pc.not_equal(weight, 0)
            chosen, weight = chosen.filter(some), weight.filter(some)
        rows = table.take(chosen)
        return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, weight)

    def _grouping(self, table: pa.Table) -> list[Any]:
        """Return the columns that identify a row, in types that Arrow can group by."""
        columns = [_groupable(table[name], self._by_key) for name in self._names]
        lossless = table[LOSSLESS]
        if lossless.null_count < table.num_rows:
            wanted = set(self._names)
            found = (
                sorted(one for one in row or () if one[0] in wanted) for row in lossless.to_pylist()
            )
            texts = [repr(one) if one else None for one in found]
            columns.append(pa.chunked_array([pa.array(texts, pa.string())]))
        return columns

    def _there(self, table: pa.Table, exact: bool) -> pa.Table:
        """Return the images of rows that exist.

        The table has one image for each key.
        """
        weight, present = table[WEIGHT], table[PRESENT]
        if not self._by_key:
            if table.num_rows and pc.min(weight).as_py() < 0:
                at = pc.index(pc.less(weight, 0), True).as_py()
                raise self._disagree(table, at)
            return table
        if exact:
            fits = pc.equal(weight, present.cast(pa.int64()))
            if table.num_rows and not pc.all(fits).as_py():
                raise self._disagree(table, pc.index(fits, False).as_py())
        return table.filter(present)

    def _disagree(self, table: pa.Table, at: int) -> DataLossError:
        shown = ", ".join(f"{name} = {table[name][at].as_py()!r:.60}" for name in self._names[:4])
        return DataLossError(
            f"the rows to start from and the changes in the archive do not fit together, at the row with {shown}: it "
            "exists twice, or is deleted without existing. Either the rows are not of the given position, or the table "
            "was changed without row events"
        )

    def _write(self, table: pa.Table) -> None:
        """Spill images to disk, partitioned by key."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="replica-client-as-of-"))
            finalize(self, shutil.rmtree, self._directory, ignore_errors=True)
        numbers = _parts(self._grouping(table))
        for part in range(_PARTS):
            rows = table.filter(pc.equal(numbers, part))
            if not rows.num_rows:
                continue
            writer = self._writers.get(part)
            if writer is None:
                writer = pa.ipc.new_stream(str(self._directory / f"{part:02}"), table.schema)
                self._writers[part] = writer
            writer.write_table(rows)


def key_numbers(columns: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return 64-bit numbers that are equal for rows with equal values; null equals null.

    Args:
        columns: at least one, of types that Arrow can encode as a dictionary.
    """
    (only, *others) = columns
    if not others and pa.types.is_integer(only.type) and not only.null_count:
        return only.cast(pa.int64(), safe=False)
    numbers, size = _encoded(only)
    for column in others:
        more, more_size = _encoded(column)
        if size * more_size >= _MAX_NUMBER:
            numbers, size = _encoded(numbers)
        numbers = pc.add(pc.multiply(numbers, pa.scalar(more_size, pa.int64())), more)
        size *= more_size
    return numbers


def _encoded(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, int]:
    """Return a number for each value, and how many distinct values there are."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        # Concatenated values may be larger than 2 GiB, the limit of 32-bit offsets.
        kind = pa.large_string() if pa.types.is_string(kind) else pa.large_binary()
        column = column.cast(kind)
    whole = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], kind)
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    numbers = pa.chunked_array([encoded.indices.cast(pa.int64())], pa.int64())
    return numbers, len(encoded.dictionary)


def _memory(numbers: pa.ChunkedArray) -> pa.Buffer:
    """Return the buffer of 64-bit numbers without nulls."""
    array = pa.concat_arrays(numbers.chunks) if numbers.num_chunks else pa.array([], pa.int64())
    buffer = array.buffers()[1] or pa.py_buffer(b"")
    return buffer.slice(8 * array.offset, 8 * len(array))


def _numbers(memory: bytearray) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(memory) // 8, [None, pa.py_buffer(memory)])


def _groupable(column: pa.ChunkedArray, is_key: bool) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_floating(kind):
        # By their bits: 0.0 and -0.0 are two values, but one key.
        if is_key:
            column = pc.add(column, pa.scalar(0.0, kind))
        bits = pa.int32() if kind.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(bits) for chunk in column.chunks], bits)
    if pa.types.is_nested(kind) or pa.types.is_decimal256(kind):
        texts = [None if one is None else repr(one) for one in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column


def _parts(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """Return the part of each row: a hash of its columns, modulo the number of parts."""
    found = [0] * len(columns[0])
    for column in columns:
        kind = column.type
        if pa.types.is_temporal(kind):
            column = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
        plain = column if pa.types.is_binary(kind) else column.cast(pa.string())
        for at, value in enumerate(plain.cast(pa.binary()).to_pylist()):
            found[at] = zlib.crc32(value or b"", found[at])
    return pa.array([one % _PARTS for one in found], pa.int64())
