"""What a JSON format is, and formats by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from replica_client.errors import ConfigError
from replica_client.readers.transaction import Transaction
from replica_client.sinks.formats.message import KeyChoice, Message
from replica_client.sinks.snapshot_sink import SnapshotRows


class LineFormat(Protocol):
    """Makes JSON texts of transactions, one line each.

    It is asked in order, parts of large transactions included, and from one thread at a time.
    """

    def lines(self, transaction: Transaction) -> Iterator[str]:
        """The lines of a transaction, or of a part of one, without line ends.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
        """
        ...

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """The same lines, each with its key and what else a broker wants to know.

        Raises:
            BinlogDecodeError: a row cannot be decoded.
        """
        ...

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        """Rows of a snapshot, with the marks of the format; it is asked between two transactions."""
        ...


class FormatOptions(Protocol):
    """The part of a sink's options that chooses the format.

    Attributes:
        format: its name.
        format_options: of it.
    """

    @property
    def format(self) -> str:
        """See the class."""
        ...

    @property
    def format_options(self) -> dict[str, Any]:
        """See the class."""
        ...


def chosen_format(options: FormatOptions) -> LineFormat:
    """The format that a sink's options choose, without keys and headers.

    Raises:
        ConfigError: no such format, or an option is wrong.
    """
    if options.format == "cloudevents" and options.format_options.get("mode") == "binary":
        raise ConfigError(
            "format_options: mode = 'binary' wants messages with headers: the sink kafka has them"
        )
    return make_format(options.format, options.format_options)


def make_format(
    name: str, options: Mapping[str, object], keys: KeyChoice | None = None
) -> LineFormat:
    """A format by its name.

    Args:
        name: ``native``, ``debezium``, ``maxwell``, ``canal`` or ``cloudevents``.
        options: of that format.
        keys: of messages; None: they have none.

    Raises:
        ConfigError: no such format, or an option is wrong.
    """
    # Only what is used is imported: a start is to be quick.
    if name == "native":
        from replica_client.sinks.formats.native import NativeFormat

        if options:
            raise ConfigError(f"format_options: the native format has none, not {sorted(options)}")
        return NativeFormat(keys)
    if name == "debezium":
        from replica_client.sinks.formats.debezium import DebeziumFormat

        return DebeziumFormat.of(options, keys)
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
    raise ConfigError(f"format: {name!r} is not native, debezium, maxwell, canal or cloudevents")
