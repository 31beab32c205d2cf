"""A sink that mirrors tables in a SQLite file: exactly once, rows and position together."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Mapping
from typing import Literal

import msgspec

from replica_client.errors import SinkError
from replica_client.sinks.mirror.file_mirror_sink import FileMirrorSink
from replica_client.sinks.mirror.mirror_database import MirrorDatabase
from replica_client.sinks.mirror.sqlite_store import SqliteDatabase
from replica_client.sinks.sink_options import check_path, read_options

_MAY_PASS = frozenset(
    (
        *("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY"),
        *("SQLITE_CANTOPEN", "SQLITE_NOMEM"),
    )
)

# Only the source's tables: a copy would not restore the mirror's own tables.
_NO_SUCH_TABLE = re.compile("no such table: (?!_replica_client)")


class SqliteOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``sqlite``.

    Attributes:
        path: path of the file; created if it does not exist.
        missing_rows: reaction to a change of a row that is missing, or an insert of a row that
            exists: ``error`` stops; ``ignore`` goes on, for a mirror that does not start with all
            rows.
        unknown_tables: reaction to a row of a table without CREATE TABLE or snapshot before:
            ``error`` stops; ``create`` creates the table and assumes that it was empty.
    """

    path: str
    missing_rows: Literal["error", "ignore"] = "error"
    unknown_tables: Literal["error", "create"] = "error"


_OF_ALL = (
    *("SQLITE_READONLY", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR", "SQLITE_CANTOPEN"),
    *("SQLITE_PERM", "SQLITE_AUTH", "SQLITE_NOLFS"),
)


def make(table: Mapping[str, object]) -> SqliteSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(SqliteOptions, table, "sink sqlite")
    check_path(options.path, "sink sqlite", "a file")
    return SqliteSink(options)


class SqliteSink(FileMirrorSink):
    """The sink ``sqlite``; see the module.

    Args:
        options: what the user chose.
    """

    refused = sqlite3.Error

    def __init__(self, options: SqliteOptions) -> None:
        super().__init__(options, "sqlite")

    def _look(self) -> None:
        location = f"{self._path.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(location, uri=True)) as connection:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()

    def _database(self) -> MirrorDatabase:
        return SqliteDatabase(self._path)

    def _lacks_table(self, error: Exception) -> bool:
        # SQLite shows this only in the text of the error.
        return isinstance(error, sqlite3.OperationalError) and bool(
            re.search(_NO_SUCH_TABLE, str(error))
        )

    def _concerns_all(self, error: BaseException | None) -> bool:
        name = getattr(error, "sqlite_errorname", "")
        return isinstance(error, OSError) or name.startswith(_OF_ALL)

    def _sink_error(self, error: Exception) -> SinkError:
        name = getattr(error, "sqlite_errorname", "")
        base = "_".join(name.split("_")[:2])
        return SinkError(f"{self._path}: {error}", retriable=base in _MAY_PASS)
