"""The columns of a table at a moment, from its definition and the table maps of the archive.

A definition alone is not always enough: a column without a character set of its own has the default
of a database that may have been created before the archive begins. The table maps of its rows have
the character set. The index names the blocks with such rows; blocks near the moment are read first,
until rows are found, and no row is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replica_client.archive.archive import Archive
from replica_client.archive.as_of.moments import end_of, transaction_with
from replica_client.archive.as_of.table_course import concerns, gave_name
from replica_client.archive.binlog_archive import IndexedFile
from replica_client.archive.index_format import IndexedBlock
from replica_client.archive.question import BlockChoice, Question
from replica_client.errors import SchemaError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.schema.character_sets import representative_id
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history_records import SchemaChange
from replica_client.schema.left_out import TEXT_CODES
from replica_client.schema.model import TEXT_KINDS, TableModel
from replica_client.schema.model_shape import shape_of
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.files.pieces import Pieces
from replica_client.stream.transactions.assembler import AssemblyOptions

_ANY_TEXT = representative_id("utf8mb4")


def shape_at(
    archive: Archive, name: TableName, at: Position, model: TableModel | None
) -> TableShape | None:
    """Return the columns of a table's rows at a moment.

    Args:
        archive: the archive.
        name: the table's name at the moment.
        at: the moment.
        model: the definition then; None where no statement gives it, so that a table map must have
            everything (``binlog_row_metadata=FULL``).

    Returns:
        The columns; None where neither a statement nor a table map has them.

    Raises:
        BinlogDecodeError: a file is damaged.
        SchemaError: the definition has a type that has no form in the binlog.
    """
    if model is None:
        return _logged(archive, name, at)
    defined = shape_of(model, flavor_of(archive))
    if not any(map(_lacks_charset, defined.columns)):
        return defined
    logged = _logged(archive, name, at)
    known = {} if logged is None else {column.name: column for column in logged.columns}
    columns = (_completed(column, known.get(column.name)) for column in defined.columns)
    return replace(defined, columns=tuple(columns))


def flavor_of(archive: Archive) -> ServerFlavor:
    """Return the flavour of the server that wrote the files."""
    for file in archive.files:
        for _, decoder in file.index.facts.described(file.listed.name, archive.files.decode):
            return decoder.format.flavor
    return BinlogDecoder(archive.files.decode).format.flavor


def _lacks_charset(column: ColumnShape) -> bool:
    return column.type_code in TEXT_CODES and column.collation_id is None


def _completed(column: ColumnShape, logged: ColumnShape | None) -> ColumnShape:
    """Return a column with the character set of its table map.

    Without rows any character set will do: the table has no text. Without character sets in the
    table maps, the rows have bytes, which are refused (``segment_images``).
    """
    if not _lacks_charset(column):
        return column
    if logged is not None and logged.collation_id is not None:
        labels = column.labels if logged.labels is None else logged.labels
        return replace(column, collation_id=logged.collation_id, labels=labels)
    kind = None if column.definition is None else column.definition.kind
    return replace(column, collation_id=_ANY_TEXT) if kind in TEXT_KINDS else column


def _logged(archive: Archive, name: TableName, at: Position) -> TableShape | None:
    """Return the table from a table map of the time in which its definition is that of the moment.

    Return None where there is no such table map.
    """
    for own, start, stop in _ranges(archive, name, at):
        pattern = exact_pattern(*own)
        choice = BlockChoice(Question((pattern,), since=start, until=stop), archive.files.decode)
        for file, block in _nearest(archive, choice, at):
            found = _shape_in(archive, file, block, pattern, start, stop)
            if found is not None:
                return found
    return None


def _ranges(
    archive: Archive, name: TableName, at: Position
) -> Iterator[tuple[TableName, Position, Position]]:
    """Yield the names of a table with their ranges, while it has its definition at a moment."""
    changes = list(archive.files.schema_changes())
    stop = end_of(archive)
    for change in changes:
        position = _position_of(change)
        if position >= at and concerns(change, name):
            stop, _ = transaction_with(archive, position)
            break
    for change in reversed(changes):
        position = _position_of(change)
        if position >= at or not (concerns(change, name) or gave_name(change, name)):
            continue
        before, after = transaction_with(archive, position)
        yield name, after, stop
        if change.kind != "rename_table" or not gave_name(change, name):
            return
        name, stop = (change.database, change.table), before
    yield name, Position(archive.files.listed[0].name, 4), stop


def _position_of(change: SchemaChange) -> Position:
    return Position(change.file, change.position)


def _nearest(
    archive: Archive, choice: BlockChoice, at: Position
) -> Iterator[tuple[IndexedFile, IndexedBlock]]:
    """Yield the blocks that may have rows of the table, the nearest before the moment first.

    Blocks after the moment come last.
    """
    before: list[tuple[IndexedFile, IndexedBlock]] = []
    after: list[tuple[IndexedFile, IndexedBlock]] = []
    for file in archive.files:
        history = archive.files.history_at(Position(file.listed.name, file.listed.size))
        for block in choice.of(file, history):
            is_before = Position(file.listed.name, block.start) < at
            (before if is_before else after).append((file, block))
    yield from reversed(before)
    yield from after


def _shape_in(
    archive: Archive,
    file: IndexedFile,
    block: IndexedBlock,
    pattern: str,
    start: Position,
    stop: Position,
) -> TableShape | None:
    """Return the shape in the last table map of a part of a block.

    Return None where the part has no rows of the table whose shape is known.
    """
    files = archive.files
    begin = max(Position(file.listed.name, block.start), start)
    end = min(Position(file.listed.name, block.end), stop)
    binlog = [one for one in files.binlog_files if one.name == file.listed.name]
    shapes: list[TableShape] = []

    def saw(shape: TableShape, _: RowImageDecoder) -> None:
        shapes.append(shape)

    assembly = AssemblyOptions(Selection([pattern]))
    try:
        for _ in Pieces(
            binlog, assembly, files.decode, files.history_at(begin), begin, end, saw=saw
        ):
            pass
    except SchemaError:
        return None
    return shapes[-1] if shapes else None
