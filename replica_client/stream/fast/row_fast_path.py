# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions as objects whose rows are decoded when they are iterated.

:class:`~replica_client.stream.fast.fast_path.FastPath` finds the ordinary transactions and leaves
out the others; this module makes the objects, without event objects.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.protocol.binlog.events.rows import STMT_END_F
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import TableShape
from replica_client.stream.fast.transaction_gtids import GtidPositions
from replica_client.stream.transactions.assembler import TransactionAssembler

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        HEADER_SIZE,
        QUERY_THREAD_OFFSET,
        ROWS_KIND,
        TABLE_ID_SIZE,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        UPDATE,
        XID_SIZE,
        EventClass,
        rows_columns,
    )
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le, same_bytes
    from replica_client.rows.change import RowsOfEvent, undecoded_rows
    from replica_client.stream.fast.fast_path import FIRST_AHEAD, FastPath, header_fits
    from replica_client.stream.fast.fast_path_tables import FastPathTable, FastPathTables
    from replica_client.stream.fast.gtid_runs import GtidRuns
    from replica_client.stream.transactions.transaction import Transaction, pending_transaction

if TYPE_CHECKING:
    from replica_client.stream.transactions.event_feed import EventFeed


MAX_TAKEN = cython.declare(cython.longlong, 1 << 20)
STMT_END = cython.declare(cython.int, STMT_END_F)
_NO_BYTES = b""


class RowTable:
    """The shape and the decoder of a table, from which the objects of its rows are made."""

    rows = runs = None

    def __init__(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        self.shape = shape
        self.decoder = decoder


class RowTables:
    """Factory of the objects that take the rows of wanted tables."""

    generation = 0

    def made_builder(self, shape: TableShape, decoder: RowImageDecoder) -> RowTable:
        """Create the object that takes a table's rows."""
        return RowTable(shape, decoder)


@cython.final
@cython.cclass
class RowFastPath(FastPath):
    """Fast path that returns ordinary transactions as objects.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        in_file: whether events are in a file, or come as a stream.
    """

    def __init__(self, feed: EventFeed, assembler: TransactionAssembler, in_file: bool) -> None:
        FastPath.__init__(self, feed, assembler, RowTables(), in_file)
        self._part_size = assembler.part_size
        self._passes_over = False
        self._taken: list[Any] = []
        self._taken_size = 0
        self._gtid_positions: GtidPositions | None = None
        self._current: Any = None
        self._prefix_bytes = _NO_BYTES
        self._prefix = ""

    def take(
        self,
        events: EventQueue,
        file: str,
        offset: cython.longlong,
        stop: cython.longlong = -1,
    ) -> int:
        """Take at most about a mebibyte; call it again for the rest."""
        self._gtid_positions = None
        self._taken_size = 0
        return int(FastPath.take(self, events, file, offset, stop))

    @property
    def taken_size(self) -> int:
        """Bytes of the events that the last :meth:`take` took, decompressed."""
        return int(self._taken_size)

    def hand_over(self) -> list[Transaction]:
        """Return the transactions that were taken since the last call, in order."""
        self.took = False
        taken: list[Transaction] = self._taken
        self._taken = []
        return taken

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        if self._taken_size >= MAX_TAKEN:
            return 0
        count: cython.Py_ssize_t = FastPath._count(self, events, first, offset)
        # Transactions without rows become objects, too.
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
        """Create the object of a transaction."""
        raw: cython.p_const_uchar = events.data
        at: cython.Py_ssize_t = events.marks[2 * first]
        classes: cython.p_const_uchar = self._classes
        event_class: cython.int
        gtids: GtidRuns = self._gtids
        i: cython.Py_ssize_t
        if self._gtid_positions is None:
            self._gtid_positions = GtidPositions(self._feed.tracker.fork(), gtids.found, self._file)
        transaction: Transaction = pending_transaction(self._gtid_positions, self._file, offset)
        gtids.read(raw, at, events.marks[2 * first + 1] - self._tail)
        transaction._gtid_number = gtids.number
        transaction._commit_us = gtids.timestamp_us
        transaction._thread = gtids.thread
        if gtids.prefix is not self._prefix_bytes:
            self._prefix_bytes = gtids.prefix
            self._prefix = gtids.prefix.decode()
        transaction._gtid = self._prefix
        queue: EventQueue = events
        tail: cython.Py_ssize_t = self._tail
        last: cython.Py_ssize_t = first + count
        index: cython.Py_ssize_t = 0
        inside: cython.bint = self._inside > 0
        if inside:
            # Inner events share the payload's position, count on from its index, and have no
            # checksums.
            offset += events.marks[2 * first + 1] - at
            queue = self._inner
            raw = queue.data
            first, last, index, tail = 0, self._inside, 2, 0
        for i in range(first, last):
            at = queue.marks[2 * i]
            event_class = classes[raw[at + TYPE_OFFSET]]
            if event_class == EventClass.TABLE_MAP:
                self._tables.of_map(raw, at + HEADER_SIZE, queue.marks[2 * i + 1] - tail)
            elif event_class == EventClass.ROWS:
                self._add(transaction, queue, i, tail, offset, index + i - first, inside)
            elif event_class == EventClass.QUERY:
                transaction._thread = load_le(raw, at + HEADER_SIZE + QUERY_THREAD_OFFSET, 4)
            elif event_class == EventClass.COMMIT:
                transaction._xid = load_le(raw, at + HEADER_SIZE, XID_SIZE)
                transaction._has_xid = True
            if not inside:
                offset += queue.marks[2 * i + 1] - at
        transaction._timestamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
        transaction._end_offset = self._end
        transaction._last_index = count - 1
        self._taken_size += queue.marks[2 * last - 1] - queue.marks[2 * first]
        self._taken.append(transaction)
        self._current = transaction
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(
        self,
        transaction: Transaction,
        queue: EventQueue,
        at_index: cython.Py_ssize_t,
        tail: cython.Py_ssize_t,
        offset: cython.longlong,
        index: cython.Py_ssize_t,
        inside: cython.bint,
    ) -> cython.int:
        """Add the rows of an event of the queue to a transaction, if they are wanted."""
        rows: RowsOfEvent | None = self._rows_at(queue, at_index, tail)
        if rows is None:
            return 0
        rows._gtid = self._prefix
        rows._gtid_number = transaction._gtid_number
        rows._offset = offset
        rows._event_index = index
        rows._inner_index = at_index if inside else -1
        if transaction._one is None:
            transaction._one = rows
        elif transaction._more is None:
            transaction._more = [rows]
        else:
            transaction._more.append(rows)
        return 0

    @cython.cfunc
    def _rows_at(
        self, queue: EventQueue, at_index: cython.Py_ssize_t, tail: cython.Py_ssize_t
    ) -> RowsOfEvent | None:
        """Return the rows of an event of the queue; None if they are not wanted."""
        raw: cython.p_const_uchar = queue.data
        at: cython.Py_ssize_t = queue.marks[2 * at_index]
        end: cython.Py_ssize_t = queue.marks[2 * at_index + 1]
        tables: FastPathTables = self._tables
        table: FastPathTable = cython.cast(
            FastPathTable, tables.known(load_le(raw, at + HEADER_SIZE, TABLE_ID_SIZE))
        )
        if table.builder is None:
            return None
        form: cython.int = self._forms[raw[at + TYPE_OFFSET]]
        kind: cython.int = form & ROWS_KIND
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        # The number of columns, at most 250 on the fast path, takes one byte.
        images: cython.Py_ssize_t = rows_columns(raw, at + HEADER_SIZE, form) + 1
        known: cython.p_const_uchar = table.before
        if len(table.before) != bitmap or not same_bytes(known, 0, raw, images, bitmap):
            table.before = bytes(raw[images : images + bitmap])
        images += bitmap
        after: bytes | None = None
        if kind == UPDATE:
            known = table.after
            if len(table.after) != bitmap or not same_bytes(known, 0, raw, images, bitmap):
                table.after = bytes(raw[images : images + bitmap])
            after = table.after
            images += bitmap
        # The queue's memory is reused, so the rows get a copy.
        rows: RowsOfEvent = undecoded_rows(
            bytes(raw[at:end]),
            images - at,
            end - tail - at,
            kind,
            table.before,
            after,
            table.builder.decoder,
            table.builder.shape,
            self._format,
        )
        rows._file = self._file
        rows._timestamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
        return rows

    def take_inside(self, events: EventQueue, file: str, offset: cython.longlong) -> int:
        """Take table maps and rows at the front of the queue, in the midst of a transaction.

        A transaction that is too large to wait for its end is read by the full decoder; this takes
        most of its events. The first event that is not certain is left, and so is the one that
        completes a part of the transaction.

        Args:
            events: the queue; a transaction has begun before its first event.
            file: the file that the events are in.
            offset: the offset of the first event.

        Returns:
            The number of events that were taken and removed from the queue.
        """
        if not (self._adopts(file) and self._assembler.takes_rows):
            return 0
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        first: cython.Py_ssize_t = events.first
        last: cython.Py_ssize_t = events.last
        tail: cython.Py_ssize_t = self._tail
        classes: cython.p_const_uchar = self._classes
        tables: FastPathTables = self._tables
        tracker = self._feed.tracker
        index: cython.longlong = tracker.event_index
        room: cython.longlong = self._assembler.part_room
        # The transaction's first events were verified, but nothing says so here.
        self._verified_begin = -1
        self._valid = first
        self._ahead = FIRST_AHEAD
        valid: cython.Py_ssize_t = first if self.checks else last
        taken: list[RowsOfEvent] = []
        size: cython.longlong = 0
        ended: cython.longlong = 0
        ends: cython.int = -1
        here: cython.longlong = offset
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        i: cython.Py_ssize_t = first
        while i < last:
            at = marks[2 * i]
            end = marks[2 * i + 1]
            if end - at > self._max_event_size or not header_fits(
                raw, at, end - at, tail, here + end - at, self._in_file, self._tells_ends, False
            ):
                break
            if i >= valid:
                valid = self._look_ahead(events, i)
                if i >= valid:
                    break
            if classes[raw[at + TYPE_OFFSET]] == EventClass.ROWS:
                if not tables.rows_ok(
                    raw, at + HEADER_SIZE, end - tail, raw[at + TYPE_OFFSET]
                ) and not (
                    tables.adopt(load_le(raw, at + HEADER_SIZE, TABLE_ID_SIZE))
                    and tables.rows_ok(raw, at + HEADER_SIZE, end - tail, raw[at + TYPE_OFFSET])
                ):
                    break
                rows: RowsOfEvent | None = self._rows_at(events, i, tail)
                if rows is not None:
                    if size + end - at >= room:
                        break
                    size += end - at
                    rows._gtid = self._assembler.gtid
                    rows._gtid_number = 0
                    rows._offset = here
                    rows._event_index = index + 1 + i - first
                    rows._inner_index = -1
                    taken.append(rows)
                if ends > 0:
                    ended += 1
                ends = raw[at + HEADER_SIZE + TABLE_ID_SIZE] & STMT_END
            elif classes[raw[at + TYPE_OFFSET]] != EventClass.TABLE_MAP or (
                not tables.is_near(raw, at + HEADER_SIZE, end - tail)
                and tables.of_map(raw, at + HEADER_SIZE, end - tail) is None
            ):
                break
            here += end - at
            i += 1
        if i > first:
            tracker.skip(i - first, here - offset)
            events.drop(i - first)
            if ends >= 0:
                self._assembler.take_rows(taken, size, ended, bool(ends))
        return int(i - first)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _join(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.int:
        FastPath._join(self, events, first)
        transaction: Transaction = self._current
        transaction._run = len(self._gtids.found)
        transaction._run_number = self._gtids.last
        return 0


def inside_path(
    feed: EventFeed, assembler: object, fast_path: object, *, in_file: bool
) -> RowFastPath | None:
    """Return what takes rows inside large transactions; None if the assembler needs each event.

    Args:
        feed: the decoder and the tracker.
        assembler: takes the rows.
        fast_path: takes whole transactions; used if it can take rows as well.
        in_file: whether events are in a file, or come as a stream.
    """
    if type(assembler) is not TransactionAssembler:
        return None
    if isinstance(fast_path, RowFastPath):
        return fast_path
    return RowFastPath(feed, assembler, in_file)
