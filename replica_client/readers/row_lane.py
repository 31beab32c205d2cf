# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions as objects whose rows are decoded when they are iterated.

What :class:`~replica_client.readers.group_lane.GroupLane` finds ordinary becomes a transaction without
event objects; see there for what does not.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.constants.event_types import EventType
from replica_client.readers.gtid_trail import GtidTrail
from replica_client.rows.image import RowImageDecoder
from replica_client.schema.shape import TableShape

if cython.compiled:
    from cython.cimports.replica_client.binlog.layout import (
        GTID_NUMBER_OFFSET,
        GTID_TIMESTAMP_OFFSET,
        GTID_TIMESTAMP_SIZE,
        HEADER_SIZE,
        MARIADB_COMMIT_ID,
        MARIADB_COMMIT_ID_SIZE,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
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
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
    from cython.cimports.replica_client.readers.group_lane import GroupLane
    from cython.cimports.replica_client.readers.gtid_runs import GtidRuns
    from cython.cimports.replica_client.readers.lane_tables import LaneTable, LaneTables
    from cython.cimports.replica_client.readers.transaction import (
        Transaction,
        pending_transaction,
    )
    from cython.cimports.replica_client.rows.change import RowsOfEvent, undecoded_rows
else:
    from replica_client.binlog.layout import (
        GTID_NUMBER_OFFSET,
        GTID_TIMESTAMP_OFFSET,
        GTID_TIMESTAMP_SIZE,
        HEADER_SIZE,
        MARIADB_COMMIT_ID,
        MARIADB_COMMIT_ID_SIZE,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
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
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le, same_bytes
    from replica_client.readers.group_lane import GroupLane
    from replica_client.readers.gtid_runs import GtidRuns
    from replica_client.readers.lane_tables import LaneTable, LaneTables
    from replica_client.readers.transaction import Transaction, pending_transaction
    from replica_client.rows.change import RowsOfEvent, undecoded_rows

if TYPE_CHECKING:
    from replica_client.readers.assembler import TransactionAssembler
    from replica_client.readers.event_feed import EventFeed

_GTID = cython.declare(cython.int, int(EventType.GTID_LOG_EVENT))
_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_SECOND_TIMESTAMP = cython.declare(cython.longlong, 1 << 55)

MAX_TAKEN = cython.declare(cython.longlong, 1 << 20)
_NO_BYTES = b""


class RowTable:
    """Where the rows of a table go: what their objects are made with."""

    rows = runs = None

    def __init__(self, shape: TableShape, decoder: RowImageDecoder) -> None:
        self.shape = shape
        self.decoder = decoder


class RowTables:
    """Makes what takes the rows of the tables that are wanted."""

    generation = 0

    def made_builder(self, shape: TableShape, decoder: RowImageDecoder) -> RowTable:
        """What takes the rows of a table."""
        return RowTable(shape, decoder)


@cython.final
@cython.cclass
class RowLane(GroupLane):  # type: ignore[misc]
    """Takes ordinary transactions and gives them as objects.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        in_file: whether events stand in a file, or come as a stream.
    """

    def __init__(self, feed: EventFeed, assembler: TransactionAssembler, in_file: bool) -> None:
        GroupLane.__init__(self, feed, assembler, RowTables(), in_file)
        self._takes_payloads = False
        self._part_size = assembler.part_size
        self._passes_over = False
        self._taken: list[Any] = []
        self._taken_size = 0
        self._trail: GtidTrail | None = None
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
        """As :meth:`GroupLane.take`; at most about a mebibyte at once, so call it again."""
        self._trail = None
        self._taken_size = 0
        return int(GroupLane.take(self, events, file, offset, stop))

    def hand_over(self) -> list[Transaction]:
        """The transactions that were taken since the last time, in order."""
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
        count: cython.Py_ssize_t = GroupLane._count(self, events, first, offset)
        # Those without rows become objects, too.
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
        """Make the object of a transaction."""
        raw: cython.p_const_uchar = events.data
        at: cython.Py_ssize_t = events.marks[2 * first]
        end: cython.Py_ssize_t = events.marks[2 * first + 1] - self._tail
        code: cython.int = raw[at + TYPE_OFFSET]
        classes: cython.p_const_uchar = self._classes
        event_class: cython.int = classes[code]
        tables: LaneTables = self._tables
        gtids: GtidRuns = self._gtids
        table: LaneTable
        i: cython.Py_ssize_t
        if self._trail is None:
            self._trail = GtidTrail(self._feed.tracker.fork(), gtids.found, self._file)
        transaction: Transaction = pending_transaction(self._trail, self._file, offset)
        prefix: bytes = _NO_BYTES
        if code != _ANONYMOUS:
            prefix = gtids.prefix(raw, at)
        if event_class == EventClass.MARIADB_GTID:
            transaction._gtid_number = load_le(raw, at + HEADER_SIZE + MARIADB_SEQUENCE_OFFSET, 8)
            i = at + HEADER_SIZE + MARIADB_FIELDS_OFFSET
            if raw[at + HEADER_SIZE + MARIADB_FLAGS_OFFSET] & MARIADB_COMMIT_ID:
                i += MARIADB_COMMIT_ID_SIZE
            if end > i and raw[i]:
                # The lane takes no other field there than the session's number.
                transaction._thread = load_le(raw, i + 1, 4)
        else:
            if code == _GTID:
                transaction._gtid_number = load_le(raw, at + HEADER_SIZE + GTID_NUMBER_OFFSET, 8)
            i = at + HEADER_SIZE + GTID_TIMESTAMP_OFFSET
            if end >= i + GTID_TIMESTAMP_SIZE:
                transaction._commit_us = load_le(raw, i, GTID_TIMESTAMP_SIZE) & ~_SECOND_TIMESTAMP
        if prefix is not self._prefix_bytes:
            self._prefix_bytes = prefix
            self._prefix = prefix.decode()
        transaction._gtid = self._prefix
        for i in range(first, first + count):
            at = events.marks[2 * i]
            end = events.marks[2 * i + 1] - self._tail
            event_class = classes[raw[at + TYPE_OFFSET]]
            if event_class == EventClass.TABLE_MAP:
                tables.of_map(raw, at + HEADER_SIZE, end)
            elif event_class == EventClass.ROWS:
                table = cython.cast(
                    LaneTable, tables.known(load_le(raw, at + HEADER_SIZE, TABLE_ID_SIZE))
                )
                if table.builder is not None:
                    self._add(transaction, table, raw, at, end, offset, i - first)
            elif event_class == EventClass.QUERY:
                transaction._thread = load_le(raw, at + HEADER_SIZE + QUERY_THREAD_OFFSET, 4)
            elif event_class == EventClass.COMMIT:
                transaction._xid = load_le(raw, at + HEADER_SIZE, XID_SIZE)
                transaction._has_xid = True
            offset += events.marks[2 * i + 1] - at
        transaction._timestamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
        transaction._end_offset = offset
        transaction._last_index = count - 1
        self._taken_size += offset - transaction._start_offset
        self._taken.append(transaction)
        self._current = transaction
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(
        self,
        transaction: Transaction,
        table: LaneTable,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        index: cython.Py_ssize_t,
    ) -> cython.int:
        """Add the rows of the event at ``at`` to a transaction."""
        form: cython.int = self._forms[raw[at + TYPE_OFFSET]]
        kind: cython.int = form & ROWS_KIND
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        # The number of columns, of which the lane takes 250 at most, has one byte.
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
        # The queue's memory is used again; what is given away is a copy.
        rows: RowsOfEvent = undecoded_rows(
            bytes(raw[at : end + self._tail]),
            images - at,
            end - at,
            kind,
            table.before,
            after,
            table.builder.decoder,
            table.builder.shape,
            self._format,
        )
        rows._file = self._file
        rows._gtid = self._prefix
        rows._gtid_number = transaction._gtid_number
        rows._offset = offset
        rows._event_index = index
        rows._timestamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
        if transaction._one is None:
            transaction._one = rows
        elif transaction._more is None:
            transaction._more = [rows]
        else:
            transaction._more.append(rows)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _join(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.int:
        GroupLane._join(self, events, first)
        transaction: Transaction = self._current
        transaction._run = len(self._gtids.found)
        transaction._run_number = self._gtids.last
        return 0
