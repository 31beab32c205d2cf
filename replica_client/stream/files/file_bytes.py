"""Raw events of binlog files, on disk or in memory."""

from __future__ import annotations

import io
import mmap
import os
import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, cast

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ConfigError,
    LimitExceededError,
    TruncatedEventError,
    without_secrets,
)
from replica_client.protocol.binlog.encryption import (
    ENCRYPTION_HEADER_SIZE,
    ContentCipher,
    EncryptionHeader,
)
from replica_client.protocol.binlog.event import (
    HEADER_SIZE_V1,
    MAGIC_SIZE,
    DecodeOptions,
    FileKind,
    file_kind,
)
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.codec.turns import Turn, outside
from replica_client.protocol.constants.event_types import EventType
from replica_client.storage.files import open_file
from replica_client.storage.location import Location, ObjectUrl, location
from replica_client.stream.files.file_names import found_files, in_order, index_files
from replica_client.stream.files.innodb_events import InnodbEvents
from replica_client.stream.files.read_at import read_at


class InMemoryBytes(io.RawIOBase):
    """Stream over ``bytes``, a ``memoryview``, an ``mmap`` or other contiguous memory.

    Args:
        memory: the whole file.

    Attributes:
        memory: the file's bytes.
        offset: offset of the next byte to read.

    Raises:
        ConfigError: the memory is not contiguous.
    """

    def __init__(self, memory: Any) -> None:
        super().__init__()
        try:
            self.memory = memoryview(memory).cast("B")
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a binlog in memory has to be contiguous bytes: {error}") from None
        self.offset = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the next bytes into a buffer and return their number."""
        part = self.memory[self.offset : self.offset + len(buffer)]
        buffer[: len(part)] = part
        self.offset += len(part)
        return len(part)


CHUNK_SIZE = 2 << 20

_FORMATS = bytes(
    (
        EventType.START_EVENT_V3,
        EventType.FORMAT_DESCRIPTION_EVENT,
        EventType.START_ENCRYPTION_EVENT,
    )
)
_MAX_READ = 16 << 20
_MIN_SEEK = 64 << 10
IN_MEMORY = "memory"
"""Name of a file of bytes in memory."""

FileSource = (
    str
    | Path
    | ObjectUrl
    | BinaryIO
    | Sequence[str | Path | ObjectUrl]
    | bytes
    | bytearray
    | memoryview
    | mmap.mmap
)
"""The forms in which binlog files are given: see :func:`binlog_files`."""


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """A binlog file to read: its name at the source, and the place of its bytes.

    Attributes:
        name: the file's name.
        path: its place, local or in an object store; None if it is not a file.
        stream: a stream to read instead.
        memory: bytes to read instead, without a copy.
        is_mapped: read the operating system's pages of the file in place.
    """

    name: str
    path: Location | None
    stream: BinaryIO | None = None
    memory: memoryview | None = None
    is_mapped: bool = False

    def open(self) -> BinaryIO:
        """Open the file; a given stream is used as it is.

        Raises:
            ConfigError: the file cannot be opened.
            StorageError: an object store refuses, or cannot be reached.
        """
        if self.stream is not None:
            return self.stream
        if self.memory is not None:
            return cast(BinaryIO, InMemoryBytes(self.memory))
        assert self.path is not None
        try:
            stream = open_file(self.path)
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error
        return _mapped(stream) if self.is_mapped and isinstance(self.path, Path) else stream


def _mapped(stream: BinaryIO) -> BinaryIO:
    """Map a file into memory; return the file itself if it is empty or cannot be mapped."""
    try:
        pages = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return stream
    stream.close()
    if hasattr(mmap, "MADV_SEQUENTIAL"):
        pages.madvise(mmap.MADV_SEQUENTIAL)
    # The map is freed with its last view.
    return cast(BinaryIO, InMemoryBytes(pages))


def binlog_files(source: FileSource, memory_map: bool = False) -> list[BinlogFile]:
    """List the files given to ``open_binlog``, in order.

    A path may be the URL of an object store (``s3://bucket/backup``), where the prefix of other
    objects is a directory. A directory stands for its binlog files (``name.NNNNNN``, without index
    files) by number, and so does a glob (``backup/binlog.*``) unless a file has that name. Files of
    a list whose names differ only in the number are ordered by it; index files that a shell's glob
    found with binlogs are left out. An object with ``read`` is one file, and so are bytes.

    Args:
        source: the files, as above.
        memory_map: read the pages of files in place.

    Raises:
        ConfigError: nothing is found, or a URL of another kind.
        StorageError: an object store refuses, or cannot be reached.
    """
    if isinstance(source, str) and source.startswith(("mysql://", "mariadb://")):
        raise ConfigError(
            f"{without_secrets(source)}: it is the URL of a live source: follow it with rc.follow(url), or"
            " rc.connect(url) in asyncio"
        )
    if isinstance(source, (str, Path, ObjectUrl)):
        return [
            BinlogFile(one.name, one.where, is_mapped=memory_map)
            for one in found_files(location(source))
        ]
    if isinstance(source, (bytes, bytearray, memoryview, mmap.mmap)):
        return [BinlogFile(IN_MEMORY, None, memory=InMemoryBytes(source).memory)]
    if isinstance(source, Sequence):
        if not source:
            raise ConfigError("no binlog file was given")
        paths = cast(Sequence[str | Path | ObjectUrl], source)
        found = [file for path in paths for file in binlog_files(path, memory_map)]
        beside = index_files({file.name for file in found})
        return in_order((file for file in found if file.name not in beside), attrgetter("name"))
    if not hasattr(source, "read"):
        raise ConfigError(
            f"a binlog is a path, a list of paths, a binary file object or bytes, not {type(source).__name__}"
        )
    name = getattr(source, "name", "")
    if isinstance(source, io.TextIOBase):
        raise ConfigError(f"the file object {name} gives text; open it with open(path, 'rb')")
    return [BinlogFile(Path(name).name if isinstance(name, str) else "", None, source)]


class EventSource:
    """Cutter of a file into its events.

    Args:
        stream: the stream to read, after the magic.
        file: name for errors.
        cipher: decrypts the bytes of a file that MySQL encrypted.
        events: an empty queue whose memory is reused; None: a new one.
        turn: the turn that this thread has, and gives up while it reads; see
            :mod:`~replica_client.protocol.codec.turns`.

    Attributes:
        events: whole events that were cut and not taken.
        position: offset in the plain file after :attr:`events`.
        ahead_until: offset in the plain file; nothing after it is read before it is requested.
    """

    def __init__(
        self,
        stream: BinaryIO,
        file: str,
        cipher: ContentCipher | None = None,
        events: EventQueue | None = None,
        turn: Turn | None = None,
    ) -> None:
        self._stream = stream
        self._turn = turn
        self._read_into = getattr(stream, "readinto", None) if cipher is None else None
        self._descriptor = -1 if cipher is not None else _descriptor_of(stream)
        self._file = file
        self._cipher = cipher
        self._read = MAGIC_SIZE
        self.ahead_until = sys.maxsize
        self._is_in_memory = isinstance(stream, InMemoryBytes) and cipher is None
        self.events = EventQueue() if events is None else events
        if isinstance(stream, InMemoryBytes) and cipher is None:
            self.events.lend(stream.memory, stream.offset)
        self.position = MAGIC_SIZE

    def _fill(self, size: int) -> int:
        """Read until ``size`` bytes follow the events, if the file has them; return how many do."""
        events = self.events
        while events.uncut < size:
            ahead = min(CHUNK_SIZE, self.ahead_until - self._read)
            wanted = max(ahead, min(size - events.uncut, _MAX_READ))
            if self._is_in_memory:
                count = min(wanted, events.left)
                events.received(count)
            elif self._descriptor >= 0:
                with events.room(wanted) as room:
                    count = read_at(self._descriptor, room, self._read, self._turn)
                events.received(count)
            elif self._read_into is not None:
                with events.room(wanted) as room, outside(self._turn):
                    count = self._read_into(room) or 0
                events.received(count)
            else:
                with outside(self._turn):
                    part = self._stream.read(wanted)
                if self._cipher is not None and part:
                    part = self._cipher.apply(part, self._read)
                count = len(part)
                events.put(part)
            if not count:
                break
            self._read += count
        return events.uncut

    def next_event(self, header_size: int, max_event_size: int) -> bytes | None:
        """Return the next whole event; None at the end of the file.

        Only while :attr:`events` is empty.

        Arguments and errors as in :meth:`cut_event`.
        """
        if not self.cut_event(header_size, max_event_size):
            return None
        return self.events.take()

    def cut_event(self, header_size: int, max_event_size: int) -> bool:
        """Read the next event into :attr:`events`; return False at the end of the file.

        Args:
            header_size: of the events' common headers, as far as known.
            max_event_size: bytes that it may have.

        Raises:
            TruncatedEventError: the file ends inside it.
            BinlogFormatError: its size is smaller than its header.
            LimitExceededError: it is larger than ``max_event_size``.
        """
        ready = self._fill(HEADER_SIZE)
        if not ready:
            return False
        if ready < HEADER_SIZE_V1:
            raise self._truncated(header_size - ready)
        header = self.events.peek(0, HEADER_SIZE_V1)
        size = int.from_bytes(header[9:13], "little")
        type_code = header[4]
        if type_code == EventType.START_EVENT_V3:
            header_size = HEADER_SIZE_V1
        if size < header_size:
            raise BinlogFormatError(
                f"event size {size} is smaller than its header",
                file=self._file,
                position=self.position,
                event_type=type_code,
            )
        if size > max_event_size:
            raise LimitExceededError(
                f"event of {size} bytes is larger than max_event_size ({max_event_size})",
                file=self._file,
                position=self.position,
                event_type=type_code,
            )
        ready = self._fill(size)
        if ready < size:
            raise self._truncated(size - ready)
        self.events.cut(size)
        self.position += size
        return True

    def cut_more(self, max_event_size: int, checks: bool = False, checks_all: bool = False) -> None:
        """Cut the events in memory that follow, up to one that changes the format.

        Only for a file whose headers have 19 bytes and whose events are not encrypted. Stops at
        anything wrong, so that :meth:`cut_event` reports it.

        Args:
            max_event_size: bytes that an event may have.
            checks: verify the checksums of the events, as far as that is quicker now than later.
            checks_all: verify the checksums of all events.
        """
        self.position += self.events.split(max_event_size, _FORMATS, checks, self._turn)
        if checks_all:
            self.events.verify(self._turn)

    def skip_to(self, position: int) -> None:
        """Move forward to the start of an event.

        Raises:
            TruncatedEventError: the file ends before.
        """
        self._seek(position)
        while self.position < position:
            ready = self._fill(min(CHUNK_SIZE, position - self.position))
            if not ready:
                raise TruncatedEventError(
                    f"position {position} is beyond the end of the file",
                    file=self._file,
                    position=self.position,
                )
            step = min(ready, position - self.position)
            self.events.pass_over(step)
            self.position += step

    def _seek(self, position: int) -> None:
        """Seek over bytes that need not be read, unless the file is decrypted or in memory."""
        step = position - self.position - self.events.uncut
        stream = self._stream
        if step < _MIN_SEEK or self._cipher is not None or self._is_in_memory:
            return
        if self._descriptor >= 0:
            if self._read + step > os.fstat(self._descriptor).st_size:
                return
        elif isinstance(stream, io.IOBase) and stream.seekable():
            here = stream.tell()
            if here + step > stream.seek(0, io.SEEK_END):
                stream.seek(here)
                return
            stream.seek(here + step)
        else:
            return
        self.events.pass_over(self.events.uncut)
        self._read += step
        self.position = position

    def _truncated(self, missing: int) -> TruncatedEventError:
        return TruncatedEventError(
            f"the file ends inside an event: {missing} bytes are missing",
            file=self._file,
            position=self.position,
        )


def _descriptor_of(stream: BinaryIO) -> int:
    """Return the descriptor of a file that can be read at any position; -1 for other streams."""
    if type(stream) is io.BufferedReader and type(stream.raw) is io.FileIO and stream.seekable():
        return stream.fileno() if stream.tell() == MAGIC_SIZE else -1
    return -1


def open_events(
    stream: BinaryIO,
    file: str,
    options: DecodeOptions,
    events: EventQueue | None = None,
    turn: Turn | None = None,
) -> EventSource:
    """Check a file's first bytes and return a source that stands before its first event.

    Args:
        stream: what to read.
        file: its name, for errors.
        options: how events are decoded.
        events: an empty queue whose memory is used again; None: one of its own.
        turn: as in :class:`EventSource`.

    Raises:
        BinlogDecodeError: not a binlog, or encrypted and no key of ``options`` fits.
    """
    try:
        magic = stream.read(MAGIC_SIZE)
        kind = file_kind(magic)
        if kind is FileKind.PLAIN:
            return EventSource(stream, file, None, events, turn)
        if kind is FileKind.INNODB:
            innodb = cast(BinaryIO, InnodbEvents(stream, file, options))
            return EventSource(innodb, file, None, events, turn)
        head = magic + stream.read(ENCRYPTION_HEADER_SIZE - MAGIC_SIZE)
        cipher = EncryptionHeader.decode(head).open(options.keys)
        cipher.check_magic(cipher.apply(stream.read(MAGIC_SIZE), 0))
        return EventSource(stream, file, cipher, events, turn)
    except BinlogDecodeError as error:
        raise error.at(file=file) from error.__cause__
