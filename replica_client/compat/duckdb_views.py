"""Binlog tables in DuckDB; the extra ``duckdb``.

::

    from replica_client.compat.duckdb_views import query

    query("SELECT _change_type, count(*) FROM shop.orders GROUP BY 1", rc.scan_binlog("/backup/binlogs")).show()

The tables are views ``database.table``. Only the columns that a statement names are decoded.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from replica_client.archive.arrow_tables import BinlogTable
from replica_client.archive.as_of.table_state import TableState
from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.protocol.codec.printable import did_you_mean, printable
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.durable import TEMPORARY, publish_file

_ROWS = 10_000
_OWN_SCHEMAS: Final = ("information_schema", "pg_catalog")


class UnknownSqlTableError(ConfigError):
    """Raised for a table in a statement that has no rows in the files or source; the message has the nearest name."""


_ANYTHING = (exp.Command, exp.Columns, exp.Describe, exp.Summarize, exp.Pivot, exp.Copy)
"""Expressions that may use columns without naming them."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The tables and columns that a statement may use.

    Attributes:
        tables: database (None: not said) and name, in lower case; None: any.
        columns: names in lower case; None: any.
    """

    tables: frozenset[tuple[str | None, str]] | None
    columns: frozenset[str] | None

    @classmethod
    def of(cls, sql: str) -> Needed:
        """Return the tables and columns that some SQL may use; all, where it is not understood."""
        try:
            statements = [one for one in sqlglot.parse(sql, dialect="duckdb") if one is not None]
        except SqlglotError:
            return cls(None, None)
        nodes = [node for statement in statements for node in statement.walk()]
        if any(isinstance(node, exp.Command) for node in nodes):
            return cls(None, None)
        own = {node.alias_or_name.lower() for node in nodes if isinstance(node, exp.CTE)}
        found = [node for node in nodes if isinstance(node, exp.Table)]
        tables = frozenset(
            (one.db.lower() or None, one.name.lower())
            for one in found
            if one.name and (one.db or one.name.lower() not in own)
        )
        if any(map(_takes_all, nodes)) or any("SELECT" not in _words(one) for one in statements):
            return cls(tables, None)
        names = {node.name.lower() for node in nodes if isinstance(node, exp.Identifier)}
        # A table's name among the columns is all of its row.
        rows = {one.alias_or_name.lower() for one in found}
        parts = [node.parts[-1] for node in nodes if isinstance(node, exp.Column)]
        if any(part.name.lower() in rows for part in parts):
            return cls(tables, None)
        return cls(tables, frozenset(names))

    def unknown(self, tables: Iterable[BinlogTable]) -> tuple[str | None, str] | None:
        """Return a table that the statement names and that is none of these; None where each is known."""
        known = {(table.database.lower(), table.name.lower()) for table in tables}
        names = {name for _, name in known}
        for database, name in sorted(self.tables or (), key=str):
            if database in _OWN_SCHEMAS or name.startswith(("duckdb_", "pragma_", "pg_")):
                continue
            if (database, name) not in known if database else name not in names:
                return database, name
        return None

    def uses(self, table: BinlogTable) -> bool:
        """Return whether a table may be used."""
        if self.tables is None:
            return True
        name = table.name.lower()
        return (table.database.lower(), name) in self.tables or (None, name) in self.tables

    def columns_of(self, table: BinlogTable) -> list[str]:
        """Return the columns of a table that may be used; at least one."""
        names: list[str] = table.schema.names
        if self.columns is None:
            return names
        return [name for name in names if name.lower() in self.columns] or names[:1]


def _takes_all(node: exp.Expr) -> bool:
    """Return whether a node stands for columns that it does not name."""
    if isinstance(node, exp.Star):
        return not isinstance(node.parent, exp.Count)
    if isinstance(node, exp.Join) and node.args.get("method"):
        return True  # NATURAL
    return isinstance(node, _ANYTHING)


def _words(statement: exp.Expr) -> str:
    return "SELECT" if statement.find(exp.Select) is not None else ""


_OWN_NAME: Final = "SQL: DuckDB has a database {} of its own; read the table with `changes --table`"


def add_views(
    connection: duckdb.DuckDBPyConnection,
    tables: Mapping[str, BinlogTable],
    sql: str | None = None,
) -> None:
    """Make a view ``database.table`` of each table; each query reads the binlog again.

    Where all tables are of one database, they are also found without its name.

    Args:
        connection: where.
        tables: from :func:`~replica_client.scan_binlog`.
        sql: the coming query: tables and columns that it does not use are left out. None: nothing is.

    Raises:
        ConfigError: a database has a name that DuckDB has for its own.
        ReplicaClientError: the source cannot be read.
    """
    needed = Needed(None, None) if sql is None else Needed.of(sql)
    databases, made = set(), set()
    views: dict[tuple[str, str], BinlogTable] = {}
    for number, table in enumerate(tables.values()):
        databases.add(table.database)
        try:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(table.database)}")
            made.add(table.database)
        except duckdb.Error:
            if needed.uses(table):
                raise ConfigError(_OWN_NAME.format(printable(table.database))) from None
        if not needed.uses(table):
            continue
        other = views.setdefault((_lower_ascii(table.database), _lower_ascii(table.name)), table)
        if other is not table:
            raise ConfigError(
                f"SQL: {_shown(other)} and {_shown(table)} are one name to DuckDB, which ignores letter case; "
                "read them with `changes --table`"
            )
        columns = needed.columns_of(table)
        stream = f"replica_client_{number}"
        connection.register(stream, table.select(columns))
        name = f"{_quoted(table.database)}.{_quoted(table.name)}"
        try:
            connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {stream}")
        except duckdb.Error:
            raise ConfigError(_OWN_NAME.format(printable(table.database))) from None
    if len(databases) == 1 and made:
        path = f"{_quoted(databases.pop())},main".replace("'", "''")
        connection.execute(f"SET search_path = '{path}'")


def query(
    sql: str,
    tables: Mapping[str, BinlogTable],
    connection: duckdb.DuckDBPyConnection | None = None,
) -> duckdb.DuckDBPyRelation:
    """Return the result of a query over binlog tables.

    Args:
        sql: one SELECT of DuckDB's SQL.
        tables: from :func:`~replica_client.scan_binlog`.
        connection: where; None: a new one in memory.

    Raises:
        ConfigError: DuckDB does not take the statement, or it gives no rows.
        ReplicaClientError: the source cannot be read.
    """
    connection = connection or duckdb.connect()
    add_views(connection, tables, sql)
    try:
        try:
            found = connection.sql(sql)
        except duckdb.BinderException:
            # So that its message names what there is.
            add_views(connection, tables)
            found = connection.sql(sql)
    except duckdb.CatalogException as error:
        unknown = Needed.of(sql).unknown(tables.values())
        if unknown is None:
            raise ConfigError(_text(error)) from None
        name = ".".join(part for part in unknown if part)
        near = did_you_mean(name, (f"{one.database}.{one.name}" for one in tables.values()))
        raise UnknownSqlTableError(
            f"no table {printable(name)} has rows in what is read; {near or 'there are none'}"
        ) from None
    except duckdb.Error as error:
        raise ConfigError(_text(error)) from None
    if found is None:
        raise ConfigError("SQL: it must be a statement that returns rows, such as SELECT")
    return found


@contextmanager
def rows_of(
    sql: str, tables: Mapping[str, BinlogTable]
) -> Iterator[tuple[list[str], Iterator[pa.RecordBatch]]]:
    """Yield once: the names of the columns, and an iterator over the batches of a query's rows.

    Raises:
        ConfigError: DuckDB does not take the statement, or it returns no rows.
        ReplicaClientError: the source cannot be read.
    """
    with duckdb.connect() as connection:
        connection.execute("SET python_enable_replacements = false")
        found = query(sql, tables, connection)
        try:
            yield list(found.columns), iter(found.to_arrow_reader(_ROWS))
        except (duckdb.Error, pa.ArrowException) as error:
            failures = [table.failure for table in tables.values() if table.failure is not None]
            raise failures[0] if failures else ReplicaClientError(_text(error)) from None


def _text(error: Exception) -> str:
    """Another library's error in one line."""
    return "SQL: " + " ".join(str(error).split())


def _lower_ascii(name: str) -> str:
    """Return a name in DuckDB's form for comparison: ASCII letters in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def _shown(table: BinlogTable) -> str:
    return printable(f"{table.database}.{table.name}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def write_database(state: TableState, path: Path) -> int:
    """Make a database with the rows of a table as it was, in a table of its name.

    Args:
        state: the rows.
        path: of the database's file, where nothing is.

    Returns:
        how many rows there are.

    Raises:
        ConfigError: something is at the path.
        DataLossError: the rows to start from and the changes do not fit together; no file appears.
    """
    name = '"' + state.name.replace('"', '""') + '"'
    if path.exists():
        raise ConfigError(f"{path}: this file exists; name a new one, or remove it")
    # DuckDB opens a file by its name, so the file lies where no other user can put one.
    with tempfile.TemporaryDirectory(TEMPORARY, ".", path.parent) as directory:
        part = Path(directory, "database")
        with duckdb.connect(str(part)) as database:
            database.register("replica_client_rows", state.reader())
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM replica_client_rows")
            found = database.execute(f"SELECT count(*) FROM {name}").fetchone()
            database.unregister("replica_client_rows")
        publish_file(part, path)
    assert found is not None
    return int(found[0])
