"""Maxwell's JSON.

============================  =====================================================
value                         JSON
============================  =====================================================
integer, YEAR, BIT            number
FLOAT, DOUBLE, DECIMAL        number
text, ENUM                    string; ENUM's empty string of an invalid value: null
SET                           array of strings
DATE, TIME, DATETIME,         MySQL's text with the column's fraction digits
TIMESTAMP
BINARY, VARBINARY, BLOB       string of base64
JSON                          the document itself
GEOMETRY                      well-known text
vectors                       array of numbers
============================  =====================================================

Facts: Maxwell's documentation, "Data Format" (maxwells-daemon.io/dataformat), and the option names
of "Configuration" there. Differences, and their reasons:

- TIME values are whole (Maxwell shows them modulo 24 hours); TIMESTAMP values are in UTC.
- DDL is delivered unless ``output_ddl`` is false (Maxwell: only when it is true): a consumer that
  does not know of a TRUNCATE holds wrong rows. TRUNCATE, which Maxwell skips, is
  ``table-truncate``.
- ``xid`` is left out where the transaction has none (other storage engines than InnoDB, XA).

Every row has its transaction's ``xid``, which stands at the transaction's end in the binlog: rows
of a large transaction, which arrives in parts, wait for the ``xid`` in a temporary file.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple

import msgspec

from replica_client.protocol.binlog.values.value_types import EnumValue, Geometry, SetValue
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import ByDecoder, quote, value_to_json
from replica_client.rows.special_values import ABSENT
from replica_client.schema.history import SchemaChange
from replica_client.schema.kinds import BYTES, CLOCKS, INTEGERS, STRINGS, rules
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.schema.shape import ColumnShape, TableShape, kind_of
from replica_client.sinks.formats.message import (
    KeyChoice,
    KeyWriter,
    Message,
    MessageKind,
    RowWriter,
    ValueWriter,
    array,
    base64_text,
    delivered_columns,
    numbered_rows,
    well_known_text,
)
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.transactions.transaction import Transaction


def _value(value: Any) -> str:
    if type(value) is bytes:
        return base64_text(value)
    return value_to_json(value)


def _set(value: SetValue) -> str:
    if value.labels is None:
        return str(value.bits)
    return array([quote(label) for label in value.labels])


def _enum(value: EnumValue) -> str:
    if not value.index:
        return "null"
    return str(value.index) if value.label is None else quote(value.label)


def _geometry(value: Geometry) -> str:
    return quote(well_known_text(value.wkb)) if value.wkb else "null"


_WRITERS = rules(
    "Maxwell's values",
    {
        "integer year bit real string bytes json vector address": _value,
        "date time datetime timestamp": _value,
        "decimal": lambda value: f"{value:f}",
        "enum": _enum,
        "set": _set,
        "spatial": _geometry,
    },
)


def maxwell_writer(column: ColumnShape) -> ValueWriter:
    """Return the function that writes a column's values."""
    return _WRITERS[kind_of(column)]


_DDL_TYPES = {
    "create_table": "table-create",
    "alter_table": "table-alter",
    "rename_table": "table-alter",
    "drop_table": "table-drop",
    "truncate_table": "table-truncate",
    "create_database": "database-create",
    "alter_database": "database-alter",
    "drop_database": "database-drop",
    "not_understood": "table-alter",
}
_MEMORY_BYTES = 4 << 20
_SEPARATOR = "\t"  # JSON texts have none: it is escaped in strings


class MaxwellOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the format ``maxwell``; names and meanings are Maxwell's."""

    output_commit_info: bool = True
    output_xoffset: bool = False
    output_binlog_position: bool = False
    output_gtid_position: bool = False
    output_server_id: bool = False
    output_thread_id: bool = False
    output_primary_keys: bool = False
    output_primary_key_columns: bool = False
    output_nulls: bool = True
    output_ddl: bool = True


class _Table(msgspec.Struct, frozen=True):
    writer: RowWriter
    head: str
    key: tuple[int, ...]
    key_names: str
    key_writers: tuple[Any, ...]
    message_key: KeyWriter


class _Row(NamedTuple):
    """A row whose line still lacks the commit's fields.

    They are inserted between the message's value and ``body``.
    """

    message: Message
    body: str


class MaxwellFormat:
    """The format ``maxwell``; see the module.

    Args:
        options: which fields are written.
        keys: the choice of message keys; None: messages have no key.
    """

    def __init__(self, options: MaxwellOptions, keys: KeyChoice | None = None) -> None:
        self._options = options
        self._keys = keys
        self._tables = ByDecoder(self._table)
        self._xoffset = 0
        self._waiting: IO[str] | None = None

    @classmethod
    def of(cls, options: Mapping[str, object], keys: KeyChoice | None = None) -> MaxwellFormat:
        """Build the format from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(MaxwellOptions, options, "format_options"), keys)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        for message in self.messages(transaction):
            yield message.value

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        if not transaction.part:
            self._xoffset = 0
            self._forget()
        waits = not transaction.complete and self._options.output_commit_info
        if waits:
            self._wait(transaction)
            return
        pending: _Row | None = None
        for item in self._items(transaction):
            if isinstance(item, Message):
                yield item
                continue
            if pending is not None:
                yield self._ended(pending, transaction, last=False)
            pending = item
        if pending is not None:
            yield self._ended(pending, transaction, last=transaction.complete)

    def _items(self, transaction: Transaction) -> Iterator[_Row | Message]:
        """Yield the transaction's rows, which lack the commit's fields, and its complete messages.

        Items of earlier parts come first, from the temporary file.
        """
        if self._waiting is not None:
            self._waiting.seek(0)
            for line in self._waiting:
                head, _, rest = line.rstrip("\n").partition(_SEPARATOR)
                body, _, members = rest.partition(_SEPARATOR)
                kind, database, table, key, gone = json.loads(members)
                message = Message(kind, database, table, key, head, gone)
                yield _Row(message, body) if body else message
            self._forget()
        yield from self._given(transaction)

    def _given(self, transaction: Transaction) -> Iterator[_Row | Message]:
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item, transaction)
            elif isinstance(item, SchemaChange) and self._options.output_ddl:
                kind: MessageKind = "row" if item.kind == "truncate_table" else "schema"
                coordinates = self._coordinates(item.file, item.position, transaction)
                line = _ddl(item, transaction, coordinates)
                yield Message(kind, item.database, item.table, None, line)

    def _wait(self, transaction: Transaction) -> None:
        if self._waiting is None:
            # Closed when the transaction is complete, in another call.
            self._waiting = tempfile.SpooledTemporaryFile(  # noqa: SIM115
                _MEMORY_BYTES, "w+", encoding="utf-8", errors="backslashreplace", newline="\n"
            )
        for item in self._given(transaction):
            message, body = item if isinstance(item, _Row) else (item, "")
            members = json.dumps((*message[:4], message.gone))
            pieces = (message.value, body, members)
            self._waiting.write(_SEPARATOR.join(pieces) + "\n")

    def _forget(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.close()

    def _ended(self, row: _Row, transaction: Transaction, *, last: bool) -> Message:
        commit = ""
        if self._options.output_commit_info:
            if transaction.xid is not None:
                commit += f',"xid":{transaction.xid}'
            if last:
                commit += ',"commit":true'
            elif self._options.output_xoffset:
                commit += f',"xoffset":{self._xoffset}'
        self._xoffset += 1
        message = row.message
        return message._replace(value=message.value + commit + row.body)

    def _rows(self, rows: RowsOfEvent, transaction: Transaction) -> Iterator[_Row]:
        table, options = self._tables.of(rows), self._options
        kind, header = rows.event.body.kind, rows.event.header
        head = f'{table.head}"{kind}","ts":{header.timestamp}'
        middle = ""
        middle += self._coordinates(rows.event.file, rows.event.position, transaction)
        if options.output_server_id:
            middle += f',"server_id":{header.server_id}'
        if options.output_thread_id and transaction.thread_id is not None:
            middle += f',"thread_id":{transaction.thread_id}'
        database, name = rows.shape.database, rows.shape.table
        for index, before, after in numbered_rows(rows):
            data = before if after is None else after
            body = middle + self._key(table, data)
            body += f',"data":{{{",".join(self._members(table, data))}}}'
            if before is not None and after is not None:
                old = table.writer.changed(before, after)
                if old:
                    body += f',"old":{{{",".join(old)}}}'
            message_key, gone = None, None
            if self._keys is not None:
                message_key, gone = table.message_key.of_change(before, after)
            message = Message("row", database, name, message_key, head, gone, (), rows, index)
            yield _Row(message, body + "}")

    def _coordinates(self, file: str, offset: int, transaction: Transaction) -> str:
        """Return the members with an event's position and GTID, if the options ask for them."""
        text = ""
        if self._options.output_binlog_position:
            text += f',"position":{quote(f"{file}:{offset}")}'
        if self._options.output_gtid_position:
            text += f',"gtid":{quote(transaction.gtid) if transaction.gtid else "null"}'
        return text

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        shape = rows.shape
        table = self._table_of(shape, rows.columns)
        database, name = shape.database, shape.table

        def line(kind: str, body: str) -> str:
            return f'{table.head}"bootstrap-{kind}","ts":{rows.timestamp}{body}}}'

        if rows.begins:
            yield Message("row", database, name, None, line("start", ',"data":{}'))
        for row in rows.rows:
            body = self._key(table, row) + f',"data":{{{",".join(self._members(table, row))}}}'
            key = None if self._keys is None else table.message_key.text(row)
            yield Message("row", database, name, key, line("insert", body))
        if rows.ends:
            yield Message("row", database, name, None, line("complete", ',"data":{}'))

    def _table(self, rows: RowsOfEvent) -> _Table:
        return self._table_of(rows.shape, delivered_columns(rows))

    def _table_of(self, shape: TableShape, columns: Sequence[ColumnShape]) -> _Table:
        names = [column.name for column in columns]
        keyed = [shape.columns[at] for at in shape.primary_key if shape.columns[at].name in names]
        table_members = (f'"database":{quote(shape.database)}', f'"table":{quote(shape.table)}')
        chosen, unique = (self._keys or KeyChoice()).of(shape)
        return _Table(
            RowWriter(columns, maxwell_writer),
            "{" + ",".join(table_members) + ',"type":',
            tuple(names.index(column.name) for column in keyed),
            array([quote(column.name) for column in keyed]),
            tuple(maxwell_writer(column) for column in keyed),
            KeyWriter(
                columns, chosen, maxwell_writer, prefix="pk.", first=table_members, unique=unique
            ),
        )

    def _members(self, table: _Table, row: Sequence[Any]) -> list[str]:
        if not self._options.output_nulls:
            row = [ABSENT if value is None else value for value in row]
        return table.writer.members(row)

    def _key(self, table: _Table, row: Sequence[Any]) -> str:
        text = ""
        if self._options.output_primary_keys:
            values = (
                "null" if row[at] is None or row[at] is ABSENT else write(row[at])
                for at, write in zip(table.key, table.key_writers, strict=True)
            )
            text += f',"primary_key":{array(values)}'
        if self._options.output_primary_key_columns:
            text += f',"primary_key_columns":{table.key_names}'
        return text


def _ddl(change: SchemaChange, transaction: Transaction, coordinates: str) -> str:
    kind = _DDL_TYPES[change.kind]
    text = f'{{"type":"{kind}","database":{quote(change.database)}'
    if change.table:
        text += f',"table":{quote(change.table)}'
    if kind == "table-alter" and change.before is not None:
        text += f',"old":{_definition(change.before)}'
    if kind in ("table-alter", "table-create") and change.after is not None:
        text += f',"def":{_definition(change.after)}'
    return (
        text
        + f',"ts":{transaction.timestamp * 1000},"sql":{quote(change.statement)}{coordinates}}}'
    )


def _definition(table: TableModel) -> str:
    columns = array([_column(column) for column in table.columns if not column.hidden])
    charset = "null" if table.charset is None else quote(table.charset)
    key = array([quote(name) for name, _ in table.primary_key])
    return (
        f'{{"database":{quote(table.database)},"charset":{charset},"table":{quote(table.name)},'
        f'"columns":{columns},"primary-key":{key}}}'
    )


def _column(column: ColumnModel) -> str:
    kind = column.kind
    if kind == "geometry" and column.type_name:
        kind = column.type_name.lower()
    text = f'{{"type":{quote(kind)},"name":{quote(column.name)}'
    if kind in STRINGS or kind in BYTES:
        text += f',"charset":{quote(column.charset or "binary")}'
    elif kind in INTEGERS:
        text += f',"signed":{"false" if column.unsigned else "true"}'
    elif column.labels is not None:
        text += f',"enum-values":{array([quote(label) for label in column.labels])}'
    elif kind in CLOCKS:
        text += f',"column-length":{column.fraction_digits}'
    return text + "}"
