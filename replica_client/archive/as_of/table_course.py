"""The statements that changed a table between two positions, and how they map its columns."""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.archive.archive import Archive
from replica_client.archive.as_of.moments import transaction_with
from replica_client.errors import DataLossError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.history_records import SchemaChange
from replica_client.schema.model import TableModel
from replica_client.stream.tables.alterations import alteration


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
class Course:
    """The history of a table between the wanted moment and the one at which its rows are known.

    Attributes:
        segments: in the order of the binlog; they cover the range between.
        model: the table's definition at the wanted moment; None where no statement gives it.
        begins_empty: whether a statement created or emptied the table at the first segment's start.
    """

    segments: list[Segment]
    model: TableModel | None
    begins_empty: bool = False


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
            columns = {one: made[own] for one, own in columns.items() if own in made}
    if not begins_empty:
        if start is None:
            raise DataLossError(
                f"{'.'.join(name)}: no CREATE TABLE or TRUNCATE of it is in the archive before {stop}, so that "
                "its rows are not known there; give the table as it is now (--live), or a copy (--copy)"
            )
        segments.append(Segment(start, end, now, columns))
    return Course(segments[::-1], model, begins_empty)


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
    found = alteration(
        change.statement, context, before, after, new_columns_matter=direction == "forward"
    )
    if isinstance(found, str):
        raise _refused(change, direction, found)
    names = found.names
    same = names == {one: one for one in before.column_names} and len(before.columns) == len(
        after.columns
    )
    return None if same else names


def _refused(change: SchemaChange, direction: str, why: str) -> DataLossError:
    text = " ".join(change.statement.split())[:120]
    other = "forward from a copy" if direction == "backward" else "backward from the live table"
    return DataLossError(
        f"{change.database}.{change.table} cannot be followed {direction} over the statement at {change.file}:"
        f"{change.position}: {text}: {why}; go {other}, or from a copy on this side of it"
    )
