"""Schemas of Kafka Connect for Debezium's messages (``schemas.enable``).

A message is ``{"schema": …, "payload": …}``. The schema describes the payload field by field, with
the defaults of columns if the definition of the table is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from replica_client.rows.json_values import quote
from replica_client.schema.ddl.lexer import LexerError, split_commas, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import (
    CLOCKS,
    KINDS,
    LABELLED,
    SIZED,
    TARGETS,
    TEXT_KINDS,
    target_type,
)
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, kind_of
from replica_client.sinks.formats.debezium_values import (
    ValueModes,
    debezium_writer,
    default_value,
    is_old_decimal,
    is_point,
)
from replica_client.sinks.formats.message import array
from replica_client.stream.transactions.transaction import Statement

Schema = dict[str, Any]
_SNAPSHOTS: Final = (
    "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
)
_TIME: Final = "io.debezium.time."
_CONNECT: Final = "org.apache.kafka.connect.data."


def with_schema(schema: str, payload: str) -> str:
    """Return a message that holds a schema and a payload."""
    return f'{{"schema":{schema},"payload":{payload}}}'


def _field(kind: str, name: str, /, *, optional: bool = False, **more: Any) -> Schema:
    return {"type": kind, "optional": optional, **more, "field": name}


def _struct(fields: Sequence[Schema], /, *, optional: bool = False, **more: Any) -> Schema:
    return {"type": "struct", "fields": list(fields), "optional": optional, **more}


def source_schema(connector: str) -> Schema:
    """Return the schema of the ``source`` block."""
    snapshot = {
        "name": "io.debezium.data.Enum",
        "version": 1,
        "parameters": {"allowed": _SNAPSHOTS},
        "default": "false",
    }
    return _struct(
        [
            *(_field("string", name) for name in ("version", "connector", "name")),
            _field("int64", "ts_ms"),
            _field("string", "snapshot", optional=True, **snapshot),
            _field("string", "db"),
            _field("string", "sequence", optional=True),
            *(_field("int64", name, optional=True) for name in ("ts_us", "ts_ns")),
            _field("string", "table", optional=True),
            _field("int64", "server_id"),
            _field("string", "gtid", optional=True),
            _field("string", "file"),
            _field("int64", "pos"),
            _field("int32", "row"),
            _field("int64", "thread", optional=True),
            _field("string", "query", optional=True),
        ],
        name=f"io.debezium.connector.{connector}.Source",
        version=1,
        field="source",
    )


def envelope_schema(
    topic: str, connector: str, columns: Sequence[ColumnShape], modes: ValueModes
) -> str:
    """Return the schema of a table's change events as JSON."""
    fields = [column_schema(column, modes) for column in columns]
    block = [
        _field("string", "id"),
        _field("int64", "total_order"),
        _field("int64", "data_collection_order"),
    ]
    rows = [
        _struct(fields, optional=True, name=f"{topic}.Value", field=image)
        for image in ("before", "after")
    ]
    times = [_field("int64", name, optional=True) for name in ("ts_ms", "ts_us", "ts_ns")]
    members = [
        *rows,
        source_schema(connector),
        _struct(block, optional=True, name="event.block", version=1, field="transaction"),
        _field("string", "op"),
        *times,
    ]
    return _text(_struct(members, name=f"{topic}.Envelope", version=2))


def key_schema(topic: str, columns: Sequence[ColumnShape], modes: ValueModes) -> str:
    """Return the schema of a table's keys as JSON."""
    fields = [column_schema(column, modes) for column in columns]
    for one in fields:
        one.pop("default", None)
    return _text(_struct(fields, name=f"{topic}.Key"))


def schema_change_schemas(connector: str) -> tuple[str, str]:
    """Return the schemas of schema changes as JSON: of keys and of values."""
    base = f"io.debezium.connector.{connector}.SchemaChange"
    of_names = {"type": "array", "items": {"type": "string", "optional": False}, "optional": True}
    column = _struct(
        [
            _field("string", "name"),
            _field("int32", "jdbcType"),
            _field("int32", "nativeType", optional=True),
            _field("string", "typeName"),
            *(_field("string", name, optional=True) for name in ("typeExpression", "charsetName")),
            *(_field("int32", name, optional=True) for name in ("length", "scale")),
            _field("int32", "position"),
            *(_field("boolean", name, optional=True) for name in _FLAGS),
            *(
                _field("string", name, optional=True)
                for name in ("comment", "defaultValueExpression")
            ),
            {**of_names, "field": "enumValues"},
        ],
        name="io.debezium.connector.schema.Column",
        version=1,
    )
    table = _struct(
        [
            _field("string", "defaultCharsetName", optional=True),
            {**of_names, "field": "primaryKeyColumnNames"},
            {"type": "array", "items": column, "optional": False, "field": "columns"},
            _field("string", "comment", optional=True),
        ],
        optional=True,
        name="io.debezium.connector.schema.Table",
        version=1,
        field="table",
    )
    change = _struct(
        [_field("string", "type"), _field("string", "id"), table],
        name="io.debezium.connector.schema.Change",
        version=1,
    )
    value = _struct(
        [
            source_schema(connector),
            _field("int64", "ts_ms"),
            *(
                _field("string", name, optional=True)
                for name in ("databaseName", "schemaName", "ddl")
            ),
            {"type": "array", "items": change, "optional": False, "field": "tableChanges"},
        ],
        name=f"{base}Value",
        version=1,
    )
    key = _struct([_field("string", "databaseName")], name=f"{base}Key", version=1)
    return _text(key), _text(value)


_FLAGS: Final = ("optional", "autoIncremented", "generated")


def transaction_schemas() -> tuple[str, str]:
    """Return the schemas of transaction boundaries as JSON: of keys and of values."""
    base = "io.debezium.connector.common.TransactionMetadata"
    collection = _struct(
        [_field("string", "data_collection"), _field("int64", "event_count")],
        optional=True,
        name="event.collection",
        version=1,
    )
    value = _struct(
        [
            _field("string", "status"),
            _field("string", "id"),
            _field("int64", "event_count", optional=True),
            {"type": "array", "items": collection, "optional": True, "field": "data_collections"},
            _field("int64", "ts_ms"),
        ],
        name=f"{base}Value",
        version=1,
    )
    return _text(_struct([_field("string", "id")], name=f"{base}Key", version=1)), _text(value)


def column_schema(column: ColumnShape, modes: ValueModes) -> Schema:
    """Return the schema of a column's values, with the column's default."""
    schema = _type(column, modes)
    schema_type = schema.pop("type")
    found: Schema = {"type": schema_type, **(_ITEMS if schema_type == "array" else {})}
    found["optional"] = column.nullable
    found.update(schema)
    default = default_value(column)
    if default is not None:
        found["default"] = json.loads(debezium_writer(column, modes)(default))
    found["field"] = column.name
    return found


_ITEMS: Final[Schema] = {"items": {"type": "float", "optional": False}}


def _type(column: ColumnShape, modes: ValueModes) -> Schema:
    kind = kind_of(column)
    form = KINDS[kind].form
    text = target_type("debezium", kind, unsigned=column.unsigned)
    json_type, _, name = text.partition(" ")
    if form == "decimal":
        return _decimal(column, modes)
    if form == "spatial":
        return _geometry(point=is_point(column))
    if form in _TIME_TYPES:
        return _named(*_TIME_TYPES[form][modes.time](column))
    if kind == "bigint" and column.unsigned and modes.bigint_unsigned == "precise":
        digits = {"scale": "0", "connect.decimal.precision": "20"}
        return _named("bytes", f"{_CONNECT}Decimal", parameters=digits)
    if form == "bytes" and modes.binary != "bytes":
        return {"type": "string"}
    if form == "bit" and column.length == 1:
        return {"type": "boolean"}
    if form == "bit":
        return _named(json_type, name, parameters={"length": str(column.length)})
    if kind in LABELLED:
        allowed = {"allowed": ",".join(column.labels or ())}
        return _named(json_type, name, parameters=allowed)
    return _named(json_type, name) if name else {"type": json_type}


def _named(kind: str, name: str, /, **more: Any) -> Schema:
    return {"type": kind, "name": name, "version": 1, **more}


def _decimal(column: ColumnShape, modes: ValueModes) -> Schema:
    if is_old_decimal(column):
        return {"type": "string"}
    if modes.decimal != "precise":
        return {"type": modes.decimal}
    digits = {"scale": str(column.scale), "connect.decimal.precision": str(column.length)}
    return _named("bytes", f"{_CONNECT}Decimal", parameters=digits)


def _geometry(*, point: bool) -> Schema:
    name = "Point" if point else "Geometry"
    fields = [_field("double", "x"), _field("double", "y")] if point else []
    fields += [_field("bytes", "wkb", optional=point), _field("int32", "srid", optional=True)]
    doc = "Geometry (POINT)" if point else "Geometry"
    return _named("struct", f"io.debezium.data.geometry.{name}", doc=doc, fields=fields)


def _adaptive(column: ColumnShape) -> tuple[str, str]:
    return "int64", _TIME + ("Timestamp" if column.fraction_digits <= 3 else "MicroTimestamp")


_Named = Callable[[ColumnShape], tuple[str, str]]


def _always(kind: str, name: str) -> _Named:
    return lambda _: (kind, name)


_TIME_TYPES: Final[Mapping[str, Mapping[str, _Named]]] = {
    "date": {
        "adaptive_time_microseconds": _always("int32", f"{_TIME}Date"),
        "connect": _always("int32", f"{_CONNECT}Date"),
        "isostring": _always("string", f"{_TIME}IsoDate"),
        "microseconds": _always("int32", f"{_TIME}Date"),
        "nanoseconds": _always("int32", f"{_TIME}Date"),
    },
    "time": {
        "adaptive_time_microseconds": _always("int64", f"{_TIME}MicroTime"),
        "connect": _always("int32", f"{_CONNECT}Time"),
        "isostring": _always("string", f"{_TIME}IsoTime"),
        "microseconds": _always("int64", f"{_TIME}MicroTime"),
        "nanoseconds": _always("int64", f"{_TIME}NanoTime"),
    },
    "datetime": {
        "adaptive_time_microseconds": _adaptive,
        "connect": _always("int64", f"{_CONNECT}Timestamp"),
        "isostring": _always("string", f"{_TIME}IsoTimestamp"),
        "microseconds": _always("int64", f"{_TIME}MicroTimestamp"),
        "nanoseconds": _always("int64", f"{_TIME}NanoTimestamp"),
    },
}


def _text(schema: Schema) -> str:
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


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
        f'{{"defaultCharsetName":{_schema_text(table.charset)},'
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
        f'"charsetName":{_schema_text(_charset(column))},"length":{_number(_length(column))},'
        f'"scale":{_number(_scale(column))},"position":{position},'
        f'"optional":{"true" if optional else "false"},"autoIncremented":{counted},'
        f'"generated":{counted},"comment":{_schema_text(comment)},'
        f'"defaultValueExpression":{_schema_text(default_text(column))},"enumValues":{labels or "null"}}}'
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


def _schema_text(value: str | None) -> str:
    return "null" if value is None else quote(value)


def _number(value: int | None) -> str:
    return "null" if value is None else str(value)
