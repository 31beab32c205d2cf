"""Our own shape: the fields of ``replica-client changes --json``.

A row change::

    {"file": …, "position": …, "event_index": …, "row_index": …, "gtid": …, "timestamp": …,
     "kind": "insert" | "update" | "delete", "database": …, "table": …, "before": …, "after": …}

A schema change has ``kind`` such as ``alter_table`` or ``truncate_table`` and ``statement`` in place of
``before`` and ``after``; a rename also ``new_database`` and ``new_table``. Values are those of
:mod:`replica_client.rows.json_values`.
"""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import value_to_json
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.row_text import (
    ByDecoder,
    RowWriter,
    ValueWriter,
    numbered_rows,
    quote,
)


class NativeFormat:
    """See the module."""

    def __init__(self) -> None:
        self._writers = ByDecoder(_writer)

    def lines(self, transaction: Transaction) -> Iterator[str]:
        """See :class:`~replica_client.sinks.formats.line_format.LineFormat`."""
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item)
            elif isinstance(item, SchemaChange):
                yield _schema_change(item, transaction)

    def _rows(self, rows: RowsOfEvent) -> Iterator[str]:
        event, shape, writer = rows.event, rows.shape, self._writers.of(rows)
        start = (
            f'{{"file":{quote(event.file)},"position":{event.position},'
            f'"event_index":{rows.event_index},"row_index":'
        )
        middle = (
            f',"gtid":{quote(rows.gtid)},"timestamp":{event.header.timestamp},'
            f'"kind":"{event.body.kind}","database":{quote(shape.database)},'
            f'"table":{quote(shape.table)},"before":'
        )
        text = writer.text
        for index, before, after in numbered_rows(rows):
            yield f'{start}{index}{middle}{text(before)},"after":{text(after)}}}'


def _writer(shape: TableShape, columns: tuple[ColumnShape, ...]) -> RowWriter:
    return RowWriter(columns, _value_writer)


def _value_writer(column: ColumnShape) -> ValueWriter:
    return value_to_json


def _schema_change(change: SchemaChange, transaction: Transaction) -> str:
    renamed = ""
    after = change.after
    if after is not None and (after.database, after.name) != (change.database, change.table):
        renamed = f',"new_database":{quote(after.database)},"new_table":{quote(after.name)}'
    return (
        f'{{"file":{quote(change.file)},"position":{change.position},'
        f'"event_index":{change.event_index},"row_index":0,"gtid":{quote(transaction.gtid)},'
        f'"timestamp":{transaction.timestamp},"kind":"{change.kind}",'
        f'"database":{quote(change.database)},"table":{quote(change.table)}{renamed},'
        f'"statement":{quote(change.statement)}}}'
    )
