"""Changes that were read from the change log and are not yet written to their tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from replica_client.lake.change_files import ChangeFile
from replica_client.lake.histories import needs_whole
from replica_client.lake.history_rows import Moment, moment_of
from replica_client.lake.lake_catalog import TableEntry
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.log_versions import by_table
from replica_client.lake.partial_documents import lacks_documents
from replica_client.schema.ddl.steps import TableName

Part = Any
"""Changes of one table: rows of the envelope, or a ``ChangeFile``."""

_FILE_WEIGHT: Final = 8
"""Number of rows in a file that weigh as much as one row in memory."""


@dataclass
class TableChanges:
    """The waiting changes of a table.

    Attributes:
        parts: each with its step, in the order of the binlog.
        weight: their weight, in rows in memory.
    """

    parts: list[tuple[int, Part]] = field(default_factory=list)
    weight: int = 0

    @property
    def is_typed(self) -> bool:
        """Whether all parts are change files."""
        return all(isinstance(part, ChangeFile) for _, part in self.parts)

    @property
    def begin(self) -> Moment:
        """The moment of the first change."""
        part = self.parts[0][1]
        if isinstance(part, ChangeFile):
            files = [one for _, one in self.parts if isinstance(one, ChangeFile)]
            return Moment(min(file.first for file in files), min(file.committed for file in files))
        return moment_of(part.slice(0, 1).to_pylist()[0])

    def lacks_of(self, entry: TableEntry) -> str:
        """Return why the changes do not give whole rows of a table; ``""`` when they do."""
        assert entry.model is not None
        table = LakeTable(entry.model, entry.soft_deletes)
        files = [part for _, part in self.parts if isinstance(part, ChangeFile)]
        rows = [part for _, part in self.parts if isinstance(part, pa.Table)]
        lacks = next((lacks for file in files if (lacks := file.lacks_of(table))), "")
        lacks = lacks or next((lacks for part in rows if (lacks := lacks_documents(part))), "")
        return lacks or needs_whole(entry, files)


class WaitingChanges:
    """The waiting changes of all tables, by the current names of the tables."""

    def __init__(self) -> None:
        self._tables: dict[TableName, TableChanges] = {}

    @property
    def tables(self) -> list[TableName]:
        """The tables with waiting changes."""
        return list(self._tables)

    @property
    def weight(self) -> int:
        """Total weight of the changes, in rows in memory."""
        return sum(one.weight for one in self._tables.values())

    def add_files(self, files: Sequence[ChangeFile], step: int) -> None:
        """Add change files."""
        for file in files:
            one = self._tables.setdefault((file.database, file.table), TableChanges())
            one.parts.append((step, file))
            one.weight += file.rows // _FILE_WEIGHT

    def add_rows(self, rows: pa.Table, step: int) -> None:
        """Add rows of the envelope."""
        for table, part in by_table(rows):
            one = self._tables.setdefault(table, TableChanges())
            one.parts.append((step, part))
            one.weight += part.num_rows

    def take(self, wanted: Callable[[TableName], bool]) -> dict[TableName, TableChanges]:
        """Remove and return the changes of the selected tables."""
        taken = {table: one for table, one in self._tables.items() if wanted(table)}
        for table in taken:
            del self._tables[table]
        return taken
