"""Binlog files as raw events: one file after the other, each event's bytes with its position."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from replica_client.binlog.encryption_mysql import (
    ENCRYPTION_HEADER_SIZE,
    ContentCipher,
    EncryptionHeader,
)
from replica_client.binlog.file_scan import MAGIC_SIZE, FileKind, file_kind
from replica_client.binlog.header import HEADER_SIZE, HEADER_SIZE_V1
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType
from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ConfigError,
    LimitExceededError,
    TruncatedEventError,
)
from replica_client.readers.group_lane import split_events

CHUNK_SIZE = 1 << 20

_FORMATS = bytes(
    (
        EventType.START_EVENT_V3,
        EventType.FORMAT_DESCRIPTION_EVENT,
        EventType.START_ENCRYPTION_EVENT,
    )
)
_BINLOG_NAME = re.compile(r"^.+\.\d{3,}$")


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """A binlog file to read: its name as the source calls it, and where its bytes are."""

    name: str
    path: Path | None
    stream: BinaryIO | None = None

    def open(self) -> BinaryIO:
        """Open the file; a given stream is used as it is.

        Raises:
            ConfigError: the file cannot be opened.
        """
        if self.stream is not None:
            return self.stream
        assert self.path is not None
        try:
            return self.path.open("rb")
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror or error}") from error


def binlog_files(source: str | Path | BinaryIO | Sequence[str | Path]) -> list[BinlogFile]:
    """The files that ``open_binlog`` was asked for, in order.

    A directory gives its binlog files (``name.NNNNNN``, index files left out) by number; a list is
    taken in its order; an object with ``read`` is one file.

    Raises:
        ConfigError: nothing is there.
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.is_dir():
            found = [p for p in path.iterdir() if p.is_file() and _BINLOG_NAME.match(p.name)]
            if not found:
                raise ConfigError(
                    f"{path}: no binlog file (name.NNNNNN) in this directory; name the files"
                )
            return [BinlogFile(p.name, p) for p in sorted(found, key=_by_number)]
        if not path.exists():
            raise ConfigError(f"{path}: no such file; give the path of a binlog or a directory")
        return [BinlogFile(path.name, path)]
    if isinstance(source, Sequence):
        if not source:
            raise ConfigError("no binlog file was given")
        return [file for item in source for file in binlog_files(item)]
    name = getattr(source, "name", "")
    return [BinlogFile(Path(name).name if isinstance(name, str) else "", None, source)]


def _by_number(path: Path) -> tuple[str, int]:
    stem, _, number = path.name.rpartition(".")
    return stem, int(number)


class EventSource:
    """Cuts a file into its events.

    Args:
        stream: what to read, behind the magic.
        file: name for errors.
        cipher: decrypts what is read, for a file that MySQL encrypted.

    Attributes:
        position: offset in the plain file of the next event.
    """

    def __init__(self, stream: BinaryIO, file: str, cipher: ContentCipher | None = None) -> None:
        self._stream = stream
        self._file = file
        self._cipher = cipher
        self._buffer = b""
        self._start = 0
        self._read = MAGIC_SIZE
        self.position = MAGIC_SIZE

    def _fill(self, size: int) -> int:
        """Have ``size`` bytes ready if the file has them; returns how many are."""
        ready = len(self._buffer) - self._start
        if ready >= size:
            return ready
        parts = [self._buffer[self._start :]]
        while ready < size:
            part = self._stream.read(max(CHUNK_SIZE, min(size - ready, 16 * CHUNK_SIZE)))
            if not part:
                break
            if self._cipher is not None:
                part = self._cipher.apply(part, self._read)
            self._read += len(part)
            parts.append(part)
            ready += len(part)
        self._buffer = b"".join(parts)
        self._start = 0
        return ready

    def next_event(self, header_size: int, max_event_size: int) -> bytes | None:
        """The next whole event; None at the end of the file.

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
            return None
        at = self._start
        if ready < HEADER_SIZE_V1:
            raise self._truncated(header_size - ready)
        size = int.from_bytes(self._buffer[at + 9 : at + 13], "little")
        type_code = self._buffer[at + 4]
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
        data = self._buffer[self._start : self._start + size]
        self._start += size
        self.position += size
        return data

    def more_events(self, max_event_size: int) -> list[bytes]:
        """The events that follow the last one and are in memory, up to one that changes the format.

        Only for a file whose headers have 19 bytes and whose events are not encrypted. Where
        something is wrong it stops, so that :meth:`next_event` tells.
        """
        events = split_events(self._buffer, self._start, max_event_size, _FORMATS)
        size = sum(map(len, events))
        self.position += size
        self._start += size
        return events

    def skip_to(self, position: int) -> None:
        """Move forward to where an event starts.

        Raises:
            TruncatedEventError: the file ends before.
        """
        while self.position < position:
            ready = self._fill(min(CHUNK_SIZE, position - self.position))
            if not ready:
                raise TruncatedEventError(
                    f"position {position} is beyond the end of the file",
                    file=self._file,
                    position=self.position,
                )
            step = min(ready, position - self.position)
            self._start += step
            self.position += step

    def _truncated(self, missing: int) -> TruncatedEventError:
        return TruncatedEventError(
            f"the file ends inside an event: {missing} bytes are missing",
            file=self._file,
            position=self.position,
        )


def open_events(stream: BinaryIO, file: str, options: DecodeOptions) -> EventSource:
    """Check a file's first bytes, and stand before its first event.

    Raises:
        BinlogDecodeError: not a binlog, or encrypted and no key of ``options`` fits.
    """
    try:
        magic = stream.read(MAGIC_SIZE)
        if file_kind(magic) is FileKind.PLAIN:
            return EventSource(stream, file)
        head = magic + stream.read(ENCRYPTION_HEADER_SIZE - MAGIC_SIZE)
        cipher = EncryptionHeader.decode(head).open(options.keys)
        cipher.check_magic(cipher.apply(stream.read(MAGIC_SIZE), 0))
        return EventSource(stream, file, cipher)
    except BinlogDecodeError as error:
        raise error.at(file=file) from error.__cause__
