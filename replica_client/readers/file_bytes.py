"""Binlog files as raw events: one file after the other, each event's bytes with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from replica_client.errors import BinlogFormatError, ConfigError, LimitExceededError
from replica_client.errors import TruncatedEventError

BINLOG_MAGIC = b"\xfebin"
ENCRYPTED_MAGIC = b"\xfdbin"
CHUNK_SIZE = 1 << 20

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


class ByteSource:
    """Reads exact sizes from a stream through one buffer.

    Args:
        stream: what to read; only ``read`` is used, and ``seek`` when it has it.
        file: name for errors.
    """

    def __init__(self, stream: BinaryIO, file: str) -> None:
        self._stream = stream
        self._file = file
        self._buffer = b""
        self._start = 0
        self.position = 0

    def fill(self, size: int) -> int:
        """Have ``size`` bytes ready if the file has them; returns how many are ready."""
        ready = len(self._buffer) - self._start
        if ready >= size:
            return ready
        parts = [self._buffer[self._start :]]
        while ready < size:
            part = self._stream.read(max(CHUNK_SIZE, min(size - ready, 16 * CHUNK_SIZE)))
            if not part:
                break
            parts.append(part)
            ready += len(part)
        self._buffer = b"".join(parts)
        self._start = 0
        return ready

    def peek(self, size: int) -> bytes:
        """Up to ``size`` bytes without moving."""
        self.fill(size)
        return self._buffer[self._start : self._start + size]

    def take(self, size: int) -> bytes:
        """Exactly ``size`` bytes.

        Raises:
            TruncatedEventError: the file ends before.
        """
        ready = self.fill(size)
        if ready < size:
            raise TruncatedEventError(
                f"the file ends {size - ready} bytes early", file=self._file, position=self.position
            )
        data = self._buffer[self._start : self._start + size]
        self._start += size
        self.position += size
        return data

    def skip_to(self, position: int) -> None:
        """Move forward to a position of the file."""
        while self.position < position:
            ready = self.fill(min(CHUNK_SIZE, position - self.position))
            if not ready:
                raise TruncatedEventError(
                    f"position {position} is beyond the end of the file",
                    file=self._file,
                    position=self.position,
                )
            step = min(ready, position - self.position)
            self._start += step
            self.position += step


def raw_events(
    source: ByteSource, file: str, header_size: int, max_event_size: int
) -> Iterator[tuple[int, bytes]]:
    """``(position, bytes)`` of each whole event from where ``source`` stands to the file's end.

    Raises:
        TruncatedEventError: the file ends inside an event; all before it was yielded.
        BinlogFormatError: an event size smaller than its header.
        LimitExceededError: an event larger than ``max_event_size``.
    """
    while True:
        head = source.peek(header_size)
        if not head:
            return
        position = source.position
        if len(head) < header_size:
            raise TruncatedEventError(
                f"the file ends {header_size - len(head)} bytes early inside an event header",
                file=file,
                position=position,
            )
        size = int.from_bytes(head[9:13], "little")
        if size < header_size:
            raise BinlogFormatError(
                f"event size {size} is smaller than its header", file=file, position=position
            )
        if size > max_event_size:
            raise LimitExceededError(
                f"event of {size} bytes; the limit max_event_size is {max_event_size}",
                file=file,
                position=position,
                event_type=head[4],
            )
        yield position, source.take(size)
