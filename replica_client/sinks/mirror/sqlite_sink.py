"""Tables of the source in a SQLite file: exactly once, rows and position in one transaction."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import msgspec

from replica_client.errors import ConfigError, SinkError
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
from replica_client.sinks.mirror.table_mirror_sink import TableMirrorSink
from replica_client.sinks.output_directory import check_writable
from replica_client.sinks.sink_options import read_options
from replica_client.sinks.system_errors import os_errors
from replica_client.storage.location import local_path

_MAY_PASS = frozenset(
    (
        *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY"),
        *("SQLITE_CANTOPEN", "SQLITE_NOMEM"),
    )
)

# One of the source's: the mirror's own tables do not come back by a copy.
_NO_SUCH_TABLE = re.compile("no such table: (?!_replica_client)")


class SqliteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``sqlite``.

    Attributes:
        path: of the file; made when it is not there.
        missing_rows: what a change does of a row that the mirror does not have, or has already:
            ``error`` stops; ``ignore`` goes on, for a mirror that does not begin with all rows.
        unknown_tables: what a row of a table does of which neither CREATE TABLE nor a snapshot was
            seen: ``error`` stops; ``create`` takes the table for empty.
    """

    path: str
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"


def make(table: Mapping[str, object]) -> SqliteSink:
    """The sink of a table of the configuration.

    Raises:
        ConfigError: an option is wrong; names it.
    """
    options = read_options(SqliteOptions, table, "sink sqlite")
    if not options.path:
        raise ConfigError("sink sqlite: path: a file is wanted")
    return SqliteSink(options)


class SqliteSink(TableMirrorSink):
    """See the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: SqliteOptions) -> None:
        self._path = local_path(options.path, "sink sqlite: path")
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
        if self._path.exists():
            with (
                self._errors(),
                contextlib.closing(
                    sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=ro", uri=True)
                ) as connection,
            ):
                connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _database(self) -> MirrorDatabase:
        return SqliteDatabase(self._path)

    def _lacks_table(self, error: Exception) -> bool:
        # SQLite has no other sign of that than its words.
        return isinstance(error, sqlite3.OperationalError) and bool(
            re.search(_NO_SUCH_TABLE, str(error))
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with os_errors(str(self._path)):
                yield
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "")
            base = "_".join(name.split("_")[:2])
            raise SinkError(f"{self._path}: {error}", retriable=base in _MAY_PASS) from error
