"""Schema changes as in Debezium's schema change topic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from replica_client.rows.json_values import quote
from replica_client.schema.ddl.lexer import LexerError, split_commas, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import CLOCKS, SIZED, TARGETS, TEXT_KINDS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.formats.row_text import array
from replica_client.stream.transactions.transaction import Statement

_TYPES: Final = {"create_table": "CREATE", "drop_table": "DROP"}
_BY_NAME: Final = {"REAL": 7, "NUMERIC": 2, "BOOL": 16, "BOOLEAN": 16}
_NATIONAL: Final = {"char": -15, "varchar": -9}
_INDEX: Final = re.compile(
    r"\s*(?:CREATE\s+(?:OR\s+REPLACE\s+)?(?:(?:UNIQUE|FULLTEXT|SPATIAL)\s+)?INDEX|DROP\s+INDEX"
    r"|CREATE\s+TABLE\s+IF\s+NOT\s+EXISTS)\b",
    re.IGNORECASE,
)


def is_published(statement: Statement) -> bool:
    """Return whether the schema change topic has a statement that changes no table's shape.

    These are statements on indexes, and CREATE TABLE IF NOT EXISTS.
    """
    return _INDEX.match(statement.text) is not None


def statement_members(statement: Statement) -> str:
    """Return the JSON members of a published statement that follow ``source`` and the times."""
    return _members(statement.database, statement.text, [])


def schema_change_members(
    change: SchemaChange, others: Sequence[SchemaChange], *, comments: bool
) -> str:
    """Return the JSON members of a schema change that follow ``source`` and the times.

    Args:
        change: the change of one table.
        others: all changes of its statement.
        comments: whether comments of columns are written.
    """
    changes = [] if not change.table else [_table_change(change, comments=comments)]
    return _members(change.database, _own_text(change, others), changes)


def name_after(change: SchemaChange) -> str:
    """Return the table's name after the change."""
    return change.name_after[1]


def _members(database: str, text: str, changes: list[str]) -> str:
    return (
        f'"databaseName":{quote(database)},"schemaName":null,'
        f'"ddl":{quote(text)},"tableChanges":{array(changes)}'
    )


def _own_text(change: SchemaChange, others: Sequence[SchemaChange]) -> str:
    """Return the statement as it would be for this table alone.

    Like Debezium, build a DROP TABLE for the one table.
    """
    if change.kind == "drop_table":
        exists = " IF EXISTS" if _says_if_exists(change.statement) else ""
        return f"DROP TABLE{exists} {_quoted(change.database)}.{_quoted(change.table)}"
    if change.kind == "rename_table" and len(others) > 1:
        at = list(others).index(change)
        parts = _renames(change.statement, change.context or StatementContext())
        if len(parts) == len(others):
            return f"RENAME TABLE {parts[at]}"
    return change.statement


def _says_if_exists(text: str) -> bool:
    return re.match(r"\s*DROP\s+TABLES?\s+IF\s+EXISTS\b", text, re.IGNORECASE) is not None


def _renames(text: str, context: StatementContext) -> list[str]:
    """Return the comma-separated parts of a RENAME TABLE as written; empty if it cannot be read."""
    try:
        parts = split_commas(tokenize(text, context)[2:])
    except LexerError:
        return []
    return [text[part[0].start : part[-1].end] for part in parts if part]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _table_change(change: SchemaChange, *, comments: bool) -> str:
    after = change.after
    named = change.name_after
    table = "null" if after is None else _table(after, comments=comments)
    name = quote(f'"{named[0]}"."{named[1]}"')
    return f'{{"type":"{_TYPES.get(change.kind, "ALTER")}","id":{name},"table":{table}}}'


def _table(table: TableModel, *, comments: bool) -> str:
    key = [name for name, _ in table.primary_key]
    shown = [column for column in table.columns if not column.hidden]
    columns = [_column(column, at, key, comments) for at, column in enumerate(shown, 1)]
    return (
        f'{{"defaultCharsetName":{_text(table.charset)},'
        f'"primaryKeyColumnNames":{array([quote(one) for one in key])},"columns":{array(columns)},'
        '"comment":null}'
    )


def _column(column: ColumnModel, position: int, key: list[str], comments: bool) -> str:
    kind = quote(type_name(column))
    optional = column.nullable is not False and column.name not in key
    counted = "true" if column.auto_increment or column.on_update else "false"
    labels = None
    if column.labels is not None:
        labels = array([quote("'" + label.replace("'", "''") + "'") for label in column.labels])
    comment = column.comment if comments and column.comment else None
    return (
        f'{{"name":{quote(column.name)},"jdbcType":{_jdbc_type(column)},'
        f'"nativeType":null,"typeName":{kind},"typeExpression":{kind},'
        f'"charsetName":{_text(_charset(column))},"length":{_number(_length(column))},'
        f'"scale":{_number(_scale(column))},"position":{position},'
        f'"optional":{"true" if optional else "false"},"autoIncremented":{counted},'
        f'"generated":{counted},"comment":{_text(comment)},'
        f'"defaultValueExpression":{_text(default_text(column))},"enumValues":{labels or "null"}}}'
    )


def type_name(column: ColumnModel) -> str:
    """Return the type's name as its definition writes it."""
    return column.type_name or column.kind.upper() + (" UNSIGNED" if column.unsigned else "")


def default_text(column: ColumnModel) -> str | None:
    """Return the text of a column's default, as Debezium writes it."""
    default = column.default
    if default == "CURRENT_TIMESTAMP" and column.kind in CLOCKS:
        return "1970-01-01 00:00:00"
    if default is not None and column.kind == "bit":
        bits = re.fullmatch(r"(?:[bB]'([01]*)'|0b([01]*))", default)
        return default if bits is None else bits[1] or bits[2] or "0"
    return default


def _jdbc_type(column: ColumnModel) -> int:
    name = column.type_name
    if _is_national(name):
        return _NATIONAL.get(column.kind, 1111)
    return _BY_NAME.get(name.partition(" ")[0]) or int(TARGETS["jdbc"][column.kind])


def _is_national(name: str) -> bool:
    return name.startswith(("NATIONAL", "NCHAR", "NVARCHAR"))


def _charset(column: ColumnModel) -> str | None:
    if column.kind not in TEXT_KINDS:
        return None
    return "utf8" if _is_national(column.type_name) else column.charset


def _length(column: ColumnModel) -> int | None:
    if column.kind == "enum":
        return 1
    if column.kind == "set":
        return 2 * len(column.labels or ()) - 1
    if column.kind in SIZED:
        return column.length
    return (
        column.display_width if column.display_width is not None else column.fraction_digits or None
    )


def _scale(column: ColumnModel) -> int | None:
    return column.scale if column.kind == "decimal" else column.display_scale


def _text(value: str | None) -> str:
    return "null" if value is None else quote(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
