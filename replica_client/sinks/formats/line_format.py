"""Interfaces of formats, and formats by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from replica_client.errors import ConfigError, install_command
from replica_client.sinks.formats.message import KeyChoice, Message
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


class FormatOptions(Protocol):
    """The options of a sink that choose its format.

    Attributes:
        format: name of the format.
        format_options: options of the format.
    """

    @property
    def format(self) -> str: ...

    @property
    def format_options(self) -> dict[str, Any]: ...


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
        from replica_client.sinks.formats.flat import FlatFormat

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
        from replica_client.sinks.formats.cloud_events import CloudEventsFormat

        return CloudEventsFormat.of(options, keys)
    raise ConfigError(
        f"format: {name!r} is not native, debezium, flat, maxwell, canal, cloudevents, arrow or avro"
    )
