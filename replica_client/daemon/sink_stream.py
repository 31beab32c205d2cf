"""A source's transactions as one sink gets them: of a connection of its own, or of one that it shares.

A sink that is behind the shared stream reads with its own connection up to the position where its subscription begins,
and then takes what waited there. So each transaction comes once: what begins before that position of the one, what
begins there or behind of the other. A sink that is too slow leaves with the position behind its last transaction, and
reads on from there with its own connection.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Final, Self

from replica_client.binlog.context import BinlogFormat
from replica_client.daemon import group_parts
from replica_client.daemon.shared_knowledge import is_continued_by
from replica_client.daemon.shared_progress import SharedProgress
from replica_client.daemon.shared_stream import Groups, SharedGroup, State, Subscription
from replica_client.daemon.sharing import Member, SourceSharing, is_near
from replica_client.daemon.stores import FirstPosition, GivenPosition
from replica_client.errors import PositionStoreError, ReplicaClientError
from replica_client.position.losses import LossLedger
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint, PositionStore
from replica_client.position.stores.saving import PositionSaver
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.live.stream_knowledge import StreamKnowledge
from replica_client.readers.live.stream_options import StreamOptions
from replica_client.readers.live.stream_progress import START_TIME_KEY
from replica_client.readers.transaction import Transaction
from replica_client.readers.transaction_group import TransactionGroup
from replica_client.transport.connect_options import ConnectOptions
from replica_client.transport.dump import DumpStream
from replica_client.transport.server_info import ServerInfo

_LOG = logging.getLogger("replica_client.daemon")
_LOOK_SECONDS: Final = 0.2
"""How often a sink with a connection of its own looks whether it may join."""
_AGAIN_SECONDS: Final = 5.0
"""How long it waits where it was too slow to reach the shared stream."""
_REFUSED_SECONDS: Final = 300.0
"""How long it waits where the shared stream does not know all that it knows itself."""


class SinkStream:
    """See the module; an asynchronous context manager.

    Args:
        hosts: how to connect.
        options: of the stream.
        store: keeps the position; None: the sink does.
        checkpoint: where the sink keeps it: the last one.
        sharing: gives server ids.
        member: among the sinks that want the same; None: it shares with none.

    Attributes:
        acknowledged: the position that was acknowledged last.
        companions: values of the sink's own that are saved with each position.
    """

    def __init__(
        self,
        hosts: list[ConnectOptions],
        options: StreamOptions,
        store: PositionStore | None,
        checkpoint: Checkpoint | None,
        sharing: SourceSharing,
        member: Member | None,
    ) -> None:
        self._hosts, self._options, self._store = hosts, options, store
        self._sharing, self._member = sharing, member
        self.acknowledged: Position | None = None
        self.companions: dict[str, object] = {}
        self._first = None if store is None else FirstPosition(store)
        self._saver = None if self._first is None else PositionSaver(self._first.later)
        self._since = checkpoint
        self._own: SourceStream | None = None
        self._groups: Groups | None = None
        self._server_id: int | None = None
        # Of a shared stream. While the own one is open: what waits until that has come so far.
        self._subscription: Subscription | None = None
        self._subscribed_at = 0
        # What the sink has before it takes anything of a subscription; None once it was compared.
        self._expected: Checkpoint | None = None
        self._progress = SharedProgress(Checkpoint(Position("", 0)))
        self._delivered: Transaction | Position | None = None
        self._gives = False
        self._next_try = 0.0
        self._generations = 0

    # What is asked of a stream.

    @property
    def _stream(self) -> SourceStream | None:
        if self._own is not None:
            return self._own
        # What ended is shown until the next one is open.
        return None if self._subscription is None else self._subscription.shared.stream

    @property
    def position(self) -> Position:
        """The safe resume point behind what was delivered."""
        if isinstance(self._delivered, Transaction):
            self._delivered = self._delivered.position
        assert self._delivered is not None
        return self._delivered

    @property
    def reached(self) -> Position:
        """The safe resume point behind what was read, where all of it was delivered."""
        if self._own is not None:
            return self._own.reached
        one = self._subscription
        return one.shared.stream.reached if one is not None and self._is_level() else self.position

    def _is_level(self) -> bool:
        """Whether all that a shared stream read was delivered, and it waits for the source."""
        one = self._subscription
        return (
            one is not None
            and not self._gives
            and one.is_empty
            and not one.has_ended
            and self._expected is None
            and one.shared.stream.caught_up
        )

    @property
    def caught_up(self) -> bool:
        """Whether everything that the source sent was delivered."""
        return self._own.caught_up if self._own is not None else self._is_level()

    @property
    def format(self) -> BinlogFormat:
        """How events are laid out in the file that is read."""
        stream = self._stream
        assert stream is not None
        return stream.format

    @property
    def server(self) -> ServerInfo | None:
        """The source, once connected."""
        return None if self._stream is None else self._stream.server

    @property
    def generation(self) -> int:
        """How many connections there were so far."""
        return self._generations + (0 if self._own is None else self._own.generation)

    @property
    def dump(self) -> DumpStream | None:
        """The running dump, for its counters; None while the connection is lost."""
        return None if self._stream is None else self._stream.dump

    @property
    def loss(self) -> ReplicaClientError | None:
        """The error that the connection was lost with."""
        return None if self._stream is None else self._stream.loss

    @property
    def losses(self) -> LossLedger:
        """Counts of what could not be delivered."""
        return self._progress.losses if self._own is None else self._own.losses

    @property
    def queued(self) -> int:
        """Bytes of events that wait for the sink."""
        waiting = 0 if self._subscription is None else self._subscription.size
        return waiting + (0 if self.dump is None else self.dump.queued)

    @property
    def sharing_count(self) -> int:
        """Sinks that share the connection, this one among them; 1 for one of its own."""
        if self._own is not None or self._subscription is None:
            return 1
        return max(1, self._subscription.shared.sink_count)

    @property
    def unmatched_patterns(self) -> list[str]:
        """See :attr:`~replica_client.readers.live.source_stream.SourceStream.unmatched_patterns`."""
        return [] if self._stream is None else self._stream.unmatched_patterns

    # Positions.

    def state(self, position: Position) -> dict[str, object]:
        """What to save with a position."""
        if self._own is not None:
            return {**self._own.state(position), **self.companions}
        shared = self._subscription
        assert shared is not None
        rests = self._is_level() and self.position < position
        at_rest = shared.shared.state_at_rest(position) if rests else None
        return {**self._progress.state(position, at_rest), **self.companions}

    async def acknowledge(self, position: Position) -> None:
        """Everything before ``position`` is done.

        Raises:
            PositionStoreError: a position could not be saved.
        """
        self.acknowledged = position
        if self._saver is not None:
            self._saver.put(position, self.state(position))
        if self._own is None:
            self._progress.acknowledge(position)
        else:
            if self._own.semi_sync:
                await self.flush()
            await self._own.acknowledge(position)

    async def flush(self) -> None:
        """Save the position that was acknowledged last.

        Raises:
            PositionStoreError: it could not be saved.
        """
        if self._saver is not None:
            await self._saver.flush()

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._store is not None:
            self._since = await asyncio.to_thread(self._store.load_checkpoint)
        since = self._since
        if since is not None:
            if START_TIME_KEY not in since.state:
                self.acknowledged = since.position
            known = {START_TIME_KEY, *StreamKnowledge.STATE_KEYS}
            self.companions = {key: since.state[key] for key in since.state.keys() - known}
        member = self._member
        try:
            if member is not None and self._may_begin_shared():
                subscription = await member.enter(since)
                if subscription is not None:
                    self._begin_shared(subscription, since, expected=since)
                    return self
            await self._open_own(since)
            if member is not None and member.is_opener and member.has_others:
                self._share_own()
        finally:
            if member is not None:
                member.opened()
        return self

    def _may_begin_shared(self) -> bool:
        since = self._since
        if since is None:
            return not isinstance(self._options.start, datetime.datetime)
        return self.acknowledged is not None and group_parts.is_between(since.position)

    async def _open_own(self, since: Checkpoint | None) -> None:
        store: PositionStore = GivenPosition(since, getattr(self._store, "path", None))
        member = self._member
        shares = member is not None and member.has_others and self._may_begin_shared()
        if since is None and self._first is not None and not shares:
            # Before anything is delivered, so that a later run begins there.
            store = self._first
        server_id = self._sharing.take_id()
        stream = SourceStream(self._hosts, replace(self._options, server_id=server_id), store)
        try:
            await stream.__aenter__()
        except BaseException:
            await self._sharing.close(stream, None, server_id)
            raise
        self._own, self._groups = stream, stream.measured_groups()
        self._server_id, self._delivered = server_id, stream.position
        self._subscription, self._expected = None, None

    async def __aexit__(self, kind: type[BaseException] | None = None, *exc_info: object) -> None:
        own, groups, subscription = self._own, self._groups, self._subscription
        try:
            if subscription is not None:
                await subscription.close()
        finally:
            if own is not None:
                await self._sharing.close(own, groups, self._server_id)
        try:
            await self.flush()
        except PositionStoreError as error:
            if kind is None:
                raise
            _LOG.error("the position that was acknowledged last is not saved: %s", error)

    # From one stream to another.

    def _begin_shared(
        self, subscription: Subscription, since: Checkpoint | None, *, expected: Checkpoint | None
    ) -> None:
        """Take a subscription for the stream from now on.

        Args:
            subscription: of it.
            since: what the sink has; None: the start of the subscription.
            expected: what is to be compared with the subscription first.
        """
        if since is None:
            since = Checkpoint(subscription.start, subscription.state)
        if self._own is not None:
            self._generations += self._own.generation
        self._own = self._groups = None
        self._subscription, self._since, self._expected = subscription, since, expected
        self._delivered = since.position
        self._progress = SharedProgress(since)
        subscription.activate()

    def _share_own(self) -> None:
        """Let others have the own stream, too."""
        own, groups, member = self._own, self._groups, self._member
        assert own is not None and groups is not None and member is not None
        since = Checkpoint(self.position, self.state(self.position))
        made = member.share(own, groups, since.position, since.state, self._server_id)
        self._begin_shared(made, since, expected=None)

    async def _go_over(self, position: Position) -> None:
        """From the own stream, of which all before a position was delivered, to the subscription."""
        own, groups, server_id = self._own, self._groups, self._server_id
        assert own is not None and groups is not None and self._subscription is not None
        since = Checkpoint(position, self.state(position))
        self._begin_shared(self._subscription, since, expected=since)
        await self._sharing.close(own, groups, server_id)

    # Transactions.

    async def measured_groups(self) -> AsyncGenerator[TransactionGroup, None]:
        """Committed transactions, those together that came together; very large ones in parts.

        Raises:
            ReplicaClientError: what :meth:`~replica_client.readers.live.source_stream.SourceStream.transactions`
                raises.
            FellBehindError: see there.
        """
        while True:
            if self._own is not None:
                async with aclosing(self._own_groups()) as groups:
                    async for group in groups:
                        self._delivered = group_parts.behind_last(group)
                        yield group
                        del group  # its rows are not kept while the next one comes
                continue
            async with aclosing(self._shared_groups()) as groups:
                async for item in groups:
                    self._delivered = group_parts.behind_last(item.group)
                    self._progress.take(item)
                    self._gives = True
                    yield item.group
                    self._gives = False
                    del item
            since = Checkpoint(self.position, self.state(self.position))
            _LOG.info("has a connection of its own from %s on", since.position)
            await self._open_own(since)

    # Of the own stream.

    async def _own_groups(self) -> AsyncGenerator[TransactionGroup, None]:
        """Up to where the sink shares another stream."""
        while True:
            own, groups = self._own, self._groups
            assert own is not None and groups is not None
            if not self._may_look():
                yield await group_parts.next_group(groups)
                continue
            if asyncio.get_running_loop().time() >= self._next_try and self._look():
                return
            step = asyncio.ensure_future(group_parts.next_group(groups))
            try:
                while not step.done():
                    await asyncio.wait((step,), timeout=_LOOK_SECONDS)
                    if not step.done() and self._is_there():
                        # Nothing is read meanwhile: this stream is cancelled where it waits.
                        reached = own.reached
                        step.cancel()
                        await asyncio.gather(step, return_exceptions=True)
                        await self._go_over(reached)
                        return
            finally:
                if not step.done():
                    step.cancel()
                    await asyncio.wait((step,))
            group = step.result()
            before = self._before_subscription(group)
            if before is not None:
                yield before
            if before is not group:
                await self._go_over(self.position)
                return
            del step, group, before

    def _may_look(self) -> bool:
        """Whether there may be others to share with, and it is known where the sink is."""
        member, delivered = self._member, self._delivered
        return (
            member is not None
            and member.has_others
            and self.acknowledged is not None
            and not (isinstance(delivered, Position) and delivered.inside_transaction)
        )

    def _look(self) -> bool:
        """Share the own stream where none is shared, or subscribe to one that is near; whether it was given away."""
        member, own = self._member, self._own
        assert member is not None and own is not None
        self._next_try = asyncio.get_running_loop().time() + _LOOK_SECONDS
        if self._subscription is not None:
            return False
        shared, position = member.shared, self.position
        if shared is None:
            if not group_parts.is_between(position):
                return False
            self._share_own()
            return True
        if own.server is None or not shared.is_of(own.server) or not shared.may_subscribe:
            return False
        level = own.caught_up and shared.stream.caught_up
        if level or is_near(position, shared.position, self._sharing.limit // 2):
            self._subscription, self._subscribed_at = shared.subscribe(), own.generation
        return False

    def _is_there(self) -> bool:
        """Whether the own stream, which waits for the source, has come to where a subscription begins."""
        own = self._own
        assert own is not None
        if not own.caught_up or own.dump is None:
            return False
        is_time = asyncio.get_running_loop().time() >= self._next_try
        if is_time and self._member is not None and self._member.shared is not None:
            self._look()
        one = self._subscription
        if one is None or self._is_lost(one):
            return False
        reached = own.reached
        return group_parts.is_between(reached) and not reached < one.start

    def _is_lost(self, one: Subscription) -> bool:
        """Whether a subscription can not be reached any more; it is given up then."""
        own = self._own
        assert own is not None
        if not one.has_ended and own.generation == self._subscribed_at:
            return False
        one.drop()
        self._subscription = None
        self._next_try = asyncio.get_running_loop().time() + _AGAIN_SECONDS
        return True

    def _before_subscription(self, group: TransactionGroup) -> TransactionGroup | None:
        """What of a group of the own stream is before the subscription; all of it where there is none."""
        one = self._subscription
        if one is None or group.transactions[-1].start < one.start or self._is_lost(one):
            return group
        at = group_parts.first_behind(group, one.start)
        return group_parts.part(group, 0, at) if at else None

    # Of a shared stream.

    async def _shared_groups(self) -> AsyncGenerator[SharedGroup, None]:
        """Up to where the sink has another stream."""
        one = self._subscription
        assert one is not None
        last: Position | Transaction = one.start
        state = one.state
        while True:
            expected = self._expected
            if expected is not None and one.is_empty:
                reached = group_parts.behind(last)
                if not expected.position > reached:
                    if not await self._is_continued(expected, reached, state):
                        await one.close()
                        return
                    continue
            item = await one.next()
            if item is None:
                return
            if expected is not None:
                at = group_parts.first_behind(item.group, expected.position)
                if at:
                    last = item.group.transactions[at - 1]
                    state = item.state
                if at == len(item.group.transactions):
                    continue
                if not await self._is_continued(expected, group_parts.behind(last), state):
                    await one.close()
                    return
                item = SharedGroup(group_parts.part(item.group, at), item.state)
            yield item
            del item

    async def _is_continued(self, expected: Checkpoint, position: Position, state: State) -> bool:
        """Compare the stream with what the sink has; it is compared once."""
        if not await asyncio.to_thread(is_continued_by, expected, position, state):
            _LOG.info("goes on by itself: the shared stream does not know all that is known here")
            self._next_try = asyncio.get_running_loop().time() + _REFUSED_SECONDS
            return False
        self._expected = None
        return True
