"""A mirror in a DuckDB file: a schema for each database of the source, a table for each of its tables.

The mirror's own tables are in the schema ``_replica_client``. Rows come as Arrow tables and are merged by joins: DuckDB
is a hundred times slower with a statement for each row. Tables have no index and no PRIMARY KEY, which would double
the time that rows take and grow with the table: that a key is there once is seen to by the statements here.

DuckDB lets one process have a file open for writing, and no other one have it open at all meanwhile. So that others can
read, the file is closed after each commit where that is wanted, and opened again for the next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

import duckdb

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.duckdb_types import arrow_rows, duckdb_type, shown, staged_type
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.stored_names import duckdb_names
from replica_client.tables.net_changes import Values
from replica_client.tables.table_copy import TableName

_OWN: Final = "_replica_client"
_RESERVED: Final = ("information_schema", "pg_catalog")
_STAGED: Final = "_replica_client_staged"
_INSERTED: Final = 50_000
_FETCHED: Final = 100_000
_LOCKED: Final = "Could not set lock on file"
_WAIT_STEP: Final = 0.02


class KeyTwiceError(Exception):
    """A row is added whose key is there."""


class DuckdbDatabase(MirrorDatabase):
    """See :class:`~replica_client.sinks.mirror.mirror_database.MirrorDatabase`.

    Args:
        connect: opens the file.
        where: the file, for messages.
        release: the file is closed after each commit.
        wait: seconds in which a process that reads the file must close it.
    """

    conflict = KeyTwiceError

    def __init__(
        self,
        connect: Callable[[], duckdb.DuckDBPyConnection],
        where: str,
        *,
        release: bool,
        wait: float,
    ) -> None:
        self.where = where
        self.names = duckdb_names()
        self._connect, self._release, self._wait = connect, release, wait
        self._open: duckdb.DuckDBPyConnection | None = None
        self._begun = False
        self._catalog = _quoted(self._one("SELECT current_database()"))
        own = f"{self._catalog}.{_quoted(_OWN)}"
        self.state_table = f"{own}._replica_client_state"
        self.tables_table = f"{own}._replica_client_tables"
        self.copies_table = f"{own}._replica_client_copies"
        self.rebuilt = f"{own}._replica_client_rebuilt"

    def prepare(self) -> None:
        """See the base."""
        self.begin()
        self.change(f"CREATE SCHEMA IF NOT EXISTS {self._catalog}.{_quoted(_OWN)}")
        documents = "database VARCHAR NOT NULL, name VARCHAR NOT NULL"
        for table, columns in (
            (self.state_table, "name VARCHAR NOT NULL, value VARCHAR NOT NULL"),
            (self.tables_table, f"{documents}, definition VARCHAR NOT NULL"),
            (self.copies_table, f"{documents}, copy VARCHAR NOT NULL"),
        ):
            self.change(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        self.commit()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        deadline = time.monotonic() + self._wait
        while self._open is None:
            try:
                self._open = self._connect()
            except duckdb.IOException as error:
                if _LOCKED not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise SinkError(
                        f"{self.where}: another process has had the file open for {self._wait:g} s; it must close it "
                        "before changes can be written",
                        retriable=True,
                    ) from error
                time.sleep(_WAIT_STEP)
        return self._open

    @property
    def in_transaction(self) -> bool:
        """See the base."""
        return self._begun

    def begin(self) -> None:
        """See the base."""
        self._connection.execute("BEGIN")
        self._begun = True

    def commit(self) -> None:
        """See the base."""
        self._connection.execute("COMMIT")
        self._begun = False
        if self._release:
            self.close()

    def rollback(self) -> None:
        """See the base."""
        self._begun = False
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """See the base."""
        connection, self._open, self._begun = self._open, None, False
        if connection is not None:
            connection.close()

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        """See the base."""
        yield from self._connection.execute(sql, list(values)).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """See the base."""
        found = self._connection.execute(sql, list(values)).fetchone()
        return int(found[0]) if found else 0

    def _one(self, sql: str) -> Any:
        return next(self.rows(sql))[0]

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """See the base."""
        where = " AND ".join(f"{name} = ?" for name in columns[:-1])
        self.change(f"DELETE FROM {table} WHERE {where}", values[:-1])
        self.change(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    # Names and definitions.

    def schema(self, database: str) -> str:
        """The schema of a database of the source, as SQL."""
        name = database
        if name.lower() in _RESERVED or name.lower().startswith(_OWN):
            name = f"%{ord(name[0]):02X}{name[1:]}"
        return f"{self._catalog}.{_quoted(name)}"

    def table(self, name: TableName) -> str:
        """See the base."""
        return f"{self.schema(name[0])}.{_quoted(self.names.name(name))}"

    def quoted(self, name: str) -> str:
        """See the base."""
        return _quoted(name)

    def definition(self, model: TableModel, table: str) -> str:
        """See the base."""
        if table != self.rebuilt:
            self.change(f"CREATE SCHEMA IF NOT EXISTS {self.schema(model.database)}")
        key = {name for name, _ in model.primary_key}
        columns = [
            f"{_quoted(column.name)} {duckdb_type(column)}{' NOT NULL' * (column.name in key)}"
            for column in model.columns
        ]
        return f"CREATE TABLE {table} ({', '.join(columns)})"

    def rename(self, old: TableName, new: TableModel) -> None:
        """See the base."""
        table = self.table(old)
        self.names.forget(old)
        if self.schema(old[0]).lower() != self.schema(new.database).lower():
            self.replace(table, new)
            return
        # In two steps: names that differ in case only are one.
        moved = '"_replica_client_moved"'
        self.change(f"ALTER TABLE {table} RENAME TO {moved}")
        name = _quoted(self.names.name((new.database, new.name)))
        self.change(f"ALTER TABLE {self.schema(new.database)}.{moved} RENAME TO {name}")

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """See the base; DuckDB moves no table into another schema."""
        table = self.table((new.database, new.name))
        self.change(self.definition(new, table))
        self.change(f"INSERT INTO {table} SELECT * FROM {rebuilt}")
        self.change(f"DROP TABLE {rebuilt}")

    def has(self, stored: str) -> bool:
        """See the base."""
        return False

    def shown(self, column: ColumnModel) -> str:
        """See the base."""
        return shown(column, _quoted(column.name))

    # Rows.

    def stored_rows(self, table: str, shown: Sequence[str]) -> Iterator[Values]:
        """See the base: by pieces, as another statement ends a query that is not read to its end."""
        query = f"SELECT {', '.join(shown)} FROM {table}"
        described = self._connection.execute(f"SELECT * FROM {table} LIMIT 0").description
        if "rowid" in [found[0].lower() for found in described or ()]:
            yield from self.rows(query)  # a column hides the number of a row
            return
        last = self._one(f"SELECT max(rowid) FROM {table}")
        for first in range(0, 0 if last is None else last + 1, _FETCHED):
            yield from self.rows(f"{query} WHERE rowid >= {first} AND rowid < {first + _FETCHED}")

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
        """See the base."""
        names, columns = model.column_names, model.columns
        key = [names.index(name) for name, _ in model.primary_key]
        distinct = f"count(DISTINCT row({', '.join(f's.c{at}' for at in key)}))"
        found = iter(rows)
        while some := list(islice(found, _INSERTED)):
            with self._staged(columns, some) as staged:
                if key and self._one(
                    f"SELECT EXISTS (FROM {table} t SEMI JOIN {staged} s ON {_same_key(columns, key)}) "
                    f"OR (SELECT count(*) > {distinct} FROM {staged} s)"
                ):
                    raise KeyTwiceError
                self.change(f"INSERT INTO {table} FROM {staged} s")

    def _insert(self, model: TableModel, rows: Collection[Values]) -> None:
        if rows:
            with self._staged(model.columns, rows) as staged:
                self.change(f"INSERT INTO {self._of(model)} FROM {staged} s")

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
        """See the base."""
        columns = [model.columns[at] for at in key]
        return self._remove(model, columns, range(len(key)), keys)

    def _remove(
        self,
        model: TableModel,
        columns: Sequence[ColumnModel],
        key: Sequence[int],
        rows: Collection[Values],
    ) -> int:
        with self._staged(columns, rows) as staged:
            same = _same_key(columns, key)
            return self.change(f"DELETE FROM {self._of(model)} t USING {staged} s WHERE {same}")

    def put_rows(self, model: TableModel, key: Sequence[int], rows: Collection[Values]) -> None:
        """See the base."""
        self._remove(model, model.columns, key, rows)
        self._insert(model, rows)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        """See the base."""
        # The last one of a row has all that those before it changed.
        last = {before: values for values, before in rows}
        columns = [model.columns[at] for at in (*patched, *key)]
        sets = ", ".join(f"{_quoted(columns[at].name)} = s.c{at}" for at in range(len(patched)))
        where = _same_key(columns, range(len(patched), len(columns)))
        with self._staged(
            columns, [(*values, *before) for before, values in last.items()]
        ) as staged:
            done = self.change(
                f"UPDATE {self._of(model)} t SET {sets} FROM {staged} s WHERE {where}"
            )
        if set(key) & set(patched):
            self._check_keys(model, key, patched, last)
        return done + len(rows) - len(last)

    def _check_keys(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        changed: Mapping[Values, Values],
    ) -> None:
        """Look whether rows whose keys were changed have keys that are there once."""
        new = {
            tuple(
                values[patched.index(at)] if at in patched else old
                for at, old in zip(key, before, strict=True)
            )
            for before, values in changed.items()
        }
        columns = [model.columns[at] for at in key]
        with self._staged(columns, new) as staged:
            same = _same_key(columns, range(len(key)))
            found = self._one(
                f"SELECT count(*) FROM {self._of(model)} t SEMI JOIN {staged} s ON {same}"
            )
        if found > len(new):
            raise KeyTwiceError

    def take_away(self, model: TableModel, counts: Collection[tuple[Values, int]]) -> int:
        """See the base: all rows that are equal go, and those that stay are put back."""
        columns, table = model.columns, self._of(model)
        same = " AND ".join(
            f"t.{_quoted(column.name)} IS NOT DISTINCT FROM s.c{at}"
            for at, column in enumerate(columns)
        )
        wanted = [(*row, number) for number, (row, _) in enumerate(counts)]
        with self._staged((*columns, _NUMBER), wanted) as staged:
            number = f"s.c{len(columns)}"
            found = dict(
                self.rows(
                    f"SELECT {number}, count(*) FROM {table} t JOIN {staged} s ON {same} GROUP BY 1"
                )
            )
            self.change(f"DELETE FROM {table} t USING {staged} s WHERE {same}")
        done, kept = 0, []
        for at, (row, count) in enumerate(counts):
            there = found.get(at, 0)
            done += min(there, count)
            kept += [row] * (there - count)
        self._insert(model, kept)
        return done

    def _of(self, model: TableModel) -> str:
        return self.table((model.database, model.name))

    @contextmanager
    def _staged(
        self, columns: Sequence[ColumnModel], rows: Collection[Sequence[Any]]
    ) -> Iterator[str]:
        """Rows as something that can be read in a statement, whose columns are c0, c1 and so on."""
        connection = self._connection
        connection.register(_STAGED, arrow_rows(columns, rows))
        try:
            kinds = [staged_type(column) for column in columns]
            names = [
                f"CAST(c{at} AS {kind}) AS c{at}" if kind else f"c{at}"
                for at, kind in enumerate(kinds)
            ]
            yield f"(SELECT {', '.join(names)} FROM {_STAGED})"
        finally:
            # Of a transaction that failed the view is gone.
            with contextlib.suppress(duckdb.Error):
                connection.unregister(_STAGED)


_NUMBER: Final = ColumnModel("number", "bigint")


def _same_key(columns: Sequence[ColumnModel], key: Sequence[int]) -> str:
    return " AND ".join(f"t.{_quoted(columns[at].name)} = s.c{at}" for at in key)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
