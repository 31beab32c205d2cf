"""Tables of the source in a DuckDB file: exactly once, rows and position in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import duckdb

from replica_client.errors import SinkError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.duckdb_file import DuckdbFile
from replica_client.sinks.mirror.duckdb_options import DuckdbOptions, read_duckdb_options, settings
from replica_client.sinks.mirror.duckdb_store import DuckdbDatabase
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.mirror.unstorable_values import storable_encoder
from replica_client.sinks.output_directory import check_writable
from replica_client.sinks.system_errors import os_errors
from replica_client.storage.durable import DATA_MODE
from replica_client.storage.location import local_path

# The file, the disk, memory; a database that an error made unusable is right again when it is opened again.
_MAY_PASS: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException)
# One of the source's: the mirror's own tables do not come back by a copy.
_NO_SUCH_TABLE: Final = re.compile(
    "Table with name (?!.*_replica_client).* does not exist", re.DOTALL
)
_NO_FILE: Final = "not a valid DuckDB"
_MAGIC: Final = slice(8, 12), b"DUCK"


def make(table: Mapping[str, object]) -> DuckdbSink:
    """The sink of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    return DuckdbSink(read_duckdb_options(table))


class DuckdbSink(TableMirrorSink):
    """See the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: DuckdbOptions) -> None:
        self._options = options
        self._path = local_path(options.path, "sink duckdb: path")
        super().__init__(
            str(self._path),
            strict=options.missing_rows == "error",
            create=options.unknown_tables == "create",
        )

    async def probe(self) -> None:
        """See :class:`~replica_client.sinks.protocol.ProbedSink`."""
        await self._worker.run(self._probe)

    def _probe(self) -> None:
        check_writable(self._path.parent)
        # Opened by DuckDB it would be in the way of a process that writes it.
        with os_errors(str(self._path)):
            if self._path.exists():
                with self._path.open("rb") as file:
                    if file.read(16)[_MAGIC[0]] != _MAGIC[1]:
                        raise SinkError(f"{self._path}: it is no DuckDB file")

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

    def _encoder_of(self, column: ColumnModel) -> ValueEncoder:
        nulls = self._options.unstorable_values == "null"
        return storable_encoder(column, "DuckDB", self._where, nulls=nulls, zero_character=True)

    def _lacks_table(self, error: Exception) -> bool:
        return isinstance(error, duckdb.CatalogException) and bool(
            re.search(_NO_SUCH_TABLE, str(error))
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with os_errors(str(self._path)):
                yield
        except duckdb.Error as error:
            # The lines behind the first have the statement.
            text = (str(error).strip() or type(error).__name__).splitlines()[0][:500]
            passing = isinstance(error, _MAY_PASS) and _NO_FILE not in text
            raise SinkError(f"{self._path}: {text}", retriable=passing) from error
