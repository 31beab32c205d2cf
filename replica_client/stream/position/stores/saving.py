"""A thread that saves positions: at most one save at a time, and always the newest position."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from replica_client.protocol.position import Position
from replica_client.stream.position.stores.base import (
    Checkpoint,
    MemoryPositionStore,
    PositionStore,
)

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
