"""Saving positions from an event loop: one save at a time, in order, and none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from replica_client.position.position import Position
from replica_client.position.stores.base import PositionStore


class PositionSaver:
    """Saves positions in a thread, since a store waits for a disk or a server.

    A task that is cancelled while it saves ends when the save does: a thread cannot be stopped, and if it
    went on alone, it would write beside the save that comes next, and might write the older position last.

    Args:
        store: where positions are saved.
    """

    def __init__(self, store: PositionStore) -> None:
        self._store = store
        self._turn = asyncio.Lock()

    async def save(self, position: Position, state: Mapping[str, object] | None = None) -> None:
        """Save a position and its state, after those that are being saved.

        Raises:
            PositionStoreError: it could not be saved; what was saved before is whole.
        """
        async with self._turn:
            work = asyncio.ensure_future(asyncio.to_thread(self._store.save, position, state))
            cancelled: asyncio.CancelledError | None = None
            while not work.done():
                try:
                    await asyncio.wait((work,))
                except asyncio.CancelledError as error:
                    cancelled = error
            work.result()
            if cancelled is not None:
                raise cancelled
