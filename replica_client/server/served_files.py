"""Binlog files as a server serves them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from replica_client.archive.backup.backup_catalog import following_name, series_of
from replica_client.errors import BinlogFormatError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import FIRST_EVENT, MAGIC, BinlogFormat, EventHeader
from replica_client.protocol.binlog.events import (
    FormatDescriptionEvent,
    GtidEvent,
    GtidTaggedEvent,
    MariadbGtidEvent,
    MariadbGtidListEvent,
    PreviousGtidsEvent,
    RotateEvent,
)
from replica_client.protocol.binlog.layout import EVENT_SIZE_OFFSET, HEADER_SIZE
from replica_client.protocol.codec.byte_fields import ByteReader
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.server.transactions import GTID_TYPES, Transactions

MAX_SCANNED_SIZE = 1 << 30
MAX_KEPT = 10_000
_CHUNK_SIZE = 256 * 1024

_HEAD_TYPES = frozenset(
    (
        EventType.FORMAT_DESCRIPTION_EVENT,
        EventType.PREVIOUS_GTIDS_LOG_EVENT,
        EventType.GTID_LIST_EVENT,
        EventType.START_ENCRYPTION_EVENT,
    )
)


class ServedFile:
    """One binlog file: bytes on disk, and bytes appended in memory.

    Args:
        name: as the source calls it.
        path: file on disk; it is never written.
        data: contents instead of a file (with magic number).
        epoch: number of the source's server that wrote it, where the source had several in turn.
        limit: bytes of the file on disk that count; None: all.
        rename: how the file that a ROTATE names is called here.

    Attributes:
        name: as the source calls it.
        path: file on disk; None without one.
        epoch: as given.
        description: the format description's bytes as they are in the file.
        format: layout of its events.
        server_id: of the server that wrote it.
        head_size: where the first event after the descriptive ones is.
        previous: GTIDs of all files before it; None when it does not say.
        transactions: of the file, by position.
        following: the file after it, once it was purged; None before.
    """

    def __init__(
        self,
        name: str,
        path: Path | None = None,
        data: bytes = b"",
        *,
        epoch: int = 0,
        limit: int | None = None,
        rename: Callable[[str], str] = str,
    ) -> None:
        self.name = name
        self.path = path
        self.epoch = epoch
        self._limit = limit
        self._rename = rename
        self._handle: int | None = None
        self._readers = 0
        self._base_size = self._size_on_disk()
        self._extra = bytearray(data)
        self._headers: dict[int, EventHeader] = {}
        self._last: int | None = None
        self.previous: GtidSet | MariadbGtidSet | None = None
        self.following: ServedFile | None = None
        self._read_head()
        self.transactions = Transactions(self)

    @property
    def stored_name(self) -> str:
        """The file's name on disk or in an archive."""
        return self.name if self.path is None else self.path.name

    @property
    def series(self) -> tuple[int, int]:
        """The server that wrote it: the epoch, and the series within it for a relay as source."""
        return self.epoch, series_of(self.stored_name) if self.epoch else 0

    @property
    def size(self) -> int:
        """The file's size in bytes, including what was appended in memory."""
        return self._base_size + len(self._extra)

    @property
    def modified(self) -> float:
        """When the file on disk was last written, seconds since 1970; 0 without one."""
        return 0.0 if self.path is None else self.path.stat().st_mtime

    @property
    def flavor(self) -> ServerFlavor:
        """The flavor of the server that wrote it."""
        return self.format.flavor

    @contextlib.contextmanager
    def opened(self) -> Iterator[None]:
        """Keep the file on disk open while it is read, so that it may be removed meanwhile."""
        if self._handle is None and self.path is not None:
            self._handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers and self._handle is not None:
                os.close(self._handle)
                self._handle = None

    @contextlib.asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """Hold the file open for reading; subclasses fetch its contents."""
        with self.opened():
            yield

    def append(self, data: bytes) -> None:
        """Add event bytes at the end, in memory."""
        self._extra += data

    def cut(self, size: int) -> None:
        """Serve at most ``size`` bytes of the file."""
        self._limit = size
        self._base_size = min(self._base_size, size)
        self._headers.clear()
        self._last = None
        self.transactions.clear()

    def _size_on_disk(self) -> int:
        if self.path is None:
            return 0
        size = self.path.stat().st_size
        return size if self._limit is None else min(size, self._limit)

    def grow(self) -> bool:
        """Update the size from disk; return whether the file grew: never after :meth:`append`."""
        if self.path is None or self._extra:
            return False
        size = self._size_on_disk()
        grown = size > self._base_size
        head_is_whole = self.head_is_whole
        self._base_size = max(self._base_size, size)
        if grown and not head_is_whole:
            self._read_head()
            self.transactions.clear()
        return grown

    def shrink(self) -> None:
        """Follow a file on disk whose end was cut off, before another file takes its place."""
        if self.path is not None and not self._extra and self._size_on_disk() < self._base_size:
            self.cut(self._size_on_disk())

    @property
    def head_is_whole(self) -> bool:
        """Whether the GTIDs before the file are known, or an event follows where they would be."""
        return self.previous is not None or self.size > self.head_size

    def read(self, position: int, size: int) -> bytes:
        """Return up to ``size`` bytes from a position."""
        out = b""
        if position < self._base_size and self.path is not None:
            with self.opened():
                if self._handle is not None:
                    wanted = min(size, self._base_size - position)
                    out = os.pread(self._handle, wanted, position)
        if len(out) < size and self._extra:
            start = max(0, position + len(out) - self._base_size)
            out += bytes(self._extra[start : start + size - len(out)])
        return out

    def header_at(self, position: int) -> EventHeader | None:
        """Return the header of the event at a position; None if no whole event is there.

        Headers are cached: files only grow.
        """
        known = self._headers.get(position)
        if known is not None:
            return known
        head = self.read(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return None
        header = EventHeader.decode(ByteReader(head))
        if header.event_size < HEADER_SIZE or position + header.event_size > self.size:
            return None
        if len(self._headers) >= MAX_KEPT:
            self._headers.clear()
        self._headers[position] = header
        return header

    def headers(self, position: int = FIRST_EVENT) -> Iterator[tuple[int, EventHeader]]:
        """Yield the position and header of each whole event from a position on."""
        chunk, base = b"", position
        while True:
            offset = position - base
            if not 0 <= offset <= len(chunk) - HEADER_SIZE:
                chunk, base, offset = self.read(position, _CHUNK_SIZE), position, 0
                if len(chunk) < HEADER_SIZE:
                    return
            header = EventHeader.decode(ByteReader(chunk[offset : offset + HEADER_SIZE]))
            if header.event_size < HEADER_SIZE or position + header.event_size > self.size:
                return
            yield position, header
            position += header.event_size

    @property
    def next_file(self) -> str | None:
        """The file that the closing ROTATE event names; None while the file does not end in one."""
        last = self._last_event()
        if last is None or last[1].type_code != EventType.ROTATE_EVENT:
            return None
        data = self.read(last[0], last[1].event_size)
        body: RotateEvent = BinlogDecoder(file=self.name, format=self.format).decode(data, 0).body
        return self._rename(following_name(self.stored_name, body.next_file))

    def _last_event(self) -> tuple[int, EventHeader] | None:
        found = None
        start = FIRST_EVENT if self._last is None else self._last
        for position, header in self.headers(start):
            found = position, header
        if found is not None:
            self._last = found[0]
        return found

    def begins_transaction(self, position: int, header: EventHeader) -> Gtid | MariadbGtid | None:
        """Return the GTID of the event at a position; None if it has none."""
        if header.type_code not in GTID_TYPES:
            return None
        return self.gtid_of(self.read(position, header.event_size))

    def gtids(self) -> Iterator[Gtid | MariadbGtid]:
        """Yield the GTIDs of the file's transactions."""
        for position, header in self.headers():
            gtid = self.begins_transaction(position, header)
            if gtid is not None:
                yield gtid

    def gtid_of(self, data: bytes) -> Gtid | MariadbGtid | None:
        """Return the GTID of an event of :data:`GTID_TYPES`; None for an anonymous one."""
        event = BinlogDecoder(file=self.name, format=self.format).decode(data, 0)
        body = event.body
        if isinstance(body, MariadbGtidEvent):
            return MariadbGtid(body.domain_id, event.header.server_id, body.sequence)
        anonymous = event.header.type_code == EventType.ANONYMOUS_GTID_LOG_EVENT
        if isinstance(body, GtidEvent | GtidTaggedEvent) and body.gno and not anonymous:
            return Gtid(body.sid, body.gno, body.tag)
        return None

    @staticmethod
    def event_size(data: bytes, offset: int) -> int:
        """Return the size of the event that begins at an offset in a buffer."""
        return int.from_bytes(
            data[offset + EVENT_SIZE_OFFSET : offset + EVENT_SIZE_OFFSET + 4], "little"
        )

    def executed(self) -> GtidSet | MariadbGtidSet:
        """Return the GTIDs of all files up to this one's end; counted events are not read again."""
        return self.transactions.executed()

    def sent_description(self, from_start: bool = True, keep_created: bool = True) -> bytes:
        """Return the format description as a source sends it.

        The IN_USE flag is cleared. In the middle of a file the event is artificial:
        ``next_position`` and the creation time are 0, so that a replica does not take it for the
        start of a new server.
        """
        decoder = BinlogDecoder(file=self.name)
        event = decoder.decode(self.description, FIRST_EVENT)
        body: FormatDescriptionEvent = event.body
        header = replace(
            event.header, flags=event.header.flags & ~EventFlag.LOG_EVENT_BINLOG_IN_USE_F
        )
        if not from_start:
            header = replace(header, next_position=0)
        if not keep_created:
            body = replace(body, create_timestamp=0)
        return encode_event(replace(event, header=header, body=body), self.format)

    def _read_head(self) -> None:
        if self.read(0, 4) != MAGIC:
            raise BinlogFormatError(
                "it does not begin with fe 62 69 6e: not a binlog file, or an encrypted one",
                file=self.name,
                position=0,
            )
        decoder = BinlogDecoder(file=self.name)
        self.description = b""
        self.head_size = FIRST_EVENT
        for position, header in self.headers():
            if header.type_code not in _HEAD_TYPES or header.event_size > MAX_SCANNED_SIZE:
                break
            data = self.read(position, header.event_size)
            self.head_size = position + header.event_size
            if header.type_code == EventType.FORMAT_DESCRIPTION_EVENT and not self.description:
                self.description = data
                self.server_id = header.server_id
            body = decoder.decode(data, position).body
            if isinstance(body, PreviousGtidsEvent):
                self.previous = body.gtid_set
            elif isinstance(body, MariadbGtidListEvent):
                self.previous = MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)
        if not self.description:
            raise BinlogFormatError(
                "no format description at its start: only binlog version 4 can be served",
                file=self.name,
                position=FIRST_EVENT,
            )
        self.format: BinlogFormat = decoder.format
