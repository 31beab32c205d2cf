"""The tables of a lake by their names, for readers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

from replica_client.errors import ConfigError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.config import CHANGE_LOG
from replica_client.lake.data_files import data_files_of, delta_rows, open_delta
from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.unmerged import Unmerged, from_json, parts_of, rows_of
from replica_client.schema.ddl.steps import TableName
from replica_client.schema.model import TableModel
from replica_client.schema.names import casefold_table
from replica_client.storage.location import Location, ObjectUrl, location

if TYPE_CHECKING:
    import pyarrow.dataset as ds


class CurrentTable:
    """A table of a lake, as the catalog had it when the lake was opened.

    Attributes:
        database: the source's database.
        name: the table's name there.
        where: location of its Delta table.
    """

    def __init__(
        self,
        database: str,
        name: str,
        where: Location,
        model: TableModel | None = None,
        unmerged: Unmerged | None = None,
    ) -> None:
        self.database = database
        self.name = name
        self.where = where
        self._model = model
        self._unmerged = unmerged

    def __repr__(self) -> str:
        return f"CurrentTable({self.database!r}, {self.name!r}, {str(self.where)!r})"

    @property
    def uri(self) -> str:
        """Path or URL of the Delta table, for DuckDB, Polars and Spark.

        Raises:
            ConfigError: changes wait to be merged into it (``merge`` in ``[lake]``).
        """
        self._check_merged(self.delta())
        return str(self.where)

    def _check_merged(self, delta: DeltaTable) -> None:
        if count := len(self._waiting(delta)):
            raise ConfigError(
                f"{self.database}.{self.name}: {count} change files wait to be merged (merge in [lake]), so that "
                "its Delta table is older than the lake: read arrow() or batches()"
            )

    def _waiting(self, delta: DeltaTable) -> list[ChangeFile]:
        if self._unmerged is None:
            return []
        return self._unmerged.behind(delta.transaction_version(self._unmerged.pipeline))

    @property
    def storage_options(self) -> dict[str, str]:
        """The options of the store that the lake was opened with, for readers that take them."""
        return dict(self.where.options) if isinstance(self.where, ObjectUrl) else {}

    def delta(self) -> DeltaTable:
        """Return the newest version of the Delta table; changes may wait to be merged into it.

        Raises:
            SinkError: the table cannot be read.
        """
        return open_delta(self.where)

    def dataset(self) -> ds.Dataset:
        """Return the rows as a dataset, to filter or read.

        The rows are in memory if the table is in a store or has waiting changes.

        Raises:
            SinkError: the table cannot be read.
        """
        delta = self.delta()
        if self._waiting(delta):
            import pyarrow.dataset as ds  # imports pandas where it is installed

            return ds.dataset(self.arrow())
        return delta_rows(delta, self.where)

    def arrow(self) -> pa.Table:
        """Read all rows into memory."""
        return self.batches().read_all()

    def batches(self) -> pa.RecordBatchReader:
        """Return a reader of the rows, file by file, with waiting changes merged.

        DuckDB and Polars take the reader, too.

        Raises:
            SinkError: the table cannot be read.
        """
        delta = self.delta()
        waiting = self._waiting(delta)
        if not waiting:
            return delta_rows(delta, self.where).scanner().to_reader()
        assert self._model is not None and self._unmerged is not None
        table, log = LakeTable(self._model), self._unmerged.log
        parts = parts_of(self.where, table, data_files_of(delta, table), log, waiting)
        found = (
            batch
            for part in parts
            for rows in rows_of(self.where, table, part)
            for batch in rows.to_batches()
        )
        return pa.RecordBatchReader.from_batches(table.schema, found)


class Lake:
    """The tables of a lake, as its catalog has them now.

    Args:
        catalog: the lake's catalog.
    """

    def __init__(self, catalog: LakeCatalog) -> None:
        self._catalog = catalog

    def tables(self) -> list[str]:
        """Return the names of the current tables, as ``database.name``."""
        return [".".join(name) for name in self.names()]

    def names(self) -> list[TableName]:
        """Return the names of the current tables, as pairs of database and name."""
        entries = self._catalog.tables.values()
        return [entry.table for entry in entries if entry.status == "current"]

    def table(self, name: str | TableName) -> CurrentTable:
        """Return a current table.

        Args:
            name: ``database.name``, or the pair.

        Raises:
            ConfigError: the lake does not have the table, or it is not current; the message says
                why.
        """
        entry = self._entry(name)
        if entry.status != "current":
            why = f" ({entry.reason})" if entry.reason else ""
            raise ConfigError(
                f"{'.'.join(entry.table)} is not current in this lake: {entry.status}{why}"
            )
        files, pipeline = from_json(entry.waiting), self._catalog.pipeline
        unmerged = Unmerged(self._catalog.directory / CHANGE_LOG, pipeline, files)
        return CurrentTable(*entry.table, self._catalog.home(entry), entry.model, unmerged)

    def history(self, name: str | TableName) -> list[CurrentTable]:
        """Return the histories of a table, as Delta tables; the last may go on, others have ended.

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
    """Open the lake of a pipeline for reading.

    Args:
        where: the pipeline's ``output``: a directory, or the URL of one in an object store.
        options: options of the store that the environment does not set.

    Raises:
        ConfigError: there is no lake with current tables.
        PositionStoreError: its catalog cannot be read.
    """
    found = location(where, options)
    catalog = LakeCatalog.load(found)
    if catalog is None:
        raise ConfigError(f"{found}: no lake with current tables; run the pipeline first")
    return Lake(catalog)
