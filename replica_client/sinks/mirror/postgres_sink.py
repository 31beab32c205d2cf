"""A sink that mirrors tables in PostgreSQL: exactly once, rows and position together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import psycopg
from msgspec import Meta

from replica_client.errors import ConfigError, SinkError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.postgres_store import PostgresDatabase
from replica_client.sinks.mirror.stored_values import MirrorOptions, storable_encoder
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.registry import read_options

# Classes of SQLSTATE: connections, resources, operator intervention, deadlocks, locks, the system.
_MAY_PASS = ("08", "53", "57", "40", "55", "58")


class PostgresOptions(MirrorOptions, frozen=True, kw_only=True):
    """Options of the sink ``postgres``.

    Attributes:
        url: URL ``postgresql://user@host:5432/database``, with libpq's parameters
            (``?sslmode=verify-full``).
        password: password, instead of one in the URL; may be ``file:…``.
        schema_prefix: prefix of the mirror's schemas, put before the source's database names.
        unstorable_values: reaction to a value that PostgreSQL cannot store, such as a zero date,
            February 31st, or text with a character U+0000: ``error`` stops; ``null`` stores NULL.
        lock_timeout: seconds that a statement waits for a lock, such as an ALTER for readers of its
            table; then it is retried later.
        timeout: time limit of connecting, in seconds.
    """

    url: str
    password: str = ""
    schema_prefix: str = ""
    unstorable_values: Literal["error", "null"] = "error"
    lock_timeout: Annotated[float, Meta(ge=0.001)] = 10.0
    timeout: Annotated[float, Meta(ge=1)] = 30.0

    def __repr__(self) -> str:
        return "<PostgreSQL>"  # nothing that may hold a password


def make(table: Mapping[str, object]) -> PostgresSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(PostgresOptions, table, "sink postgres")
    if urlsplit(options.url).scheme not in ("postgresql", "postgres"):
        raise ConfigError("sink postgres: url must be postgresql://user@host/database")
    return PostgresSink(options)


class PostgresSink(TableMirrorSink):
    """The sink ``postgres``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: PostgresOptions) -> None:
        self._options = options
        parts = urlsplit(options.url)
        super().__init__(
            f"PostgreSQL at {parts.hostname or 'the local socket'}:{parts.port or 5432}{parts.path}",
            options,
        )

    async def probe(self) -> None:
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        with self._errors():
            self._connect().close()

    def _connect(self) -> psycopg.Connection[Any]:
        password: dict[str, Any] = {}
        if self._options.password:
            password["password"] = self._options.password
        return psycopg.connect(
            self._options.url,
            autocommit=True,
            connect_timeout=int(self._options.timeout),
            application_name="replica_client",
            # The meaning of statements depends on these settings.
            options="-c client_encoding=UTF8 -c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC "
            f"-c standard_conforming_strings=on -c lock_timeout={int(self._options.lock_timeout * 1000)}",
            **password,
        )

    def _database(self) -> MirrorDatabase:
        return PostgresDatabase(self._connect, self._where, self._options.schema_prefix)

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder:
        return storable_encoder(
            column,
            "PostgreSQL",
            self._where,
            nulls=self._options.unstorable_values == "null",
            zero_character=False,
            replaced=self._replaced,
        )

    def _lacks_table(self, error: Exception) -> bool:
        return isinstance(error, psycopg.errors.UndefinedTable) and "_replica_client" not in str(
            error
        )

    def _concerns_all(self, error: BaseException | None) -> bool:
        state = error.sqlstate or "" if isinstance(error, psycopg.Error) else ""
        return state == "42501" or state.startswith(("28", "XX", "25"))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate or ""
            passing = isinstance(error, psycopg.OperationalError) and (
                not state or state.startswith(_MAY_PASS)
            )
            text = " ".join(str(error).split())[:500]
            raise SinkError(f"{self._where}: {text}", retriable=passing) from error
