"""Binlog files of a query: indexes, and the definition of one table.

It is one SQLite database in a directory, and only a cache. An entry that cannot be read or written,
or does not match its file any more, is made again by a scan.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from replica_client._version import __version__
from replica_client.archive.file_index import FileIndex, is_current, make_index
from replica_client.archive.file_list import ListedFile, list_files
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.constants.event_types import EventType
from replica_client.storage.location import local_path
from replica_client.stream.files.file_bytes import BinlogFile, open_events

_WANTED = (
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.START_ENCRYPTION_EVENT,
    EventType.TABLE_MAP_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
)

_NAMES_OFFSET = 27
"""Where the names of a table begin in its map, after the header, the table id and the flags."""
_CHECKSUM_SIZE = 4


def table_maps(
    file: ListedFile, database: str, table: str, options: DecodeOptions
) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
    """Yield the table maps of a table in a file, with the decoder of their file.

    Raises:
        BinlogDecodeError: a fault in the file.
    """
    name = _name_bytes(database, table)
    decoder = BinlogDecoder(options, file.name)
    encrypted = False
    with BinlogFile(file.name, file.where).open() as stream:
        source = open_events(stream, file.name, options)
        while True:
            position = source.position
            if position >= file.size:
                return
            data = source.next_event(decoder.format.header_size, options.max_event_size)
            if data is None:
                return
            if not encrypted:
                if data[4] not in _WANTED:
                    continue
                if data[4] == EventType.TABLE_MAP_EVENT and name not in data:
                    continue
            encrypted = encrypted or data[4] == EventType.START_ENCRYPTION_EVENT
            event = decoder.decode(data, position, file.name)
            for found in (event, *_inside(event, decoder)):
                if found.header.type_code == EventType.TABLE_MAP_EVENT:
                    if (found.body.schema, found.body.table) == (database, table):
                        yield found, decoder


def table_names(file: ListedFile, options: DecodeOptions) -> Iterator[tuple[str, str]]:
    """Yield the database and name of the tables that have table maps in a file.

    Raises:
        BinlogDecodeError: a fault in the file.
    """
    decoder = BinlogDecoder(options, file.name)
    seen: set[bytes] = set()
    with BinlogFile(file.name, file.where).open() as stream:
        source = open_events(stream, file.name, options)
        while (position := source.position) < file.size:
            data = source.next_event(decoder.format.header_size, options.max_event_size)
            if data is None:
                return
            if data[4] not in _WANTED:
                continue
            # The map of a table differs from the one before in its head, its table id and its checksum.
            if data[4] == EventType.TABLE_MAP_EVENT:
                body = bytes(data[_NAMES_OFFSET:-_CHECKSUM_SIZE])
                if body in seen:
                    continue
                seen.add(body)
            event = decoder.decode(data, position, file.name)
            for found in (event, *_inside(event, decoder)):
                if found.header.type_code == EventType.TABLE_MAP_EVENT:
                    yield found.body.schema, found.body.table


def _inside(event: BinlogEvent, decoder: BinlogDecoder) -> Iterator[BinlogEvent]:
    if event.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
        yield from decoder.inner_events(event)


def _name_bytes(database: str, table: str) -> bytes:
    """Return the bytes by which a table map names a table."""
    names = [name.encode("utf-8", "surrogateescape") for name in (database, table)]
    return b"".join(bytes((len(name),)) + name + b"\0" for name in names)


_LOG = logging.getLogger("replica_client.lake")
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


class FileCatalog:
    """The catalogue of the binlog files; a file that was indexed is not read again.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        # What is encrypted on disk is not kept in clear.
        self.store = None if options.decode.keys else IndexStore(options.index_directory)
        self._frozen: list[ListedFile] | None = None
        self._indexes: dict[str, FileIndex] = {}
        self._asked: set[str] = set()
        self._checked: dict[str, tuple[int, int]] = {}
        self._unsaved: dict[str, FileIndex] = {}

    def freeze(self) -> None:
        """Fix the end: later changes are ignored.

        Raises:
            ConfigError: there is no file, and available-now does not wait for one.
        """
        self._frozen = list_files(self._options.locations)

    def files(self, may_be_empty: bool = True) -> list[ListedFile]:
        """Return the files of the source."""
        if self._frozen is not None:
            return self._frozen
        return list_files(self._options.locations, may_be_empty=may_be_empty)

    def load(self, files: Sequence[ListedFile]) -> None:
        """Look for the indexes of files in the store, all at once."""
        new = [file.path for file in files if file.path not in self._asked]
        self._asked.update(new)
        if self.store is not None and new:
            for path, index in self.store.load(new).items():
                self._indexes.setdefault(path, index)

    def index(self, file: ListedFile) -> FileIndex:
        """Return the index of a file as it was listed.

        Raises:
            BinlogDecodeError: a fault in the file.
        """
        self.load([file])
        known = self._indexes.get(file.path)
        if known is not None and self._checked.get(file.path) == (file.size, file.modified):
            return known
        if known is None or not is_current(known, file):
            known = make_index(file, self._options.decode, known)
            self._unsaved[file.path] = known
        self._indexes[file.path] = known
        self._checked[file.path] = (file.size, file.modified)
        return known

    def save(self) -> None:
        """Keep new indexes for later queries."""
        unsaved, self._unsaved = self._unsaved, {}
        if self.store is not None:
            self.store.save(unsaved)
