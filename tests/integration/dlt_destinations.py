"""Where dlt loads to: a DuckDB file, or a PostgreSQL of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tests.integration.postgres_server import PostgresServer
from tests.integration.table_copies import Rows


class Target(Protocol):
    """A destination.

    Attributes:
        kind: dlt's name of it.
        address: its file or URL.
    """

    kind: str
    address: str

    def read(self, sql: str) -> Rows:
        """What a query gives, in UTC."""

    def close(self) -> None:
        """End it."""


class DuckdbTarget:
    """A DuckDB file.

    Args:
        directory: where it is made.
    """

    kind = "duckdb"

    def __init__(self, directory: Path) -> None:
        self.address = str(directory / "target.duckdb")

    def read(self, sql: str) -> Rows:
        """What a query gives, in UTC."""
        import duckdb

        with duckdb.connect(self.address) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            return list(connection.execute(sql).fetchall())

    def close(self) -> None:
        """Nothing runs."""


class PostgresTarget:
    """A PostgreSQL server.

    Args:
        directory: for its files; short, as the path of a socket has no more than 107 bytes.
    """

    kind = "postgres"

    def __init__(self, directory: Path) -> None:
        self._server = PostgresServer(directory)
        self.address = self._server.url

    def read(self, sql: str) -> Rows:
        """What a query gives, in UTC."""
        import psycopg2

        connection = psycopg2.connect(self.address)
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET TIME ZONE 'UTC'")
                cursor.execute(sql)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def close(self) -> None:
        """End the server."""
        self._server.stop()
