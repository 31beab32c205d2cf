"""Our own shape: the lines of ``replica-client changes --json``.

A row change::

    {"file": …, "position": …, "event_index": …, "row_index": …, "gtid": …, "timestamp": …,
     "kind": "insert" | "update" | "delete", "database": …, "table": …, "before": …, "after": …}

``json_null`` follows where a JSON column holds the document ``null``: which columns of which image
(:mod:`replica_client.rows.json_nulls`).

A schema change has ``kind`` such as ``alter_table`` or ``truncate_table`` and ``statement`` in place of
``before`` and ``after``; a rename also ``new_database`` and ``new_table``. A loss that is recorded instead
of stopping the stream has ``kind`` ``loss``, and ``loss``, ``count`` and ``reason``. Values are those of
:mod:`replica_client.rows.json_values`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from replica_client.constants.column_types import ColumnType
from replica_client.position.losses import Loss
from replica_client.readers.transaction import Transaction
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_nulls import json_null_columns, json_null_member
from replica_client.rows.json_values import quote, value_to_json
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.sinks.formats.row_text import ByDecoder, RowWriter, ValueWriter, numbered_rows

if TYPE_CHECKING:
    from replica_client.sinks.formats.compiled_images import CompiledImages

_LARGE_EVENT = 4096
"""Bytes of a rows event from which on its rows are written together by compiled code."""
_FEW_ROWS = 12
"""So many rows are written one by one in less time, however large they are."""


@dataclass(slots=True)
class _Table:
    """What is known of a table: what writes a row, and the bytes of one in its last event.

    Attributes:
        names: of its columns, where one is of the type JSON; else None.
    """

    writer: RowWriter
    names: tuple[str, ...] | None
    row_size: float = 0.0


class NativeFormat:
    """See the module.

    Args:
        large_event: see :data:`_LARGE_EVENT`.
        few_rows: see :data:`_FEW_ROWS`.
    """

    def __init__(self, large_event: int = _LARGE_EVENT, few_rows: int = _FEW_ROWS) -> None:
        self._tables = ByDecoder(_table)
        self._large_event = large_event
        self._few_rows = few_rows
        self._images: CompiledImages | None = None
        self._has_images: bool | None = None  # None: not looked for

    def lines(self, transaction: Transaction) -> Iterator[str]:
        """See :class:`~replica_client.sinks.formats.line_format.LineFormat`."""
        for item in transaction.items:
            if isinstance(item, RowsOfEvent):
                yield from self._rows(item)
            elif isinstance(item, SchemaChange):
                yield _schema_change(item, transaction)
            else:
                yield _loss(item)

    def _rows(self, rows: RowsOfEvent) -> Iterator[str]:
        event, shape = rows.event, rows.shape
        start = (
            f'{{"file": {quote(event.file)}, "position": {event.position}, '
            f'"event_index": {rows.event_index}, "row_index": '
        )
        middle = (
            f', "gtid": {quote(rows.gtid)}, "timestamp": {event.header.timestamp}, '
            f'"kind": "{event.body.kind}", "database": {quote(shape.database)}, '
            f'"table": {quote(shape.table)}, "before": '
        )
        for index, before, after, json_null in self._texts(rows):
            yield f'{start}{index}{middle}{before}, "after": {after}{json_null}}}'

    def _texts(self, rows: RowsOfEvent) -> Iterator[tuple[int, str, str, str]]:
        """Row index, both images and the member ``json_null`` of each row."""
        table = self._tables.of(rows)
        size = rows.event.header.event_size
        together = size >= self._large_event and size >= self._few_rows * table.row_size
        images = self._compiled_images() if together else None
        if images is not None and images.can_take(rows):
            texts = images.texts(rows)
        else:
            texts = _one_by_one(rows, table)
        count = 0
        with closing(texts):
            for text in texts:
                count += 1
                yield text
        if count:
            table.row_size = size / count

    def _compiled_images(self) -> CompiledImages | None:
        """What writes rows together; None without pyarrow, which is imported when it is needed."""
        if self._has_images is None:
            try:
                from replica_client.sinks.formats.compiled_images import CompiledImages
            except ModuleNotFoundError:
                self._has_images = False
            else:
                self._has_images, self._images = True, CompiledImages()
        return self._images


def _table(shape: TableShape, columns: tuple[ColumnShape, ...]) -> _Table:
    has_json = any(one.type_code == ColumnType.MYSQL_TYPE_JSON for one in columns)
    names = tuple(one.name for one in columns) if has_json else None
    return _Table(RowWriter(columns, _value_writer, " "), names)


def _one_by_one(
    rows: RowsOfEvent, table: _Table
) -> Generator[tuple[int, str, str, str], None, None]:
    writer, names = table.writer, table.names
    for index, before, after in numbered_rows(rows):
        old, new = writer.text(before), writer.text(after)
        member = ""
        if names is not None:
            member = json_null_member(
                json_null_columns(names, before, old), json_null_columns(names, after, new)
            )
        yield index, old, new, member


def _value_writer(column: ColumnShape) -> ValueWriter:
    return value_to_json


def _schema_change(change: SchemaChange, transaction: Transaction) -> str:
    renamed = ""
    after = change.after
    if after is not None and (after.database, after.name) != (change.database, change.table):
        renamed = f', "new_database": {quote(after.database)}, "new_table": {quote(after.name)}'
    return (
        f'{{"file": {quote(change.file)}, "position": {change.position}, '
        f'"event_index": {change.event_index}, "row_index": 0, "gtid": {quote(transaction.gtid)}, '
        f'"timestamp": {transaction.timestamp}, "kind": "{change.kind}", '
        f'"database": {quote(change.database)}, "table": {quote(change.table)}{renamed}, '
        f'"statement": {quote(change.statement)}}}'
    )


def _loss(loss: Loss) -> str:
    count = "null" if loss.count is None else str(loss.count)
    return (
        f'{{"file": {quote(loss.file)}, "position": {loss.position}, '
        f'"event_index": {loss.event_index}, "row_index": 0, "gtid": {quote(loss.gtid)}, '
        f'"timestamp": {loss.timestamp}, "kind": "loss", "database": {quote(loss.database)}, '
        f'"table": {quote(loss.table)}, "loss": "{loss.kind}", "count": {count}, '
        f'"reason": {quote(loss.reason)}}}'
    )
