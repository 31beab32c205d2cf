"""A sink that mirrors tables on MySQL or MariaDB: exactly once, rows and position together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from replica_client.errors import ConfigError, ServerError, SinkError, TransportError
from replica_client.protocol.wire.server_errors import TRANSIENT_ERRORS
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.mysql_database import MysqlDatabase
from replica_client.sinks.mirror.mysql_rows import mysql_encoder
from replica_client.sinks.mirror.stored_values import MirrorOptions
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.protocol import SERVER_IDENTITY
from replica_client.sinks.registry import Period, read_options
from replica_client.stream.transport.connect_options import parse_url

_NO_SUCH_TABLE = 1146
_OF_ALL = frozenset((1044, 1045, 1142, 1143, 1227, 1290, 1792, 1836))
"""Missing rights and read-only servers: these errors hit every table."""
# Lock wait, deadlock, full disk or table, read-only, shutdown, too many connections.
_MAY_PASS = frozenset((1205, 1213, 1021, 1114, 3675, 1290, 1836, 1053, 1040, 1203, 1135, 1037))


class MysqlOptions(MirrorOptions, frozen=True, kw_only=True):
    """Options of the sink ``mysql``.

    Attributes:
        url: URL of the mirror's server: ``mysql://user:password@host:3306/`` or ``mariadb://…``.
        database_prefix: prefix of the mirror's databases, put before the source's database names.
        state_database: database in which the mirror keeps its position.
        statement_timeout: time limit of a statement in seconds, such as an ALTER of a large table.
    """

    url: str
    database_prefix: str = ""
    state_database: str = "replica_client"
    statement_timeout: Period = 3600.0


def make(table: Mapping[str, object]) -> MysqlSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(MysqlOptions, table, "sink mysql")
    try:
        parse_url(options.url)
    except ConfigError as error:
        raise ConfigError(f"sink mysql: url: {error}") from error
    return MysqlSink(options)


class MysqlSink(TableMirrorSink):
    """The sink ``mysql``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: MysqlOptions) -> None:
        self._options = options
        self._connect = replace(parse_url(options.url), read_timeout=options.statement_timeout)
        super().__init__(
            self._connect.address,
            options,
        )

    async def probe(self) -> None:
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        with self._errors():
            self._database().close()

    async def server_identity(self) -> list[tuple[Any, ...]]:
        return await self._worker.run(self._identity)

    def _identity(self) -> list[tuple[Any, ...]]:
        with self._errors(), closing(self._database()) as database:
            return list(database.rows(SERVER_IDENTITY))

    def _database(self) -> MirrorDatabase:
        options = self._options
        return MysqlDatabase(
            self._connect, prefix=options.database_prefix, state=options.state_database
        )

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder | None:
        return mysql_encoder(column)

    def _lacks_table(self, error: Exception) -> bool:
        # Somebody dropped the table. Or a kill fell between the renames of one statement, and a
        # copy then removed the comment that says how many were done, as DDL ends transactions.
        return isinstance(error, ServerError) and error.errno == _NO_SUCH_TABLE

    def _refuses(self, error: Exception) -> bool:
        # The source's sql_mode may have converted values that the mirror's refuses.
        return isinstance(error, ServerError) and not _may_pass(error)

    def _concerns_all(self, error: BaseException | None) -> bool:
        return isinstance(error, ServerError) and error.errno in _OF_ALL

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except TransportError as error:
            raise SinkError(f"mirror on {self._where}: {error}", retriable=True) from error
        except ServerError as error:
            raise SinkError(
                f"mirror on {self._where}: {error}", retriable=_may_pass(error)
            ) from error


def _may_pass(error: ServerError) -> bool:
    """Return whether the same statement may succeed later."""
    return error.errno in _MAY_PASS or error.errno in TRANSIENT_ERRORS
