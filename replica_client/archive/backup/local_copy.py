"""One file of a backup: only appended to, looked through on start, closed as the source closes it."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from typing import Any, Final

from replica_client.archive.backup.backup_catalog import (
    FileRecord,
    following_name,
    is_binlog_name,
    naming,
)
from replica_client.errors import (
    BackupMismatchError,
    BinlogDecodeError,
    ChecksumMismatchError,
    GtidFormatError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import FIRST_EVENT, MAGIC
from replica_client.protocol.binlog.layout import CLASSES, HEADER_SIZE, EventClass
from replica_client.protocol.codec.crc import crc32
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.protocol.constants.event_types import (
    ChecksumAlgorithm,
    EventFlag,
    EventType,
    event_type_name,
)
from replica_client.protocol.gtid import Gtid, GtidSet, GtidSetBuilder, MariadbGtid, MariadbGtidSet
from replica_client.storage.durable import sync_directory
from replica_client.stream.position.groups import STEPS, Ending, State, class_of, step

_LOG = logging.getLogger("replica_client.archive")

_SETS: Final = frozenset((int(EventType.PREVIOUS_GTIDS_LOG_EVENT), int(EventType.GTID_LIST_EVENT)))
_GTIDS: Final = frozenset((EventClass.GTID, EventClass.GTID_BEGIN, EventClass.MARIADB_GTID))


class GtidPositions:
    """The GTID set of one file, which a GTID joins when its transaction ends.

    An event that cannot be decoded makes the set unknown; the copy goes on.

    Attributes:
        before: the set at the file's start, None where the file has none.
    """

    __slots__ = ("_decoder", "_mariadb", "_mysql", "_pending", "_state", "before")

    def __init__(self, decoder: BinlogDecoder) -> None:
        self._decoder = decoder
        self._mysql: GtidSetBuilder | None = None
        self._mariadb: MariadbGtidSet | None = None
        self._pending: Gtid | MariadbGtid | None = None
        self._state = State.BETWEEN
        self.before: GtidSet | MariadbGtidSet | None = None

    @property
    def after(self) -> GtidSet | MariadbGtidSet | None:
        """The set with the transactions that ended."""
        return self._mysql.snapshot() if self._mysql is not None else self._mariadb

    def feed(self, data: bytes, position: int) -> None:
        """Take an event of the file, header to checksum."""
        code = data[4]
        if self._pending is None and code not in _SETS and CLASSES[code] not in _GTIDS:
            return
        try:
            if code in _SETS:
                self._begin(data, position)
            else:
                self._step(data, position)
        except (BinlogDecodeError, GtidFormatError) as error:
            _LOG.warning("the GTID set of this file stays unknown: %s", error)
            self._mysql = self._mariadb = self._pending = None

    def _begin(self, data: bytes, position: int) -> None:
        body = self._decoder.decode(data, position).body
        if data[4] == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            self.before = body.gtid_set
            self._mysql = GtidSetBuilder(body.gtid_set)
        else:
            self.before = self._mariadb = MariadbGtidSet(MariadbGtid(*gtid) for gtid in body.gtids)

    def _step(self, data: bytes, position: int) -> None:
        event_class, gtid = EventClass(CLASSES[data[4]]), self._pending
        ending = step(STEPS, self._state, event_class)
        if event_class in _GTIDS or ending & Ending.UNCERTAIN:
            event = self._decoder.decode(data, position)
            ending = step(STEPS, self._state, class_of(event))
            if event_class in _GTIDS:
                body, self._pending = event.body, None
                if event_class is EventClass.MARIADB_GTID:
                    server_id = event.header.server_id
                    self._pending = MariadbGtid(body.domain_id, server_id, body.sequence)
                elif data[4] != EventType.ANONYMOUS_GTID_LOG_EVENT:
                    self._pending = Gtid(body.sid, body.gno, body.tag)
        self._state = State(ending & Ending.STATE)
        # A payload holds all of its transaction.
        if event_class is not EventClass.PAYLOAD and not ending & Ending.ENDS:
            return
        self._pending = None
        if isinstance(gtid, MariadbGtid):
            if self._mariadb is not None:
                self._mariadb = self._mariadb.add(gtid)
        elif gtid is not None and self._mysql is not None:
            self._mysql.add(gtid)


HEADER: Final = Struct("<IBIIIH")
"""timestamp, type code, server id, event size, next position, flags."""

_FLAGS_POSITION: Final = FIRST_EVENT + 17
_IN_USE: Final = int(EventFlag.LOG_EVENT_BINLOG_IN_USE_F)
_CHUNK_SIZE: Final = 1 << 20
_CHECKSUM_SIZE: Final = 4
_FORMAT_DESCRIPTION: Final = int(EventType.FORMAT_DESCRIPTION_EVENT)
_ROTATE: Final = int(EventType.ROTATE_EVENT)
_ENDINGS: Final = (_ROTATE, int(EventType.STOP_EVENT))


def without_in_use(description: bytes) -> bytes:
    """Return a format description with LOG_EVENT_BINLOG_IN_USE_F cleared, as sources send it."""
    return description[:17] + bytes((description[17] & ~_IN_USE,)) + description[18:]


class LocalCopy:
    """The file that a backup writes.

    While the source writes its file, the format description has LOG_EVENT_BINLOG_IN_USE_F; sources
    clear it in what they send, and in the file when they close it. Its checksum is always that of the
    cleared flag. The copy has the flag as long as it is not finished, too: it equals the source's file
    at any time.

    Attributes:
        record: its entry in the index.
        size: bytes of whole events in it, magic number included.
        last_position: where its last event begins; 0 when there is none.
        description: the format description as a source sends it; empty before it is there.
    """

    def __init__(self, directory: Path, record: FileRecord) -> None:
        self.record = record
        self.path = directory / record.name
        self.size = 0
        self.last_position = 0
        self.description = b""
        self.ended = False
        self._decoder = BinlogDecoder(file=record.name)
        self._gtid_positions = GtidPositions(self._decoder)
        self._hash = hashlib.sha256()
        self._pending: list[bytes] = []
        self._dirty = False
        with naming(self.path):
            is_new = not self.path.exists()
            self._handle = os.open(
                self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640
            )
        if is_new:
            sync_directory(directory)

    @property
    def flavor(self) -> ServerFlavor:
        """The flavor of the server that wrote the file."""
        return self._decoder.format.flavor

    @property
    def has_checksums(self) -> bool:
        """Whether the events of the file end in a CRC-32."""
        return self._decoder.format.checksum_algorithm == ChecksumAlgorithm.CRC32

    # Scanning the existing file.

    def scan(self) -> None:
        """Find the last whole event, and cut off the bytes after it.

        The size and CRC of every event are checked; GTID sets and the hash are computed again. A
        file whose last event closes it then only needs :meth:`finish`.

        Raises:
            OSError: it cannot be read or written.
        """
        with naming(self.path):
            there = os.fstat(self._handle).st_size
            for data in self._whole_events(there):
                try:
                    self._take(data)
                except BinlogDecodeError:
                    break
            if self.size < there:
                _LOG.warning(
                    "%s: cut off %d bytes after the last whole event at %d",
                    self.path,
                    there - self.size,
                    self.size,
                )
                os.ftruncate(self._handle, self.size)
            self._set_in_use(True)
            os.fsync(self._handle)

    def look_at_finished(self) -> None:
        """Find the last event of a file that is finished, to compare it with the source's.

        Raises:
            BackupMismatchError: it is not whole any more.
            OSError: it cannot be read.
        """
        with naming(self.path):
            for data in self._whole_events(self.record.size):
                if not self.size:
                    self.description = without_in_use(data)
                    self._decoder.decode(data, FIRST_EVENT)
                self.last_position = self.size or FIRST_EVENT
                self.size = self.last_position + len(data)
        if self.size != self.record.size:
            raise BackupMismatchError(
                f"{self.path} is not whole any more: its events end at {self.size}, it had "
                f"{self.record.size} bytes; bring back the file as it was"
            )
        self.ended = True

    def _whole_events(self, there: int) -> Iterator[bytes]:
        buffer = os.pread(self._handle, _CHUNK_SIZE, 0)
        if buffer[:FIRST_EVENT] != MAGIC:
            return
        offset, base = FIRST_EVENT, 0
        while True:
            needed = HEADER_SIZE
            if len(buffer) - offset >= HEADER_SIZE:
                needed = HEADER.unpack_from(buffer, offset)[3]
                if needed < HEADER_SIZE or base + offset + needed > there:
                    return
                if len(buffer) - offset >= needed:
                    yield bytes(buffer[offset : offset + needed])
                    offset += needed
                    continue
            base += offset
            buffer = os.pread(self._handle, max(_CHUNK_SIZE, needed), base)
            offset = 0
            if len(buffer) < needed:
                return

    # Writing.

    def append(self, data: bytes) -> None:
        """Add an event whose place was checked; :meth:`flush` writes it.

        Raises:
            BinlogDecodeError: its checksum is wrong; nothing was added.
        """
        size = self.size
        self._take(data)
        if not size:
            data = MAGIC + self.description
            data = (
                data[:_FLAGS_POSITION]
                + bytes((data[_FLAGS_POSITION] | _IN_USE,))
                + (data[_FLAGS_POSITION + 1 :])
            )
        self._pending.append(data)

    def _take(self, data: bytes) -> None:
        position = self.size or FIRST_EVENT
        timestamp, code = HEADER.unpack_from(data)[:2]
        record = self.record
        if not self.size:
            data = self._begin(data, timestamp)
            self._hash.update(MAGIC)
        else:
            self.check(data, position)
        if code == _ROTATE:
            follows = self._decoder.decode(data, position).body.next_file
            if not is_binlog_name(follows):
                raise BinlogDecodeError(
                    f"it names {follows!r:.100} as the next file, which is not a binlog file name",
                    file=record.name,
                    position=position,
                    event_type=code,
                    event_name=event_type_name(code),
                )
            record.next_file = following_name(record.name, follows)
        elif code == EventType.START_ENCRYPTION_EVENT:
            record.decrypted = True
        self._gtid_positions.feed(data, position)
        self.ended = code in _ENDINGS
        self._hash.update(data)
        self.last_position = position
        self.size = position + len(data)
        if timestamp:
            record.last_timestamp = timestamp

    def _begin(self, data: bytes, timestamp: int) -> bytes:
        if data[4] != _FORMAT_DESCRIPTION:
            raise BinlogDecodeError(
                f"the file begins with an event of type {data[4]}, not with a format description",
                file=self.record.name,
                position=FIRST_EVENT,
            )
        self._decoder.decode(data, FIRST_EVENT)
        self.description = without_in_use(data)
        self.record.first_timestamp = timestamp
        return self.description

    def check(self, data: bytes, position: int) -> None:
        """Compare an event's CRC with its bytes.

        Raises:
            ChecksumMismatchError: they differ.
        """
        if not self.has_checksums:
            return
        stored = int.from_bytes(data[-_CHECKSUM_SIZE:], "little")
        computed = crc32(memoryview(data)[:-_CHECKSUM_SIZE])
        if stored != computed:
            raise ChecksumMismatchError(
                f"CRC-32 is {stored:08x}, that of the bytes is {computed:08x}",
                file=self.record.name,
                position=position,
                event_type=data[4],
            )

    def read(self, position: int, size: int) -> bytes:
        """Return bytes that were flushed, with the flag of the format description cleared."""
        with naming(self.path):
            data = os.pread(self._handle, size, position)
        return without_in_use(data) if position == FIRST_EVENT else data

    def flush(self) -> None:
        """Write the appended bytes to the operating system.

        Raises:
            OSError: the disk is full, or failed.
        """
        if not self._pending:
            return
        data: Any = memoryview(b"".join(self._pending))
        position = self.size - len(data) if self.size > len(data) else 0
        with naming(self.path):
            while data:
                written = os.pwrite(self._handle, data, position)
                position += written
                data = data[written:]
        self._pending.clear()
        self._dirty = True

    def sync(self) -> None:
        """Sync all bytes to disk and update the entry for the index.

        Raises:
            OSError: the disk is full, or failed.
        """
        rest = self.begin_sync()
        if rest is not None:
            rest()

    def begin_sync(self) -> Callable[[], None] | None:
        """Return a function that syncs the flushed bytes to disk while this thread appends more.

        None when all is on disk. The entry for the index counts these bytes already, so save it
        after the call.
        """
        self.flush()
        self._describe()
        if not self._dirty:
            return None
        self._dirty = False
        handle = os.dup(self._handle)

        def sync() -> None:
            try:
                with naming(self.path):
                    os.fsync(handle)
            finally:
                os.close(handle)

        return sync

    def _describe(self) -> None:
        record, before, after = self.record, self._gtid_positions.before, self._gtid_positions.after
        record.size = self.size
        record.gtid_set_before = None if before is None else _text(before)
        record.gtid_set_after = None if after is None else _text(after)

    def finish(self) -> None:
        """Close the file as the source did.

        A MariaDB that crashed leaves the flag in the file that it was writing; every other way of
        ending a file clears it (but see :meth:`leave_in_use`).

        Raises:
            OSError: the disk is full, or failed.
        """
        crashed = not self.ended and self.flavor is ServerFlavor.MARIADB
        self.flush()
        with naming(self.path):
            self._set_in_use(crashed)
            os.fsync(self._handle)
        self._dirty = False
        self._describe()
        self.record.sha256 = self._flagged_hash() if crashed else self._hash.hexdigest()
        self.record.finished = True

    def leave_in_use(self) -> None:
        """Set the in-use flag of a finished file again: its source crashed between two files.

        MariaDB writes the ROTATE event, makes the next file, and only then clears the flag. The
        next file shows a crash in between: a server that had just started made it.

        Raises:
            OSError: the disk is full, or failed.
        """
        with naming(self.path):
            self._set_in_use(True)
            os.fsync(self._handle)
        self.record.sha256 = self._flagged_hash()

    def close(self) -> None:
        """Close the handle; bytes that were not flushed are dropped."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _set_in_use(self, in_use: bool) -> None:
        if os.fstat(self._handle).st_size < FIRST_EVENT + HEADER_SIZE:
            return
        flags = os.pread(self._handle, 1, _FLAGS_POSITION)[0]
        wanted = flags | _IN_USE if in_use else flags & ~_IN_USE
        if flags != wanted:
            os.pwrite(self._handle, bytes((wanted,)), _FLAGS_POSITION)

    def _flagged_hash(self) -> str:
        digest = hashlib.sha256()
        position = 0
        while chunk := os.pread(self._handle, _CHUNK_SIZE, position):
            digest.update(chunk)
            position += len(chunk)
        return digest.hexdigest()


def _text(gtid_set: object) -> str:
    return str(gtid_set).replace("\n", "") if isinstance(gtid_set, GtidSet) else str(gtid_set)
