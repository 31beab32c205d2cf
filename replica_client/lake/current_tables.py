"""The current tables of a lake's entries, opened once."""

from __future__ import annotations

from replica_client.lake.lake_catalog import LakeCatalog, TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.state_table import StateTable


class CurrentTables:
    """The state tables of one lake.

    Args:
        catalog: the lake's catalog.
        pipeline: the pipeline under which steps are counted.
    """

    def __init__(self, catalog: LakeCatalog, pipeline: str) -> None:
        self._catalog = catalog
        self._pipeline = pipeline
        self._tables: dict[str, StateTable] = {}

    def forget(self) -> None:
        """Drop the tables that a failed run opened."""
        self._tables = {}

    def of(self, entry: TableEntry, *, building: bool = False) -> StateTable:
        """Return the table of an entry; with ``building``, the one assembled from a copy."""
        assert entry.model is not None
        files = entry.building if building else entry.files
        found = self._tables.get(files)
        shape = LakeTable(entry.model, entry.soft_deletes)
        if found is None or found.shape != shape:
            home = self._catalog.staging(entry) if building else self._catalog.home(entry)
            found = StateTable(home, shape, self._pipeline)
            self._tables[files] = found
        return found
