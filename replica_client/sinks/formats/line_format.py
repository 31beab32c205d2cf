"""Interfaces of formats, formats by name, and outbox tables in any format.

Rows of outbox tables as messages; everything else in another format.

An inserted row is a message: its payload is the value, and other columns hold its destination, key,
id and further headers (:class:`~replica_client.schema.shape.OutboxColumns`). Deletes are
ignored. Updates are refused, as they have no meaning in an outbox.

Sinks with destinations, keys and headers use them. In a line they are members next to the payload::

    {"topic": "outbox.event.order", "key": "17", "headers": {"id": "…"}, "payload": {"total": 3}}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from replica_client.errors import ConfigError, PoisonChangeError, install_command
from replica_client.protocol.binlog.values.json_binary import JsonDocument
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.json_values import quote, value_to_json
from replica_client.rows.special_values import ABSENT, RawJson
from replica_client.schema.shape import OutboxColumns
from replica_client.sinks.formats.message import (
    KeyChoice,
    Message,
    delivered_columns,
    numbered_rows,
)
from replica_client.sinks.protocol import SnapshotRows
from replica_client.stream.transactions.transaction import Transaction


class MessageFormat(Protocol):
    """Builds messages of transactions.

    Transactions are given in order, including parts of large transactions, and by one thread at a
    time.
    """

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """Yield the messages of a transaction, or of a part of it.

        Each message has its key and the other attributes that a broker needs.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
        """
        ...

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        """Yield the messages of snapshot rows, with the snapshot marks of the format.

        Called only between two transactions.
        """
        ...


class LineFormat(MessageFormat, Protocol):
    """Builds the JSON texts of transactions, one per line."""

    def lines(self, transaction: Transaction) -> Iterator[str]:
        """Yield the lines of a transaction, or of a part of it, without line ends.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
        """
        ...


class FormatOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The options of a sink that choose its format.

    Attributes:
        format: ``native``, ``debezium``, ``flat``, ``maxwell``, ``canal`` or ``cloudevents``.
        format_options: options of the format.
    """

    format: str = "native"
    format_options: dict[str, Any] = {}


def chosen_format(options: FormatOptions) -> LineFormat:
    """Return the format that a sink's options choose, without keys and headers.

    Raises:
        ConfigError: no such format, or an option is wrong.
    """
    if options.format == "avro":
        raise ConfigError(
            "format: 'avro' needs topics and a schema registry, which only the sink kafka has"
        )
    if options.format == "arrow":
        raise ConfigError(
            "format: 'arrow' needs messages, which only the sinks kafka, nats and http have"
        )
    if options.format == "cloudevents" and options.format_options.get("mode") == "binary":
        raise ConfigError(
            "format_options: mode = 'binary' needs messages with headers, which only the sink kafka has"
        )
    return make_format(options.format, options.format_options)


def chosen_message_format(options: FormatOptions) -> MessageFormat:
    """Return the format that the options of a message sink choose, without keys and headers.

    Raises:
        ConfigError: no such format, or an option is wrong.
    """
    if options.format == "arrow":
        return make_message_format(options.format, options.format_options)
    return chosen_format(options)


def make_message_format(
    name: str, options: Mapping[str, object], keys: KeyChoice | None = None
) -> MessageFormat:
    """Build a format of messages by its name.

    Args:
        name: a name for :func:`make_format`, ``arrow``, or ``avro``: Debezium's format with schemas
            as attributes of messages.
        options: of that format.
        keys: of messages; None: they have none.

    Raises:
        ConfigError: no such format, a package that it needs is missing, or an option is wrong.
    """
    if name == "avro":
        from replica_client.sinks.formats.debezium import DebeziumFormat

        return DebeziumFormat.of(options, keys, apart=True)
    if name == "arrow":
        try:
            from replica_client.sinks.formats.arrow_streams import ArrowFormat
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"the format 'arrow' needs {error.name}: {install_command('arrow')}"
            ) from error
        return ArrowFormat.of(options)
    return make_format(name, options, keys)


def make_format(
    name: str, options: Mapping[str, object], keys: KeyChoice | None = None
) -> LineFormat:
    """Build a format of lines by its name.

    Args:
        name: ``native``, ``debezium``, ``flat``, ``maxwell``, ``canal`` or ``cloudevents``.
        options: of that format.
        keys: of messages; None: they have none.

    Raises:
        ConfigError: no such format, or an option is wrong.
    """
    # Import only the chosen format, to start quickly.
    if name == "native":
        from replica_client.sinks.formats.native import NativeFormat

        if options:
            raise ConfigError(f"format_options: the native format has none, not {sorted(options)}")
        return NativeFormat(keys)
    if name == "debezium":
        from replica_client.sinks.formats.debezium import DebeziumFormat

        return DebeziumFormat.of(options, keys)
    if name == "flat":
        from replica_client.sinks.formats.native import FlatFormat

        return FlatFormat.of(options, keys)
    if name == "maxwell":
        from replica_client.sinks.formats.maxwell import MaxwellFormat

        return MaxwellFormat.of(options, keys)
    if name == "canal":
        from replica_client.sinks.formats.canal import CanalFormat

        if options:
            raise ConfigError(f"format_options: the canal format has none, not {sorted(options)}")
        return CanalFormat(keys)
    if name == "cloudevents":
        from replica_client.sinks.formats.native import CloudEventsFormat

        return CloudEventsFormat.of(options, keys)
    raise ConfigError(
        f"format: {name!r} is not native, debezium, flat, maxwell, canal, cloudevents, arrow or avro"
    )


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
