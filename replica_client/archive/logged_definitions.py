"""Table definitions from the statements of an archive."""

from __future__ import annotations

from dataclasses import field

from replica_client.archive.archive import Archive
from replica_client.archive.statement_meaning import ReadStatement
from replica_client.codec.quick_dataclass import dataclass
from replica_client.readers.schema_tracking import SchemaTracker
from replica_client.rows.selection import Selection
from replica_client.schema.ddl.statements import cascading_references
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    CreateTable,
    TableName,
)
from replica_client.schema.history import SchemaChange, SchemaHistory


@dataclass(slots=True)
class LoggedDefinitions:
    """The facts that statements state about tables.

    Attributes:
        generated: names of generated columns.
        cascaded: tables of a foreign key that changes rows without logging them.
        children: those among them whose rows it changes.
        changes: changes of tables by statements, in order.
    """

    generated: dict[TableName, frozenset[str]] = field(default_factory=dict)
    cascaded: set[TableName] = field(default_factory=set)
    children: set[TableName] = field(default_factory=set)
    changes: list[SchemaChange] = field(default_factory=list)


def logged_definitions(archive: Archive) -> LoggedDefinitions:
    """Return what the statements of an archive state about tables."""
    found = LoggedDefinitions()
    history = SchemaHistory()
    tracker = SchemaTracker(history, Selection(), "positional", "positional", reports=False)
    for file in archive.files:
        for event, decoder in file.index.facts.statements(file.listed.name, archive.files.decode):
            _read_definition(ReadStatement.of(event, decoder.format), found)
            found.changes += tracker.run(event, decoder.format, 0)
    return found


def _read_definition(statement: ReadStatement, found: LoggedDefinitions) -> None:
    match statement.meaning:
        case CreateTable(table=table, columns=columns):
            pass
        case AlterTable(table=table, steps=steps):
            columns = tuple(
                one.column for one in steps if isinstance(one, AddColumn | ChangeColumn)
            )
        case _:
            return
    if not statement.context.logs_cascades:
        parents = cascading_references(statement.text, statement.context, table[0])
        if parents:
            found.cascaded |= {table, *parents}
            found.children.add(table)
    made = {column.name for column in columns if column.generated}
    if made:
        found.generated[table] = found.generated.get(table, frozenset()) | made
