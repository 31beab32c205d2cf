"""The effect of an ALTER TABLE on existing rows, as far as its text and the definitions show it.

Row events do not show it: a new column with a default, another type or a dropped partition changes
rows without row events. The lake applies an effect that is certain; otherwise the table is copied
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from replica_client.codec.quick_dataclass import dataclass
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
from replica_client.schema.model import TEXT_KINDS, ColumnModel, TableModel
from replica_client.tables.altered_columns import FILLED, fills_nulls, sources_of

_NOT_CERTAIN: Final = "it is not certain which column became which"
_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_BLOBS: Final = ("tinyblob", "blob", "mediumblob", "longblob")


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
        return "the statement is no plain ALTER TABLE"
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
    if old.kind in _INTEGERS and new.kind in _INTEGERS:
        return _INTEGERS.index(old.kind) <= _INTEGERS.index(new.kind)
    if old.kind == new.kind == "decimal":
        return old.scale == new.scale and (old.length or 10) <= (new.length or 10)
    if old.kind == new.kind == "enum" and old.labels is not None and new.labels is not None:
        return new.labels[: len(old.labels)] == old.labels
    if old.kind in TEXT_KINDS and old.kind in _TEXTS and new.kind in _TEXTS:
        grows = _TEXTS.index(old.kind) <= _TEXTS.index(new.kind)
        longer = old.kind != new.kind or (old.length or 0) <= (new.length or 0)
        return grows and longer and (old.kind != "char" or new.kind == "char")
    if old.kind == new.kind == "varbinary":
        return (old.length or 0) <= (new.length or 0)
    if old.kind in _BLOBS and new.kind in _BLOBS:
        return _BLOBS.index(old.kind) <= _BLOBS.index(new.kind)
    return False
