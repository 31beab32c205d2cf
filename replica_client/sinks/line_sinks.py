"""Row changes as lines of text: on standard output and in files of a directory.

Standard output: a position store saves the position after the lines were written: after a crash
between the two, the lines are written again. Parts of a large transaction wait in a temporary file
until it is complete.

Files: ``NAME-000001.jsonl``, ``NAME-000002.jsonl`` …: the sink writes the last file; earlier files
are closed and never touched again. ``NAME.checkpoint.json`` has the number of the last file, the
number of its committed bytes, and the position after them. When the sink is opened again, bytes
after the committed ones are cut off, and their changes are delivered again.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from replica_client.errors import ConfigError, SinkError
from replica_client.sinks.formats.line_format import (
    FormatOptions,
    LineFormat,
    OutboxFormat,
    chosen_format,
)
from replica_client.sinks.formats.message import Message
from replica_client.sinks.formats.native import NativeFormat
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.registry import Count, PathText, Seconds, read_options
from replica_client.sinks.writing import (
    Batches,
    CheckpointFile,
    DirectoryLock,
    Worker,
    check_file_owner,
    check_writable,
    in_thread,
    os_errors,
    owners_of_file,
)
from replica_client.storage.durable import DATA_MODE, sync_directory, write_all
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Claim, Owner
from replica_client.stream.transactions.transaction import Transaction

_PIECE_SIZE = 256 << 10
"""Characters after which a piece is encoded."""


def encode_lines(
    line_format: LineFormat, transactions: Iterable[Transaction]
) -> Iterator[bytes | bytearray]:
    """Yield all lines in UTF-8 with line ends.

    A piece has many lines, or a part of a large line. Bytes that are not UTF-8 (in a name) are
    written as a JSON escape.
    """
    if isinstance(line_format, NativeFormat):
        yield from line_format.encoded(transactions)
        return
    for transaction in transactions:
        yield from _encoded(line_format.lines(transaction))


def encode_messages(messages: Iterable[Message]) -> Iterator[bytes]:
    """Yield the values of messages in UTF-8 with line ends; see :func:`encode_lines`."""
    yield from _encoded(message.value for message in messages)


def _encoded(lines: Iterable[str]) -> Iterator[bytes]:
    waiting: list[str] = []
    size = 0
    for line in lines:
        if len(line) >= _PIECE_SIZE:
            yield from _pieces(waiting)
            size = 0
        waiting.append(line)
        size += len(line) + 1
        if size >= _PIECE_SIZE:
            del line  # free it before the next line is built
            yield from _pieces(waiting)
            size = 0
    yield from _pieces(waiting)


def _pieces(lines: list[str]) -> Iterator[bytes]:
    """Yield the lines as encoded pieces, and empty the list.

    A large line, which is alone in the list, is encoded part by part instead of being copied whole.
    """
    if not lines:
        return
    text = "\n".join(lines)
    lines.clear()
    if len(text) < 2 * _PIECE_SIZE:
        yield f"{text}\n".encode("utf-8", "backslashreplace")
        return
    for at in range(0, len(text), _PIECE_SIZE):
        yield text[at : at + _PIECE_SIZE].encode("utf-8", "backslashreplace")
    yield b"\n"


_STDOUT = 1
_PIECE = 1 << 20


class StdoutOptions(FormatOptions, frozen=True, kw_only=True):
    """Options of the sink ``stdout``.

    Attributes:
        memory_bytes: bytes of an incomplete transaction's lines that are kept in memory; further
            lines go to a temporary file.
    """

    memory_bytes: Count = 16 << 20


def make_stdout(table: Mapping[str, object]) -> StdoutSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(StdoutOptions, table, "sink stdout")
    return StdoutSink(options, chosen_format(options))


class StdoutSink:
    """The sink ``stdout``; see the module.

    Args:
        options: what the user chose.
        line_format: makes the lines.
        descriptor: file descriptor to write to.
    """

    guarantee = Guarantee.AT_LEAST_ONCE
    holds_position = False

    def __init__(
        self, options: StdoutOptions, line_format: LineFormat, descriptor: int = _STDOUT
    ) -> None:
        self._options = options
        self._format = line_format
        self._descriptor = descriptor
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._spool: tempfile.SpooledTemporaryFile[bytes] | None = None

    def route_outbox(self) -> None:
        self._format = OutboxFormat(self._format)

    async def open(self) -> Checkpoint | None:
        return None

    async def write(self, transaction: Transaction) -> None:
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        await self._batches.add_some(transactions, size)

    @property
    def takes_snapshot(self) -> bool:
        return True

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        await self._batches.flush()
        await self._worker.run(self._take_snapshot, rows)

    async def commit(self, checkpoint: Checkpoint) -> None:
        await self._batches.flush()

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._drop)
        self._worker.stop()

    def _take(self, transactions: list[Transaction]) -> None:
        with os_errors("standard output"):
            for transaction in transactions:
                if transaction.complete and self._spool is None:
                    for data in encode_lines(self._format, (transaction,)):
                        write_all(self._descriptor, data)
                else:
                    self._spool_part(transaction)

    def _take_snapshot(self, rows: SnapshotRows) -> None:
        with os_errors("standard output"):
            for data in encode_messages(self._format.snapshot(rows)):
                write_all(self._descriptor, data)

    def _spool_part(self, transaction: Transaction) -> None:
        if self._spool is None:
            # Closed by _drop, in another call.
            self._spool = tempfile.SpooledTemporaryFile(self._options.memory_bytes)  # noqa: SIM115
        for data in encode_lines(self._format, (transaction,)):
            self._spool.write(data)
        if transaction.complete:
            self._spool.seek(0)
            while piece := self._spool.read(_PIECE):
                write_all(self._descriptor, piece)
            self._drop()

    def _drop(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()


_NUMBERED: Final = re.compile(r"-([0-9]{6,})\.jsonl")


class FileOptions(FormatOptions, frozen=True, kw_only=True):
    """Options of the sink ``file``.

    Attributes:
        path: the directory; created if it does not exist.
        name: first part of the file names.
        rotate_bytes: bytes after which a file is closed at the next commit.
        rotate_seconds: age in seconds after which a file is closed at the next commit; 0: never.
    """

    path: PathText
    name: str = "changes"
    rotate_bytes: Count = 256 << 20
    rotate_seconds: Seconds = 0.0


def make_file(table: Mapping[str, object]) -> FileSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(FileOptions, table, "sink file")
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", options.name):
        raise ConfigError("sink file: name: letters, digits and _.- are wanted")
    return FileSink(options, chosen_format(options))


class FileSink:
    """The sink ``file``; see the module.

    Args:
        options: what the user chose.
        line_format: makes the lines.
    """

    guarantee = Guarantee.EXACTLY_ONCE
    holds_position = True

    def __init__(self, options: FileOptions, line_format: LineFormat) -> None:
        self._options = options
        self._format = line_format
        self._directory = local_path(options.path, "sink file: path")
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._append))
        self._lock: DirectoryLock | None = None
        self._checkpoints = CheckpointFile(self._directory, options.name)
        self._file: _OpenFile | None = None
        self._claim: Claim | None = None
        self._owner = ""

    def claim(self, claim: Claim) -> None:
        self._claim = claim

    async def owners(self) -> Sequence[Owner]:
        found = await self._worker.run(self._checkpoints.load)
        return owners_of_file(None if found is None else found[1], str(self._directory))

    async def saved(self) -> Checkpoint | None:
        found = await self._worker.run(self._checkpoints.load)
        return None if found is None else found[0]

    async def probe(self) -> None:
        await self._worker.run(check_writable, self._directory)

    def route_outbox(self) -> None:
        self._format = OutboxFormat(self._format)

    async def open(self) -> Checkpoint | None:
        return await self._worker.run(self._open)

    async def write(self, transaction: Transaction) -> None:
        await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        await self._batches.add_some(transactions, size)

    @property
    def takes_snapshot(self) -> bool:
        return True

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        await self._batches.flush()
        await self._worker.run(self._append_snapshot, rows)

    async def commit(self, checkpoint: Checkpoint) -> None:
        await self._batches.flush()
        await self._worker.run(self._commit, checkpoint)

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._close)
        self._worker.stop()

    def _open(self) -> Checkpoint | None:
        with os_errors(str(self._directory)):
            self._directory.mkdir(parents=True, exist_ok=True)
            found = self._checkpoints.load()
            self._owner = check_file_owner(
                self._claim, None if found is None else found[1], str(self._checkpoints.path)
            )
            self._lock = DirectoryLock(self._directory)
            found = self._checkpoints.load()
            number, length, begun, checkpoint = 1, 0, time.time(), None
            if found is not None:
                checkpoint, saved = found
                number, length = int(saved["file"]), int(saved["length"])
                begun = float(saved["begun"])
            self._remove_behind(number)
            file = self._file = _OpenFile(self._path(number), number, length, begun)
            if checkpoint is not None and found is not None:
                if found[1].get("owner") != self._owner:
                    self._save(checkpoint, file)  # a standby has this configuration, too
            return checkpoint

    def _remove_behind(self, number: int) -> None:
        """Remove the files after the last one: nothing in them was committed."""
        for path in self._directory.glob(f"{self._options.name}-*.jsonl"):
            match = _NUMBERED.fullmatch(path.name.removeprefix(self._options.name))
            if match and int(match[1]) > number:
                path.unlink()

    def _path(self, number: int) -> Path:
        return self._directory / f"{self._options.name}-{number:06d}.jsonl"

    def _append(self, transactions: list[Transaction]) -> None:
        file = self._opened()
        for data in encode_lines(self._format, transactions):
            with os_errors(str(file.path)):
                file.append(data)

    def _append_snapshot(self, rows: SnapshotRows) -> None:
        file = self._opened()
        for data in encode_messages(self._format.snapshot(rows)):
            with os_errors(str(file.path)):
                file.append(data)

    def _commit(self, checkpoint: Checkpoint) -> None:
        file = self._opened()
        with os_errors(str(file.path)):
            file.check_whole()
            file.sync()
            if self._is_full(file):
                # The checkpoint names the new file from now on; the full one is never opened again.
                file.close()
                file = self._file = _OpenFile(
                    self._path(file.number + 1), file.number + 1, 0, time.time()
                )
            self._save(checkpoint, file)

    def _save(self, checkpoint: Checkpoint, file: _OpenFile) -> None:
        saved = {
            "file": file.number,
            "length": file.length,
            "begun": file.begun,
            "owner": self._owner,
        }
        self._checkpoints.save(checkpoint, saved)

    def _is_full(self, file: _OpenFile) -> bool:
        if not file.length:
            return False
        age = self._options.rotate_seconds
        return file.length >= self._options.rotate_bytes or (
            age > 0 and time.time() - file.begun >= age
        )

    def _opened(self) -> _OpenFile:
        if self._file is None:
            raise SinkError(f"{self._directory}: the sink is not open")
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
        if self._lock is not None:
            self._lock.release()


class _OpenFile:
    """The file that is being written.

    Args:
        path: path of the file.
        number: number of the file.
        length: number of committed bytes; the bytes after them are cut off.
        begun: when the file was begun, in seconds since 1970.

    Raises:
        SinkError: committed bytes are missing.
    """

    def __init__(self, path: Path, number: int, length: int, begun: float) -> None:
        self.path, self.number, self.length, self.begun = path, number, length, begun
        self._descriptor = -1
        self._dirty = False
        found = path.exists()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, DATA_MODE)
        self._descriptor = descriptor
        if not found:
            sync_directory(path.parent)
        size = os.fstat(descriptor).st_size
        if size < length:
            self.close()
            raise SinkError(
                f"{path} has {size} bytes, of which {length} were committed: restore it, or start over "
                "in an empty directory"
            )
        if size > length:
            os.ftruncate(descriptor, length)
            os.fsync(descriptor)

    def append(self, data: bytes | bytearray) -> None:
        write_all(self._descriptor, data)
        self.length += len(data)
        self._dirty = True

    def check_whole(self) -> None:
        """Check that the file still has its name and everything that was written to it.

        Raises:
            SinkError: the file was removed, replaced or truncated.
        """
        ours = os.fstat(self._descriptor)
        try:
            named = os.stat(self.path)
        except FileNotFoundError:
            named = None
        if named is None or (named.st_dev, named.st_ino) != (ours.st_dev, ours.st_ino):
            raise SinkError(
                f"{self.path} was removed or replaced while it was written: what it had is lost; bring it back, or "
                "start over in an empty directory (rotate_bytes and rotate_seconds close files)"
            )
        if ours.st_size != self.length:
            raise SinkError(
                f"{self.path} has {ours.st_size} bytes, of which {self.length} were written: it was cut or written by "
                "another process; restore it, or start over in an empty directory"
            )

    def sync(self) -> None:
        if self._dirty:
            os.fsync(self._descriptor)
            self._dirty = False

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()
