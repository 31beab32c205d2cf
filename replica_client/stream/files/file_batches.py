"""Transactions of binlog files, by a fast path or event by event, as objects or record batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.layout import HEADER_SIZE
from replica_client.protocol.codec.turns import Turn
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.stream.fast.column_fast_path import ColumnFastPath
from replica_client.stream.fast.event_fast_path import EventObjects
from replica_client.stream.fast.fast_path import MAX_WAITING, FastPath
from replica_client.stream.fast.row_fast_path import inside_path
from replica_client.stream.files.file_bytes import BinlogFile, EventSource, open_events
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.assembler import TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.loss_watch import Notice, batches_of
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler, RecordBatch

DESCRIPTIVE = (
    EventType.START_EVENT_V3,
    EventType.FORMAT_DESCRIPTION_EVENT,
    EventType.START_ENCRYPTION_EVENT,
)
"""Events that a reader needs from the beginning of a file before it can read on in the middle."""


def raw_events(file: BinlogFile, feed: EventFeed, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield a file's events from a position on, after the feed has read the format description.

    Raises:
        BinlogDecodeError: the file is cut, or an event is too large.
    """
    feed.new_decoder(file.name)
    with file.open() as stream:
        source = open_events(stream, file.name, feed.options)
        while True:
            position = source.position
            header_size = feed.decoder.format.header_size
            data = source.next_event(header_size, feed.options.max_event_size)
            if data is None:
                return
            if position >= first:
                yield position, data
            elif data[4] in DESCRIPTIVE:
                feed.decoder.decode(data, position, file.name)
            else:
                source.skip_to(first)


class EventConsumer(Protocol):
    """Consumer of the events that a fast path leaves, such as :class:`TransactionAssembler`."""

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> Iterable[Transaction]:
        """Take an event and return the transactions that it completes."""
        ...


class FileSteps:
    """Reader of files transaction by transaction: ordinary ones by a fast path, others by event.

    Args:
        feed: the decoder and the tracker.
        assembler: puts transactions together.
        fast_path: takes the ordinary ones.
        stop: no transaction that begins there or later is read.
        turn: the turn that this thread has, and gives up while it reads; see
            :mod:`~replica_client.protocol.codec.turns`.

    Attributes:
        stopped: whether the stop was reached.
        inside: the position inside the transaction of which a part was yielded last; None after its
            end.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: EventConsumer,
        fast_path: FastPath,
        stop: Position | None,
        turn: Turn | None = None,
    ) -> None:
        self._turn = turn
        self._feed = feed
        self._assembler = assembler
        self._fast_path = fast_path
        self._inside_path = inside_path(feed, assembler, fast_path, in_file=True)
        self._stop = stop
        self.stopped = False
        self.inside: Position | None = None

    def _take(self, located: LocatedEvent) -> Iterable[list[Any]]:
        """Take an event that the fast path left; yield what it completes."""
        feed = self._feed
        for transaction in self._assembler.feed(located, feed.decoder, feed.tracker):
            # The tracker is already after the transaction of which more parts follow.
            self.inside = None if transaction.complete else transaction.position
            yield list(self._deliver(transaction))

    def _deliver(self, transaction: Transaction) -> Iterable[Any]:
        """Return what to yield for a transaction that the fast path left."""
        return (transaction,)

    def read(self, source: EventSource, file: str, first: int) -> Iterator[list[Any]]:
        """Read a file to its end or the stop; yields what became complete, now and then.

        Raises:
            BinlogDecodeError: the first fault.
            DataLossError: a change that cannot be delivered as rows.
        """
        feed, fast_path, tracker = self._feed, self._fast_path, self._feed.tracker
        fast_path.forget()
        limit = feed.options.max_event_size
        stop = self._stop.offset if self._stop is not None and self._stop.file == file else -1
        until = sys.maxsize if stop < 0 else stop
        events = source.events
        offset = 0
        fault: BinlogDecodeError | None = None
        ended = wants_more = False
        # Before the first event only the format description is needed.
        source.ahead_until = 0 if source.position < first else until
        while True:
            if not events or (wants_more and not ended):
                if ended:
                    if fault is not None:
                        raise fault
                    return
                if not events:
                    offset = source.position
                    if offset >= first:
                        source.ahead_until = until
                        if offset >= until and not tracker.in_transaction:
                            self.stopped = True
                            return
                try:
                    ended = not self._next(source, file, first, limit)
                except BinlogDecodeError as error:
                    # Report the fault after the events before it.
                    ended, fault = True, error
                wants_more = False
                if not events:
                    continue
            if not tracker.in_transaction and not wants_more:
                waiting = events.waiting
                if fast_path.take(events, file, offset, stop):
                    offset += waiting - events.waiting
                    feed.passed(file)
                    yield fast_path.hand_over()
                    continue
                wants_more = fast_path.incomplete and not ended and events.waiting < MAX_WAITING
                if wants_more or not events:
                    continue
            if not tracker.in_transaction and self._stops(file, offset):
                self.stopped = True
                return
            if tracker.in_middle and self._inside_path is not None:
                waiting = events.waiting
                if self._inside_path.take_inside(events, file, offset):
                    offset += waiting - events.waiting
                    yield []
                    continue
            data = events.take()
            size = len(data)
            fed = feed.feed(data, offset, file)
            del data  # avoids two copies of a very large event
            for located in fed:
                yield from self._take(located)
            offset += size
            yield []

    def _stops(self, file: str, offset: int) -> bool:
        return self._stop is not None and Position(file, offset) >= self._stop

    def _next(self, source: EventSource, file: str, first: int, limit: int) -> bool:
        """Read the next events, skipping those before the start; return False at the end."""
        decoder = self._feed.decoder
        position = source.position
        if position < first:
            data = source.next_event(decoder.format.header_size, limit)
            if data is None:
                return False
            if data[4] in DESCRIPTIVE:
                decoder.decode(data, position, file)
            else:
                source.skip_to(first)
            return True
        if not source.cut_event(decoder.format.header_size, limit):
            return False
        if decoder.is_plain and decoder.format.header_size == HEADER_SIZE:
            checks = self._fast_path.checks
            # Without the turn, if others would have to wait for it.
            source.cut_more(limit, checks, checks and self._turn is not None)
        return True


class FileEvents(FileSteps):
    """Reader of files into the objects of their events.

    Args:
        feed: the decoder and the tracker.
        stop: no transaction that begins there or later is read.
    """

    def __init__(self, feed: EventFeed, stop: Position | None) -> None:
        fast_path = EventObjects(feed)
        super().__init__(feed, fast_path, fast_path, stop)

    def _take(self, located: LocatedEvent) -> Iterable[list[BinlogEvent]]:
        return ([located.event],)


class FileBatches(FileSteps):
    """Reader of files into record batches, for ``BinlogFileReader.batches()``.

    Args:
        feed: the decoder and the tracker.
        assembler: puts transactions together.
        batches: takes their rows.
        stop: no transaction that begins there or later is read.
        count_losses: called with each transaction that the fast path leaves.
        notices: yield schema changes and losses between the batches.
        shares: whether other threads decode meanwhile; see
            :class:`~replica_client.stream.fast.column_fast_path.ColumnFastPath`.
        turn: as in :class:`FileSteps`.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: TransactionAssembler,
        batches: BatchAssembler,
        stop: Position | None,
        count_losses: Callable[[Transaction], None],
        *,
        notices: bool,
        shares: bool = False,
        turn: Turn | None = None,
    ) -> None:
        fast_path = ColumnFastPath(feed, assembler, batches, True, shares, turn)
        super().__init__(feed, assembler, fast_path, stop, turn)
        self._batches = batches
        self._count_losses = count_losses
        self._notices = notices

    def _deliver(self, transaction: Transaction) -> Iterable[RecordBatch | Notice]:
        self._count_losses(transaction)
        return batches_of(self._batches, transaction, notices=self._notices)
