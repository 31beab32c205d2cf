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
import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.schema.kinds import Rules, rules
from replica_client.schema.model import ColumnModel, TableModel, column_type
from replica_client.sinks.mirror.mirror_database import KeyTwiceError, MirrorDatabase
from replica_client.stream.tables.net_changes import Values

# Columns of a mirror in DuckDB; their types are in :data:`~replica_client.schema.kinds.TARGETS`.
#
# A DECIMAL of more than 38 digits is VARCHAR. TIMESTAMP is in UTC.
# DuckDB stores no zero dates and no invalid dates: such a value is an error, or NULL if the options
# say so.


_MAX_DIGITS: Final = 38


def duckdb_type(column: ColumnModel) -> str:
    """Return the type of a column."""
    if column.kind == "decimal" and (column.length or 0) > _MAX_DIGITS:
        return "VARCHAR"
    return column_type("duckdb", column)


def shown(column: ColumnModel, name: str) -> str:
    """Return an expression that selects a column's values in the mirrors' form."""
    if duckdb_type(column) == "UBIGINT":
        return _text(column, name)
    return _SHOWN[column.kind](column, name)


def _text(_: ColumnModel, name: str) -> str:
    return f"CAST({name} AS VARCHAR)"


def _moment(column: ColumnModel, name: str) -> str:
    return _cut(f"strftime({name}, '%Y-%m-%d %H:%M:%S.%f')", column.fraction_digits)


def _time(column: ColumnModel, name: str) -> str:
    size = f"abs(epoch_us({name}))"
    sign = f"CASE WHEN epoch_us({name}) < 0 THEN '-' ELSE '' END"
    parts = (f"{size} // 3600000000", f"{size} // 60000000 % 60", f"{size} // 1000000 % 60")
    text = f"printf('%02d:%02d:%02d.%06d', {', '.join(parts)}, {size} % 1000000)"
    return f"({sign} || {_cut(text, column.fraction_digits)})"


def _cut(text: str, digits: int) -> str:
    """Return an expression that cuts a text with six fraction digits to fewer digits."""
    return text if digits >= 6 else f"left({text}, {digits - 6 - (not digits)})"


_SHOWN: Final[Rules[Callable[[ColumnModel, str], str]]] = rules(
    "the DuckDB mirror's values",
    {
        "integer year double string enum set bytes spatial address": lambda _, name: name,
        # The shortest number that is the same FLOAT, as rows have it.
        "float": lambda _, name: f"CAST(CAST({name} AS VARCHAR) AS DOUBLE)",
        "bit decimal date json vector": _text,
        "datetime timestamp": _moment,
        "time": _time,
    },
)


def staged_type(column: ColumnModel) -> str:
    """Return the type to which staged values of a column are cast; ``""`` if none is needed."""
    kind = duckdb_type(column)
    return "" if kind in ("VARCHAR", "BLOB", "DOUBLE") else kind


_STAGED_TYPES: Final = rules(
    "the DuckDB mirror's staging",
    {
        "integer year bit": pa.int64(),
        "real": pa.float64(),
        "bytes spatial": pa.large_binary(),
        "decimal date time datetime timestamp string enum set json vector address": pa.large_string(),
    },
)


def arrow_rows(columns: Sequence[ColumnModel], rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table with the columns ``c0``, ``c1`` and so on.

    Raises:
        SinkError: a value does not fit its column.
    """
    values: Iterable[Sequence[Any]] = zip(*rows, strict=True)
    arrays = [_array(column, some) for column, some in zip(columns, values, strict=True)]
    return pa.table(arrays, [f"c{at}" for at in range(len(arrays))])


def _array(column: ColumnModel, values: Sequence[Any]) -> pa.Array:
    kind = column.kind
    try:
        if duckdb_type(column) == "UBIGINT":
            # Values from 9223372036854775808 on arrive as text.
            numbers = [None if value is None else int(value) for value in values]
            return pa.array(numbers, pa.uint64())
        return pa.array(values, _STAGED_TYPES[kind])
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        # The text of the error may contain values.
        raise SinkError(
            f"column {column.name}: a value is no {kind.upper()} ({type(error).__name__})"
        ) from None


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
