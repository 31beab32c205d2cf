"""The statements that changed a table between two positions, and how they map its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from replica_client.archive.archive import Archive
from replica_client.archive.as_of.moments import end_of, transaction_with
from replica_client.archive.binlog_archive import IndexedFile
from replica_client.archive.index_format import IndexedBlock
from replica_client.archive.question import BlockChoice, Question
from replica_client.errors import DataLossError, SchemaError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.position import Position
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.selection import Selection, exact_pattern
from replica_client.schema.character_sets import representative_id
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import read_statement
from replica_client.schema.ddl.steps import AlterTable, TableName
from replica_client.schema.history_records import SchemaChange
from replica_client.schema.left_out import TEXT_CODES, shape_of
from replica_client.schema.model import TEXT_KINDS, ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.stream.files.pieces import Pieces
from replica_client.stream.tables.alterations import CannotFollowError, alteration, sources_of
from replica_client.stream.tables.conversions import StoredValue, added_value
from replica_client.stream.transactions.assembler import AssemblyOptions


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of the binlog in which a table has one name and one definition.

    Attributes:
        start: the first position, between two transactions.
        stop: the end, between two transactions.
        name: the table's name in the range.
        columns: names in the range by those of the wanted definition, where columns exist; None:
            the same.
    """

    start: Position
    stop: Position
    name: TableName
    columns: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that an ALTER TABLE added.

    Attributes:
        column: its definition there.
        value: of the rows that existed then.
        error: why the value is not known; None where it is.
    """

    column: ColumnModel
    value: StoredValue
    error: DataLossError | None = None


@dataclass(frozen=True, slots=True)
class Course:
    """The history of a table between the wanted moment and the one at which its rows are known.

    Attributes:
        segments: in the order of the binlog; they cover the range between.
        model: the table's definition at the wanted moment; None where no statement gives it.
        begins_empty: whether a statement created or emptied the table at the first segment's start.
        added: columns of the wanted definition that segments lack, by name.
    """

    segments: list[Segment]
    model: TableModel | None
    begins_empty: bool = False
    added: Mapping[str, AddedColumn] = field(default_factory=dict)


def course_after(archive: Archive, name: TableName, start: Position, stop: Position) -> Course:
    """Return the history of a table from the wanted moment to a later one, at which rows are known.

    Args:
        archive: the archive.
        name: the table's name at the wanted moment.
        start: the wanted moment.
        stop: the later moment.

    Raises:
        DataLossError: a statement between cannot be undone.
    """
    segments: list[Segment] = []
    model: TableModel | None = None
    columns: dict[str, str] | None = None
    begin, now = start, name
    for change in _changes(archive, start, stop):
        if not concerns(change, now):
            continue
        if change.kind not in ("alter_table", "rename_table"):
            made_here = change.kind == "create_table" and change.before is None
            why = (
                "the table was made there"
                if made_here
                else "its rows before it are not in the binlog"
            )
            raise _refused(change, "backward", why)
        before, end = transaction_with(archive, Position(change.file, change.position))
        segments.append(Segment(begin, before, now, columns))
        begin = end
        if change.kind == "alter_table":
            made = _alteration(change, "backward")
            if made is not None:
                assert change.before is not None
                if columns is None:
                    model = change.before
                    columns = {one: one for one in change.before.column_names}
                new_names = {old: new for new, old in made.items()}
                gone = [one for one, own in columns.items() if own not in new_names]
                if gone:
                    raise _refused(change, "backward", f"it dropped column {gone[0]}")
                columns = {one: new_names[own] for one, own in columns.items()}
        elif model is None and change.before is not None:
            model = change.before
        now = _after(change, now)
    segments.append(Segment(begin, stop, now, columns))
    return Course(segments, model)


def course_before(
    archive: Archive, name: TableName, start: Position | None, stop: Position
) -> Course:
    """Return the history of a table up to the wanted moment, from an earlier one with known rows.

    Args:
        archive: the archive.
        name: the table's name at the wanted moment.
        start: the earlier moment; None: where a statement created or emptied the table.
        stop: the wanted moment.

    Raises:
        DataLossError: a statement between cannot be followed, or no statement created the table.
    """
    first = Position(archive.files.listed[0].name, 4)
    segments: list[Segment] = []
    model: TableModel | None = None
    columns: dict[str, str] | None = None
    added: dict[str, AddedColumn] = {}
    end, now, begins_empty = stop, name, False
    is_newest = True
    for change in reversed(_changes(archive, start or first, stop)):
        if not gave_name(change, now) and not concerns(change, now):
            continue
        before, behind = transaction_with(archive, Position(change.file, change.position))
        if is_newest and change.after is not None:
            model = change.after
        is_newest = False
        if change.kind == "truncate_table" or (change.kind == "create_table" and change.understood):
            segments.append(Segment(before, end, now, columns))
            begins_empty, end = True, before
            break
        if change.kind == "rename_table" and gave_name(change, now):
            segments.append(Segment(behind, end, now, columns))
            end, now = before, (change.database, change.table)
            continue
        if change.kind != "alter_table":
            raise _refused(change, "forward", "its rows after it are not in the binlog")
        made = _alteration(change, "forward")
        segments.append(Segment(behind, end, now, columns))
        end = before
        if made is not None:
            assert change.after is not None
            if columns is None:
                columns = {one: one for one in change.after.column_names}
            new = _added(change)
            added.update((one, new[own]) for one, own in columns.items() if own not in made)
            columns = {one: made[own] for one, own in columns.items() if own in made}
    if not begins_empty:
        if start is None:
            raise DataLossError(
                f"{'.'.join(name)}: no CREATE TABLE or TRUNCATE of it is in the archive before {stop}, so that "
                "its rows are not known there; give the table as it is now (--live), or a copy (--copy)"
            )
        segments.append(Segment(start, end, now, columns))
    return Course(segments[::-1], model, begins_empty, added)


def _changes(archive: Archive, start: Position, stop: Position) -> list[SchemaChange]:
    return [
        one
        for one in archive.files.schema_changes()
        if start <= Position(one.file, one.position) < stop
    ]


def concerns(change: SchemaChange, name: TableName) -> bool:
    """Return whether a statement changed the table that had a name before it."""
    if change.kind == "drop_database":
        return change.database == name[0]
    if change.kind in ("create_database", "alter_database"):
        return False
    return (change.database, change.table) == name


def gave_name(change: SchemaChange, name: TableName) -> bool:
    """Return whether an ALTER or RENAME TABLE left a table under this name."""
    after = change.after
    return (
        change.kind in ("rename_table", "alter_table")
        and after is not None
        and (after.database, after.name) == name
    )


def _after(change: SchemaChange, name: TableName) -> TableName:
    after = change.after
    return name if after is None else (after.database, after.name)


def _alteration(change: SchemaChange, direction: str) -> dict[str, str] | None:
    """Return the old name of each column after an ALTER, by new name; None if no column changed."""
    before, after = change.before, change.after
    if before is None or after is None:
        raise _refused(
            change,
            direction,
            "the table's definition is not known there; give the schema (--schema)",
        )
    context = change.context or StatementContext(change.database)
    found = alteration(change.statement, context, before, after, new_columns_matter=False)
    if isinstance(found, str):
        raise _refused(change, direction, found)
    names = found.names
    same = names == {one: one for one in before.column_names} and len(before.columns) == len(
        after.columns
    )
    return None if same else names


def _added(change: SchemaChange) -> dict[str, AddedColumn]:
    """Return the columns that an ALTER TABLE added, by name."""
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    assert (
        isinstance(meaning, AlterTable) and change.before is not None and change.after is not None
    )
    found = {}
    for source in sources_of(meaning, change.before, change.after):
        if source.old is not None:
            continue
        value: StoredValue = None
        error = None
        try:
            value = added_value(source, None)
        except CannotFollowError as reason:
            error = _refused(change, "forward", str(reason))
        found[source.column.name] = AddedColumn(source.column, value, error)
    return found


def _refused(change: SchemaChange, direction: str, why: str) -> DataLossError:
    text = " ".join(change.statement.split())[:120]
    other = "forward from a copy" if direction == "backward" else "backward from the live table"
    return DataLossError(
        f"{change.database}.{change.table} cannot be followed {direction} over the statement at {change.file}:"
        f"{change.position}: {text}: {why}; go {other}, or from a copy on this side of it"
    )


# The columns of a table at a moment, from its definition and the table maps of the archive.
#
# A definition alone is not always enough: a column without a character set of its own has the default
# of a database that may have been created before the archive begins. The table maps of its rows have
# the character set. The index names the blocks with such rows; blocks near the moment are read first,
# until rows are found, and no row is decoded.


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
    columns = (completed(column, known.get(column.name)) for column in defined.columns)
    return replace(defined, columns=tuple(columns))


def flavor_of(archive: Archive) -> ServerFlavor:
    """Return the flavour of the server that wrote the files."""
    for file in archive.files:
        for _, decoder in file.index.facts.described(file.listed.name, archive.files.decode):
            return decoder.format.flavor
    return BinlogDecoder(archive.files.decode).format.flavor


def _lacks_charset(column: ColumnShape) -> bool:
    return column.type_code in TEXT_CODES and column.collation_id is None


def completed(column: ColumnShape, logged: ColumnShape | None) -> ColumnShape:
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
