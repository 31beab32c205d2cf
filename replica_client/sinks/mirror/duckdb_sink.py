"""Tables of the source in a DuckDB file: exactly once, rows and position in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

import duckdb
import msgspec

from replica_client.errors import ConfigError, SinkError
from replica_client.schema.model import ColumnModel
from replica_client.sinks.mirror.collector import ValueEncoder
from replica_client.sinks.mirror.duckdb_store import DuckdbDatabase
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.mirror.unstorable_values import storable_encoder
from replica_client.sinks.output_directory import check_writable
from replica_client.sinks.sink_options import read_options
from replica_client.sinks.system_errors import os_errors
from replica_client.storage.durable import DATA_MODE
from replica_client.storage.location import local_path

# The file, the disk, memory; a database that an error made unusable is right again when it is opened again.
_MAY_PASS: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException)
# One of the source's: the mirror's own tables do not come back by a copy.
_NO_SUCH_TABLE: Final = re.compile(
    "Table with name (?!.*_replica_client).* does not exist", re.DOTALL
)
_MEMORY: Final = re.compile(r"[0-9]+(\.[0-9]+)? ?([KMGT]i?B|%)", re.IGNORECASE)
_MAGIC: Final = slice(8, 12), b"DUCK"


class DuckdbOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``duckdb``.

    Attributes:
        path: of the file; made when it is not there.
        release: the file is closed after each commit, so that other processes can read it in between; ``false``: it
            stays open, which is faster, and no other process can open it.
        wait: seconds in which a process that has the file open must close it, before the sink tries later.
        threads: of DuckDB.
        memory_limit: of DuckDB: a size such as ``1GB``, or a part of the machine's memory such as ``50%``.
        missing_rows: what a change does of a row that the mirror does not have, or has already: ``error`` stops;
            ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was seen: ``error``
            stops; ``create`` takes the table for empty.
        unstorable_values: what a value does that DuckDB does not have, such as a zero date or February 31st:
            ``error`` stops; ``null`` stores NULL.
    """

    path: str
    release: bool = True
    wait: float = 10.0
    threads: int = 1
    memory_limit: str = "1GB"
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"
    unstorable_values: Literal["error", "null"] = "error"


def make(table: Mapping[str, object]) -> DuckdbSink:
    """The sink of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(DuckdbOptions, table, "sink duckdb")
    if not options.path:
        raise ConfigError("sink duckdb: path: a file is wanted")
    if options.threads < 1:
        raise ConfigError("sink duckdb: threads: at least 1 is wanted")
    if options.wait < 0:
        raise ConfigError("sink duckdb: wait: at least 0 is wanted")
    if not _MEMORY.fullmatch(options.memory_limit):
        raise ConfigError("sink duckdb: memory_limit: a size is wanted, such as 1GB, or 50%")
    return DuckdbSink(options)


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
            config={
                "threads": self._options.threads,
                "memory_limit": self._options.memory_limit,
                # Nothing comes from the network, or from variables of this program.
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,
            },
        )
        if new:
            os.chmod(self._path, DATA_MODE)
        return connection

    def _database(self) -> MirrorDatabase:
        return DuckdbDatabase(
            self._connect, self._where, release=self._options.release, wait=self._options.wait
        )

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
            raise SinkError(
                f"{self._path}: {text}", retriable=isinstance(error, _MAY_PASS)
            ) from error
