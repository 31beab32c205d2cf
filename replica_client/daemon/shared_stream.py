"""One connection to a source, and one decoding, for several sinks that want the same.

One task reads, as fast as the fastest sink takes. What it reads waits for each sink in a spool of that sink's own, in
which the transactions are the same objects; a sink whose spool is full leaves, with all that was read up to there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import NamedTuple

from replica_client.daemon.group_parts import behind_last
from replica_client.daemon.logs import ROUTE
from replica_client.errors import ReplicaClientError
from replica_client.position.losses import LOSSES_KEY
from replica_client.position.position import Position
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.live.stream_knowledge import StreamKnowledge
from replica_client.readers.transaction import Transaction
from replica_client.readers.transaction_group import TransactionGroup
from replica_client.transport.server_info import ServerInfo

State = Mapping[str, object]
Groups = AsyncGenerator[TransactionGroup, None]


class FellBehindError(Exception):
    """The sink fell behind inside a large transaction: it begins again at its last commit."""


class SharedGroup(NamedTuple):
    """Transactions of a shared stream.

    Attributes:
        group: the transactions.
        state: what is saved with the positions in it and behind it, of what all sinks share.
    """

    group: TransactionGroup
    state: State


class Subscription:
    """What one sink gets of a shared stream: everything behind a position, once and in order.

    Args:
        shared: the stream.
        start: everything that begins there or later comes.
        state: what is saved with that position.

    Attributes:
        start: see above.
        state: see above.
        size: bytes that wait.
        active: whether the sink has no other stream, so that this one reads for it.
    """

    def __init__(self, shared: SharedStream, start: Position, state: State) -> None:
        self.shared = shared
        self.start, self.state = start, state
        self.size = 0
        self.active = self._is_cut = False
        self._waiting: deque[SharedGroup] = deque()
        self._came = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    @property
    def is_hungry(self) -> bool:
        """Whether the stream is to read on for it."""
        return self.active and not self._waiting

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes behind what waits."""
        return self._ended

    def activate(self) -> None:
        """The sink has no other stream any more."""
        self.active = True
        self.shared.wake()

    async def next(self) -> SharedGroup | None:
        """The next group; None: this sink gets no more of this stream, and none is missing up to here.

        Raises:
            FellBehindError: see there.
            Exception: what the stream ended with, behind all that was read before.
        """
        while not self._waiting:
            if self._error is not None:
                raise self._error
            if self._is_cut:
                raise FellBehindError(
                    "the sink fell behind inside a large transaction, which others have by the same connection: "
                    "it begins again at its last commit, with a connection of its own"
                )
            if self._ended:
                return None
            self._came.clear()
            self.shared.wake()
            await self._came.wait()
        found = self._waiting.popleft()
        self.size -= found.group.size
        if not self._waiting:
            self.shared.wake()
        return found

    def drop(self) -> None:
        """The sink, which has another stream, wants nothing of this one."""
        self._waiting.clear()
        self.size, self._ended = 0, True
        self.shared.forget(self)

    async def close(self) -> None:
        """The sink wants no more."""
        self._waiting.clear()
        self.size, self._ended = 0, True
        await self.shared.leave(self)

    # What the shared stream calls.

    def take(self, item: SharedGroup, limit: int) -> bool:
        """Keep a group for the sink; False: there is no room, and this subscription has ended."""
        if self._waiting and self.size + item.group.size > limit:
            self._end_before(item.group.transactions[0])
            return False
        self._waiting.append(item)
        self.size += item.group.size
        self._came.set()
        return True

    def end(self, error: Exception | None = None) -> None:
        """Nothing more comes."""
        self._ended, self._error = True, error
        self._came.set()

    def _end_before(self, following: Transaction) -> None:
        """End between two transactions: of one that goes on, the parts that wait are taken back."""
        inside = following.part > 0
        while inside and self._waiting:
            last = self._waiting.pop().group
            self.size -= last.size
            inside = last.transactions[-1].part > 0
        self._is_cut = inside
        self.end()


class SharedStream:
    """See the module.

    Args:
        stream: open; this object closes it.
        groups: of that stream.
        position: behind what was taken of it.
        state: what is saved with that position.
        limit: bytes that wait for a sink at most.
        ended: is called when it gives nothing more.
        closed: is called when its connection is closed.
        name: of the source, for messages.
    """

    def __init__(
        self,
        stream: SourceStream,
        groups: Groups,
        position: Position,
        state: State,
        *,
        limit: int,
        ended: Callable[[SharedStream], None],
        closed: Callable[[], None],
        name: str,
    ) -> None:
        self.stream = stream
        self.limit = limit
        self._groups = groups
        assert stream.server is not None
        self._server = stream.server
        self._at: Position | Transaction = position
        self._state = shared_part(state)
        self._known: tuple[object, ...] = ()
        self._subscriptions: list[Subscription] = []
        self._wanted = asyncio.Event()
        self._ended, self._closed, self._is_over = ended, closed, False
        self._name = name
        self._task = asyncio.ensure_future(self._run())

    @property
    def position(self) -> Position:
        """The position behind what was given to the sinks."""
        if isinstance(self._at, Transaction):
            self._at = self._at.position
        return self._at

    def is_of(self, server: ServerInfo) -> bool:
        """Whether it is of that server."""
        ours = self._server
        return (ours.server_uuid, ours.server_id) == (server.server_uuid, server.server_id)

    @property
    def sink_count(self) -> int:
        """Sinks that have no other stream."""
        return sum(one.active for one in self._subscriptions)

    @property
    def may_subscribe(self) -> bool:
        """Whether :attr:`position` is between two transactions.

        Inside one, the stream has already given away the first part.
        """
        return not self.position.inside_transaction

    def subscribe(self) -> Subscription:
        """Let a sink have everything behind :attr:`position`, where :attr:`may_subscribe` allows it."""
        assert self.may_subscribe, f"a subscription begins inside a transaction: {self.position}"
        made = Subscription(self, self.position, self._state)
        self._subscriptions.append(made)
        return made

    def state_at_rest(self, position: Position) -> State:
        """What is saved with the stream's own position while it waits for the source."""
        return shared_part(self.stream.state(position))

    def wake(self) -> None:
        """Look again whether to read on."""
        self._wanted.set()

    def forget(self, subscription: Subscription) -> None:
        """Give a sink nothing more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)

    async def leave(self, subscription: Subscription) -> None:
        """A sink wants no more; with the last one that has no other stream this one ends."""
        self.forget(subscription)
        if not self.sink_count:
            self._end(None)
            self._task.cancel()
            # It goes on to close the connection where who waits here is cancelled.
            await asyncio.wait((self._task,))

    def _end(self, error: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        left, self._subscriptions = self._subscriptions, []
        for one in left:
            one.end(error if one.active else None)
        self._ended(self)

    async def _run(self) -> None:
        ROUTE.set(self._name)  # of this task: messages of the stream are of no one sink
        try:
            async for group in self._groups:
                if self.stream.server is None or not self.is_of(self.stream.server):
                    # Positions of two servers cannot be compared: each sink goes on by itself, and shares anew.
                    return
                self._give(group)
                del group  # each sink has its own, until it has taken it
                while not any(one.is_hungry for one in self._subscriptions):
                    if self._is_over:
                        return
                    self._wanted.clear()
                    await self._wanted.wait()
        except Exception as error:  # noqa: BLE001
            # Each sink's route says what it is, and tries again.
            self._end(error)
        finally:
            self._end(None)
            try:
                await self._groups.aclose()
            finally:
                try:
                    with contextlib.suppress(ReplicaClientError):
                        await self.stream.__aexit__(None, None, None)
                finally:
                    self._closed()

    def _give(self, group: TransactionGroup) -> None:
        last = group.transactions[-1]
        self._at = behind_last(group)
        if last.complete:
            # What is known does not change in ordinary transactions, only between them.
            stream = self.stream
            changes = (stream.history.revision, stream.prepared.ledger.revision)
            known = (stream.generation, last.start.file, *changes)
            if not group.ordinary or known != self._known:
                self._state = shared_part(stream.state(last.position))
                self._known = known
        item = SharedGroup(group, self._state)
        left = [one for one in self._subscriptions if not one.take(item, self.limit)]
        if left:
            self._subscriptions = [one for one in self._subscriptions if one not in left]


def shared_part(state: State) -> State:
    """Of a checkpoint's state, what does not depend on the sink: losses are counted by each sink since its start."""
    kept = StreamKnowledge.STATE_KEYS - {LOSSES_KEY}
    return {key: value for key, value in state.items() if key in kept}
