"""Progress of a live stream: what was delivered, and what is saved."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from replica_client.errors import PositionStoreError
from replica_client.protocol.position import Position
from replica_client.stream.live.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.stream.live.source_start import PastSource
from replica_client.stream.live.stream_knowledge import StreamKnowledge
from replica_client.stream.position.stores.base import HeldStore, PositionSaver, PositionStore
from replica_client.stream.transactions.inside import (
    Acknowledged,
    GivenChange,
    GivenChanges,
    acknowledged_position,
    position_at,
)
from replica_client.stream.transactions.reader_errors import reading_state_of
from replica_client.stream.transactions.transaction import Transaction
from replica_client.stream.transport.server_statements import ServerInfo

_LOG = logging.getLogger("replica_client.stream")
START_TIME_KEY: Final = "start_time_us"
_START_SECOND_KEY: Final = "start_time"
"""Key of the start time, in seconds, in positions that an earlier release saved."""
"""Key of the start time in a checkpoint's state, until a position is acknowledged."""


class StreamProgress:
    """Positions of what the iterators delivered, and their saves.

    Args:
        store: where positions are saved; None: nowhere.
        save_interval: seconds between two saves.
        knowledge: state that is saved with positions.
        read: returns the position after what was read.

    Attributes:
        delivered: the transaction that was delivered last, or the position after it, which takes
            time to compute.
        parted: whether only a part of its transaction was delivered.
        pending: the position before rows that wait in batches, or are delivered one by one.
        given: the change of a large transaction that was delivered last.
        changes: the changes that are delivered one by one.
        acknowledged: the position that was acknowledged last.
        start_time: microseconds since 1970 before which no transaction is wanted.
        unpinned: whether the start is still to be saved.
        companions: see :attr:`~replica_client.stream.live.source_stream.SourceStream.companions`.
    """

    def __init__(
        self,
        store: PositionStore | None,
        save_interval: float,
        knowledge: StreamKnowledge,
        read: Callable[[], Position],
    ) -> None:
        self._store, self._knowledge, self._read = store, knowledge, read
        self._saver = None if store is None else PositionSaver(store, save_interval)
        self.delivered: Position | Transaction | None = None
        self.parted = False
        self.pending: Position | Transaction | None = None
        self.given: GivenChange | None = None
        self.changes = GivenChanges()
        self.acknowledged: Position | None = None
        self.start_time: int | None = None
        self.unpinned = False
        # Servers that were read before the current one, the oldest first.
        self._left: list[PastSource] = []
        self.companions: dict[str, object] = {}

    @property
    def position(self) -> Position:
        """The safe resume point after what was delivered."""
        if isinstance(self.pending, Transaction):
            self.pending = self.pending.position
        if self.pending is not None:
            return self.pending if self.given is None else position_at(self.pending, self.given)
        return self.reached

    @property
    def reached(self) -> Position:
        """The safe resume point after what was read."""
        if isinstance(self.delivered, Transaction):
            self.delivered = self.delivered.position
        return self._read() if self.delivered is None else self.delivered

    @property
    def since(self) -> int | None:
        """The time before which no transaction is wanted, in microseconds since 1970."""
        return self.start_time if self.acknowledged is None else None

    async def load(self) -> Position | None:
        """Load the saved position and adopt the state saved with it; return None if there is none.

        Raises:
            PositionStoreError: it is damaged, or cannot be read.
        """
        if self._store is None:
            return None
        if isinstance(self._store, HeldStore):
            await asyncio.to_thread(self._store.hold)
        checkpoint = await asyncio.to_thread(self._store.load_checkpoint)
        self.unpinned = checkpoint is None
        if checkpoint is None:
            return None
        since = checkpoint.state.get(START_TIME_KEY)
        second = checkpoint.state.get(_START_SECOND_KEY)
        if since is None and isinstance(second, int):
            since = second * 1_000_000
        self.start_time = since if isinstance(since, int) else None
        if self.start_time is None:
            self.acknowledged = checkpoint.position
        known = {START_TIME_KEY, _START_SECOND_KEY, *self._knowledge.STATE_KEYS}
        self.companions = {
            name: value for name, value in checkpoint.state.items() if name not in known
        }
        with reading_state_of(self._store):
            self._knowledge.take_state(checkpoint.state)
        return checkpoint.position

    def leave(self, source: PastSource) -> None:
        """Note that another server is read from now on."""
        self._left.append(source)

    def is_past(self, position: Position) -> bool:
        """Return whether a position belongs to a server that was left."""
        return any(one.has(position) for one in self._left)

    def position_of(self, acknowledged: Acknowledged) -> Position:
        """Return the position that an acknowledgement stands for.

        Raises:
            ConfigError: it is no position, transaction or change.
            PositionError: the change does not know its transaction.
        """
        return acknowledged_position(self.changes, self.position, acknowledged)

    def end_changes(self) -> None:
        """Save the position after a transaction whose last change is acknowledged already.

        Raises:
            PositionStoreError: an earlier position could not be saved.
        """
        position = self.changes.end(self.acknowledged)
        if position is not None:
            self.remember(position)

    def remember(self, position: Position) -> None:
        """Accept a position as acknowledged, and save it in the background.

        Raises:
            PositionStoreError: an earlier position could not be saved.
        """
        self.acknowledged = position
        if self._saver is not None:
            self._saver.put(position, self.state(position))

    async def flush(self) -> None:
        """Save the position that was acknowledged last.

        Raises:
            PositionStoreError: it could not be saved.
        """
        if self._saver is not None:
            await self._saver.flush()

    async def close(self, *, failed: bool) -> None:
        """Save the last position; if the stream has failed already, only log an error of the save."""
        try:
            position = self.changes.close(self.acknowledged)
            if position is not None:
                self.remember(position)
            await self.flush()
        except PositionStoreError as error:
            if not failed:
                raise
            _LOG.error("the position that was acknowledged last is not saved: %s", str(error))
        finally:
            if isinstance(self._store, HeldStore):
                await asyncio.to_thread(self._store.release)

    async def pin(self, start: Position | None, server: ServerInfo) -> None:
        """Save the stream's start, if nothing was saved before: a later run starts there, too.

        A start that the user named is saved once the source has accepted it, any other before it is
        requested.
        """
        self.unpinned = False
        if self._saver is None or start is None:
            return
        state = self.state(start)
        if not self._knowledge.identity.known:
            state[IDENTITY_KEY] = SourceIdentity(server.server_uuid, server.server_id).to_state()
        if self.start_time is not None:
            state[START_TIME_KEY] = self.start_time
        await self._saver.save(start, state)

    def state(self, position: Position) -> dict[str, object]:
        """Return what a :class:`~replica_client.stream.position.stores.Checkpoint` of a position saves."""
        while self._left:
            if self._left[0].has(position):
                return {**self.companions, **self._left[0].state.to_state(position)}
            del self._left[0]
        return {**self.companions, **self._knowledge.reading_state().to_state(position)}
