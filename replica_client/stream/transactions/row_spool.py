"""Rows that wait for the outcome of a transaction, in memory or on disk.

A transaction whose outcome is open (an XA transaction between its PREPARE and its COMMIT, rows
after a savepoint) can be larger than memory. Its rows events wait here undecoded, each with the
shape and the decoder of its table at that time, so that a later ALTER does not change their
meaning.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterator
from typing import IO, Final, NamedTuple, TypeAlias

from replica_client.errors import SpoolError
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.history import SchemaChange
from replica_client.schema.shape import TableShape
from replica_client.stream.position.losses import Loss
from replica_client.stream.transactions.transaction import Statement

DEFAULT_MEMORY_LIMIT: Final = 16 << 20
"""Bytes of items that all spools of one :class:`SpoolStorage` together keep in memory."""

BLOCK_SIZE: Final = 1 << 16
"""Bytes of a block of the temporary file."""


class SpoolStorage:
    """Memory and temporary file that any number of spools share.

    The file is created when it is first needed, in the directory for temporary files (``TMPDIR``),
    readable by this user only and without a name, so that nothing stays when the process ends. It
    is divided into blocks of 64 KiB. Blocks of closed spools are reused, and the file is emptied
    when no block is used.

    Args:
        memory_limit: bytes of items that all spools together keep in memory; one item may exceed
            it.
        directory: where the file is created; None: the system's directory for temporary files.

    Attributes:
        memory_limit: see above.
        memory_used: bytes of items in memory, as estimated.
    """

    def __init__(
        self, memory_limit: int = DEFAULT_MEMORY_LIMIT, directory: str | None = None
    ) -> None:
        self.memory_limit = memory_limit
        self.memory_used = 0
        self._directory = directory
        self._file: IO[bytes] | None = None
        self._free: list[int] = []
        self._block_count = 0

    @property
    def file_size(self) -> int:
        """Bytes of the temporary file that are in use."""
        return (self._block_count - len(self._free)) * BLOCK_SIZE

    def take_block(self) -> int:
        """Return the number of an unused block."""
        if self._free:
            return self._free.pop()
        self._block_count += 1
        return self._block_count - 1

    def give_back(self, blocks: list[int]) -> None:
        """Release blocks that are not used any more.

        Raises:
            SpoolError: the file cannot be emptied.
        """
        self._free += blocks
        if self._file is None or len(self._free) < self._block_count:
            return
        try:
            self._file.truncate(0)
        except OSError as error:
            raise _spool_error(error) from error
        self._free, self._block_count = [], 0

    def write(self, block: int, offset: int, data: memoryview) -> None:
        """Write into a block.

        Raises:
            SpoolError: the file cannot be made or written.
        """
        try:
            if self._file is None:
                import tempfile  # few transactions wait in a file

                self._file = tempfile.TemporaryFile(dir=self._directory, buffering=0)  # noqa: SIM115
                # If nobody closes the file, it is closed with the last of its spools.
                weakref.finalize(self, self._file.close)
            self._file.seek(block * BLOCK_SIZE + offset)
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _spool_error(error) from error

    def read(self, block: int) -> bytes:
        """Read a block as far as it was written.

        Raises:
            SpoolError: the file cannot be read.
        """
        try:
            if self._file is None:
                return b""
            self._file.seek(block * BLOCK_SIZE)
            return self._file.read(BLOCK_SIZE)
        except OSError as error:
            raise _spool_error(error) from error

    def close(self) -> None:
        """Remove the file; no spool may be used any more."""
        if self._file is not None:
            self._file.close()
            self._file = None


class SpoolReader:
    """Sequential reader of a spool's bytes in the file, block by block."""

    def __init__(self, storage: SpoolStorage, blocks: list[int], offset: int = 0) -> None:
        self.offset = offset
        self._storage = storage
        self._blocks = blocks
        self._index = -1
        self._block = b""

    def take(self, size: int) -> bytes:
        """Read and return the next bytes."""
        parts = []
        while size:
            index, at = divmod(self.offset, BLOCK_SIZE)
            if index != self._index:
                self._block, self._index = self._storage.read(self._blocks[index]), index
            part = self._block[at : at + size]
            if not part:
                raise SpoolError("the temporary file of pending rows is shorter than it was")
            parts.append(part)
            size -= len(part)
            self.offset += len(part)
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Skip the next bytes."""
        self.offset += size


def _spool_error(error: OSError) -> SpoolError:
    import tempfile

    return SpoolError(
        f"pending rows cannot be kept in a temporary file in {tempfile.gettempdir()}: "
        f"{error.strerror or error}; make room there, or set TMPDIR to a directory that has it"
    )


SpoolItem: TypeAlias = RowsOfEvent | Statement | SchemaChange | Loss
"""Items that can wait: rows events, and the items between them."""

_LENGTH_SIZE: Final = 8
_WRITE_SIZE: Final = 1 << 20
# Bytes that the objects of an item need apart from its event or text.
_OVERHEAD: Final = 1 << 10


class SpoolMark(NamedTuple):
    """A point between two items of a spool.

    Attributes:
        item_count: items before it.
        size: bytes of the rows events before it.
    """

    item_count: int
    size: int


class RowSpool:
    """Sequence of items, from which the last ones can be removed again.

    Memory is bounded by the storage's limit, plus the shape and decoder of each table with rows in
    the spool. The spool must not change while it is iterated.

    Args:
        storage: memory and file; None: a new one of the default size.

    Attributes:
        size: bytes of the rows events in the spool.
    """

    def __init__(self, storage: SpoolStorage | None = None) -> None:
        self._storage = SpoolStorage() if storage is None else storage
        self.size = 0
        # The last items, which are in memory, and the memory of each.
        self._items: list[SpoolItem] = []
        self._costs: list[int] = []
        # The first items, which are in the file: their number, their bytes, and their blocks.
        self._written_count = self._written_size = 0
        self._blocks: list[int] = []
        # Number and bytes of the items in the file before each write.
        self._starts: list[tuple[int, int]] = []
        self._tables: list[tuple[TableShape, RowImageDecoder]] = []
        self._table_numbers: dict[int, int] = {}

    def __len__(self) -> int:
        return self._written_count + len(self._items)

    def append(self, item: SpoolItem) -> None:
        """Add an item at the end.

        Raises:
            SpoolError: the temporary file cannot be written; the spool is unchanged.
        """
        size = item.event_size if isinstance(item, RowsOfEvent) else 0
        cost = _OVERHEAD + (size or _text_size(item))
        storage = self._storage
        if self._items and storage.memory_used + cost > storage.memory_limit:
            self._write_items()
        self._items.append(item)
        self._costs.append(cost)
        storage.memory_used += cost
        self.size += size

    def mark(self) -> SpoolMark:
        """Return the point after the last item, for :meth:`truncate`."""
        return SpoolMark(len(self), self.size)

    def truncate(self, mark: SpoolMark) -> None:
        """Remove everything after a point.

        Args:
            mark: a point that :meth:`mark` returned and that was not removed itself since.

        Raises:
            ValueError: the spool has fewer items.
            SpoolError: the temporary file cannot be read.
        """
        if mark.item_count > len(self):
            raise ValueError(f"mark at item {mark.item_count} of a spool of {len(self)}")
        kept = max(0, mark.item_count - self._written_count)
        self._storage.memory_used -= sum(self._costs[kept:])
        del self._items[kept:], self._costs[kept:]
        if mark.item_count < self._written_count:
            size = self._offset_of(mark.item_count)
            used = -(-size // BLOCK_SIZE)
            released = self._blocks[used:]
            del self._blocks[used:]
            self._written_count, self._written_size = mark.item_count, size
            while self._starts and self._starts[-1][0] >= mark.item_count:
                self._starts.pop()
            self._storage.give_back(released)
        self.size = mark.size

    def __iter__(self) -> Iterator[SpoolItem]:
        """Yield the items in order; may be iterated again.

        Raises:
            SpoolError: the temporary file cannot be read.
        """
        reader = SpoolReader(self._storage, self._blocks)
        for _ in range(self._written_count):
            yield self._unpacked(reader.take(int.from_bytes(reader.take(_LENGTH_SIZE), "little")))
        yield from self._items

    def spill(self) -> None:
        """Move the items in memory to the file.

        Raises:
            SpoolError: the temporary file cannot be written; the spool is unchanged.
        """
        if self._items:
            self._write_items()

    def close(self) -> None:
        """Remove everything, and release memory and blocks; the spool may be used again.

        Raises:
            SpoolError: the temporary file cannot be emptied.
        """
        self.truncate(SpoolMark(0, 0))
        self._tables, self._table_numbers = [], {}

    def _write_items(self) -> None:
        """Move the items in memory to the file."""
        start = (self._written_count, self._written_size)
        pending = bytearray()
        try:
            for item in self._items:
                data = self._packed(item)
                pending += len(data).to_bytes(_LENGTH_SIZE, "little")
                pending += data
                if len(pending) >= _WRITE_SIZE:
                    self._write(pending)
                    pending = bytearray()
            self._write(pending)
        except BaseException:
            self._written_size = start[1]
            used = -(-start[1] // BLOCK_SIZE)
            released = self._blocks[used:]
            del self._blocks[used:]
            self._storage.give_back(released)
            raise
        self._starts.append(start)
        self._written_count += len(self._items)
        self._storage.memory_used -= sum(self._costs)
        self._items, self._costs = [], []

    def _write(self, data: bytearray) -> None:
        with memoryview(data) as rest:
            at = 0
            while at < len(rest):
                offset = self._written_size % BLOCK_SIZE
                if self._written_size // BLOCK_SIZE == len(self._blocks):
                    self._blocks.append(self._storage.take_block())
                part = rest[at : at + BLOCK_SIZE - offset]
                self._storage.write(self._blocks[-1], offset, part)
                at += len(part)
                self._written_size += len(part)

    def _offset_of(self, count: int) -> int:
        """Return the offset in the file at which an item begins."""
        number, offset = self._starts[bisect_right(self._starts, (count, self._written_size)) - 1]
        reader = SpoolReader(self._storage, self._blocks, offset)
        for _ in range(count - number):
            reader.skip(int.from_bytes(reader.take(_LENGTH_SIZE), "little"))
        return reader.offset

    # Serialization of items.

    def _packed(self, item: SpoolItem) -> bytes:
        import pickle  # few transactions wait in a file

        if not isinstance(item, RowsOfEvent):
            return pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        number = self._table_numbers.get(id(item.decoder))
        if number is None:
            number = self._table_numbers[id(item.decoder)] = len(self._tables)
            self._tables.append((item.shape, item.decoder))
        values = (number, item.event, item.event_index, item.first_row, item.gtid)
        return pickle.dumps(values, pickle.HIGHEST_PROTOCOL)

    def _unpacked(self, data: bytes) -> SpoolItem:
        import pickle

        # This process wrote the data, into a file that no other can open.
        found: SpoolItem | tuple[int, BinlogEvent, int, int, str] = pickle.loads(data)
        if not isinstance(found, tuple):
            return found
        number, event, event_index, first_row, gtid = found
        return RowsOfEvent(event, *self._tables[number], event_index, first_row, gtid)


def _text_size(item: SpoolItem) -> int:
    if isinstance(item, Statement):
        return 4 * len(item.text)
    return 4 * len(item.statement) if isinstance(item, SchemaChange) else 0
