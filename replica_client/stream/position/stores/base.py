"""Position stores: the interface, the stored document, and a store in memory.

One JSON object::

    {"format": "replica-client-position", "version": 1,
     "position": {…}, "text": "binlog.000024:1472", "state": {…}, "growing": ["schema_history"],
     "stored": {"schema_history": {…}}}

``position`` is :meth:`Position.to_json`; ``text`` is there for people and not read. ``growing`` names values of
the state that are tuples; ``stored`` says where one of them is that does not stand in the text.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Final, Protocol, runtime_checkable

from replica_client.errors import PositionFormatError, PositionStoreError
from replica_client.options import checked_types
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A position, with the state that is saved in the same step.

    Attributes:
        position: where to resume.
        state: JSON values by name, such as the schema history; the store does not look into them. A value that
            is a tuple of texts grows: a later state has the same texts, less some at the beginning, and new
            texts at the end. A store may write only the new texts, or store the value as a list.
    """

    position: Position
    state: Mapping[str, object] = field(default_factory=dict)


class PositionStore(Protocol):
    """Keeps one checkpoint; a saved one replaces the one before, wholly or not at all.

    All methods raise :class:`~replica_client.errors.PositionStoreError`, which says where and what
    to do.
    """

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        ...

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        ...

    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state; when this returns, both survive a crash."""
        ...


class StoreInUseError(PositionStoreError):
    """Another stream or process has the store."""


@runtime_checkable
class HeldStore(Protocol):
    """A store that one process at a time may use."""

    def hold(self) -> None:
        """Keep other processes from it.

        Raises:
            PositionStoreError: another process has it.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


@runtime_checkable
class LeasedStore(Protocol):
    """A store whose position is written by the holder of a lease."""

    def check_lease(self) -> None:
        """Check that this process may save.

        Raises:
            SinkError: another process took the lease over.
        """
        ...

    def release(self) -> None:
        """Give the lease back."""
        ...


_FORMAT: Final = "replica-client-position"
_VERSION: Final = 1
_VERSION_STORED: Final = 2
"""A part of the state stands elsewhere: releases that do not know that must not take it for all."""


def encode_checkpoint(
    position: Position,
    state: Mapping[str, object],
    stored: Mapping[str, Mapping[str, object]] | None = None,
) -> bytes:
    """Encode a checkpoint as ASCII text with a line break; the arguments are those of :func:`checkpoint_json`."""
    document = checkpoint_json(position, state, stored)
    return json.dumps(document, indent=1).encode("ascii") + b"\n"


def checkpoint_json(
    position: Position,
    state: Mapping[str, object],
    stored: Mapping[str, Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """Return a checkpoint as JSON.

    Args:
        position: the position.
        state: its state, without the values that are stored elsewhere.
        stored: by name, where a long value of the state is stored.
    """
    document: dict[str, object] = {
        "format": _FORMAT,
        "version": _VERSION if not stored else _VERSION_STORED,
        "position": position.to_json(),
        "text": short_text(position),
        "state": dict(state),
    }
    growing = [name for name, value in state.items() if isinstance(value, tuple)]
    if growing:
        document["growing"] = growing
    if stored:
        document["stored"] = stored
    return document


def short_text(position: Position) -> str:
    """Return a position as text for people; a long text is cut."""
    text = str(position)
    return text if len(text) < 1000 else text[:1000] + "…"


def decode_checkpoint(
    data: bytes | str, fetch: Callable[[Mapping[str, object]], tuple[str, ...]] | None = None
) -> Checkpoint:
    """Decode the text of a checkpoint; see :func:`checkpoint_of_json`.

    Raises:
        PositionFormatError: the text is no checkpoint.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        what = "it is empty" if not data.strip() else f"it is not JSON ({error})"
        raise PositionFormatError(what) from error
    return checkpoint_of_json(document, fetch)


def checkpoint_of_json(
    document: object, fetch: Callable[[Mapping[str, object]], tuple[str, ...]] | None = None
) -> Checkpoint:
    """Return the checkpoint that :func:`checkpoint_json` encoded.

    Args:
        document: its JSON.
        fetch: returns the texts that are stored elsewhere, given their place.

    Raises:
        PositionFormatError: the document is no checkpoint.
    """
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise PositionFormatError("it is JSON, but no position file")
    if document.get("version") not in (_VERSION, _VERSION_STORED):
        raise PositionFormatError(
            f"it has version {document.get('version')!r}, this release reads {_VERSION_STORED}"
        )
    state = document.get("state", {})
    if not isinstance(state, dict):
        raise PositionFormatError("its state is not an object")
    position = Position.from_json(document.get("position"))
    growing, stored = document.get("growing", []), document.get("stored", {})
    if not isinstance(growing, list) or not isinstance(stored, dict):
        raise PositionFormatError("what it says about its state is damaged")
    for name in growing:
        if isinstance(name, str) and isinstance(state.get(name), list):
            state[name] = tuple(state[name])
    for name, where in stored.items():
        if fetch is None or not isinstance(where, dict):
            raise PositionFormatError("what it says about its state is damaged")
        state[name] = fetch(where)
    return Checkpoint(position, state)


class MemoryPositionStore:
    """Keeps a checkpoint as long as the object lives.

    Examples:
        >>> store = rc.MemoryPositionStore()
        >>> store.save(rc.Position("binlog.000024", 1472))
        >>> str(store.load())
        'binlog.000024:1472'
    """

    @checked_types
    def __init__(self, position: Position | None = None) -> None:
        self._checkpoint = None if position is None else Checkpoint(position)

    def load(self) -> Position | None:
        """Return the saved position, or None when there is none yet."""
        return None if self._checkpoint is None else self._checkpoint.position

    def load_checkpoint(self) -> Checkpoint | None:
        """Return the saved position with its state, or None when there is none yet."""
        return self._checkpoint

    @checked_types
    def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state."""
        self._checkpoint = Checkpoint(position, dict(state or {}))


SAVE_INTERVAL: Final = 0.2
"""Seconds between the beginnings of two saves, where nothing else is asked for."""

_LOG = logging.getLogger("replica_client.stream")
_IDLE_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1.0

_Waiting = tuple[int, asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class PositionSaver:
    """Saves positions in a thread of its own, since a store waits for a disk or a server.

    A position waits at most ``interval`` seconds, and for the save that runs; of several waiting
    positions only the newest is saved. The thread needs no event loop, so a busy loop does not
    delay saves. It ends when there is nothing to save.

    Args:
        store: where positions are saved.
        interval: seconds between the beginnings of two saves.
    """

    def __init__(self, store: PositionStore, interval: float = SAVE_INTERVAL) -> None:
        self._store = store
        self._interval = interval
        self._turn = threading.Condition()
        self._newest: Checkpoint | None = None
        # Counts what was put, and what of it is durable.
        self._put = self._durable = 0
        self._thread: threading.Thread | None = None
        self._idle = self._urgent = False
        self._due = float("-inf")
        self._error: BaseException | None = None
        self._waiting: list[_Waiting] = []

    def put(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Queue a position and its state for saving, and return at once.

        Raises:
            PositionStoreError: an earlier position could not be saved; the save is tried again.
        """
        if isinstance(self._store, MemoryPositionStore):
            self._store.save(position, state)
            return
        with self._turn:
            error, self._error = self._error, None
            self._newest = Checkpoint(position, {} if state is None else state)
            self._put += 1
            self._wake()
        if error is not None:
            raise error

    async def flush(self) -> None:
        """Save the newest position that was put; when this returns it survives a crash.

        A task that is cancelled meanwhile ends when the save does.

        Raises:
            PositionStoreError: it could not be saved; the last save is intact.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        with self._turn:
            if self._durable == self._put:
                return
            self._waiting.append((self._put, loop, done))
            self._urgent = True
            self._wake()
        cancelled: asyncio.CancelledError | None = None
        while not done.done():
            try:
                await asyncio.wait((done,))
            except asyncio.CancelledError as error:
                cancelled = error
        done.result()
        if cancelled is not None:
            raise cancelled

    async def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state, after one that is being saved.

        Raises:
            PositionStoreError: it could not be saved; the last save is intact.
        """
        self._error = None  # what was put before is replaced
        self.put(position, state)
        await self.flush()

    # With the turn.

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="positions", daemon=True)
            self._thread.start()
        elif self._idle or self._urgent:
            self._turn.notify()

    # In the thread.

    def _work(self) -> None:
        with self._turn:
            while self._wait():
                checkpoint, number = self._newest, self._put
                assert checkpoint is not None
                self._newest, self._urgent = None, False
                self._due = time.monotonic() + self._interval
                self._turn.release()
                error: BaseException | None = None
                try:
                    self._store.save(checkpoint.position, checkpoint.state)
                except BaseException as failed:  # noqa: BLE001  # a store of the user's
                    error = failed
                finally:
                    self._turn.acquire()
                self._did(checkpoint, number, error)
            self._thread = None

    def _wait(self) -> bool:
        """Wait until something is to be saved; False when nothing came for long."""
        while self._newest is None:
            self._idle = True
            came = self._turn.wait(_IDLE_SECONDS)
            self._idle = False
            if not came and self._newest is None:
                return False
        while not self._urgent and (left := self._due - time.monotonic()) > 0:
            self._turn.wait(left)
        return True

    def _did(self, checkpoint: Checkpoint, number: int, error: BaseException | None) -> None:
        if error is None:
            self._durable, self._error = number, None
        else:
            self._due = time.monotonic() + max(self._interval, _RETRY_SECONDS)
            if self._newest is None:
                self._newest = checkpoint
        reported = False
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            wanted, loop, done = one
            if wanted > number and error is None:
                self._waiting.append(one)
                self._urgent = True
                continue
            reported = True
            try:
                loop.call_soon_threadsafe(_tell, done, error)
            except RuntimeError:  # the loop was closed
                _LOG.debug("nobody waits for a saved position any more")
        if error is not None and not reported:
            if self._error is None:
                _LOG.warning("a position is not saved, and is tried again: %s", error)
            self._error = error


def _tell(done: asyncio.Future[None], error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
