"""Row images of a table between two positions, as Arrow, from the blocks with its rows."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.archive.archive import Archive
from replica_client.archive.arrow_tables import as_type
from replica_client.archive.as_of.table_course import Segment
from replica_client.archive.question import BlockChoice, Question
from replica_client.errors import DataLossError, SchemaMismatchError
from replica_client.protocol.position import Position
from replica_client.rows.runs import CHANGE_TYPES
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.rows.special_values import WHY_ABSENT
from replica_client.schema.shape import TableShape
from replica_client.stream.files.pieces import (
    PIECE_SIZE,
    Decoding,
    Piece,
    PieceReading,
    decoded_in_order,
)
from replica_client.stream.position.prepared import PreparedLedger
from replica_client.stream.transactions.assembler import AssemblyOptions

PRESENT: Final = "_present"
"""Name of the column that says whether the row existed on the wanted side of the change."""

WEIGHT: Final = "_weight"
"""Name of the column with the rows that the wanted side has more: 1, -1, or 0 for an update."""

LOSSLESS: Final = "_lossless"
"""MySQL's text of values that their Arrow type cannot hold, as of record batches."""

LOSSLESS_FIELD: Final = pa.field(LOSSLESS, pa.map_(pa.string(), pa.string()))
_PRE, _POST = CHANGE_TYPES.index("update_preimage"), CHANGE_TYPES.index("update_postimage")
_INSERT = CHANGE_TYPES.index("insert")
_MAX_ROWS: Final = 1 << 15
_FALSE: Final = pa.array([False])


class Constants:
    """The values of added columns in rows that existed before.

    Args:
        batch: one row with the columns; None: there are none, and NULL is the value.
    """

    def __init__(self, batch: pa.RecordBatch | None = None) -> None:
        self._batch = batch
        texts = None if batch is None else batch.column(LOSSLESS)[0].as_py()
        self._texts: list[tuple[str, str]] = texts or []

    def values(self, field: pa.Field, count: int) -> Any:
        """Return the value of a column for a number of rows."""
        if self._batch is None or field.name not in self._batch.schema.names:
            return pa.nulls(count, field.type)
        value = as_type(self._batch.column(field.name), field.type)[0]
        return pa.repeat(value, count) if value.is_valid else pa.nulls(count, field.type)

    def with_texts(self, texts: Any, columns: Container[str]) -> Any:
        """Return lossless texts with those of the columns that rows lack."""
        added = [one for one in self._texts if one[0] not in columns]
        if not added:
            return texts
        found = [(known or []) + added for known in texts.to_pylist()]
        return pa.array(found, LOSSLESS_FIELD.type)


NO_CONSTANTS: Final = Constants()


class ImageReading:
    """A reader of the row images of a table.

    Args:
        archive: the archive.
        forward: whether to return rows after changes; False: rows before changes.
        threads: number of threads that decode.
    """

    def __init__(self, archive: Archive, forward: bool, threads: int) -> None:
        self._archive, self._forward, self._threads = archive, forward, threads
        self.changes = 0

    def batches(self, segment: Segment) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a segment, with the columns that the file reader returns.

        Raises:
            BinlogDecodeError: a file is damaged.
            DataLossError: the source logged changes as statements, or changes were lost.
        """
        pattern = exact_pattern(*segment.name)
        wanted = None
        if segment.columns is not None:
            wanted = {pattern: list(segment.columns.values())}
        assembly = AssemblyOptions(Selection([pattern], columns=wanted))
        decode = self._archive.files.decode
        how = Decoding(assembly, decode, None, _MAX_ROWS)
        files = self._archive.files

        def read(piece: Piece) -> PieceReading:
            return PieceReading(piece, files.binlog_files, files.history_at(piece.start), how)

        pieces = self._pieces(segment, pattern)
        for _, batches in decoded_in_order(pieces, read, self._threads):
            yield from batches

    def _pieces(self, segment: Segment, pattern: str) -> Iterator[Piece]:
        """Yield the ranges of complete transactions that may have rows of the table."""
        files = self._archive.files
        question = Question((pattern,), since=segment.start, until=segment.stop)
        choice = BlockChoice(question, files.decode)
        for file in files:
            name = file.listed.name
            (binlog,) = (one for one in files.binlog_files if one.name == name)
            history = files.history_at(Position(name, file.listed.size))
            start = stop = -1
            for block in choice.of(file, history):
                if block.start != stop or stop - start >= PIECE_SIZE:
                    if stop > start:
                        yield self._piece(binlog, start, stop, segment)
                    start = block.start
                stop = block.end
            if stop > start:
                yield self._piece(binlog, start, stop, segment)

    def _piece(self, binlog: Any, start: int, stop: int, segment: Segment) -> Piece:
        begin = max(Position(binlog.name, start), segment.start)
        history = self._archive.files.history_at(begin)
        return Piece(
            begin,
            (binlog,),
            PreparedLedger(),
            history.temporary_tables,
            min(Position(binlog.name, stop), segment.stop),
        )

    def images(
        self,
        segment: Segment,
        schema: pa.Schema,
        key: Sequence[str],
        constants: Constants | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield images with the columns of a schema, and :data:`PRESENT` and :data:`WEIGHT`.

        Args:
            segment: the range of the binlog.
            schema: the schema of the wanted definition, with :data:`LOSSLESS`.
            key: the columns of the key; empty: only the number of equal rows matters.
            constants: values of columns that the segment lacks; None: NULL.

        Raises:
            DataLossError: an image lacks columns.
        """
        for batch in self.batches(segment):
            if batch.num_rows:
                yield self._images(batch, segment, schema, key, constants or NO_CONSTANTS)

    def _images(
        self,
        batch: pa.RecordBatch,
        segment: Segment,
        schema: pa.Schema,
        key: Sequence[str],
        constants: Constants,
    ) -> pa.RecordBatch:
        kinds = batch.column("_change_type").indices
        is_before = pc.equal(kinds, _PRE)
        updates = is_before.true_count
        self.changes += batch.num_rows - updates
        present = pc.or_(pc.equal(kinds, _INSERT), pc.equal(kinds, _POST))
        if not self._forward:
            present = pc.invert(present)
        weight = pc.if_else(present, 1, -1)
        columns = (
            {name: name for name in schema.names} if segment.columns is None else segment.columns
        )
        if key and updates:
            # The image before an update precedes the image after it. If the key is unchanged, one
            # of the two is enough.
            first = pc.and_(is_before, _same_key(batch, [columns[name] for name in key]))
            second = pa.concat_arrays([_FALSE, first.slice(0, batch.num_rows - 1)])
            weight = pc.if_else(pc.or_(first, second), 0, weight)
            chosen = pc.invert(first if self._forward else second)
            batch, present, weight = (one.filter(chosen) for one in (batch, present, weight))
        wanted = {columns[one] for one in schema.names if one in columns}
        _check(batch, wanted, {columns[name] for name in key})
        arrays = []
        for field in schema:
            if field.name == LOSSLESS:
                texts = _texts_of(batch.column(LOSSLESS), columns, schema)
                arrays.append(constants.with_texts(texts, columns))
                continue
            own = columns.get(field.name)
            if own is None:
                arrays.append(constants.values(field, batch.num_rows))
                continue
            if own not in batch.schema.names:
                raise SchemaMismatchError(
                    f"{'.'.join(segment.name)} has no column {own!r} in the binlog between {segment.start} and "
                    f"{segment.stop}; its definition changed without a word in the archive"
                )
            _check_text(batch, own, field)
            arrays.append(as_type(batch.column(own), field.type))
        return pa.RecordBatch.from_arrays(
            [*arrays, present, weight.cast(pa.int64())], schema=with_images(schema)
        )


def with_images(schema: pa.Schema) -> pa.Schema:
    """Return a schema with :data:`PRESENT` and :data:`WEIGHT` added."""
    return schema.append(pa.field(PRESENT, pa.bool_())).append(pa.field(WEIGHT, pa.int64()))


def as_images(
    rows: pa.RecordBatch, schema: pa.Schema, constants: Constants = NO_CONSTANTS
) -> pa.RecordBatch:
    """Return existing rows as images: present, with a weight of 1."""
    names = {name: name for name in rows.schema.names}
    arrays = []
    for field in schema:
        if field.name == LOSSLESS:
            texts = (
                rows.column(LOSSLESS) if LOSSLESS in names else pa.nulls(rows.num_rows, field.type)
            )
            arrays.append(constants.with_texts(_texts_of(texts, names, schema), names))
        elif field.name not in names:
            arrays.append(constants.values(field, rows.num_rows))
        else:
            arrays.append(as_type(rows.column(field.name), field.type))
    ones, there = pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows), pa.repeat(True, rows.num_rows)
    return pa.RecordBatch.from_arrays([*arrays, there, ones], schema=with_images(schema))


def row_schema(shape: TableShape, types: Callable[[Any], pa.DataType]) -> pa.Schema:
    """Return the Arrow schema of a table's rows, with :data:`LOSSLESS`.

    ENUM and SET columns are text.
    """
    fields = [pa.field(one.name, plain_type(types(one))) for one in shape.columns]
    return pa.schema([*fields, LOSSLESS_FIELD])


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type, or the value type of a dictionary type."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _same_key(batch: pa.RecordBatch, names: Sequence[str]) -> Any:
    """Return for each row whether the next row has the same key; False for the last row."""
    count = batch.num_rows - 1
    same = pa.repeat(True, count)
    for name in names:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.indices
        equal = pc.equal(column.slice(0, count), column.slice(1))
        same = pc.and_(same, pc.fill_null(equal, False))
    return pa.concat_arrays([same, _FALSE])


def _check(batch: pa.RecordBatch, wanted: Set[str], key: Set[str]) -> None:
    """Raise an error if an image lacks a wanted column, or has a partial JSON update.

    Raises:
        DataLossError: the values of a wanted column are not complete.
    """
    absent, lossless = batch.column("_absent"), batch.column(LOSSLESS)
    if absent.null_count < batch.num_rows:
        # Hashes of long unique keys, which MariaDB 11.8.9 leaves out, are never wanted.
        if wanted & set(pc.unique(absent.flatten()).to_pylist()):
            left_out = (
                [name for name in names or () if name in wanted] for names in absent.to_pylist()
            )
            at, names = next((at, names) for at, names in enumerate(left_out) if names)
            what = f"the row image lacks {', '.join(names)}"
            remedy = (
                "" if key & set(names) else "; leave it out (--without), if you need not know it"
            )
            raise _incomplete(batch, at, f"{what} ({WHY_ABSENT})", remedy)
    if lossless.null_count < batch.num_rows:
        texts = {f.name for f in batch.schema if pa.types.is_string(f.type)}
        for at, values in enumerate(lossless.to_pylist()):
            named = sorted(name for name, _ in values or () if name in texts & wanted)
            if named:
                raise _incomplete(batch, at, f"{named[0]} is a partial JSON update")


def _check_text(batch: pa.RecordBatch, name: str, field: pa.Field) -> None:
    """Raise an error if a text column has bytes because its character set is not known.

    Raises:
        DataLossError: it has.
    """
    column = batch.column(name)
    if not (pa.types.is_binary(column.type) and pa.types.is_string(field.type)):
        return
    if column.null_count < batch.num_rows:
        at = pc.index(column.is_valid(), True).as_py()
        why = f"the character set of {name} is not in the binlog"
        raise _incomplete(
            batch, at, why, "; leave it out (--without), or give the schema (--schema)"
        )


def _incomplete(batch: pa.RecordBatch, at: int, why: str, remedy: str = "") -> DataLossError:
    file, offset = batch.column("_file")[at].as_py(), batch.column("_offset")[at].as_py()
    table = (batch.schema.metadata or {}).get(b"table", b"").decode()
    return DataLossError(
        f"file {file}, position {offset}: {table}: {why}, so that the table at another moment is not known from it"
        f"{remedy}"
    )


def _texts_of(column: Any, columns: Mapping[str, str], schema: pa.Schema) -> Any:
    """Return the lossless texts of the columns of a schema, renamed to its names.

    Args:
        column: the texts.
        columns: the names in the texts, by those in the schema.
        schema: the columns that are wanted.
    """
    if column.null_count == len(column):
        return column
    names = {old: new for new, old in columns.items() if new in schema.names}
    if all(names.get(name) == name for name in pc.unique(column.keys).to_pylist()):
        return column
    found = [
        None
        if texts is None
        else [(names[name], text) for name, text in texts if name in names] or None
        for texts in column.to_pylist()
    ]
    return pa.array(found, LOSSLESS_FIELD.type)
