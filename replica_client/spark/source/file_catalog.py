"""The binlog files of a query with their indexes."""

from __future__ import annotations

from collections.abc import Sequence

from replica_client.archive.file_index import FileIndex, is_current, make_index
from replica_client.archive.file_list import ListedFile, list_files
from replica_client.lake.source_options import SourceOptions
from replica_client.spark.source.index_store import IndexStore


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
