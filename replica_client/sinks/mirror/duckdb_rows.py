"""Rows of a mirror in DuckDB, given as Arrow tables and merged by joins.

DuckDB lets only one process write a file, and no other process can open the file meanwhile.

DuckDB is a hundred times slower with a statement for each row. Tables have no index and no PRIMARY
KEY, which would double the time per row and grow with the table: this module keeps keys unique
instead.
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
from replica_client.sinks.mirror.duckdb_types import arrow_rows, staged_type
from replica_client.sinks.mirror.mirror_database import KeyTwiceError, MirrorDatabase
from replica_client.stream.tables.net_changes import Values

_LOCKED: Final = "Could not set lock on file"
_STEP: Final = 0.02


class DuckdbFile:
    """A DuckDB file whose connection is opened on demand.

    Args:
        connect: opens the file.
        where: the file, for messages.
        wait: seconds to wait until another process closes the file.
    """

    def __init__(
        self, connect: Callable[[], duckdb.DuckDBPyConnection], where: str, wait: float
    ) -> None:
        self._connect, self._where, self._wait = connect, where, wait
        self._open: duckdb.DuckDBPyConnection | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The open connection; opened if needed.

        Raises:
            SinkError: another process still has the file open.
        """
        deadline = time.monotonic() + self._wait
        while self._open is None:
            try:
                self._open = self._connect()
            except duckdb.IOException as error:
                if _LOCKED not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise SinkError(
                        f"{self._where}: another process has had the file open for {self._wait:g} s; it must close "
                        "it before changes can be written",
                        retriable=True,
                    ) from error
                time.sleep(_STEP)
        return self._open

    def close(self) -> None:
        """Close the connection. Uncommitted changes are lost."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.close()


_STAGED: Final = "_replica_client_staged"
_INSERTED: Final = 50_000
_FETCHED: Final = 100_000
_NUMBER: Final = ColumnModel("number", "bigint")


class DuckdbRows(MirrorDatabase):
    """The rows part of a DuckDB mirror; subclasses add names and definitions.

    Args:
        file: the file that holds the mirror.
    """

    conflict = KeyTwiceError

    def __init__(self, file: DuckdbFile) -> None:
        self._file = file

    def quoted(self, name: str) -> str:
        return quoted(name)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Values]:
        yield from self._file.connection.execute(sql, list(values)).fetchall()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        found = self._file.connection.execute(sql, list(values)).fetchone()
        return int(found[0]) if found else 0

    def _one(self, sql: str) -> Any:
        return next(self.rows(sql))[0]

    def stored_rows(self, table: str, shown: Sequence[str]) -> Iterator[Values]:
        """Yield a table's rows in pieces; see the base.

        Another statement would end a query that is not read to its end.
        """
        query = f"SELECT {', '.join(shown)} FROM {table}"
        described = self._file.connection.execute(f"SELECT * FROM {table} LIMIT 0").description
        if "rowid" in [found[0].lower() for found in described or ()]:
            yield from self.rows(query)  # a column hides the number of a row
            return
        # Row numbers of uncommitted rows start far above those of committed ones.
        last = -1
        while some := list(
            self.rows(
                f"SELECT {', '.join(shown)}, rowid FROM {table} WHERE rowid > {last} "
                f"ORDER BY rowid LIMIT {_FETCHED}"
            )
        ):
            last = some[-1][-1]
            yield from (row[:-1] for row in some)

    def insert(self, table: str, model: TableModel, rows: Iterable[Values]) -> None:
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
                self.change(f"INSERT INTO {table} ({_names(columns)}) FROM {staged} s")

    def _insert(self, model: TableModel, rows: Collection[Values]) -> None:
        if rows:
            with self._staged(model.columns, rows) as staged:
                names = _names(model.columns)
                self.change(f"INSERT INTO {self._of(model)} ({names}) FROM {staged} s")

    def remove(self, model: TableModel, key: Sequence[int], keys: Collection[Values]) -> int:
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
        self._remove(model, model.columns, key, rows)
        self._insert(model, rows)

    def patch(
        self,
        model: TableModel,
        key: Sequence[int],
        patched: Sequence[int],
        rows: Sequence[tuple[Values, Values]],
    ) -> int:
        # The last patch of a row includes the changes of the patches before it.
        last = {before: values for values, before in rows}
        columns = [model.columns[at] for at in (*patched, *key)]
        sets = ", ".join(f"{quoted(columns[at].name)} = s.c{at}" for at in range(len(patched)))
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
        """Check that the new keys of changed rows are unique."""
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
        """Remove rows; see the base.

        All equal rows are deleted, and the remaining ones are inserted again.
        """
        columns, table = model.columns, self._of(model)
        same = " AND ".join(
            f"t.{quoted(column.name)} IS NOT DISTINCT FROM s.c{at}"
            for at, column in enumerate(columns)
        )
        wanted = [(*row, number) for number, (row, _) in enumerate(counts)]
        with self._staged((*columns, _NUMBER), wanted) as staged:
            number = f"s.c{len(columns)}"
            found: dict[int, int] = dict(
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
        """Yield rows as a subquery for a statement, with the columns ``c0``, ``c1`` and so on."""
        connection = self._file.connection
        connection.register(_STAGED, arrow_rows(columns, rows))
        try:
            kinds = [staged_type(column) for column in columns]
            names = [
                f"CAST(c{at} AS {kind}) AS c{at}" if kind else f"c{at}"
                for at, kind in enumerate(kinds)
            ]
            yield f"(SELECT {', '.join(names)} FROM {_STAGED})"
        finally:
            # After a failed transaction the view is gone already.
            with contextlib.suppress(duckdb.Error):
                connection.unregister(_STAGED)


def _names(columns: Sequence[ColumnModel]) -> str:
    return ", ".join(quoted(column.name) for column in columns)


def _same_key(columns: Sequence[ColumnModel], key: Sequence[int]) -> str:
    return " AND ".join(f"t.{quoted(columns[at].name)} = s.c{at}" for at in key)


def quoted(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'
