"""A sink that mirrors tables in ClickHouse: exactly once, by row versions and a position."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.clickhouse_client import (
    UNKNOWN_TABLE,
    ClickhouseClient,
    ClickhouseError,
    where_of,
)
from replica_client.sinks.mirror.clickhouse_options import (
    ClickhouseOptions,
    read_clickhouse_options,
)
from replica_client.sinks.mirror.clickhouse_store import (
    OWN_DATABASE,
    ClickhouseDatabase,
    query_prefix,
)
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.mirror.unstorable_values import storable_encoder

# Not enough privileges, authentication failed, read-only.
_OF_ALL: Final = frozenset((497, 516, 164))


def make(table: Mapping[str, object]) -> ClickhouseSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return ClickhouseSink(read_clickhouse_options(table))


class ClickhouseSink(TableMirrorSink):
    """The sink ``clickhouse``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: ClickhouseOptions) -> None:
        self._options = options
        self._years = (1900, 2299)
        super().__init__(
            where_of(options),
            strict=options.missing_rows == "error",
            create=options.unknown_tables == "create",
        )

    async def probe(self) -> None:
        """See :class:`~replica_client.sinks.protocol.ProbedSink`."""
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        with self._errors():
            client = ClickhouseClient(self._options, "replica_client probe ")
            try:
                client.execute("SELECT 1")
            finally:
                client.close()

    def _database(self) -> MirrorDatabase:
        session = secrets.token_hex(8)
        own = self._options.database_prefix + OWN_DATABASE
        client = ClickhouseClient(self._options, query_prefix(own, session))
        database = ClickhouseDatabase(client, self._where, self._options.database_prefix, session)
        try:
            self._years = database.years()
        except BaseException:
            client.close()
            raise
        return database

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder:
        return storable_encoder(
            column,
            "ClickHouse",
            self._where,
            nulls=self._options.unstorable_values == "null",
            zero_character=True,
            replaced=self._replaced,
            years=self._years,
        )

    def _lacks_table(self, error: Exception) -> bool:
        return (
            isinstance(error, ClickhouseError)
            and error.code == UNKNOWN_TABLE
            and OWN_DATABASE not in str(error)
        )

    def _concerns_all(self, error: BaseException | None) -> bool:
        return isinstance(error, ClickhouseError) and error.code in _OF_ALL

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ClickhouseError as error:
            raise SinkError(f"{self._where}: {error}", retriable=error.passing) from error
