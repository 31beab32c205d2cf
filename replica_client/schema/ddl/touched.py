"""Which tables and databases a statement touches, whatever it does to them."""

from __future__ import annotations

from replica_client.schema.ddl.steps import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateLike,
    CreateSequence,
    CreateTable,
    DropDatabase,
    DropTables,
    Meaning,
    NotUnderstood,
    RenameTables,
    TableName,
    TruncateTable,
    Unrelated,
)


def uncertain(meaning: Meaning, reason: str) -> NotUnderstood:
    """A statement that is not certain to be done: all tables that it names."""
    match meaning:
        case CreateTable() | CreateLike() | CreateSequence() | TruncateTable():
            if getattr(meaning, "temporary", False) or isinstance(meaning, TruncateTable):
                return NotUnderstood(reason, ())
            return NotUnderstood(reason, (meaning.table,))
        case AlterTable():
            return NotUnderstood(reason, (meaning.table, *meaning.others))
        case RenameTables():
            return NotUnderstood(reason, tuple(table for pair in meaning.renames for table in pair))
        case CreateDatabase() | AlterDatabase():
            return NotUnderstood(reason, databases=(meaning.database,))
    return meaning if isinstance(meaning, NotUnderstood) else NotUnderstood(reason, anything=True)


def tables_touched(meaning: Meaning) -> tuple[tuple[TableName, ...], tuple[str, ...], bool]:
    """The tables and databases that a statement may change, and whether it may be any."""
    match meaning:
        case CreateTable():
            return (() if meaning.temporary else (meaning.table,)), (), False
        case Unrelated() | TruncateTable():
            return (), (), False
        case DropTables():
            return (() if meaning.temporary else meaning.tables), (), False
        case CreateDatabase() | AlterDatabase() | DropDatabase():
            return (), (meaning.database,), False
        case NotUnderstood():
            return meaning.tables, meaning.databases, meaning.anything
        case AlterTable(steps=(), rename=None, to_table=None, from_table=None):
            return (), (), False
    found = uncertain(meaning, "")
    return found.tables, found.databases, found.anything
