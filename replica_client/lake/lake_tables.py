"""The tables of a lake by their names, for readers."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from replica_client.errors import ConfigError
from replica_client.lake.delta_files import delta_rows, open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.names import casefold_table
from replica_client.storage.location import Location, ObjectUrl, location


class CurrentTable:
    """A table of a lake, as the catalog had it when the lake was opened.

    Attributes:
        database: of the source.
        name: of the table there.
        where: its Delta table is.
    """

    def __init__(self, database: str, name: str, where: Location) -> None:
        self.database = database
        self.name = name
        self.where = where

    def __repr__(self) -> str:
        return f"CurrentTable({self.database!r}, {self.name!r}, {self.uri!r})"

    @property
    def uri(self) -> str:
        """Path or URL of the Delta table, for DuckDB, Polars and Spark."""
        return str(self.where)

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the store that the lake was opened with, for readers that take them."""
        return dict(self.where.options) if isinstance(self.where, ObjectUrl) else {}

    def delta(self) -> DeltaTable:
        """The newest version of the table.

        Raises:
            SinkError: it cannot be read.
        """
        return open_delta(self.where)

    def dataset(self) -> ds.Dataset:
        """The rows, to be filtered or read; those of a table in a store are in memory.

        Raises:
            SinkError: it cannot be read.
        """
        return delta_rows(self.delta(), self.where)

    def arrow(self) -> pa.Table:
        """The rows."""
        return self.dataset().to_table()


class Lake:
    """The tables of a lake, as its catalog has them now.

    Args:
        catalog: of the lake.
    """

    def __init__(self, catalog: LakeCatalog) -> None:
        self._catalog = catalog

    def tables(self) -> list[str]:
        """Names of the tables that are current, as ``database.name``."""
        return [".".join(name) for name in self.names()]

    def names(self) -> list[TableName]:
        """The same as pairs of database and name."""
        entries = self._catalog.tables.values()
        return [entry.table for entry in entries if entry.status == "current"]

    def table(self, name: str | TableName) -> CurrentTable:
        """A table that is current.

        Args:
            name: ``database.name``, or the two.

        Raises:
            ConfigError: the lake does not have it, or not current; says why.
        """
        entry = self._entry(name)
        if entry.status != "current":
            why = f" ({entry.reason})" if entry.reason else ""
            raise ConfigError(
                f"{'.'.join(entry.table)} is not current in this lake: {entry.status}{why}"
            )
        return CurrentTable(*entry.table, self._catalog.home(entry))

    def history(self, name: str | TableName) -> list[CurrentTable]:
        """The versions that a table's rows had, as Delta tables: the last goes on, those before it ended.

        A history ends when the table was copied again or left out. Columns behind the table's own say when a version
        was valid: ``_valid_from``, ``_valid_to`` (null: it is), ``_valid_from_position``, ``_valid_to_position``,
        ``_deleted``.

        Raises:
            ConfigError: the lake has no such table, or keeps no history of it.
        """
        entry = self._entry(name)
        homes = self._catalog.history_homes(entry)
        if not homes:
            raise ConfigError(f"{'.'.join(entry.table)} has no history: set history in [lake]")
        return [CurrentTable(*entry.table, home) for home in homes]

    def _entry(self, name: str | TableName) -> TableEntry:
        tables = self._catalog.tables
        if isinstance(name, str):
            # A database may have a point in its name.
            parts = name.split(".")
            wanted = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]
        else:
            wanted = [name]
        if self._catalog.history.lower_case_names:
            wanted = [casefold_table(one) for one in wanted]
        found = [tables[one] for one in wanted if one in tables]
        if len(found) == 1:
            return found[0]
        shown = name if isinstance(name, str) else ".".join(name)
        if found:
            raise ConfigError(
                f"{shown} is the name of several tables; give database and name as a pair"
            )
        raise ConfigError(f"{self._catalog.directory} has no table {shown}; it has {self._shown()}")

    def _shown(self) -> str:
        names = self.tables()
        return ", ".join(names[:10]) + (" …" if len(names) > 10 else "") if names else "none"


def open_lake(
    where: str | os.PathLike[str] | ObjectUrl, options: Mapping[str, str] | None = None
) -> Lake:
    """The lake of a pipeline, to be read.

    Args:
        where: the pipeline's ``output``: a directory, or the URL of one in an object store.
        options: of the store, where the environment does not say them.

    Raises:
        ConfigError: there is no lake with current tables.
        PositionStoreError: its catalog cannot be read.
    """
    found = location(where, options)
    catalog = LakeCatalog.load(found)
    if catalog is None:
        raise ConfigError(f"{found}: no lake with current tables; run the pipeline first")
    return Lake(catalog)
