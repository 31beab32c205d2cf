"""Schema changes as Debezium's schema change topic has them."""

from __future__ import annotations

from replica_client.rows.json_values import quote
from replica_client.schema.history import SchemaChange
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.formats.row_text import array

_TYPES = {"create_table": "CREATE", "drop_table": "DROP"}
_JDBC = {
    "tinyint": 5,
    "smallint": 5,
    "mediumint": 4,
    "int": 4,
    "bigint": -5,
    "decimal": 3,
    "float": 6,
    "double": 8,
    "bit": -7,
    "date": 91,
    "time": 92,
    "datetime": 93,
    "timestamp": 2014,
    "year": 4,
    "char": 1,
    "varchar": 12,
    "binary": -2,
    "varbinary": -3,
    "tinyblob": 2004,
    "blob": 2004,
    "mediumblob": 2004,
    "longblob": 2004,
    "tinytext": 12,
    "text": 12,
    "mediumtext": 12,
    "longtext": 12,
    "json": 1111,
    "enum": 1,
    "set": 1,
}
_OTHER = 1111
"""``java.sql.Types.OTHER``."""


def schema_change_members(change: SchemaChange) -> str:
    """The members of a schema change behind ``source`` and the times."""
    changes = [] if not change.table else [_table_change(change)]
    return (
        f'"databaseName":{quote(change.database)},"schemaName":null,'
        f'"ddl":{quote(change.statement)},"tableChanges":{array(changes)}'
    )


def _table_change(change: SchemaChange) -> str:
    name = _name(change.database, change.table)
    after = change.after
    if after is not None and (after.database, after.name) != (change.database, change.table):
        name += "," + _name(after.database, after.name)
    table = "null" if after is None else _table(after)
    return f'{{"type":"{_TYPES.get(change.kind, "ALTER")}","id":{quote(name)},"table":{table}}}'


def _name(database: str, table: str) -> str:
    return f'"{database}"."{table}"'


def _table(table: TableModel) -> str:
    key = [name for name, _ in table.primary_key]
    visible = [column for column in table.columns if not column.hidden]
    columns = [_column(column, at, key) for at, column in enumerate(visible, 1)]
    charset = "null" if table.charset is None else quote(table.charset)
    return (
        f'{{"defaultCharsetName":{charset},'
        f'"primaryKeyColumnNames":{array([quote(one) for one in key])},"columns":{array(columns)}}}'
    )


def _column(column: ColumnModel, position: int, key: list[str]) -> str:
    kind = column.kind.upper()
    if column.unsigned:
        kind += " UNSIGNED"
    length = column.length if column.length is not None else column.fraction_digits or None
    optional = column.nullable is not False and column.name not in key
    scale = column.scale if column.kind == "decimal" else None
    text = (
        f'{{"name":{quote(column.name)},"jdbcType":{_JDBC.get(column.kind, _OTHER)},'
        f'"nativeType":null,"typeName":"{kind}","typeExpression":"{kind}",'
        f'"charsetName":{_text(column.charset)},"length":{_number(length)},'
        f'"scale":{_number(scale)},"position":{position},'
        f'"optional":{"true" if optional else "false"},"autoIncremented":false,"generated":false'
    )
    if column.labels is not None:
        text += f',"enumValues":{array([quote(label) for label in column.labels])}'
    return text + "}"


def _text(value: str | None) -> str:
    return "null" if value is None else quote(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
