"""Many binlog files with their indexes, as one archive."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from operator import lt
from pathlib import Path
from typing import Any

from replica_client._compiled import tell_plain
from replica_client.archive.file_index import PROOF_SIZE, is_current
from replica_client.archive.file_list import ListedFile, check_no_gap, list_files
from replica_client.archive.index_format import (
    SUFFIX,
    IndexedTable,
    SidecarIndex,
    read_index,
    read_section,
)
from replica_client.archive.index_scan import make_sidecar
from replica_client.errors import (
    BinlogDecodeError,
    ConfigError,
    ObjectNotFoundError,
    ReplicaClientError,
    StorageError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import MAGIC_SIZE, DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.history_records import SchemaChange
from replica_client.storage.files import open_file, read_ahead, write_file
from replica_client.storage.kept_file import ENCRYPTED_SUFFIX, is_kept
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.stream.files.file_bytes import BinlogFile
from replica_client.stream.files.file_order import FileMark, check_pair
from replica_client.stream.transactions.schema_tracking import SchemaTracker

_LOG = logging.getLogger("replica_client.archive")


@dataclass(slots=True)
class IndexedFile:
    """A file of an archive with its index.

    Attributes:
        listed: the file.
        index: its index.
        where: path or URL of the index; None where it is in memory only.
        base: offset of the first section in the index; -1 while the sections are in memory.
        made: whether the index was made by this process.
    """

    listed: ListedFile
    index: SidecarIndex
    where: Location | None
    base: int = -1
    made: bool = False

    def section(self, number: int) -> bytes | None:
        """Return the section of a table; None where it can no longer be read.

        Args:
            number: number of the table.
        """
        if self.base < 0:
            return self.index.sections.get(number)
        table = self.index.tables[number]
        if not table.size:
            return None
        assert self.where is not None
        try:
            with closing(open_file(self.where)) as stream:
                return read_section(stream, self.base, table)
        except (OSError, StorageError, ValueError, BinlogDecodeError) as error:
            _LOG.warning("%s: %s; the file is read without it", self.where, error)
            return None


class SidecarFiles:
    """The indexes of files, loaded one after the other in the order of the source's binlog.

    Args:
        decode: how to decode.
        history: the definitions of the tables at the start of the first file; each file updates it.
        directory: where the indexes are; None: next to the files.
        keeps: write new indexes to disk.
    """

    def __init__(
        self,
        decode: DecodeOptions,
        history: SchemaHistory,
        directory: Location | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        self._decode, self._history, self._directory = decode, history, directory
        # An index would hold in clear text what the binlog encrypts.
        self._keeps = keeps and not decode.keys

    def load(self, listed: ListedFile) -> IndexedFile:
        """Return the next file with its index, and make an index that is missing, old or damaged.

        Raises:
            BinlogDecodeError: the file is damaged.
            OSError: the file cannot be read.
            StorageError: the file cannot be read from an object store.
        """
        where = self._index_of(listed)
        found = self._read(listed, where)
        if found is None:
            index = make_sidecar(listed, self._decode, self._history)
            found = IndexedFile(listed, index, where, made=True)
            if self._keeps and not is_kept(where.name):
                self._write(found)
        else:
            self._run_statements(found)
        return found

    def read_ahead(self, listed: Sequence[ListedFile]) -> None:
        """Ask the system to read ahead the indexes of files, and the files' beginnings."""
        for one in listed:
            if isinstance(one.where, ObjectUrl):
                continue
            for where, size in ((self._index_of(one), 0), (one.where, PROOF_SIZE)):
                with suppress(OSError, StorageError), closing(open_file(where)) as stream:
                    read_ahead(stream, 0, size)

    def _index_of(self, listed: ListedFile) -> Location:
        """Return the location of a file's index."""
        name = listed.name + SUFFIX
        if listed.where.name.endswith(ENCRYPTED_SUFFIX):
            name += ENCRYPTED_SUFFIX
        if self._directory is not None:
            return self._directory / name
        where = listed.where
        return where.parent / name if isinstance(where, ObjectUrl) else where.with_name(name)

    def _read(self, listed: ListedFile, where: Location) -> IndexedFile | None:
        """Return the stored index, if it describes the file as it is now."""
        if self._decode.keys:
            return None
        try:
            with closing(open_file(where)) as stream:
                index, base = read_index(stream)
        except (FileNotFoundError, ObjectNotFoundError):
            return None
        except (OSError, StorageError, ValueError, BinlogDecodeError) as error:
            _LOG.warning("%s is not used and made again: %s", where, error)
            return None
        if not is_current(index.facts, listed) or not _covers(index):
            return None
        return IndexedFile(listed, index, where, base)

    def _write(self, found: IndexedFile) -> None:
        """Write an index; on failure it stays in memory."""
        assert found.where is not None
        data = found.index.to_bytes()
        try:
            write_file(found.where, data)
        except (OSError, StorageError) as error:
            _LOG.info("%s is not kept: %s", found.where, error)
            return
        with suppress(OSError, StorageError, ValueError), closing(open_file(found.where)) as stream:
            found.base = read_index(stream)[1]
            found.index.sections = {}

    def _run_statements(self, found: IndexedFile) -> None:
        tracker = SchemaTracker(
            self._history, Selection(), "positional", "positional", reports=False
        )
        for event, decoder in found.index.facts.statements(found.listed.name, self._decode):
            with suppress(ReplicaClientError):
                tracker.run(event, decoder.format, 0)


def _covers(index: SidecarIndex) -> bool:
    """Return whether the blocks match the cuts of the header scan."""
    starts = [block.start for block in index.blocks]
    ends = [block.end for block in index.blocks]
    return (
        ends == list(index.facts.cuts[::2])
        and starts == [MAGIC_SIZE, *ends][: len(starts)]
        and all(map(lt, starts, ends))
    )


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

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the files by name."""
        return {file.name: file.size for file in self.listed}

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
