"""The checkpoint of a pipeline, and its writer's lock.

The id counts the change log's batches; it is bound to the checkpoint, because batch numbers start
again with a new one. The start is resolved once: ``latest`` means the moment of the first run, also
when that run was killed before its first batch.

On this machine it is the system's lock of a file. In a store it is an object that its owner
rewrites every few seconds, each time on condition that nobody else did. Another pipeline that finds
the object waits until it has not changed for a while, and then takes it over. An owner that lost
the object without noticing cannot write the catalog any more: that has conditions of its own
(:mod:`replica_client.lake.lake_catalog`).
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    PositionStoreError,
    SinkError,
    StorageConflictError,
    StorageError,
)
from replica_client.lake.parquet_files import make_directory
from replica_client.protocol.position import Position
from replica_client.storage.durable import open_locked, replace_file
from replica_client.storage.files import names_in, read_file, remove_files
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import ObjectStore, ObjectVersion

SCHEMA_KEY = "schema"
"""Member of a stream's offset with table definitions that the binlog alone does not have."""

_FILE: Final = "replica-client.json"
_OFFSETS: Final = "offsets"
_KEPT: Final = 100
"""Offsets that stay: the tables may be so many batches older than the change log."""


@dataclass(frozen=True)
class PipelineState:
    """Id of the pipeline, the source's startingPosition of its first run, and the offset that it meant then."""

    pipeline: str
    start: str
    begin: dict[str, Any]


class Checkpoint:
    """The position of a pipeline's stream.

    A file ``offsets/N`` has the end of batch N, and is written before the batch is read. The change log's commit
    records N: a batch without one is read again, between the same positions. In a store each file is created on
    condition that no other driver did it.

    Args:
        directory: of the checkpoint, on this machine or in a store.

    Attributes:
        state: of the pipeline; None before :meth:`create`.
        number: of the batch that was planned last; -1 for none.
        begin: its first offset.
        end: its last offset.
        committed: whether the change log has it.
    """

    def __init__(self, directory: Location) -> None:
        self.directory = directory
        self.state: PipelineState | None = None
        self.number = -1
        self.begin: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        self.committed = True
        data = self._read(_FILE)
        if data is None:
            return
        try:
            self.state = PipelineState(**json.loads(data))
            names = names_in(directory / _OFFSETS)
            self.number = max((int(name) for name in names if name.isdecimal()), default=-1)
            self.begin = self.offset(self.number - 1)
            self.end = self.offset(self.number)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(directory, error) from None

    def _read(self, name: str) -> bytes | None:
        try:
            return read_file(self.directory / name)
        except (OSError, StorageError) as error:
            raise self._unreadable(self.directory / name, error) from None

    @staticmethod
    def _unreadable(where: Location, error: Exception) -> PositionStoreError:
        return PositionStoreError(f"{where} cannot be read ({error}); restore it from a backup")

    def offset(self, number: int) -> dict[str, Any]:
        """Return the end of a batch, or where batches begin.

        Raises:
            PositionStoreError: it cannot be read.
        """
        assert self.state is not None
        if number < 0:
            return self.state.begin
        name = f"{_OFFSETS}/{number}"
        data = self._read(name)
        try:
            if data is None:
                raise ValueError("it is gone")
            return dict(json.loads(data))
        except (ValueError, TypeError) as error:
            raise self._unreadable(self.directory / name, error) from None

    @property
    def reached(self) -> dict[str, Any]:
        """The last offset that the change log has."""
        return self.end if self.committed else self.begin

    @property
    def position(self) -> Position:
        """The position of :attr:`reached`."""
        return Position.from_json(self.reached)

    def create(self, start: str, begin: dict[str, Any]) -> None:
        """Write the state of a new pipeline.

        Raises:
            PositionStoreError: the state cannot be written.
            ConfigError: another driver wrote it.
        """
        self.state = PipelineState(uuid.uuid4().hex, start, begin)
        self.begin = self.end = begin
        self._write(_FILE, asdict(self.state))

    def plan(self, end: dict[str, Any]) -> None:
        """Record the end of the next batch, which begins at :attr:`reached`.

        Raises:
            PositionStoreError: it cannot be written.
            ConfigError: another driver planned this batch.
        """
        assert self.committed
        self._write(f"{_OFFSETS}/{self.number + 1}", end)
        self.number += 1
        self.begin, self.end, self.committed = self.end, end, False
        with suppress(OSError, StorageError):
            remove_files(self.directory / _OFFSETS / str(self.number - _KEPT))

    def _write(self, name: str, value: dict[str, Any]) -> None:
        where = self.directory / name
        data = json.dumps(value).encode()
        try:
            if isinstance(where, ObjectUrl):
                ObjectStore(where).create("", data)
            else:
                make_directory(where.parent)
                replace_file(where, data, mode=0o666)
        except StorageConflictError:
            raise OutputInUseError(
                f"{where}: another pipeline wrote it; this one ends, and nothing of what it did since is seen"
            ) from None
        except OSError as error:
            raise PositionStoreError(
                f"{where}: {error.strerror}; free space, or choose another checkpoint"
            ) from None


LOCK: Final = ".replica-client.lock"
RENEWAL: Final = 1.0
"""Seconds between two writes of the object."""

PATIENCE: Final = 5.0
"""Seconds without a write after which the object counts as abandoned."""

_LOOK: Final = 0.25


class OutputInUseError(ConfigError):
    """Raised when another pipeline writes the output."""


@contextmanager
def locked(
    output: Location, *, stand_by: Callable[[OutputInUseError], None] | None = None
) -> Iterator[Callable[[], bool]]:
    """Hold the lock of the output; one pipeline at a time writes there.

    Gives a function that says whether this process still holds the lock of a store.

    Args:
        output: the pipeline's output.
        stand_by: called when another pipeline runs, before waiting for its end; None: do not wait.

    Raises:
        ConfigError: another pipeline runs.
        SinkError: the directory cannot be created.
        StorageError: the store cannot be used: it ignores conditions, refuses, or cannot be
            reached.
    """
    if isinstance(output, ObjectUrl):
        lease = _Lease(output)
        with lease.kept(stand_by):
            yield lease.is_owner
        return
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(_locked_directory(output))
                break
            except OutputInUseError as error:
                if stand_by is None:
                    raise
                stand_by(error)
                time.sleep(_LOOK)
        yield lambda: False


@contextmanager
def _locked_directory(output: Path) -> Iterator[None]:
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock = open_locked(output / LOCK)
    except BlockingIOError:
        raise _refusal(output) from None
    except OSError as error:
        raise SinkError(f"{output}: {error.strerror}; choose another output directory") from None
    try:
        yield
    finally:
        os.close(lock)


def _refusal(output: Location, owner: str = "") -> OutputInUseError:
    by = f" ({owner})" if owner else ""
    return OutputInUseError(
        f"{output}: another pipeline writes there{by}; stop it, or choose another output"
    )


class _Lease:
    """The object of a store that names the writer."""

    def __init__(self, output: ObjectUrl) -> None:
        self._output = output
        self._store = ObjectStore(output)
        self._owner = f"process {os.getpid()} of {socket.gethostname()}"
        self._ended = threading.Event()
        self._count = 0

    @contextmanager
    def kept(self, stand_by: Callable[[OutputInUseError], None] | None) -> Iterator[None]:
        self._store.require_conditional_put()
        self._version = self._taken(stand_by)
        renewal = threading.Thread(target=self._renew, name="lake-lease", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            self._ended.set()
            renewal.join()
            with suppress(StorageError):
                self._store.replace(LOCK, self._stated(free=True), self._version)

    def is_owner(self) -> bool:
        """Return whether the object is what this process wrote last.

        Raises:
            StorageError: the store refuses, or cannot be reached.
        """
        for _ in range(3):  # it may be renewed just now
            if self._store.status(LOCK).version.e_tag == self._version.e_tag:
                return True
            time.sleep(_LOOK)
        return False

    def _stated(self, *, free: bool = False) -> bytes:
        self._count += 1
        value = {
            "owner": "" if free else self._owner,
            "count": self._count,
            "id": os.urandom(8).hex(),
        }
        return json.dumps(value).encode()

    def _taken(self, stand_by: Callable[[OutputInUseError], None] | None) -> ObjectVersion:
        """Take the lock, and return the version of the object that this process wrote.

        Raises:
            OutputInUseError: another owner is alive, and this process does not stand by.
        """
        while True:
            try:
                data, version = self._store.get(LOCK)
            except ObjectNotFoundError:
                with suppress(StorageConflictError):
                    return self._store.create(LOCK, self._stated())
                continue
            # The clock starts at each write that is seen, so that a death is noticed PATIENCE after it.
            owner, until = _owner_in(data), time.monotonic() + PATIENCE
            alive = False
            while owner and not alive and time.monotonic() < until:
                time.sleep(_LOOK)
                alive = self._store.status(LOCK).version.e_tag != version.e_tag
            if not alive:
                with suppress(StorageConflictError):
                    return self._store.replace(LOCK, self._stated(), version)
            refusal = _refusal(self._output, owner)
            if stand_by is None:
                raise refusal
            stand_by(refusal)

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL):
            try:
                self._version = self._store.replace(LOCK, self._stated(), self._version)
            except StorageConflictError:
                return  # another pipeline took the lock; the catalog refuses ours
            except StorageError:
                continue


def _owner_in(data: bytes) -> str:
    try:
        return str(json.loads(data)["owner"])
    except (ValueError, KeyError, TypeError):
        return "an unknown one"
