"""A mirror in PostgreSQL: a schema for each database of the source, a table for each of its tables.

The mirror's own tables are in the schema ``_replica_client``. Names of more than 63 bytes, which
PostgreSQL would cut, are shortened and get a digest; a column with such a name is refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import psycopg
from psycopg import sql

from replica_client.errors import SinkError
from replica_client.schema.kinds import REALS
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.mirror_database import Alteration, StatementDatabase
from replica_client.sinks.mirror.postgres_objects import (
    PostgresObjects,
    SavedView,
    cast_type,
    postgres_type,
    shown,
)
from replica_client.sinks.mirror.stored_names import StoredNames
from replica_client.storage.durable import file_name, shortened
from replica_client.stream.tables.net_changes import TableName, Values

_MAX_NAME: Final = 63
_OWN: Final = "_replica_client"
_FETCHED: Final = 5_000
_JOINED: Final = 16
"""Number of different keyless rows from which one join is cheaper than one search per row."""
_MOVED: Final = "_replica_client_moved_"
_SYSTEM_COLUMNS: Final = frozenset(("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"))
_LOG = logging.getLogger("replica_client.sinks")
_SCHEMA: Final = (
    f"CREATE SCHEMA IF NOT EXISTS {_OWN}",
    f"CREATE TABLE IF NOT EXISTS {_OWN}.state (name text PRIMARY KEY, value text NOT NULL)",
    *(
        f"CREATE TABLE IF NOT EXISTS {_OWN}.{name} (database text NOT NULL, name text NOT NULL, "
        f"{column} text NOT NULL, PRIMARY KEY (database, name))"
        for name, column in (("tables", "definition"), ("copies", "copy"))
    ),
)


@dataclass(frozen=True)
class _Renamed:
    """The users' objects that a renamed table had under its old name."""

    views: list[SavedView]
    statements: list[str]
    indexes: list[tuple[str, str]]


def postgres_names() -> StoredNames:
    """Return the chooser of table names within a schema."""
    return StoredNames(
        lambda table: _fitting(table[1]), lambda table, name: f"{table[0]}\0{name}", _MAX_NAME
    )


class PostgresDatabase(StatementDatabase):
    """A mirror's PostgreSQL server.

    Args:
        connect: opens the connection, with ``autocommit``.
        where: the server, without credentials.
        prefix: prefix of schema names.
    """

    state_table = f"{_OWN}.state"
    tables_table = f"{_OWN}.tables"
    copies_table = f"{_OWN}.copies"
    rebuilt = f"{_OWN}.rebuilt"
    mark = "%s"
    alters = True
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
        self._objects = PostgresObjects(self._connection)
        # Users' objects of tables that were renamed in this transaction, by old name.
        self._renamed: dict[str, _Renamed] = {}

    def prepare(self) -> None:
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
        found = self._connection.execute("SELECT to_regclass(%s)", (self.state_table,)).fetchone()
        return found is not None and found[0] is not None

    @property
    def session(self) -> str:
        return str(self._connection.info.backend_pid)

    def end_session(self, session: str) -> None:
        # Session numbers are reused: only a session of ours is ended.
        self._connection.execute(
            "SELECT pg_terminate_backend(pid, 2000) FROM pg_stat_activity WHERE pid = %s AND "
            "application_name = 'replica_client' AND usename = current_user AND datname = current_database()",
            (int(session),),
        )

    def abort(self) -> None:
        with contextlib.suppress(OSError, psycopg.Error):
            with socket.socket(fileno=os.dup(self._connection.fileno())) as found:
                found.shutdown(socket.SHUT_RDWR)

    def lock_owners(self) -> None:
        self._connection.execute("SELECT pg_advisory_xact_lock(hashtext('replica_client'))")

    @property
    def in_transaction(self) -> bool:
        idle = psycopg.pq.TransactionStatus.IDLE
        return bool(self._connection.info.transaction_status != idle)

    def begin(self) -> None:
        self._connection.execute("BEGIN")

    def commit(self) -> None:
        self._renamed.clear()
        self._connection.execute("COMMIT")

    def rollback(self) -> None:
        self._renamed.clear()
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        cursor = self._connection.execute(sql, tuple(values))
        while some := cursor.fetchmany(_FETCHED):
            yield from some

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        return int(self._connection.execute(sql, tuple(values)).rowcount)

    def change_many(self, sql: str, rows: Iterable[Sequence[Any]]) -> int:
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            return int(cursor.rowcount)

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        found = iter(rows)
        first = list(islice(found, 1))
        if not first:
            return
        # Without values, a % needs no escape.
        names = ", ".join(_quoted(column.name) for column in model.columns)
        statement = f"COPY {table} ({names}) FROM STDIN".replace("%%", "%")
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for some in (first, found):
                for row in some:
                    copy.write_row(row)

    def schema(self, database: str) -> str:
        """Return the schema for a database of the source."""
        name = _fitting(self._prefix + database)
        return name if len(name) <= _MAX_NAME else shortened(name, _MAX_NAME, name)

    def table(self, name: TableName) -> str:
        return f"{_quoted(self.schema(name[0]))}.{_quoted(self.names.name(name))}"

    def quoted(self, name: str) -> str:
        return _quoted(name)

    def _make_schema(self, name: str) -> None:
        """Create a schema that is not there, one sink of all in the database at a time.

        PostgreSQL's IF NOT EXISTS fails if another session creates the same schema meanwhile.
        """
        query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if not list(self.rows(query, (name,))):
            self.change("SELECT pg_advisory_xact_lock(hashtext('replica_client schemas'))")
            self.change(f"CREATE SCHEMA IF NOT EXISTS {_quoted(name)}")

    def definition(self, model: TableModel, table: str) -> str:
        _check_names(model)
        if table != self.rebuilt:
            self._make_schema(self.schema(model.database))
        columns = [f"{_quoted(column.name)} {postgres_type(column)}" for column in model.columns]
        key = [_quoted(name) for name, _ in model.primary_key]
        if key:
            # An index keeps its name when its table is renamed: the name must not collide with
            # others.
            name = f"key_{secrets.token_hex(8)}"
            columns.append(f"CONSTRAINT {name} PRIMARY KEY ({', '.join(key)})")
        return f"CREATE TABLE {table} ({', '.join(columns)})"

    def rename(self, old: TableName, new: TableModel) -> None:
        """Rename a table.

        Views that read the table that had the new name before read this one afterwards.
        """
        schema, table = _quoted(self.schema(old[0])), _quoted(self.names.name(old))
        plain = _plain(f"{schema}.{table}")
        oid = self._objects.oid(plain)
        if oid is not None:
            self._renamed[plain] = _Renamed(
                self._objects.views_of(oid),
                self._objects.table_statements(oid),
                self._objects.indexes(oid),
            )
        self.names.forget(old)
        self._move(schema, table, (new.database, new.name))
        left = self._renamed.pop(_plain(self.table((new.database, new.name))), None)
        if left is not None:
            # A rename swap: readers expect the table by its name.
            for name, _ in left.indexes:
                self.change(f"DROP INDEX {name.replace('%', '%%')}")
            self._objects.point_views(left.views)
            made = [statement for _, statement in left.indexes]
            for refused in self._objects.run_each([*left.statements, *made]):
                _LOG.warning(
                    "%s: not moved to the table that has the name now: %s", self.where, refused
                )

    def replace(self, rebuilt: str, new: TableModel) -> None:
        schema, _, table = rebuilt.partition(".")
        self._move(schema, table, (new.database, new.name))

    def renew(self, old: TableModel, new: TableModel) -> None:
        """Empty a table and change its definition in place."""
        _check_names(new)
        if (old.database, old.name) != (new.database, new.name):
            self.rename((old.database, old.name), new)
        table = self.table((new.database, new.name))
        oid = self._objects.oid(_plain(table))
        if oid is None:
            self.create(new)
            return
        self.change(f"TRUNCATE {table}")
        self._reshape(
            table,
            old,
            new,
            {column.name.lower(): column for column in old.columns},
            lambda column: f"NULL::{cast_type(column)}",
        )

    def alter(self, alteration: Alteration) -> bool:
        """Alter a table by PostgreSQL's own ALTER TABLE; see the base."""
        before, after = alteration.before, alteration.after
        _check_names(after)
        if (before.database, before.name) != (after.database, after.name):
            self.rename((before.database, before.name), after)
        table = self.table((after.database, after.name))
        for name, values in alteration.replaced.items():
            column = _quoted(name)
            self.change_many(
                f"UPDATE {table} SET {column} = %s WHERE {column} = %s",
                [(made, value) for value, made in values.items()],
            )
        old = {
            source.column.name.lower(): source.old
            for source in alteration.sources
            if source.old is not None
        }
        self._reshape(
            table,
            before,
            after,
            old,
            lambda column: f"{_quoted(column.name)}::{cast_type(column)}",
            dict(zip(after.column_names, alteration.constants, strict=True)),
        )
        return True

    def _reshape(
        self,
        table: str,
        before: TableModel,
        after: TableModel,
        old: Mapping[str, ColumnModel],
        using: Callable[[ColumnModel], str],
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        """Alter a table; drop and create again the views that block a change of type.

        Args:
            table: the table as SQL.
            before: its definition.
            after: its new definition.
            old: old columns by the new name in lower case.
            using: returns SQL for the value of a column whose type changes.
            constants: values of new columns, by name.
        """
        key, new_key = ([name for name, _ in one.primary_key] for one in (before, after))
        was = {name: old[name.lower()].name for name in after.column_names if name.lower() in old}
        key_changes = [was.get(name) for name in new_key] != key
        if key and key_changes:
            self._drop_key(table, before)
        kept = set(was.values())
        for column in before.columns:
            if column.name not in kept:
                self._change_column(table, f"DROP COLUMN {_quoted(column.name)}")
        # Two columns may swap their names.
        moved = [(name, new) for new, name in was.items() if name != new]
        for at, (name, _) in enumerate(moved):
            self.change(f"ALTER TABLE {table} RENAME COLUMN {_quoted(name)} TO {_MOVED}{at}")
        for at, (_, new) in enumerate(moved):
            self.change(f"ALTER TABLE {table} RENAME COLUMN {_MOVED}{at} TO {_quoted(new)}")
        for column in after.columns:
            known = old.get(column.name.lower())
            if known is None:
                value = None if constants is None else constants[column.name]
                self._add_column(table, column, value)
            elif postgres_type(known) != postgres_type(column):
                clause = f"TYPE {postgres_type(column)} USING {using(column)}"
                self._change_column(table, f"ALTER COLUMN {_quoted(column.name)} {clause}")
        if new_key and key_changes:
            names = ", ".join(map(_quoted, new_key))
            constraint = f"CONSTRAINT key_{secrets.token_hex(8)} PRIMARY KEY ({names})"
            self.change(f"ALTER TABLE {table} ADD {constraint}")

    def _drop_key(self, table: str, model: TableModel) -> None:
        """Drop the primary key and the NOT NULL that it leaves on its columns."""
        found = self.rows(
            "SELECT conname FROM pg_constraint WHERE contype = 'p' AND conrelid = to_regclass(%s)",
            (_plain(table),),
        )
        for (name,) in list(found):
            self.change(f"ALTER TABLE {table} DROP CONSTRAINT {_quoted(name)}")
        for name, _ in model.primary_key:
            self.change(f"ALTER TABLE {table} ALTER COLUMN {_quoted(name)} DROP NOT NULL")

    def _add_column(self, table: str, column: ColumnModel, value: Any) -> None:
        name, clause = _quoted(column.name), ""
        if value is not None:
            # A constant default writes no row.
            literal = sql.Literal(value).as_string(self._connection).replace("%", "%%")
            clause = f" DEFAULT CAST({literal} AS {cast_type(column)})"
        self.change(f"ALTER TABLE {table} ADD COLUMN {name} {postgres_type(column)}{clause}")
        if clause:
            self.change(f"ALTER TABLE {table} ALTER COLUMN {name} DROP DEFAULT")

    def _change_column(self, table: str, clause: str) -> None:
        """Alter a column; drop and create again the views that block the change."""
        statement = _plain(f"ALTER TABLE {table} {clause}")
        try:
            self._objects.attempt(statement)
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.DependentObjectsStillExist):
            oid = self._objects.oid(_plain(table))
            views = [] if oid is None else self._objects.views_of(oid)
            if not views:
                raise
            self._objects.drop_views(views)
            self._objects.attempt(statement)
            self._objects.make_views(views)

    def _move(self, schema: str, table: str, new: TableName) -> None:
        """Give a table a name and schema, by way of a name that no other table has."""
        target, moved = _quoted(self.schema(new[0])), '"_replica_client_moved"'
        self._make_schema(self.schema(new[0]))
        self.change(f"ALTER TABLE {schema}.{table} RENAME TO {moved}")
        if schema != target:
            self.change(f"ALTER TABLE {schema}.{moved} SET SCHEMA {target}")
        self.change(f"ALTER TABLE {target}.{moved} RENAME TO {_quoted(self.names.name(new))}")

    def has(self, stored: str) -> bool:
        return False

    def value(self, column: ColumnModel) -> str:
        return f"CAST(%s AS {cast_type(column)})"

    def shown(self, column: ColumnModel) -> str:
        return shown(column, _quoted(column.name))

    def same(self, column: ColumnModel) -> str:
        name = _quoted(column.name)
        if cast_type(column) == "json":
            return f"{name}::text IS NOT DISTINCT FROM CAST(%s AS text)"
        if column.kind in REALS:
            # As text, -0.0 differs from 0.0.
            return f"{name}::text IS NOT DISTINCT FROM {self.value(column)}::text"
        return f"{name} IS NOT DISTINCT FROM {self.value(column)}"

    def replaced(self, model: TableModel, key: Sequence[int]) -> str:
        names = [_quoted(column.name) for column in model.columns]
        values = ", ".join(self.value(column) for column in model.columns)
        keys = ", ".join(names[at] for at in key)
        sets = ", ".join(f"{name} = excluded.{name}" for name in names)
        table = self.table((model.database, model.name))
        return (
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values}) "
            f"ON CONFLICT ({keys}) DO UPDATE SET {sets}"
        )

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """Remove keyless rows; see the base.

        Many rows are found by one join on a digest, as there is no index on all columns.
        """
        if len(counts) < _JOINED:
            return super().take_away(model, counts)
        table, staged = self.table((model.database, model.name)), "pg_temp._replica_client_fewer"
        types = ", ".join(f"c{at} {postgres_type(one)}" for at, one in enumerate(model.columns))
        self.change(f"DROP TABLE IF EXISTS {staged}")
        self.change(
            f"CREATE TEMPORARY TABLE _replica_client_fewer ({types}, n bigint) ON COMMIT DROP"
        )
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {staged} FROM STDIN") as copy:
            for row, count in counts:
                copy.write_row((*row, count))
        self.change(f"ANALYZE {staged}")
        mine = ", ".join(f"t.{_quoted(column.name)}" for column in model.columns)
        theirs = ", ".join(f"c{at}" for at in range(len(model.columns)))
        wanted = f"SELECT md5(ROW({theirs})::text) AS d, sum(n) AS n FROM {staged} GROUP BY 1"
        found = (
            "SELECT t.ctid AS c, s.n, row_number() OVER (PARTITION BY s.d) AS k "
            f"FROM {table} t JOIN ({wanted}) s ON md5(ROW({mine})::text) = s.d"
        )
        return self.change(
            f"DELETE FROM {table} t USING ({found}) f WHERE t.ctid = f.c AND f.k <= f.n"
        )

    def row_number(self, model: TableModel) -> str | None:
        return "ctid"


def _check_names(model: TableModel) -> None:
    """Check that PostgreSQL accepts the names of all columns.

    Raises:
        SinkError: a name is not accepted; the message names the column.
    """
    table = f"{model.database}.{model.name}"
    for column in model.columns:
        if len(column.name.encode()) > _MAX_NAME:
            raise SinkError(
                f"{table}: PostgreSQL cuts the name of column {column.name}, which has more than 63 bytes; rename it "
                "in the transforms of the sink, or exclude the table"
            )
        if column.name in _SYSTEM_COLUMNS:
            raise SinkError(
                f"{table}: column {column.name} has the name of a system column of PostgreSQL; rename it in the "
                "transforms of the sink, or exclude the table"
            )


def _plain(statement: str) -> str:
    """Return SQL for a call without values, in which a % is not doubled."""
    return statement.replace("%%", "%")


def _quoted(name: str) -> str:
    # A % would be a placeholder.
    return str(sql.Identifier(name).as_string(None)).replace("%", "%%")


def _fitting(name: str) -> str:
    return name if len(name.encode()) <= _MAX_NAME else file_name(name)
