"""Canal's flat JSON (FlatMessage): a message per rows event, all values as text.

==========================  ==========================================  =================
column                      text                                        type code
==========================  ==========================================  =================
TINYINT … BIGINT            digits                                      -6, 5, 4, 4, -5; the
                                                                        next larger for an
                                                                        unsigned value beyond
                                                                        the signed range
FLOAT, DOUBLE               as Java writes them                         7, 8
DECIMAL                     plain                                       3
CHAR, VARCHAR               itself                                      1, 12
TEXT                        itself                                      2005 (CLOB)
BINARY, VARBINARY, BLOB,    each byte a character (ISO 8859-1)          2004 (BLOB)
GEOMETRY, vectors
DATE, TIME                  MySQL's                                     91, 92
DATETIME, TIMESTAMP         MySQL's                                     93
YEAR, JSON                  MySQL's                                     12
ENUM                        the index                                   4
SET, BIT                    the number                                  -7
==========================  ==========================================  =================

Facts: the fields of ``FlatMessage`` and the event types of ``CanalEntry`` in Canal's public
protocol, "Canal-JSON" in the documentation of TiCDC and of Flink (its ``canal-json`` format), which
show examples. Differences, and their reasons:

- ``id``, Canal's batch number, is 0: the binlog position orders messages.
- ``old`` of a row holds that row's changed columns (Canal: also those that changed in an earlier
  row of the same event).
- TIMESTAMP values are in UTC (Canal: in the time zone of its Java).

Canal has no snapshots: snapshot rows are messages of the type INSERT.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from replica_client.protocol.binlog.values.value_types import encode_geometry, encode_vector
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import ByDecoder, quote
from replica_client.rows.special_values import ABSENT
from replica_client.schema.ddl.lexer import Cursor, LexerError, NotUnderstoodError, tokenize
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import KINDS, TARGETS, Rules, rules
from replica_client.schema.shape import ColumnShape, TableShape, kind_of
from replica_client.sinks.column_models import column_model, listed_type
from replica_client.sinks.formats.message import (
    KeyChoice,
    KeyWriter,
    Message,
    MessageKind,
    ValueWriter,
    array,
    delivered_columns,
    numbered_rows,
)
from replica_client.sinks.protocol import SnapshotRows
from replica_client.stream.transactions.transaction import Statement, Transaction


class CanalColumn(msgspec.Struct, frozen=True):
    """The name of a column and the function that writes its values.

    Attributes:
        name: the column's name as JSON text.
        null_code: type code of a NULL.
        write: returns text and type code of a value.
    """

    name: str
    null_code: int
    write: Callable[[Any], tuple[str, int]]


def _bytes(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def java_float(value: float) -> str:
    """Return a number as Java's ``String.valueOf`` writes it.

    The text has an exponent below 1e-3 and from 1e7 on.
    """
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    scale = len(digits) + int(exponent) - 1
    if 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else plain + ".0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{scale}"


_TEXTS: Rules[Callable[[Any], str]] = rules(
    "Canal's values",
    {
        "integer bit date time datetime timestamp address": str,
        "year": lambda value: f"{value:04d}",
        "real": java_float,
        "decimal": lambda value: f"{value:f}",
        "string bytes": _bytes,
        "enum": lambda value: str(value.index),
        "set": lambda value: str(value.bits),
        "json": lambda value: value.text,
        "spatial": lambda value: encode_geometry(value).decode("latin-1"),
        "vector": lambda value: encode_vector(value).decode("latin-1"),
    },
)


def canal_column(column: ColumnShape) -> CanalColumn:
    """Return the name and the writer of a column."""
    kind = kind_of(column)
    code, _, large = TARGETS["canal"][kind].partition("|")
    return CanalColumn(quote(column.name), int(code), _writer(kind, int(code), int(large or code)))


def _writer(kind: str, code: int, large: int) -> Callable[[Any], tuple[str, int]]:
    text = _TEXTS[kind]
    if code == large:
        return lambda value: (text(value), code)
    limit = 1 << 8 * KINDS[kind].size - 1
    return lambda value: (text(value), code if value < limit else large)


_SNAPSHOT_ROWS = 500
"""Snapshot rows per message if messages have no key."""
_DDL_TYPES = {
    "create_table": "CREATE",
    "alter_table": "ALTER",
    "rename_table": "RENAME",
    "drop_table": "ERASE",
    "truncate_table": "TRUNCATE",
    "create_database": "QUERY",
    "alter_database": "QUERY",
    "drop_database": "QUERY",
    "not_understood": "QUERY",
}


class _Table(msgspec.Struct, frozen=True):
    columns: tuple[CanalColumn, ...]
    types: str
    keys: str


class CanalFormat:
    """The format ``canal``; see the module.

    A message with a key holds one row, as rows of other keys may belong to another partition.

    Args:
        keys: the choice of message keys; None: messages have no key.
    """

    def __init__(self, keys: KeyChoice | None = None) -> None:
        self._tables = ByDecoder(lambda rows: _table(rows.shape, delivered_columns(rows)))
        self._keys = keys
        self._key_writers = ByDecoder(self._key_writer)

    def _key_writer(self, rows: RowsOfEvent) -> KeyWriter:
        return self._key_of(rows.shape, delivered_columns(rows))

    def _key_of(self, shape: TableShape, columns: Sequence[ColumnShape]) -> KeyWriter:
        names, unique = (self._keys or KeyChoice()).of(shape)
        writers = {column.name: canal_column(column).write for column in columns}

        def writer_of(column: ColumnShape) -> ValueWriter:
            write = writers[column.name]
            return lambda value: quote(write(value)[0])

        return KeyWriter(columns, names, writer_of, unique=unique)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        changed = {change.event_index for change in transaction.schema_changes}
        for statement in transaction.statements:
            named = None if statement.event_index in changed else _index_statement(statement)
            if named is not None:
                kind, database, table = named
                line = _ddl(kind, database, table, statement.text, transaction)
                yield Message("schema", database, table, None, line)
        last = -1
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item)
            elif isinstance(item, SchemaChange) and item.event_index != last:
                # One message per statement, for the first table that it names.
                last = item.event_index
                ddl_type = _ddl_type(item)
                table = item.name_after[1] if ddl_type == "RENAME" else item.table
                line = _ddl(ddl_type, item.database, table, item.statement, transaction)
                of_rows: MessageKind = "row" if item.kind == "truncate_table" else "schema"
                yield Message(of_rows, item.database, item.table, None, line)

    def _rows(self, rows: RowsOfEvent) -> Iterator[Message]:
        database, table = rows.shape.database, rows.shape.table
        if self._keys is None:
            line = self._message(rows, numbered_rows(rows))
            if line is not None:
                yield Message("row", database, table, None, line)
            return
        writer = self._key_writers.of(rows)
        for index, before, after in numbered_rows(rows):
            line = self._message(rows, ((index, before, after),))
            if line is not None:
                key, gone = writer.of_change(before, after)
                yield Message("row", database, table, key, line, gone, (), rows, index)

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        shape = rows.shape
        table, writer = _table(shape, rows.columns), self._key_of(shape, rows.columns)
        database, name = shape.database, shape.table
        seconds = rows.timestamp
        at_once = 1 if self._keys is not None else _SNAPSHOT_ROWS
        for at in range(0, len(rows.rows), at_once):
            some = rows.rows[at : at + at_once]
            codes = {column.name: column.null_code for column in table.columns}
            data = [_object(table.columns, row, codes) for row in some]
            key = None if self._keys is None else writer.text(some[0])
            line = _rows_line(table, shape, codes, data, [], ("INSERT", seconds, ""))
            yield Message("row", database, name, key, line)

    def _message(self, rows: RowsOfEvent, images: Iterable[tuple[int, Any, Any]]) -> str | None:
        table, shape = self._tables.of(rows), rows.shape
        codes = {column.name: column.null_code for column in table.columns}
        data, old = [], []
        kind = rows.event.body.kind
        for _, before, after in images:
            row = before if after is None else after
            data.append(_object(table.columns, row, codes))
            if kind == "update":
                old.append(_changed(table.columns, before, after))
        if not data:
            return None
        change = (kind.upper(), rows.event.header.timestamp, rows.gtid)
        return _rows_line(table, shape, codes, data, old, change)


def _rows_line(
    table: _Table,
    shape: TableShape,
    codes: dict[str, int],
    data: list[str],
    old: list[str],
    change: tuple[str, int, str],
) -> str:
    """Return the message of rows.

    ``change`` is the type, the time in seconds since 1970 and the GTID.
    """
    kind, seconds, gtid = change
    sql_types = ",".join(f"{name}:{code}" for name, code in codes.items())
    return (
        f'{{"data":{array(data)},"database":{quote(shape.database)},'
        f'"es":{seconds * 1000},"gtid":{quote(gtid)},"id":0,'
        f'"isDdl":false,"mysqlType":{table.types},'
        f'"old":{array(old) if old else "null"},"pkNames":{table.keys},"sql":"",'
        f'"sqlType":{{{sql_types}}},"table":{quote(shape.table)},'
        f'"ts":{time.time_ns() // 1_000_000},"type":"{kind}"}}'
    )


def _object(columns: tuple[CanalColumn, ...], row: tuple[Any, ...], codes: dict[str, int]) -> str:
    found = []
    for column, value in zip(columns, row, strict=True):
        if value is None:
            found.append(f"{column.name}:null")
        elif value is not ABSENT:
            text, code = column.write(value)
            codes[column.name] = code
            found.append(f"{column.name}:{quote(text)}")
    return "{" + ",".join(found) + "}"


def _changed(
    columns: tuple[CanalColumn, ...], before: tuple[Any, ...], after: tuple[Any, ...]
) -> str:
    found = []
    for column, old, new in zip(columns, before, after, strict=True):
        if old is ABSENT or new is ABSENT or old == new:
            continue
        found.append(f"{column.name}:{'null' if old is None else quote(column.write(old)[0])}")
    return "{" + ",".join(found) + "}"


def _table(shape: TableShape, columns: Sequence[ColumnShape]) -> _Table:
    types = ",".join(
        f"{quote(column.name)}:{quote(listed_type(column.definition or column_model(column)))}"
        for column in columns
    )
    keys = [quote(shape.columns[at].name) for at in shape.primary_key]
    return _Table(
        tuple(canal_column(column) for column in columns),
        "{" + types + "}",
        array(keys) if keys else "null",
    )


_INDEX = re.compile(
    r"\s*(CREATE|DROP)\s+(?:OR\s+REPLACE\s+)?(?:(?:UNIQUE|FULLTEXT|SPATIAL)\s+)?INDEX\s",
    re.IGNORECASE,
)
_INDEX_CLAUSE = re.compile(
    r"ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?\S+\s+"
    r"(?:(ADD)\s+(?:(?:UNIQUE|FULLTEXT|SPATIAL)(?:\s+(?:INDEX|KEY))?|INDEX|KEY)\b"
    r"|(DROP)\s+(?:INDEX|KEY)\b|(RENAME)\s+(?:TO|AS)\b)",
    re.IGNORECASE,
)
_CLAUSES = {"ADD": "CINDEX", "DROP": "DINDEX", "RENAME": "RENAME"}


def _ddl_type(change: SchemaChange) -> str:
    found = _INDEX_CLAUSE.match(change.statement.lstrip())
    if change.kind == "alter_table" and found is not None:
        return _CLAUSES[(found[1] or found[2] or found[3]).upper()]
    return _DDL_TYPES[change.kind]


def _index_statement(statement: Statement) -> tuple[str, str, str] | None:
    """Return type, database and table of CREATE INDEX or DROP INDEX; None for other statements."""
    found = _INDEX.match(statement.text)
    if found is None:
        return None
    kind = "CINDEX" if found[1].upper() == "CREATE" else "DINDEX"
    try:
        cursor = Cursor(tokenize(statement.text, StatementContext()))
        while not cursor.done and not cursor.take("ON"):
            cursor.step()
        return kind, *cursor.table_name(statement.database)
    except (LexerError, NotUnderstoodError):
        return kind, statement.database, ""


def _ddl(kind: str, database: str, table: str, statement: str, transaction: Transaction) -> str:
    return (
        f'{{"data":null,"database":{quote(database)},"es":{transaction.timestamp * 1000},'
        f'"gtid":{quote(transaction.gtid)},"id":0,"isDdl":true,"mysqlType":null,"old":null,'
        f'"pkNames":null,"sql":{quote(statement)},"sqlType":null,'
        f'"table":{quote(table)},"ts":{time.time_ns() // 1_000_000},'
        f'"type":"{kind}"}}'
    )
