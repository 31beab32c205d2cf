"""The state of a pipeline, and its writer's lock.

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
from typing import Final

from replica_client.errors import (
    ConfigError,
    ObjectNotFoundError,
    PositionStoreError,
    SinkError,
    StorageConflictError,
    StorageError,
)
from replica_client.schema.history import SchemaHistory
from replica_client.storage.durable import open_locked, replace_file
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.object_store import ObjectStore, ObjectVersion

SCHEMA_KEY = "schema"
"""Member of a stream's offset with table definitions that the binlog alone does not have."""

_FILE = "replica-client.json"
_SCHEMA = "replica-client-schema.json"


@dataclass(frozen=True)
class PipelineState:
    """Id of the pipeline, and the source's startingPosition of its first run."""

    pipeline: str
    start: str


def load_state(checkpoint: Path) -> PipelineState | None:
    """Read the state next to a checkpoint; return None when there is none.

    Raises:
        PositionStoreError: the state exists and cannot be read.
    """
    path = checkpoint / _FILE
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return PipelineState(str(value["pipeline"]), str(value["start"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PositionStoreError(
            f"{path} cannot be read ({error}); restore it from a backup"
        ) from None


def create_state(checkpoint: Path, start: str) -> PipelineState:
    """Write the state of a new pipeline, atomically.

    Raises:
        PositionStoreError: the state cannot be written.
    """
    state = PipelineState(uuid.uuid4().hex, start)
    path = checkpoint / _FILE
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(asdict(state)).encode(), mode=0o666)
    except OSError as error:
        raise PositionStoreError(
            f"{path}: {error.strerror}; nothing was started: free space or choose another output"
        ) from None
    return state


def keep_schema(checkpoint: Path, history: SchemaHistory) -> None:
    """Save the definitions of the tables at the start; call it before :func:`create_state`."""
    path = checkpoint / _SCHEMA
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        replace_file(path, json.dumps(history.to_json()).encode(), mode=0o666)
    except OSError as error:
        raise PositionStoreError(f"{path}: {error.strerror}") from None


def kept_schema(checkpoint: Path) -> Path | None:
    """Return the path of the file of :func:`keep_schema`; None when there is none."""
    path = checkpoint / _SCHEMA
    return path if path.exists() else None


def read_kept_schema(checkpoint: Path) -> SchemaHistory | None:
    """Read the definitions that :func:`keep_schema` saved; return None when there are none.

    Raises:
        PositionStoreError: the file exists and cannot be read.
    """
    path = kept_schema(checkpoint)
    if path is None:
        return None
    try:
        return SchemaHistory.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise PositionStoreError(
            f"{path} cannot be read ({error}); restore it from a backup"
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
) -> Iterator[None]:
    """Hold the lock of the output; one pipeline at a time writes there.

    Args:
        output: the pipeline's output.
        stand_by: called when another pipeline runs, before waiting for its end; None: do not wait.

    Raises:
        ConfigError: another pipeline runs.
        SinkError: the directory cannot be created.
        StorageError: the store cannot be used: it ignores conditions, refuses, or cannot be
            reached.
    """
    with ExitStack() as stack:
        while True:
            lock = (
                _Lease(output).kept()
                if isinstance(output, ObjectUrl)
                else _locked_directory(output)
            )
            try:
                stack.enter_context(lock)
                break
            except OutputInUseError as error:
                if stand_by is None:
                    raise
                stand_by(error)
                time.sleep(_LOOK)
        yield


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
    def kept(self) -> Iterator[None]:
        self._store.require_conditional_put()
        self._version = self._taken()
        renewal = threading.Thread(target=self._renew, name="lake-lease", daemon=True)
        renewal.start()
        try:
            yield
        finally:
            self._ended.set()
            renewal.join()
            with suppress(StorageError):
                self._store.replace(LOCK, self._stated(free=True), self._version)

    def _stated(self, *, free: bool = False) -> bytes:
        self._count += 1
        value = {
            "owner": "" if free else self._owner,
            "count": self._count,
            "id": os.urandom(8).hex(),
        }
        return json.dumps(value).encode()

    def _taken(self) -> ObjectVersion:
        """Take the lock, and return the version of the object that this process wrote.

        Raises:
            ConfigError: another owner is alive.
        """
        try:
            data, version = self._store.get(LOCK)
        except ObjectNotFoundError:
            with suppress(StorageConflictError):
                return self._store.create(LOCK, self._stated())
            data, version = self._store.get(LOCK)
        owner = _owner_in(data)
        until = time.monotonic() + PATIENCE
        while owner and time.monotonic() < until:
            time.sleep(_LOOK)
            if self._store.status(LOCK).version.e_tag != version.e_tag:
                raise _refusal(self._output, owner)
        try:
            return self._store.replace(LOCK, self._stated(), version)
        except StorageConflictError:
            raise _refusal(self._output) from None

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
