"""Which sinks of a source share a connection, and which server ids the source's connections have."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from dataclasses import replace
from functools import partial
from typing import Final

from replica_client.daemon.configuration import SourceTable, bytes_of
from replica_client.daemon.shared_stream import Groups, SharedStream, State, Subscription
from replica_client.errors import PositionStoreError
from replica_client.position.position import Position
from replica_client.position.stores.base import Checkpoint
from replica_client.readers.live.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.readers.live.source_stream import SourceStream
from replica_client.readers.live.stream_options import StreamOptions
from replica_client.transport.connect_options import ConnectOptions

_WAIT_SECONDS: Final = 0.5
"""How long a sink that is ready waits for others that begin, so that they begin together."""
_CONNECT_SECONDS: Final = 5.0
_LOOK_SECONDS: Final = 0.01


class SourceSharing:
    """The sinks of one source.

    Args:
        source: as it is configured.
    """

    def __init__(self, source: SourceTable) -> None:
        self._source = source
        self._ids: set[int] = set()
        self._beginning: set[str] = set()
        self._groups: dict[Hashable, _Group] = {}

    @property
    def name(self) -> str:
        """Of the source."""
        return self._source.name

    @property
    def limit(self) -> int:
        """Bytes that wait for a sink at most.

        Raises:
            ConfigError: what is configured is no size.
        """
        return bytes_of("spool_bytes", self._source.spool_bytes)

    def adopt(self, source: SourceTable) -> None:
        """Other sinks of the source are configured now."""
        self._source = source

    def begin(self, sink: str) -> None:
        """A sink is being opened."""
        self._beginning.add(sink)

    def settle(self, sink: str) -> None:
        """It is known where a sink begins, or that it does not begin now."""
        self._beginning.discard(sink)

    def others_begin(self, sink: str) -> bool:
        """Whether another sink is being opened."""
        return bool(self._beginning - {sink})

    def member(self, sink: str, wants: Hashable, start: str) -> Member | None:
        """A sink that may share with those that want the same; None where nothing is shared.

        Args:
            sink: its name.
            wants: what it wants of the source.
            start: where it begins the first time.
        """
        source = self._source
        if not source.shared_connection or source.semi_sync:
            return None
        group = self._groups.setdefault(wants, _Group(self))
        return Member(sink, group, start)

    def forget(self, group: _Group) -> None:
        """Nobody is in a group any more."""
        for wants in [wants for wants, one in self._groups.items() if one is group]:
            del self._groups[wants]

    async def beginning(self, hosts: list[ConnectOptions], options: StreamOptions) -> Checkpoint:
        """Where a stream with these options begins now.

        Raises:
            ReplicaClientError: the source is away, or refuses.
        """
        number = self.take_id()
        try:
            async with SourceStream(hosts, replace(options, server_id=number)) as stream:
                return Checkpoint(stream.position, stream.state(stream.position))
        finally:
            self.give_id(number)

    def take_id(self) -> int | None:
        """A server id for a connection; None: a random one."""
        first = self._source.server_id
        if first is None:
            return None
        numbers = range(first, first + len(self._source.sinks))
        # There are at most as many connections as sinks: a stream that is shared has one that has no other.
        found = next((one for one in numbers if one not in self._ids), numbers[-1])
        self._ids.add(found)
        return found

    async def close(self, stream: SourceStream, groups: Groups | None, number: int | None) -> None:
        """Close a connection, and all that reads of it, also where this is cancelled; its server id is free then."""
        try:
            if groups is not None:
                await groups.aclose()
        finally:
            try:
                await stream.__aexit__(None, None, None)
            finally:
                self.give_id(number)

    def give_id(self, number: int | None) -> None:
        """A connection has ended."""
        if number is not None:
            self._ids.discard(number)


class _Group:
    """Sinks of a source that want the same."""

    def __init__(self, sharing: SourceSharing) -> None:
        self.sharing = sharing
        self.members: set[Member] = set()
        self.shared: SharedStream | None = None
        self.opener: Member | None = None
        self.waiting: dict[Member, asyncio.Future[Subscription]] = {}

    def opener_for(self, member: Member) -> Member | None:
        """Who opens a stream that begins early enough for a member; None: nobody does."""
        near = [one for one in self.waiting if self.begins_near(one, member)]
        return min(near, key=_order) if near else None

    def opens_first(self, member: Member) -> bool:
        """Whether a member is to open the stream of those that wait: the first that is near the newest."""
        newest = max(self.waiting, key=_order)
        return self.opener_for(newest) is member

    def serves(self, shared: SharedStream, member: Member) -> bool:
        """Whether a stream comes soon to the position of a member."""
        since = member.since
        if since is None or IDENTITY_KEY not in since.state or not shared.may_subscribe:
            return False
        try:
            server = SourceIdentity.from_state(since.state[IDENTITY_KEY])
        except PositionStoreError:
            return False  # the sink's own stream says so
        same = shared.stream.server is not None and server.is_same_server(shared.stream.server)
        return same and is_near(shared.position, since.position, self.sharing.limit)

    def begins_near(self, one: Member, other: Member) -> bool:
        """Whether a stream that begins where one does comes soon to where another one does."""
        if one.since is None or other.since is None:
            return one.since is other.since and one.start == other.start
        return is_near(one.since.position, other.since.position, self.sharing.limit)

    def has_ended(self, shared: SharedStream) -> None:
        """The shared stream gives nothing more."""
        if self.shared is shared:
            self.shared = None


def is_near(earlier: Position, later: Position, limit: int) -> bool:
    """Whether a position is in the same file as another one, and equal to it or before it by some bytes at most."""
    same_file = earlier.file == later.file
    return same_file and earlier <= later and later.offset - earlier.offset <= limit


def _order(member: Member) -> tuple[bool, Position]:
    since = member.since
    return (False, Position("", 0)) if since is None else (True, since.position)


class Member:
    """One sink among those that want the same.

    Args:
        name: of the sink.
        group: those that want the same.
        start: where it begins the first time.

    Attributes:
        start: see above.
        since: where it begins while it waits to begin; None: at the start that the source's options say.
    """

    def __init__(self, name: str, group: _Group, start: str) -> None:
        self.name, self.start = name, start
        self.since: Checkpoint | None = None
        self._group = group
        group.members.add(self)

    @property
    def shared(self) -> SharedStream | None:
        """The stream that is shared now."""
        return self._group.shared

    @property
    def has_others(self) -> bool:
        """Whether others want the same, or may."""
        return len(self._group.members) > 1

    def leave(self) -> None:
        """The sink is closed."""
        group = self._group
        group.members.discard(self)
        self.opened()
        if not group.members:
            group.sharing.forget(group)

    async def enter(self, since: Checkpoint | None) -> Subscription | None:
        """Begin together with others where they begin near: with what a shared stream gives.

        Returns:
            That; None: the sink is to open a stream, and to call :meth:`opened` then, or when it could not.
        """
        group, sharing = self._group, self._group.sharing
        loop = asyncio.get_running_loop()
        self.since = since
        future: asyncio.Future[Subscription] = loop.create_future()
        group.waiting[self] = future
        sharing.settle(self.name)
        now = loop.time()
        begun, late = now + _WAIT_SECONDS, now + _WAIT_SECONDS + _CONNECT_SECONDS
        try:
            while not future.done():
                now = loop.time()
                if now >= late:
                    return None
                if group.shared is not None:
                    shared = group.shared
                    return shared.subscribe() if group.serves(shared, self) else None
                if group.opener is None and (now >= begun or not sharing.others_begin(self.name)):
                    if group.opens_first(self):
                        group.opener = self
                        return None
                    if group.opener_for(self) is self:
                        return None  # too far behind the others
                await asyncio.sleep(_LOOK_SECONDS)
            return future.result()
        except asyncio.CancelledError:
            if future.done():
                future.result().drop()
            raise
        finally:
            group.waiting.pop(self, None)

    def share(
        self,
        stream: SourceStream,
        groups: Groups,
        position: Position,
        state: State,
        server_id: int | None,
    ) -> Subscription:
        """Let all that want the same have a stream that this sink opened.

        Args:
            stream: open.
            groups: of it.
            position: behind what was taken of it.
            state: what is saved with that.
            server_id: to be given back when it is closed.
        """
        group, sharing = self._group, self._group.sharing
        closed = partial(sharing.give_id, server_id)
        made = SharedStream(
            stream,
            groups,
            position,
            state,
            limit=sharing.limit,
            ended=group.has_ended,
            closed=closed,
            name=sharing.name,
        )
        group.shared = made
        # Before anything is read: who waits has everything from here on.
        for one, future in group.waiting.items():
            begins = group.opener is self and one.since is None and group.begins_near(self, one)
            if not future.done() and (begins or group.serves(made, one)):
                future.set_result(made.subscribe())
        subscription = made.subscribe()
        subscription.activate()
        return subscription

    def opened(self) -> None:
        """The stream that others waited for is open, or is not to be had."""
        if self._group.opener is self:
            self._group.opener = None

    @property
    def is_opener(self) -> bool:
        """Whether others wait for the stream that this sink opens."""
        return self._group.opener is self
