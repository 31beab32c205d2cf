"""JSON Lines in files of a directory.

``NAME-000001.jsonl``, ``NAME-000002.jsonl`` …: the sink writes the last file; earlier files are
closed and never touched again. ``NAME.checkpoint.json`` has the number of the last file, the number
of its committed bytes, and the position after them. When the sink is opened again, bytes after the
committed ones are cut off, and their changes are delivered again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from replica_client.errors import ConfigError, SinkError
from replica_client.sinks.formats.line_format import LineFormat, chosen_format
from replica_client.sinks.formats.outbox import OutboxFormat
from replica_client.sinks.output_directory import (
    CheckpointFile,
    DirectoryLock,
    check_file_owner,
    check_writable,
    os_errors,
    owners_of_file,
)
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.registry import Count, PathText, Seconds, read_options
from replica_client.sinks.stdout_sink import encode_lines, encode_messages
from replica_client.sinks.worker import Batches, Worker, in_thread
from replica_client.storage.durable import DATA_MODE, sync_directory, write_all
from replica_client.storage.location import local_path
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Claim, Owner
from replica_client.stream.transactions.transaction import Transaction

_NUMBERED: Final = re.compile(r"-([0-9]{6,})\.jsonl")


class FileOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``file``.

    Attributes:
        path: the directory; created if it does not exist.
        name: first part of the file names.
        format: ``native``, ``debezium``, ``maxwell``, ``canal`` or ``cloudevents``.
        format_options: options of the format.
        rotate_bytes: bytes after which a file is closed at the next commit.
        rotate_seconds: age in seconds after which a file is closed at the next commit; 0: never.
    """

    path: PathText
    name: str = "changes"
    format: str = "native"
    format_options: dict[str, Any] = {}
    rotate_bytes: Count = 256 << 20
    rotate_seconds: Seconds = 0.0


def make(table: Mapping[str, object]) -> FileSink:
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
