"""A sink that mirrors tables in a DuckDB file: exactly once, in one transaction."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Final

import duckdb

from replica_client.errors import SinkError
from replica_client.position.stores.base import Checkpoint
from replica_client.position.stores.ownership import StandbyError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.duckdb_file import DuckdbFile
from replica_client.sinks.mirror.duckdb_options import DuckdbOptions, read_duckdb_options, settings
from replica_client.sinks.mirror.duckdb_store import DuckdbDatabase
from replica_client.sinks.mirror.file_mirror_sink import FileMirrorSink
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.unstorable_values import storable_encoder
from replica_client.storage.durable import DATA_MODE, open_locked

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
