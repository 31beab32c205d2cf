"""Many binlog files with their indexes, as one archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from replica_client._compiled import tell_plain
from replica_client.archive.file_list import check_no_gap, list_files
from replica_client.archive.index_format import IndexedTable
from replica_client.archive.sidecar_files import IndexedFile, SidecarFiles
from replica_client.errors import ConfigError, TruncatedEventError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.history_records import SchemaChange
from replica_client.storage.location import ObjectUrl, location
from replica_client.stream.files.file_bytes import BinlogFile
from replica_client.stream.files.file_order import FileMark, check_pair
from replica_client.stream.transactions.schema_tracking import SchemaTracker

ArchiveSource = str | Path | ObjectUrl | Sequence[str | Path | ObjectUrl]
"""The location of an archive: see :func:`~replica_client.open_archive`."""


_AHEAD = 32  # files whose indexes are read ahead at once


class IndexedFiles:
    """The files of an archive in order, with indexes that are made where missing, old or damaged.

    Args:
        source: where the files are.
        decode: how events are decoded.
        schema: the definitions of the tables at the start.
        letter_case: ``lower_case_table_names`` of the server; None: not known.
        index_directory: where the indexes are; None: next to the files.
        keeps_indexes: write new indexes to disk.
        progress: called with the bytes of each file whose index is ready.

    Raises:
        ConfigError: there are no files, or two files have the same name.
        DataLossError: a file is missing in the middle.
    """

    def __init__(
        self,
        source: ArchiveSource,
        decode: DecodeOptions,
        schema: SchemaHistory | None = None,
        letter_case: int | None = None,
        index_directory: str | Path | None = None,
        keeps_indexes: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self._arguments = (
            *(source, decode, schema, letter_case, index_directory, keeps_indexes, progress),
        )
        one = (str, os.PathLike, ObjectUrl)
        sources: list[Any] = []
        if isinstance(source, one):
            sources = [source]
        elif isinstance(source, Iterable) and not isinstance(source, (bytes, Mapping)):
            sources = list(source)
        if not (sources and all(isinstance(each, one) for each in sources)):
            raise ConfigError(
                "an archive is a path, a URL of an object store or a list of them, not "
                + ("an empty list" if source in ([], ()) else f"of type {type(source).__name__}")
            )
        self.listed = list_files(sources)
        check_no_gap(self.listed)
        tell_plain()
        self.decode = decode
        self._history = SchemaHistory() if schema is None else schema.copy()
        if letter_case is not None:
            self._history.casefold_names(letter_case != 0)
        directory = None if index_directory is None else location(index_directory)
        self._sidecars = SidecarFiles(decode, self._history, directory, keeps=keeps_indexes)
        self._progress = progress
        self._files: list[IndexedFile] = []
        self._mark: FileMark | None = None
        self.binlog_files = [BinlogFile(one.name, one.where) for one in self.listed]

    def listed_again(self) -> IndexedFiles:
        """List the files again, and return those that exist now.

        Raises:
            ConfigError: see the class.
            DataLossError: see the class.
        """
        return IndexedFiles(*self._arguments)

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(file.size for file in self.listed)

    def __iter__(self) -> Iterator[IndexedFile]:
        """Yield the files with their indexes; the schema history is known up to the end of each."""
        for at in range(len(self.listed)):
            if at == len(self._files):
                self._files.append(self._load(at))
            yield self._files[at]

    def __len__(self) -> int:
        return len(self.listed)

    def history_at(self, position: Position) -> SchemaHistory:
        """Return a copy of the schema history at a position in a file that was already yielded."""
        history = self._history.copy()
        history.rewind(position.file, position.offset)
        return history

    def history_now(self) -> SchemaHistory:
        """Return a copy of the schema history at the end of all files."""
        for _ in self:
            pass
        return self._history.copy()

    def schema_changes(self) -> Iterator[SchemaChange]:
        """Yield the changes that the statements of all files made to tables, in order."""
        if not self.listed:
            return
        history = self.history_at(Position(self.listed[0].name, 0))
        tracker = SchemaTracker(history, Selection(), "positional", "positional", reports=False)
        for file in self:
            for event, decoder in file.index.facts.statements(file.listed.name, self.decode):
                yield from tracker.run(event, decoder.format, 0)

    def end_of(self, file: IndexedFile) -> int:
        """Return the position after the last complete transaction of a file.

        Raises:
            TruncatedEventError: the file is truncated, and another file follows.
        """
        facts = file.index.facts
        if not facts.ended and file.listed.name != self.listed[-1].name:
            raise TruncatedEventError(
                f"{file.listed.path} is cut: it ends inside an event or a transaction, and another file follows; "
                "bring back the file as it was",
                file=file.listed.name,
                position=facts.reached,
            )
        return facts.reached

    def _load(self, at: int) -> IndexedFile:
        listed = self.listed[at]
        if at % _AHEAD == 0:
            # The first files are needed at once.
            self._sidecars.read_ahead(self.listed[at + _AHEAD if at else 0 : at + 2 * _AHEAD])
        found = self._sidecars.load(listed)
        if self._progress is not None:
            self._progress(listed.size)
        self.end_of(found)
        mark = found.index.facts.mark(listed.name, self.decode)
        if self._mark is not None:
            check_pair(self._mark, mark)
        self._mark = mark
        return found


def keyed(options: DecodeOptions | None, keys: Mapping[str, bytes] | None) -> DecodeOptions:
    """Return the options with encryption keys added."""
    decode = options or DecodeOptions()
    return replace(decode, keys=dict(keys)) if keys else decode


def named_table(text: str) -> tuple[str, str]:
    """Split ``database.table`` into database and table.

    Names that contain a dot are quoted with backticks.

    Raises:
        ConfigError: the text does not name one table.
    """
    parts = text.split(".") if "`" not in text else _unquoted(text)
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"table {text[:120]!r}: write DATABASE.TABLE, or `DATA.BASE`.`TABLE`")
    return parts[0], parts[1]


def _unquoted(text: str) -> list[str]:
    import re

    match = re.fullmatch(r"(`(?:[^`]|``)+`|[^`.]+)\.(`(?:[^`]|``)+`|[^`.]+)", text)
    if match is None:
        return []
    return [
        part[1:-1].replace("``", "`") if part.startswith("`") else part for part in match.groups()
    ]


__all__ = ["ArchiveSource", "IndexedFile", "IndexedFiles", "IndexedTable", "keyed", "named_table"]
