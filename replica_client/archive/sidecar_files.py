"""The sidecar indexes of binlog files: read where they are current, otherwise made and kept."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing, suppress
from operator import lt

from replica_client.archive.file_index import PROOF_SIZE, is_current
from replica_client.archive.file_list import ListedFile
from replica_client.archive.index_format import (
    SUFFIX,
    SidecarIndex,
    read_index,
    read_section,
)
from replica_client.archive.index_scan import make_sidecar
from replica_client.errors import ObjectNotFoundError, ReplicaClientError, StorageError
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.binlog.event import MAGIC_SIZE
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.storage.files import open_file, read_ahead, write_file
from replica_client.storage.location import Location, ObjectUrl
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
        except (OSError, StorageError, ValueError) as error:
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
            if self._keeps:
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
        except (OSError, StorageError, ValueError) as error:
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
