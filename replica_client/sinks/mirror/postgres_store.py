"""A mirror in PostgreSQL: a schema for each database of the source, a table for each of its tables.

The mirror's own tables are in the schema ``_replica_client``. Names of more than 63 bytes, which PostgreSQL would cut,
are shortened to one with a digest; a column with such a name is refused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import psycopg
from psycopg import sql

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.postgres_types import (
    cast_type,
    postgres_type,
    shown,
)
from replica_client.sinks.mirror.statement_database import StatementDatabase
from replica_client.sinks.mirror.stored_names import StoredNames
from replica_client.storage.file_names import file_name, shortened
from replica_client.tables.net_changes import Values
from replica_client.tables.table_copy import TableName

_MAX_NAME: Final = 63
_OWN: Final = "_replica_client"
_FETCHED: Final = 5_000
_SCHEMA: Final = (
    f"CREATE SCHEMA IF NOT EXISTS {_OWN}",
    f"CREATE TABLE IF NOT EXISTS {_OWN}.state (name text PRIMARY KEY, value text NOT NULL)",
    *(
        f"CREATE TABLE IF NOT EXISTS {_OWN}.{name} (database text NOT NULL, name text NOT NULL, "
        f"{column} text NOT NULL, PRIMARY KEY (database, name))"
        for name, column in (("tables", "definition"), ("copies", "copy"))
    ),
)


def postgres_names() -> StoredNames:
    """Names of tables within their schema."""
    return StoredNames(
        lambda table: _fitting(table[1]), lambda table, name: f"{table[0]}\0{name}", _MAX_NAME
    )


class PostgresDatabase(StatementDatabase):
    """See :class:`~replica_client.sinks.mirror.statement_database.StatementDatabase`.

    Args:
        connect: opens the connection, with ``autocommit``.
        where: the server, without credentials.
        prefix: of the names of schemas.
    """

    state_table = f"{_OWN}.state"
    tables_table = f"{_OWN}.tables"
    copies_table = f"{_OWN}.copies"
    rebuilt = f"{_OWN}.rebuilt"
    mark = "%s"
    conflict = psycopg.errors.UniqueViolation
    locking = " FOR UPDATE"

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[Any]],
        where: str,
        prefix: str = "",
    ) -> None:
        self.where = where
        self.names = postgres_names()
        self._prefix = prefix
        self._connection = connect()

    def prepare(self) -> None:
        """See the base."""
        found = self._connection.execute("SHOW server_encoding").fetchone()
        if found is None or found[0] != "UTF8":
            raise SinkError(f"{self.where}: the encoding of the database must be UTF8")
        self.begin()
        self.lock_owners()
        for statement in _SCHEMA:
            self._connection.execute(statement)
        self.commit()

    @property
    def is_made(self) -> bool:
        """See the base."""
        found = self._connection.execute("SELECT to_regclass(%s)", (self.state_table,)).fetchone()
        return found is not None and found[0] is not None

    @property
    def session(self) -> str:
        """See the base."""
        return str(self._connection.info.backend_pid)

    def end_session(self, session: str) -> None:
        """See the base."""
        # A number is given again: only a session of ours is ended.
        self._connection.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE pid = %s AND "
            "application_name = 'replica_client' AND usename = current_user AND datname = current_database()",
            (int(session),),
        )

    def abort(self) -> None:
        """See the base."""
        with contextlib.suppress(OSError, psycopg.Error):
            with socket.socket(fileno=os.dup(self._connection.fileno())) as found:
                found.shutdown(socket.SHUT_RDWR)

    def lock_owners(self) -> None:
        """See the base."""
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('replica_client'))")

    @property
    def in_transaction(self) -> bool:
        """See the base."""
        idle = psycopg.pq.TransactionStatus.IDLE
        return bool(self._connection.info.transaction_status != idle)

    def begin(self) -> None:
        """See the base."""
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        """See the base."""
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        """See the base."""
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """See the base."""
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """See the base."""
        cursor = self._connection.execute(sql, tuple(values))
        while some := cursor.fetchmany(_FETCHED):
            yield from some

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """See the base."""
        return int(self._connection.execute(sql, tuple(values)).rowcount)

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        """See the base."""
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            return int(cursor.rowcount)

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """See the base."""
        found = iter(rows)
        first = list(islice(found, 1))
        if not first:
            return
        # Without values a % stands for itself.
        statement = f"COPY {table} FROM STDIN".replace("%%", "%")
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for some in (first, found):
                for row in some:
                    copy.write_row(row)

    def schema(self, database: str) -> str:
        """The schema of a database of the source."""
        name = _fitting(self._prefix + database)
        return name if len(name) <= _MAX_NAME else shortened(name, _MAX_NAME, name)

    def table(self, name: TableName) -> str:
        """See the base."""
        return f"{_quoted(self.schema(name[0]))}.{_quoted(self.names.name(name))}"

    def quoted(self, name: str) -> str:
        """See the base."""
        return _quoted(name)

    def definition(self, model: TableModel, table: str) -> str:
        """See the base."""
        for column in model.columns:
            if len(column.name.encode()) > _MAX_NAME:
                raise SinkError(
                    f"{model.database}.{model.name}: PostgreSQL cuts the name of column {column.name}, which has more "
                    "than 63 bytes; leave the table out"
                )
        if table != self.rebuilt:
            schema = _quoted(self.schema(model.database))
            self.change(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        columns = [f"{_quoted(column.name)} {postgres_type(column)}" for column in model.columns]
        key = [_quoted(name) for name, _ in model.primary_key]
        if key:
            # An index keeps its name when its table gets another one: it must be in the way of none.
            name = f"key_{secrets.token_hex(8)}"
            columns.append(f"CONSTRAINT {name} PRIMARY KEY ({', '.join(key)})")
        return f"CREATE TABLE {table} ({', '.join(columns)})"

    def rename(self, old: TableName, new: TableModel) -> None:
        """See the base."""
        schema, table = _quoted(self.schema(old[0])), _quoted(self.names.name(old))
        self.names.forget(old)
        self._move(schema, table, (new.database, new.name))

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """See the base."""
        schema, _, table = rebuilt.partition(".")
        self._move(schema, table, (new.database, new.name))

    def _move(self, schema: str, table: str, new: TableName) -> None:
        """Give a table a name and schema; by way of a name that no other table has."""
        target, moved = _quoted(self.schema(new[0])), '"_replica_client_moved"'
        self.change(f"CREATE SCHEMA IF NOT EXISTS {target}")
        self.change(f"ALTER TABLE {schema}.{table} RENAME TO {moved}")
        if schema != target:
            self.change(f"ALTER TABLE {schema}.{moved} SET SCHEMA {target}")
        self.change(f"ALTER TABLE {target}.{moved} RENAME TO {_quoted(self.names.name(new))}")

    def has(self, stored: str) -> bool:
        """See the base."""
        return False

    def value(self, column: ColumnModel) -> str:
        """See the base."""
        return f"CAST(%s AS {cast_type(column)})"

    def shown(self, column: ColumnModel) -> str:
        """See the base."""
        return shown(column, _quoted(column.name))

    def same(self, column: ColumnModel) -> str:
        """See the base."""
        name = _quoted(column.name)
        if cast_type(column) == "json":
            return f"{name}::text IS NOT DISTINCT FROM CAST(%s AS text)"
        return f"{name} IS NOT DISTINCT FROM {self.value(column)}"

    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        """See the base."""
        names = [_quoted(column.name) for column in model.columns]
        values = ", ".join(self.value(column) for column in model.columns)
        keys = ", ".join(names[at] for at in key)
        sets = ", ".join(f"{name} = excluded.{name}" for name in names)
        table = self.table((model.database, model.name))
        return f"INSERT INTO {table} VALUES ({values}) ON CONFLICT ({keys}) DO UPDATE SET {sets}"

    def row_number(self, model: TableModel) -> str | None:
        """See the base."""
        return "ctid"


def _quoted(name: str) -> str:
    # A % would be a placeholder.
    return str(sql.Identifier(name).as_string(None)).replace("%", "%%")


def _fitting(name: str) -> str:
    return name if len(name.encode()) <= _MAX_NAME else file_name(name)
