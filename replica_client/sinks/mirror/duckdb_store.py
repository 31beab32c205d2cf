"""A mirror in a DuckDB file: a schema for each source database, a table for each of its tables.

The mirror's own tables are in the schema ``_replica_client``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.duckdb_file import DuckdbFile
from replica_client.sinks.mirror.duckdb_rows import DuckdbRows, quoted
from replica_client.sinks.mirror.duckdb_types import duckdb_type, shown
from replica_client.sinks.mirror.stored_names import duckdb_names
from replica_client.tables.table_copy import TableName

_OWN: Final = "_replica_client"
_RESERVED: Final = ("information_schema", "pg_catalog")


class DuckdbDatabase(DuckdbRows):
    """See :class:`~replica_client.sinks.mirror.mirror_database.MirrorDatabase`.

    Args:
        file: the file that holds the mirror.
        where: the file, for messages.
        release: whether the file is closed after each commit.
    """

    leases = False

    def __init__(self, file: DuckdbFile, where: str, *, release: bool) -> None:
        self.where = where
        self.names = duckdb_names()
        super().__init__(file)
        self._release = release
        self._begun = False
        self._catalog = quoted(self._one("SELECT current_database()"))
        own = f"{self._catalog}.{quoted(_OWN)}"
        self.state_table = f"{own}._replica_client_state"
        self.tables_table = f"{own}._replica_client_tables"
        self.copies_table = f"{own}._replica_client_copies"
        self.rebuilt = f"{own}._replica_client_rebuilt"

    def prepare(self) -> None:
        """See the base."""
        self.begin()
        self.change(f"CREATE SCHEMA IF NOT EXISTS {self._catalog}.{quoted(_OWN)}")
        documents = "database VARCHAR NOT NULL, name VARCHAR NOT NULL"
        for table, columns in (
            (self.state_table, "name VARCHAR NOT NULL, value VARCHAR NOT NULL"),
            (self.tables_table, f"{documents}, definition VARCHAR NOT NULL"),
            (self.copies_table, f"{documents}, copy VARCHAR NOT NULL"),
        ):
            self.change(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
        self.commit()

    @property
    def is_made(self) -> bool:
        """See the base."""
        return bool(
            self._one(
                "SELECT count(*) FROM information_schema.tables WHERE table_name = '_replica_client_state' AND "
                "table_catalog = current_database()"
            )
        )

    @property
    def in_transaction(self) -> bool:
        """See the base."""
        return self._begun

    def begin(self) -> None:
        """See the base."""
        self._file.connection.execute("BEGIN")
        self._begun = True

    def commit(self) -> None:
        """See the base."""
        self._file.connection.execute("COMMIT")
        self._begun = False
        if self._release:
            self.close()

    def rollback(self) -> None:
        """See the base."""
        self._begun = False
        self._file.connection.execute("ROLLBACK")

    def close(self) -> None:
        """See the base."""
        self._begun = False
        self._file.close()

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
        """See the base."""
        where = " AND ".join(f"{name} = ?" for name in columns[:-1])
        self.change(f"DELETE FROM {table} WHERE {where}", values[:-1])
        self.change(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    # Names and definitions.

    def schema(self, database: str) -> str:
        """Return the schema for a database of the source, as SQL."""
        return f"{self._catalog}.{quoted(self._stored_schema(database))}"

    def _stored_schema(self, database: str) -> str:
        name = database
        if name.lower() in _RESERVED or name.lower().startswith(_OWN):
            name = f"%{ord(name[0]):02X}{name[1:]}"
        return name

    def table(self, name: TableName) -> str:
        """See the base."""
        return f"{self.schema(name[0])}.{quoted(self.names.name(name))}"

    def definition(self, model: TableModel, table: str) -> str:
        """See the base."""
        if table != self.rebuilt:
            self.change(f"CREATE SCHEMA IF NOT EXISTS {self.schema(model.database)}")
        key = {name for name, _ in model.primary_key}
        columns = [
            f"{quoted(column.name)} {duckdb_type(column)}{' NOT NULL' * (column.name in key)}"
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
        # In two steps, as names that differ only in case are equal.
        moved = '"_replica_client_moved"'
        self.change(f"ALTER TABLE {table} RENAME TO {moved}")
        name = quoted(self.names.name((new.database, new.name)))
        self.change(f"ALTER TABLE {self.schema(new.database)}.{moved} RENAME TO {name}")

    def replace(self, rebuilt: str, new: TableModel) -> None:
        """Copy the rebuilt table; see the base. DuckDB cannot move a table to another schema."""
        table = self.table((new.database, new.name))
        self.change(self.definition(new, table))
        names = ", ".join(quoted(column.name) for column in new.columns)
        self.change(f"INSERT INTO {table} ({names}) SELECT {names} FROM {rebuilt}")
        self.change(f"DROP TABLE {rebuilt}")

    def objects(self, model: TableModel) -> list[str]:
        """Return SQL for columns, indexes and comments; see the base.

        Views refer to the table by name only, and stay.
        """
        name = (model.database, model.name)
        where = "schema_name = ? AND table_name = ? AND database_name = current_database()"
        values = (self._stored_schema(name[0]), self.names.name(name))
        found = self.rows(
            f"SELECT sql FROM duckdb_indexes() WHERE {where} ORDER BY index_name", values
        )
        statements = [str(text) for (text,) in found if text]
        known = {one.lower() for one in model.column_names}
        for column, kind, default in list(
            self.rows(
                f"SELECT column_name, data_type, column_default FROM duckdb_columns() WHERE {where}",
                values,
            )
        ):
            if str(column).lower() not in known:
                statements.insert(0, self.extra_column(model, str(column), str(kind), default))
        table = self.table(name)
        for (text,) in self.rows(f"SELECT comment FROM duckdb_tables() WHERE {where}", values):
            if text is not None:
                statements.append(f"COMMENT ON TABLE {table} IS {_text(text)}")
        for column, text in self.rows(
            f"SELECT column_name, comment FROM duckdb_columns() WHERE {where}", values
        ):
            if text is not None:
                statements.append(f"COMMENT ON COLUMN {table}.{quoted(column)} IS {_text(text)}")
        return statements

    def attempt(self, statement: str) -> str:
        """Run a statement and return its error; see the base.

        Only errors of names, such as a missing column, leave the transaction usable.
        """
        try:
            self._file.connection.execute(statement)
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            return str(error).splitlines()[0]
        return ""

    def has(self, stored: str) -> bool:
        """See the base."""
        return False

    def shown(self, column: ColumnModel) -> str:
        """See the base."""
        return shown(column, quoted(column.name))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
