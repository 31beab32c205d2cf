"""A sink's thread for blocking work, batches of transactions for it, and its output directory."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from replica_client.errors import PositionFormatError, SinkError
from replica_client.protocol.position import Position
from replica_client.storage.durable import DATA_MODE, open_locked, replace_file, sync_directory
from replica_client.stream.position.stores.base import (
    Checkpoint,
    checkpoint_json,
    checkpoint_of_json,
)
from replica_client.stream.position.stores.file import StateFile
from replica_client.stream.position.stores.growing import split_growing
from replica_client.stream.position.stores.ownership import Claim, Owner, StandbyError
from replica_client.stream.transactions.transaction import Transaction

Given = ParamSpec("Given")
Result = TypeVar("Result")

DEFAULT_BATCH_SIZE = 1 << 20
"""Bytes of rows events that are collected before they are given to the thread."""


class Worker:
    """Runs calls one after the other in a thread of its own, which is started on demand."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    async def run(
        self, call: Callable[Given, Result], *args: Given.args, **kwargs: Given.kwargs
    ) -> Result:
        """Run a call after all earlier ones, and return its result.

        A call that has started is not cancelled.
        """
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "replica-client-sink")
        future = self._executor.submit(call, *args, **kwargs)
        return await asyncio.wrap_future(future)

    def stop(self) -> None:
        """Stop the thread once all its calls are done."""
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None


def in_thread(
    worker: Worker, take: Callable[[list[Transaction]], None]
) -> Callable[[list[Transaction]], Awaitable[None]]:
    """Return a handler for :class:`Batches` that runs a blocking function in the worker."""

    async def handle(transactions: list[Transaction]) -> None:
        await worker.run(take, transactions)

    return handle


class Batches:
    """Collects transactions, so that small ones are not handled one by one.

    Args:
        handle: called with the collected transactions.
        limit: bytes of rows events after which the transactions are handled.
    """

    def __init__(
        self,
        handle: Callable[[list[Transaction]], Awaitable[None]],
        limit: int = DEFAULT_BATCH_SIZE,
    ) -> None:
        self._handle = handle
        self._limit = limit
        self._waiting: list[Transaction] = []
        self._size = 0

    async def add(self, transaction: Transaction) -> None:
        """Add a transaction; handle all collected ones if they reach the limit."""
        self._waiting.append(transaction)
        self._size += 64 + sum(rows.event_size for rows in transaction.rows)
        if self._size >= self._limit:
            await self.flush()

    async def add_some(self, transactions: Sequence[Transaction], size: int) -> None:
        """Add transactions with a known total size of rows events; see :meth:`add`."""
        self._waiting += transactions
        self._size += 64 * len(transactions) + size
        if self._size >= self._limit:
            await self.flush()

    async def flush(self) -> None:
        """Handle all collected transactions."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting:
            await self._handle(waiting)

    def clear(self) -> None:
        """Drop all collected transactions."""
        self._waiting, self._size = [], 0


def check_writable(directory: Path) -> None:
    """Check that files can be created in a directory, or the directory itself.

    Nothing is created.

    Raises:
        SinkError: files cannot be created.
    """
    found = directory.absolute()
    while not found.exists() and found != found.parent:
        found = found.parent
    if not found.is_dir():
        raise SinkError(f"{directory}: {found} is not a directory")
    if not os.access(found, os.W_OK | os.X_OK):
        raise SinkError(
            f"{directory}: files cannot be made in {found}; give this user the right to"
        )


def owners_of_file(saved: Mapping[str, Any] | None, where: str) -> list[Owner]:
    """Return the owner that was saved with a checkpoint, as a list.

    Raises:
        SinkError: the saved owner is damaged.
    """
    text = "" if saved is None else str(saved.get("owner", ""))
    try:
        return [Owner.from_json(json.loads(text))] if text else []
    except ValueError as error:
        raise SinkError(f"{where}: {error}") from error


def check_file_owner(claim: Claim | None, saved: Mapping[str, Any] | None, where: str) -> str:
    """Return the owner to save with a checkpoint, as JSON text.

    Args:
        claim: the identity to write as; None: no identity.
        saved: data saved with the checkpoint; None: no checkpoint.
        where: the files, for messages.

    Raises:
        ForeignOwnerError: another identity writes there.
    """
    if claim is None:
        return "" if saved is None else str(saved.get("owner", ""))
    known = owners_of_file(saved, where)
    mine = claim.resolve(known)
    for other in known:
        if other.id not in (mine.id, claim.takes_over):
            raise claim.foreign(where, other)
    return json.dumps(mine.to_json())


class DirectoryLock:
    """A lock that keeps other writers out of a directory until it is released.

    Args:
        directory: an existing directory.

    Raises:
        StandbyError: another process writes there.
        OSError: the lock file cannot be used.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = -1
        try:
            self._descriptor = open_locked(directory / ".lock")
        except BlockingIOError:
            raise StandbyError(
                f"{directory}: another process writes there; this one waits until it ends (give each its own directory)"
            ) from None

    def release(self) -> None:
        """Release the lock."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.release()


_VERSION = 2
_OLD_VERSION = 1
"""Old layout: the position, and the name of a file with the whole state."""


class CheckpointFile:
    """The file with a sink's checkpoint and the sink's own data that is saved with it.

    Args:
        directory: directory of the file.
        name: first part of the file names.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.path = directory / f"{name}.checkpoint.json"
        self._directory = directory
        self._state = StateFile(directory, f"{name}.state-", DATA_MODE)

    def load(self) -> tuple[Checkpoint, dict[str, Any]] | None:
        """Return the checkpoint and the data saved with it, or None if no checkpoint exists.

        Raises:
            SinkError: the file is damaged, or of another release.
        """
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            saved = json.loads(text)
            if saved["version"] == _OLD_VERSION:
                return self._load_old(saved), saved["with"]
            if saved["version"] != _VERSION:
                raise ValueError(f"version {saved['version']}")
            return checkpoint_of_json(saved["checkpoint"], self._state.load), saved["with"]
        except (ValueError, KeyError, TypeError, PositionFormatError, FileNotFoundError) as error:
            raise SinkError(
                f"{self.path} is not a checkpoint of this release ({error}); restore it from a backup, "
                "or start over in an empty directory"
            ) from error

    def _load_old(self, saved: Mapping[str, Any]) -> Checkpoint:
        position = Position.from_json(saved["position"])
        state = {}
        if saved["state"]:
            state = json.loads((self._directory / saved["state"]).read_bytes())
        return Checkpoint(position, state)

    def save(self, checkpoint: Checkpoint, with_it: Mapping[str, Any]) -> None:
        """Replace the checkpoint. It survives a crash once this method returns."""
        short, name, texts = split_growing(checkpoint.state)
        stored = None
        if name:
            stored = self._state.save(texts)
            sync_directory(self._directory)
        saved = {
            "version": _VERSION,
            "checkpoint": checkpoint_json(
                checkpoint.position, short, {name: stored} if stored else None
            ),
            "with": dict(with_it),
        }
        replace_file(self.path, json.dumps(saved, indent=1).encode())
        self._state.saved(stored)


_MAY_PASS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EAGAIN, errno.ENOMEM),
        *(errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.EINTR),
    )
)
_REMEDIES = {
    errno.ENOSPC: "free space there",
    errno.EDQUOT: "raise the quota",
    errno.EROFS: "mount it for writing",
    errno.EACCES: "give this user the right to write there",
    errno.EPERM: "give this user the right to write there",
    errno.EMFILE: "raise the limit of open files",
    errno.EPIPE: "the reader of standard output has gone; start both again",
}


@contextmanager
def os_errors(what: str) -> Iterator[None]:
    """Raise errors of the operating system in the block as ``SinkError``.

    Args:
        what: what is being written, for the message.

    Raises:
        SinkError: retriable if the state of the machine may change, such as a full or read-only
            disk.
    """
    try:
        yield
    except OSError as error:
        number = error.errno or 0
        text = f"{what}: {error.strerror or error}"
        remedy = _REMEDIES.get(number)
        if remedy:
            text += f"; {remedy}"
        raise SinkError(text, retriable=number in _MAY_PASS) from error
