# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions event by event, without event objects, for readers of every event.

:class:`~replica_client.stream.fast.fast_path.FastPath` finds the transactions; subclasses process
each event.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.errors import BinlogDecodeError, ShortBufferError
from replica_client.protocol.binlog.event import BinlogEvent, EventHeader

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        FLAGS_OFFSET,
        HEADER_SIZE,
        NEXT_POSITION_OFFSET,
        SERVER_ID_OFFSET,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le
    from replica_client.stream.fast.fast_path import FastPath
    from replica_client.stream.fast.fast_path_tables import FastPathTables

if TYPE_CHECKING:
    from replica_client.protocol.binlog.decoder import BinlogDecoder
    from replica_client.stream.fast.fast_path_tables import RowConsumers, TableResolver
    from replica_client.stream.position.tracker import PositionTracker
    from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent

MAX_TAKEN = cython.declare(cython.longlong, 1 << 20)


@cython.cclass
class EventFastPath(FastPath):
    """Fast path that visits each event of a file's ordinary transactions.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        consumers: take the rows.
    """

    def __init__(self, feed: EventFeed, assembler: TableResolver, consumers: RowConsumers) -> None:
        FastPath.__init__(self, feed, assembler, consumers, True)
        self._passes_over = False
        self._most_taken = MAX_TAKEN
        self._taken_size = 0

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> tuple[()]:
        """Visit an event outside ordinary transactions, or inside such an event's payload."""
        raise NotImplementedError

    def take(
        self,
        events: EventQueue,
        file: str,
        offset: cython.longlong,
        stop: cython.longlong = -1,
    ) -> int:
        """Take a part of the queue; call it again for the rest."""
        self._taken_size = 0
        return int(FastPath.take(self, events, file, offset, stop))

    def hand_over(self) -> list[Any]:
        """Return nothing, as events were visited in place."""
        self.took = False
        return []

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        if self._taken_size >= self._most_taken:
            return 0
        count: cython.Py_ssize_t = FastPath._count(self, events, first, offset)
        # Transactions without rows are visited, too.
        self._tables.wanted = True
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _apply(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.int:
        """Visit each event of a transaction."""
        i: cython.Py_ssize_t
        inside: cython.Py_ssize_t = self._inside
        for i in range(first, first + count):
            self._look(events, i, offset, self._tail, -1)
            offset += events.marks[2 * i + 1] - events.marks[2 * i]
            self._taken_size += events.marks[2 * i + 1] - events.marks[2 * i]
        if inside:
            # The payload is the second event and the last one.
            offset -= events.marks[2 * first + 3] - events.marks[2 * first + 2]
            for i in range(inside):
                self._look(self._inner, i, offset, 0, i)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look(
        self,
        events: EventQueue,
        index: cython.Py_ssize_t,
        offset: cython.longlong,
        tail: cython.Py_ssize_t,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        """Visit one event."""
        raw: cython.p_const_uchar = events.data
        at: cython.Py_ssize_t = events.marks[2 * index]
        end: cython.Py_ssize_t = events.marks[2 * index + 1]
        tables: FastPathTables = self._tables
        if self._classes[raw[at + TYPE_OFFSET]] == EventClass.TABLE_MAP:
            # Update which table has the id now: a transaction may use an id for several tables in
            # turn.
            tables.of_map(raw, at + HEADER_SIZE, end - tail)
        return self._event(raw, at, end, offset, tail, inner_index)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _event(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        tail: cython.Py_ssize_t,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        """Visit the event from ``at`` to ``end``.

        Args:
            raw: holds it.
            at: where its header begins.
            end: where its checksum ends.
            offset: in the file; of an event inside a payload, the payload's.
            tail: bytes of its checksum.
            inner_index: in its payload; -1: it is in none.
        """
        raise NotImplementedError


class EventTables:
    """A lookup of tables without schemas: no rows are decoded."""

    full_rows = False
    is_between = True
    generation = 0
    revision = 0

    def decoder_if_certain(self, table_map: object, decoder: object) -> tuple[None]:
        """Return that the rows of no table are wanted."""
        return (None,)

    def made_builder(self, shape: object, decoder: object) -> None:
        """Return nothing that takes rows."""


@cython.final
@cython.cclass
class EventObjects(EventFastPath):
    """Fast path that decodes each event to its object.

    A transaction of which an event cannot be decoded is left to the full decoder, which delivers the
    events before the fault and then raises it.

    Args:
        feed: the decoder and the tracker.
    """

    def __init__(self, feed: EventFeed) -> None:
        tables = EventTables()
        EventFastPath.__init__(self, feed, tables, tables)
        # The first object waits for the last one, and all of them take memory.
        self._most_taken = MAX_TAKEN >> 3
        self._objects: list[BinlogEvent] = []

    def hand_over(self) -> list[BinlogEvent]:
        """Return the events that were taken since the last call, in order."""
        self.took = False
        taken: list[BinlogEvent] = self._objects
        self._objects = []
        return taken

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        count: cython.Py_ssize_t = EventFastPath._count(self, events, first, offset)
        if not count:
            return 0
        known: cython.Py_ssize_t = len(self._objects)
        try:
            EventFastPath._apply(self, events, first, count, offset)
        except (BinlogDecodeError, ShortBufferError, ValueError):
            del self._objects[known:]
            return 0
        return count

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _apply(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.int:
        """Do nothing: the transaction was decoded to know whether all of it can be."""
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _event(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        tail: cython.Py_ssize_t,
        inner_index: cython.Py_ssize_t,
    ) -> cython.int:
        """Decode the event."""
        data: bytes = bytes(raw[at:end])
        if inner_index >= 0:
            self._objects.append(
                self._feed.decoder.decode_inner(data, offset, self._file, inner_index)
            )
            return 0
        header = EventHeader(
            load_le(raw, at + TIMESTAMP_OFFSET, 4),
            raw[at + TYPE_OFFSET],
            load_le(raw, at + SERVER_ID_OFFSET, 4),
            end - at,
            load_le(raw, at + NEXT_POSITION_OFFSET, 4),
            load_le(raw, at + FLAGS_OFFSET, 2),
        )
        self._objects.append(
            self._feed.decoder.decode_body(
                data,
                header,
                HEADER_SIZE,
                end - at - tail,
                offset,
                self._file,
                load_le(raw, end - tail, tail) if tail else None,
            )
        )
        return 0
