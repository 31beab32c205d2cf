"""Rows of outbox tables as messages; everything else in another format.

An inserted row is a message: its payload is the value, and other columns hold its destination, key,
id and further headers (:class:`~replica_client.schema.shape.OutboxColumns`). Deletes are
ignored. Updates are refused, as they have no meaning in an outbox.

Sinks with destinations, keys and headers use them. In a line they are members next to the payload::

    {"topic": "outbox.event.order", "key": "17", "headers": {"id": "…"}, "payload": {"total": 3}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, runtime_checkable

from replica_client.errors import PoisonChangeError
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote, value_to_json
from replica_client.rows.special_values import ABSENT, RawJson
from replica_client.schema.shape import OutboxColumns
from replica_client.sinks.formats.line_format import LineFormat, MessageFormat
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.row_text import delivered_columns, numbered_rows
from replica_client.sinks.protocol import SnapshotRows
from replica_client.stream.transactions.transaction import Transaction

_ID: Final = "id"


@runtime_checkable
class OutboxSink(Protocol):
    """A sink that writes rows of outbox tables as messages."""

    def route_outbox(self) -> None:
        """Write rows of outbox tables as messages from now on.

        Called before the sink is opened.
        """
        ...


class OutboxMessages:
    """Messages of outbox rows, with another format for all other changes; see the module.

    Args:
        others: format of changes outside of outbox tables.
        lines: whether a line holds destination, key and headers next to the payload.
    """

    def __init__(self, others: MessageFormat, *, lines: bool) -> None:
        self._others, self._lines = others, lines

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        routed, others = _divided(transaction)
        for rows in routed:
            yield from self._messages(rows)
        if others is not None:
            yield from self._others.messages(others)

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        outbox = rows.shape.outbox
        if outbox is None:
            yield from self._others.snapshot(rows)
            return
        made = _MessageMaker(outbox, [column.name for column in rows.columns], lines=self._lines)
        where = f"{rows.shape.database}.{rows.shape.table}"
        for number, row in zip(rows.numbers, rows.rows, strict=True):
            try:
                yield made.message(rows.shape.database, rows.shape.table, row)
            except ValueError as error:
                raise PoisonChangeError(
                    f"{where}: {error}",
                    event_index=0,
                    row_index=number,
                    file=rows.low.file,
                    position=rows.low.offset,
                ) from None

    def _messages(self, rows: RowsOfEvent) -> Iterator[Message]:
        shape, outbox = rows.shape, rows.shape.outbox
        assert outbox is not None
        names = [column.name for column in delivered_columns(rows)]
        made = _MessageMaker(outbox, names, lines=self._lines)
        for index, before, after in numbered_rows(rows):
            if after is None:
                continue
            try:
                if before is not None:
                    raise ValueError(
                        "a row of an outbox was updated; only inserted rows are messages"
                    )
                message = made.message(shape.database, shape.table, after)
            except ValueError as error:
                raise PoisonChangeError(
                    f"{rows.event.file}:{rows.event.position}: {shape.database}.{shape.table}: {error}",
                    event_index=rows.event_index,
                    row_index=index,
                    file=rows.event.file,
                    position=rows.event.position,
                ) from None
            yield message._replace(rows=rows, row_index=index)


class OutboxFormat(OutboxMessages):
    """Lines of outbox rows, with another format for all other changes.

    Args:
        others: format of changes outside of outbox tables.
    """

    def __init__(self, others: LineFormat) -> None:
        super().__init__(others, lines=True)
        self._other_lines = others

    def lines(self, transaction: Transaction) -> Iterator[str]:
        routed, others = _divided(transaction)
        for rows in routed:
            for message in self._messages(rows):
                yield message.value
        if others is not None:
            yield from self._other_lines.lines(others)


def _divided(transaction: Transaction) -> tuple[list[RowsOfEvent], Transaction | None]:
    """Return the rows of outbox tables, and the transaction without them.

    The transaction is None if nothing else is left.
    """
    rows = transaction.rows
    routed = [one for one in rows if one.shape.outbox is not None]
    if not routed:
        return [], transaction
    others = tuple(one for one in rows if one.shape.outbox is None)
    parted = transaction.part or not transaction.complete
    more = transaction.schema_changes or transaction.losses or parted
    return routed, transaction.with_rows(others) if others or more else None


class _MessageMaker:
    """Builds the messages of an outbox table's rows.

    Args:
        outbox: the table's outbox columns.
        names: column names of the row values, in order.
        lines: see :class:`OutboxMessages`.
    """

    def __init__(self, outbox: OutboxColumns, names: Sequence[str], *, lines: bool) -> None:
        at = {name.lower(): index for index, name in enumerate(names)}

        def column(name: str) -> tuple[str, int]:
            return name, at.get(name.lower(), -1)

        self._id, self._key, self._route, self._payload = map(
            column, (outbox.id, outbox.key, outbox.route, outbox.payload)
        )
        self._headers = [(header, column(name)) for header, name in outbox.headers]
        self._topic, self._lines = outbox.topic, lines

    def message(self, database: str, table: str, row: Sequence[Any]) -> Message:
        """Return the message of a row.

        Raises:
            ValueError: a column is missing or NULL; the message holds no value.
        """
        topic = self._topic.replace("{route}", _text(row, self._route))
        key = _text(row, self._key)
        headers = [(_ID, _text(row, self._id))]
        headers += [
            (header, _text(row, column))
            for header, column in self._headers
            if row[column[1]] is not None
        ]
        payload = _value(row, self._payload)
        if not self._lines:
            return Message(
                *("row", database, table, key),
                _plain(payload),
                headers=tuple(headers),
                topic=topic,
            )
        members = ", ".join(f"{quote(name)}: {quote(text)}" for name, text in headers)
        text = (
            f'{{"topic": {quote(topic)}, "key": {quote(key)}, "headers": {{{members}}}, '
            f'"payload": {value_to_json(payload)}}}'
        )
        return Message("row", database, table, key, text)


def _value(row: Sequence[Any], column: tuple[str, int]) -> Any:
    name, at = column
    value = ABSENT if at < 0 else row[at]
    if value is None or value is ABSENT:
        raise ValueError(f"column {name} of an outbox is {'NULL' if value is None else 'missing'}")
    return value


def _text(row: Sequence[Any], column: tuple[str, int]) -> str:
    return _plain(_value(row, column))


def _plain(value: Any) -> str:
    """Return a value as text: strings as they are, other values as in JSON without quotes."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError("a column of an outbox holds bytes that are not text") from None
    text = value_to_json(value)
    if text.startswith('"') and not isinstance(value, JsonDocument | RawJson):
        return str(json.loads(text))
    return text
