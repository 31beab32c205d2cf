"""A mirror in a DuckDB file, and the sink that writes it.

The mirror's own tables are in the schema ``_replica_client``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

import duckdb

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel, TableModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.duckdb_rows import (
    DuckdbFile,
    DuckdbRows,
    duckdb_type,
    quoted,
    shown,
)
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.stored_names import duckdb_names
from replica_client.sinks.mirror.stored_values import (
    DuckdbOptions,
    read_duckdb_options,
    settings,
    storable_encoder,
)
from replica_client.sinks.mirror.table_mirror_sink import FileMirrorSink
from replica_client.storage.durable import DATA_MODE, open_locked
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import StandbyError
from replica_client.stream.tables.net_changes import TableName

_OWN: Final = "_replica_client"
_RESERVED: Final = ("information_schema", "pg_catalog")


class DuckdbDatabase(DuckdbRows):
    """A mirror's DuckDB file.

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
        return bool(
            self._one(
                "SELECT count(*) FROM information_schema.tables WHERE table_name = '_replica_client_state' AND "
                "table_catalog = current_database()"
            )
        )

    @property
    def in_transaction(self) -> bool:
        return self._begun

    def begin(self) -> None:
        self._file.connection.execute("BEGIN")
        self._begun = True

    def commit(self) -> None:
        self._file.connection.execute("COMMIT")
        self._begun = False
        if self._release:
            self.close()

    def rollback(self) -> None:
        self._begun = False
        self._file.connection.execute("ROLLBACK")

    def close(self) -> None:
        self._begun = False
        self._file.close()

    def put(self, table: str, columns: Sequence[str], values: Sequence[str]) -> None:
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
        return f"{self.schema(name[0])}.{quoted(self.names.name(name))}"

    def definition(self, model: TableModel, table: str) -> str:
        if table != self.rebuilt:
            self.change(f"CREATE SCHEMA IF NOT EXISTS {self.schema(model.database)}")
        key = {name for name, _ in model.primary_key}
        columns = [
            f"{quoted(column.name)} {duckdb_type(column)}{' NOT NULL' * (column.name in key)}"
            for column in model.columns
        ]
        return f"CREATE TABLE {table} ({', '.join(columns)})"

    def rename(self, old: TableName, new: TableModel) -> None:
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
        return False

    def shown(self, column: ColumnModel) -> str:
        return shown(column, quoted(column.name))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


# The file, the disk, memory; a database that an error made unusable is right again when it is
# opened again.
_MAY_PASS: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException)
# Only the source's tables: a copy would not restore the mirror's own tables.
_NO_SUCH_TABLE: Final = re.compile(
    "Table with name (?!.*_replica_client).* does not exist", re.DOTALL
)
_NO_FILE: Final = "not a valid DuckDB"
_MAGIC: Final = slice(8, 12), b"DUCK"


def make(table: Mapping[str, object]) -> DuckdbSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return DuckdbSink(read_duckdb_options(table))


class DuckdbSink(FileMirrorSink):
    """The sink ``duckdb``; see the module.

    Args:
        options: what the user chose.
    """

    refused = duckdb.Error

    def __init__(self, options: DuckdbOptions) -> None:
        super().__init__(options, "duckdb")
        self._options = options
        self._lock = -1

    def _open(self) -> Checkpoint | None:
        # The file cannot have heartbeats: it is closed between commits, and has one writer.
        with self._errors():
            self._take_lock()
        try:
            checkpoint = super()._open()
            if self._options.release and self._store is not None:
                self._store.close()  # others may read while no change comes
        except BaseException:
            self._release_lock()
            raise
        return checkpoint

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            self._release_lock()

    def _take_lock(self) -> None:
        if self._claim is None or self._lock >= 0:
            return
        owner = self._claim.owner
        names = "\n".join((owner.service, owner.source, owner.sink)).encode()
        lock = f".{self._path.name}.{hashlib.sha256(names).hexdigest()[:12]}.lock"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = open_locked(self._path.with_name(lock))
        except BlockingIOError:
            raise StandbyError(
                f"{self._path}: another process of {owner} writes there; this one waits until it ends"
            ) from None

    def _release_lock(self) -> None:
        descriptor, self._lock = self._lock, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _look(self) -> None:
        # Opening the file with DuckDB would block a process that writes it.
        with self._path.open("rb") as file:
            if file.read(16)[_MAGIC[0]] != _MAGIC[1]:
                raise SinkError(f"{self._path}: it is not a DuckDB file")

    def _connect(self) -> duckdb.DuckDBPyConnection:
        new = not self._path.exists()
        if new:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect(
            str(self._path.absolute()),
            config=settings(self._options),
        )
        if new:
            os.chmod(self._path, DATA_MODE)
        return connection

    def _database(self) -> MirrorDatabase:
        file = DuckdbFile(self._connect, self._where, self._options.wait)
        return DuckdbDatabase(file, self._where, release=self._options.release)

    def _plain_encoder(self, column: ColumnModel) -> ValueEncoder:
        nulls = self._options.unstorable_values == "null"
        return storable_encoder(
            column, "DuckDB", self._where, nulls=nulls, zero_character=True, replaced=self._replaced
        )

    def _lacks_table(self, error: Exception) -> bool:
        return isinstance(error, duckdb.CatalogException) and bool(
            re.search(_NO_SUCH_TABLE, str(error))
        )

    def _sink_error(self, error: Exception) -> SinkError:
        # The lines after the first contain the statement.
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
        passing = isinstance(error, _MAY_PASS) and _NO_FILE not in text
        return SinkError(f"{self._path}: {text}", retriable=passing)
