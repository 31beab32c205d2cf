"""The store of the indexes of binlog files between queries.

It is one SQLite database in a directory, and only a cache. An entry that cannot be read or written,
or does not match its file any more, is made again by a scan.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from replica_client._version import __version__
from replica_client.archive.file_index import FileIndex
from replica_client.storage.location import local_path

_LOG = logging.getLogger("replica_client")
_NAME = "binlog-index.sqlite3"
_BUSY_SECONDS = 5.0
_MANY = 500
_CREATE = (
    "create table if not exists indexes (path text primary key, version text, data blob)",
    "create table if not exists histories (path text primary key, state text)",
)


class IndexStore:
    """A store.

    Args:
        directory: where it is; None: :func:`default_directory`.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = (
            default_directory() if directory is None else local_path(directory, "indexDirectory")
        )

    def load(self, paths: Iterable[str]) -> dict[str, FileIndex]:
        """Return the stored indexes of files by path."""
        wanted = list(paths)
        found: dict[str, FileIndex] = {}
        if not (self._directory / _NAME).exists():
            return found
        try:
            with closing(self._open()) as database:
                for at in range(0, len(wanted), _MANY):
                    part = wanted[at : at + _MANY]
                    marks = ",".join("?" * len(part))
                    rows = database.execute(
                        f"select path, data from indexes where version = ? and path in ({marks})",
                        (__version__, *part),
                    )
                    for path, data in rows:
                        try:
                            found[path] = FileIndex.from_bytes(data)
                        except ValueError:
                            continue
        except (OSError, sqlite3.Error) as error:
            _LOG.info("the cache of binlog indexes is not readable: %s", error)
        return found

    def save(self, indexes: dict[str, FileIndex]) -> None:
        """Keep indexes by path."""
        if not indexes:
            return
        rows = [(path, __version__, index.to_bytes()) for path, index in indexes.items()]
        try:
            with closing(self._open()) as database, database:
                database.executemany("insert or replace into indexes values (?, ?, ?)", rows)
        except (OSError, sqlite3.Error) as error:
            _LOG.info("the cache of binlog indexes is not writable: %s", error)

    def history_before(self, path: str) -> tuple[str, str] | None:
        """Return the newest stored schema history of this file or an earlier one.

        Returns:
            path of the file at whose start the history holds, and the history's state.
        """
        if not (self._directory / _NAME).exists():
            return None
        begin = path.rpartition(".")[0] + "."
        try:
            with closing(self._open()) as database:
                found = database.execute(
                    "select path, state from histories where path >= ? and path <= ? "
                    "and length(path) = ? order by path desc limit 1",
                    (begin, path, len(path)),
                ).fetchone()
        except (OSError, sqlite3.Error) as error:
            _LOG.info("the cache of schema histories is not readable: %s", error)
            return None
        return None if found is None else (str(found[0]), str(found[1]))

    def save_history(self, path: str, state: str) -> None:
        """Keep the schema history at the start of a file."""
        try:
            with closing(self._open()) as database, database:
                database.execute("insert or replace into histories values (?, ?)", (path, state))
        except (OSError, sqlite3.Error) as error:
            _LOG.info("the cache of schema histories is not writable: %s", error)

    def _open(self) -> sqlite3.Connection:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = os.stat(self._directory)
        if found.st_uid != os.getuid() or found.st_mode & stat.S_IWOTH:
            raise PermissionError(f"{self._directory} can be written by others")
        database = sqlite3.connect(self._directory / _NAME, timeout=_BUSY_SECONDS)
        try:
            for statement in _CREATE:
                database.execute(statement)
        except sqlite3.Error:
            database.close()
            raise
        return database


def default_directory() -> Path:
    """Return the directory of ``REPLICA_CLIENT_CACHE``, else one in the user's cache directory."""
    chosen = os.environ.get("REPLICA_CLIENT_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base, "replica-client")
    try:
        return Path.home() / ".cache" / "replica-client"
    except RuntimeError:
        return Path(tempfile.gettempdir(), f"replica-client-{os.getuid()}")
