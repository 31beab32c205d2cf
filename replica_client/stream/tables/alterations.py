"""The effect of ALTER TABLE on columns and existing rows.

Row events do not show it: a new column with a default, another type or a dropped partition changes
rows without row events. The lake applies an effect that is certain; otherwise the table is copied
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.column_clause import ColumnText
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.ddl.statements import makes_cascade, read_statement
from replica_client.schema.ddl.steps import (
    AddColumn,
    AlterTable,
    ChangeColumn,
    DropColumn,
    RenameColumn,
    SetCharset,
    SetVisible,
)
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import BLOBS, INTEGERS, STRINGS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.stream.tables.net_changes import CopyNeededError

_TAKES_OUT: Final = frozenset(
    ("DROP PARTITION", "TRUNCATE PARTITION", "CONVERT PARTITION", "IGNORE", "DISCARD TABLESPACE")
)
"""Clauses that leave an empty table empty."""


FILLED: Final = "NULL may have become another value, as the session was not strict"


class CannotFollowError(Exception):
    """Raised when the effect of an alteration on existing rows cannot be known; the text says why."""


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A column of a table after an alteration.

    Attributes:
        column: its definition.
        old: its definition before; None for a new one.
        text: how a new one was written.
    """

    column: ColumnModel
    old: ColumnModel | None
    text: ColumnText | None = None


def column_sources(
    change: SchemaChange, before: TableModel, after: TableModel
) -> list[ColumnSource]:
    """Return the origin of each column after an ALTER TABLE.

    Args:
        change: the alteration.
        before: the table as the mirror has it.
        after: the table afterwards.

    Raises:
        CannotFollowError: the statement and the two definitions do not match, or its effect on the
            values is not known.
    """
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    if not isinstance(meaning, AlterTable):
        raise CannotFollowError("the statement is not understood")
    if meaning.row_clauses:
        raise CannotFollowError(f"{meaning.row_clauses[0]} changes which rows there are")
    sources = sources_of(meaning, before, after)
    computed = {
        step.column.name.lower()
        for step in meaning.steps
        if isinstance(step, ChangeColumn) and step.column.generated
    }
    if any(source.column.generated for source in sources) and any(map(_is_converted, sources)):
        computed |= {one.column.name.lower() for one in sources if one.column.generated}
    for source in sources:
        if source.old is not None and source.column.name.lower() in computed:
            raise CannotFollowError(f"the source computes the values of {source.column.name} again")
        if fills_nulls(source, context):
            raise CannotFollowError(f"{source.column.name}: {FILLED}")
    return sources


def fills_nulls(source: ColumnSource, context: StatementContext) -> bool:
    """Return whether NULL in a column may have become the default of its type.

    That happens to a column that becomes NOT NULL in a session whose sql_mode is not strict.
    """
    old, new = source.old, source.column
    if old is None or context.is_strict or old.nullable == new.nullable:
        return False
    return old.nullable is not False and new.nullable is not True


def row_clauses(change: SchemaChange) -> tuple[str, ...]:
    """Return the clauses of an ALTER TABLE that change which rows exist (``DROP PARTITION``, ``IGNORE``)."""
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    return meaning.row_clauses if isinstance(meaning, AlterTable) else ()


def brings_rows(change: SchemaChange) -> bool:
    """Return whether an ALTER TABLE may put rows into an empty table."""
    return not _TAKES_OUT.issuperset(row_clauses(change))


def replaces_table(change: SchemaChange) -> bool:
    """Return whether a CREATE TABLE replaces an existing table (OR REPLACE)."""
    context = change.context or StatementContext(change.database)
    meaning = read_statement(change.statement, context)
    return bool(getattr(meaning, "or_replace", False))


def _is_converted(source: ColumnSource) -> bool:
    """Return whether a column's definition changed, so that its values, and columns computed from it, may change."""
    old, new = source.old, source.column
    return old is not None and not new.generated and _typed(old) != _typed(new)


def _typed(column: ColumnModel) -> tuple[object, ...]:
    numbers = column.length, column.scale, column.fraction_digits, column.unsigned
    return column.kind, *numbers, column.charset, column.labels


def sources_of(meaning: AlterTable, before: TableModel, after: TableModel) -> list[ColumnSource]:
    """Return the origin of each column after an ALTER TABLE that was parsed.

    Its clauses name columns as they were before it, so that two columns can exchange their names
    and a dropped column can be added again. A column with neither ``old`` nor ``text`` has another
    origin.
    """
    left = {column.name.lower(): column for column in before.columns}
    renamed: dict[str, ColumnModel] = {}
    added: dict[str, ColumnText] = {}
    for step in meaning.steps:
        match step:
            case ChangeColumn(old=old, column=column) if old.lower() in left:
                renamed[column.name.lower()] = left.pop(old.lower())
            case RenameColumn(old=old, new=new) if old.lower() in left:
                renamed[new.lower()] = left.pop(old.lower())
            case DropColumn(name=name):
                left.pop(name.lower(), None)
            case AddColumn(column=column):
                added[column.name.lower()] = column
    sources = []
    for new_column in after.columns:
        name = new_column.name.lower()
        old_column = renamed.get(name, left.get(name))
        text = None if old_column is not None else added.get(name)
        sources.append(ColumnSource(new_column, old_column, text))
    return sources


def cannot_follow(change: SchemaChange, error: CannotFollowError) -> CopyNeededError:
    """Return the error for an alteration that a mirror cannot follow."""
    tables = {(change.database, change.table), change.name_after}
    return CopyNeededError(
        f"{change.database}.{change.table}: the mirror cannot follow {change.statement[:200]!r}: {error}; "
        "drop the table from the mirror and start it over, or let it be copied again with snapshot = true",
        tables,
    )


_NOT_CERTAIN: Final = "it is not certain which column became which"


@dataclass(frozen=True, slots=True)
class Alteration:
    """The form of existing rows after an ALTER TABLE.

    Attributes:
        names: for each column the one that it is made of; new columns, which are null, have none.
    """

    names: dict[str, str]

    def only_adds(self, before: TableModel) -> bool:
        """Return whether all earlier columns stay as they are."""
        kept = {new for new, old in self.names.items() if new == old}
        return kept == {column.name for column in before.columns}


def alteration(
    statement: str,
    context: StatementContext,
    before: TableModel,
    after: TableModel,
    *,
    new_columns_matter: bool = True,
) -> Alteration | str:
    """Return the effect of a statement on a table's rows, or a text that says why it is not certain.

    Args:
        statement: an ALTER TABLE.
        context: of its session.
        before: the table's definition before.
        after: the table's definition after.
        new_columns_matter: whether new columns must be null in old rows.
    """
    meaning = read_statement(statement, context)
    if not isinstance(meaning, AlterTable):
        return "the statement is not a plain ALTER TABLE"
    if meaning.to_table is not None or meaning.from_table is not None:
        return "a partition became a table, or a table a partition"
    if meaning.row_clauses:
        return f"it says {meaning.row_clauses[0]}, which changes rows"
    if makes_cascade(statement, context):
        return "a foreign key may change its rows"
    if before.primary_key != after.primary_key and not _same_key(meaning, before, after):
        return "the primary key changed"
    names = _names(meaning, before, after, context, new_columns_matter)
    if isinstance(names, str):
        return names
    if not before.primary_key and names != {column.name: column.name for column in before.columns}:
        return "columns of a table without a primary key changed"
    return Alteration(names)


def _same_key(meaning: AlterTable, before: TableModel, after: TableModel) -> bool:
    new = {step.old.lower(): step.new for step in meaning.steps if isinstance(step, RenameColumn)}
    for step in meaning.steps:
        if isinstance(step, ChangeColumn):
            new[step.old.lower()] = step.column.name
    renamed = tuple((new.get(name.lower(), name), prefix) for name, prefix in before.primary_key)
    return renamed == after.primary_key


def _names(
    meaning: AlterTable,
    before: TableModel,
    after: TableModel,
    context: StatementContext,
    new_columns_matter: bool,
) -> dict[str, str] | str:
    dropped = set()
    for step in meaning.steps:
        match step:
            case AddColumn(column=column) if new_columns_matter and not _is_null(column):
                return f"the new column {column.name} has values in old rows"
            case ChangeColumn(column=column) if column.computed:
                return f"the source makes the values of column {column.name}"
            case DropColumn(name=name):
                dropped.add(name.lower())
            case AddColumn() | ChangeColumn() | RenameColumn() | SetVisible() | SetCharset():
                pass
            case _:
                return "the primary key, the character set or versioning changed"
    names: dict[str, str] = {}
    for source in sources_of(meaning, before, after):
        if source.old is None:
            if source.text is None:
                return _NOT_CERTAIN
            continue
        if not keeps_values(source.old, source.column):
            return f"values of column {source.column.name} changed with its type"
        if fills_nulls(source, context):
            return f"column {source.column.name}: {FILLED}"
        names[source.column.name] = source.old.name
    gone = {column.name for column in before.columns}.difference(names.values())
    return names if {name.lower() for name in gone} <= dropped else _NOT_CERTAIN


def _is_null(column: ColumnText) -> bool:
    """Return whether a new column is null in existing rows."""
    if column.nullable is False or column.primary or column.computed or column.row_bound:
        return False
    if column.type.kind == "timestamp":
        return False  # it may be NOT NULL by the server's settings alone
    default = [token.upper or token.text.upper() for token in column.default]
    return default in ([], ["NULL"])


def keeps_values(old: ColumnModel, new: ColumnModel) -> bool:
    """Return whether every value keeps its printed form when the type changes."""
    same = replace(old, name=new.name, nullable=new.nullable, visible=new.visible)
    if same == new:
        return True
    if old.charset != new.charset or old.unsigned != new.unsigned or old.hidden or new.hidden:
        return False
    if old.kind in INTEGERS and new.kind in INTEGERS:
        return INTEGERS.index(old.kind) <= INTEGERS.index(new.kind)
    if old.kind == new.kind == "decimal":
        return old.scale == new.scale and (old.length or 10) <= (new.length or 10)
    if old.kind == new.kind == "enum" and old.labels is not None and new.labels is not None:
        return new.labels[: len(old.labels)] == old.labels
    if old.kind in STRINGS and new.kind in STRINGS:
        grows = STRINGS.index(old.kind) <= STRINGS.index(new.kind)
        longer = old.kind != new.kind or (old.length or 0) <= (new.length or 0)
        return grows and longer and (old.kind != "char" or new.kind == "char")
    if old.kind == new.kind == "varbinary":
        return (old.length or 0) <= (new.length or 0)
    if old.kind in BLOBS and new.kind in BLOBS:
        return BLOBS.index(old.kind) <= BLOBS.index(new.kind)
    return False
