# cython: boundscheck=False, wraparound=False, cdivision=True
"""The check of the events of ordinary transactions, without event objects.

An event is right here when each of its bytes is accounted for: fields of fixed size take any value and
are encoded to the same bytes again; of what can be written in several ways the one is asked for that is
written; what comes again was decoded and encoded by the general check when it came first. Rows are
written as JSON, for which each value is decoded. Whatever is not right for certain goes to the general
check, which finds the fault, if there is one.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import cython

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.codec.compression import SizedCache
from replica_client.protocol.constants.event_types import EventType

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        GTID_CLOCK_OFFSET,
        GTID_TICKET_SIZE,
        GTID_TIMESTAMP_OFFSET,
        HEADER_SIZE,
        LOGICAL_CLOCK,
        QUERY_DATABASE_SIZE_OFFSET,
        ROWS_EXTRA,
        ROWS_EXTRA_SIZE,
        ROWS_KIND,
        ROWS_POST_HEADER_SIZE,
        TABLE_ID_SIZE,
        TYPE_OFFSET,
        UPDATE,
        XID_SIZE,
        EventClass,
        rows_columns,
    )
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le
    from replica_client.rows.image import Plan, RowImageDecoder
    from replica_client.rows.json_lines import JsonLines
    from replica_client.stream.fast.event_fast_path import EventFastPath
    from replica_client.stream.fast.fast_path_tables import FastPathTable, FastPathTables
    from replica_client.stream.fast.tagged_gtid import GtidTail

if TYPE_CHECKING:
    from replica_client.protocol.binlog.decoder import BinlogDecoder
    from replica_client.stream.fast.fast_path_tables import RowTables
    from replica_client.stream.position.tracker import PositionTracker
    from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent

_ANNOTATE = cython.declare(cython.int, int(EventType.ANNOTATE_ROWS_EVENT))
_TAGGED = cython.declare(cython.int, int(EventType.GTID_TAGGED_LOG_EVENT))
_MAX_QUERIES = 4096
_MAX_TABLES = 10_000
_MAX_TABLE_BYTES = 16 << 20
_TYPES = 256


class GeneralCheck(Protocol):
    """The general check."""

    def check(self, data: bytes, position: int) -> bool:
        """Check an event, with those inside it, and count them; whether nothing is wrong."""
        ...


@cython.final
@cython.cclass
class CheckFastPath(EventFastPath):
    """Checks the events of ordinary transactions.

    Args:
        feed: the decoder.
        tables: resolves tables, and makes what takes their rows.
        general: the general check.
    """

    def __init__(self, feed: EventFeed, tables: RowTables, general: GeneralCheck) -> None:
        EventFastPath.__init__(self, feed, tables, tables)
        self._general: Any = general
        self._text: JsonLines = JsonLines()
        self._counts: list[int] = [0] * (3 * _TYPES)
        # What was decoded and encoded to the same bytes: of table maps without the id, which a server changes
        # each time that it opens the table, of statements without thread and time.
        self._maps: SizedCache[bytes, bool] = SizedCache(_MAX_TABLES, _MAX_TABLE_BYTES, small=0)
        self._queries: set[bytes] = set()
        self._gtid_tail: GtidTail = GtidTail()

    def feed(
        self, located: LocatedEvent, decoder: BinlogDecoder, tracker: PositionTracker
    ) -> tuple[()]:
        """Do nothing: the general check got the event."""
        return ()

    def take_counts(self, add: Callable[[int, int, int, int], None]) -> None:
        """Give the counts and forget them.

        Args:
            add: takes a type code, and how many events, bytes and rows there are of it.
        """
        for code in range(_TYPES):
            at = 3 * code
            if self._counts[at]:
                add(code, self._counts[at], self._counts[at + 1], self._counts[at + 2])
        self._counts = [0] * (3 * _TYPES)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _apply(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.int:
        if not self._inside:
            return EventFastPath._apply(self, events, first, count, offset)
        # An event of a payload that is not right ends the check of the payload.
        i: cython.Py_ssize_t
        is_plain: cython.bint = True
        inner: EventQueue = self._inner
        start: cython.Py_ssize_t = events.marks[2 * first]
        end: cython.Py_ssize_t = events.marks[2 * first + 1]
        self._event(events.data, start, end, offset, self._tail, -1)
        offset += end - start
        start = events.marks[2 * first + 2]
        end = events.marks[2 * first + 3]
        self._taken_size += end - events.marks[2 * first]
        after: list[int] = self._counts.copy()
        for i in range(self._inside):
            is_plain = self._look_at_inner(inner.data, inner.marks[2 * i], inner.marks[2 * i + 1])
            if not is_plain:
                break
        if is_plain:
            # The same content may compress to other bytes.
            self._add(events.data[start + TYPE_OFFSET], end - start, 0)
            return 0
        self._counts = after
        if self._general.check(bytes(events.data[start:end]), offset):
            for i in range(self._inside):
                self._learn(inner.data, inner.marks[2 * i], inner.marks[2 * i + 1])
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look_at_inner(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        tables: FastPathTables = self._tables
        if self._classes[raw[at + TYPE_OFFSET]] == EventClass.TABLE_MAP:
            tables.of_map(raw, at + HEADER_SIZE, end)
        rows: cython.longlong = self._rows_of(raw, at, end)
        if rows < 0:
            return False
        self._add(raw[at + TYPE_OFFSET], end - at, rows)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, code: cython.int, size: cython.longlong, rows: cython.longlong) -> cython.int:
        counts: list[int] = self._counts
        counts[3 * code] += 1
        counts[3 * code + 1] += size
        if rows:
            counts[3 * code + 2] += rows
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
        rows: cython.longlong = self._rows_of(raw, at, end - tail)
        if rows >= 0:
            return self._add(raw[at + TYPE_OFFSET], end - at, rows)
        if self._general.check(bytes(raw[at:end]), offset):
            self._learn(raw, at, end - tail)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _learn(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Remember an event in which the general check found no fault."""
        event_class: cython.int = self._classes[raw[at + TYPE_OFFSET]]
        at += HEADER_SIZE
        if event_class == EventClass.TABLE_MAP:
            self._maps.put(bytes(raw[at + TABLE_ID_SIZE : end]), True, end - at)
        elif event_class == EventClass.QUERY:
            if len(self._queries) >= _MAX_QUERIES:
                self._queries.clear()
            self._queries.add(bytes(raw[at + QUERY_DATABASE_SIZE_OFFSET : end]))
        return 0

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _rows_of(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.longlong:
        """Return the number of rows of an event; -1 where a fault is possible."""
        code: cython.int = raw[at + TYPE_OFFSET]
        event_class: cython.int = self._classes[code]
        at += HEADER_SIZE
        if event_class == EventClass.ROWS:
            return self._images(raw, at, end, code)
        if event_class == EventClass.TABLE_MAP:
            return 0 if bytes(raw[at + TABLE_ID_SIZE : end]) in self._maps else -1
        if event_class == EventClass.QUERY:
            # All but the thread and the time it took come again.
            return 0 if bytes(raw[at + QUERY_DATABASE_SIZE_OFFSET : end]) in self._queries else -1
        if event_class == EventClass.COMMIT:
            return 0 if end == at + XID_SIZE else -1
        if event_class == EventClass.GTID:
            return 0 if code != _TAGGED and self._gtid_is_plain(raw, at, end) else -1
        if event_class == EventClass.MARIADB_GTID:
            # The fast path takes only such as are written in the one way.
            return 0
        if event_class == EventClass.ANNOTATION:
            # That of MySQL begins with a length.
            return 0 if code == _ANNOTATE or end > at else -1
        return -1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _gtid_is_plain(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Return whether a GTID event has known fields only, each in the form that encodes it."""
        tail: GtidTail = self._gtid_tail
        if end < at + GTID_TIMESTAMP_OFFSET or raw[at + GTID_CLOCK_OFFSET] != LOGICAL_CLOCK:
            return False
        at = tail.read(raw, at + GTID_TIMESTAMP_OFFSET, end)
        return end == at or (end == at + GTID_TICKET_SIZE and tail.version >= 0)

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _images(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
    ) -> cython.longlong:
        """Return the number of rows of a rows event; -1 where a fault is possible."""
        tables: FastPathTables = self._tables
        table: FastPathTable = cython.cast(
            FastPathTable, tables.known(load_le(raw, at, TABLE_ID_SIZE))
        )
        if table is None or table.builder is None:
            return -1
        form: cython.int = self._forms[code]
        columns: cython.Py_ssize_t = rows_columns(raw, at, form)
        if form & ROWS_EXTRA and columns != at + ROWS_POST_HEADER_SIZE + ROWS_EXTRA_SIZE:
            return -1
        at = columns
        kind: cython.int = form & ROWS_KIND
        bitmap: cython.Py_ssize_t = (raw[at] + 7) >> 3
        at += 1
        decoder: RowImageDecoder = table.builder.decoder
        text: JsonLines = self._text
        text._names = []
        count: cython.longlong = 0
        try:
            before: Plan = decoder._plan(bytes(raw[at : at + bitmap]))
            after: Plan = before
            at += bitmap
            if kind == UPDATE:
                after = decoder._plan(bytes(raw[at : at + bitmap]))
                at += bitmap
            while at < end:
                text.used = 0
                at = text._object(decoder, before, raw, at, end)
                if at and kind == UPDATE:
                    at = text._object(decoder, after, raw, at, end)
                if not at:
                    return -1
                count += 1
        except (ValueError, OverflowError, LookupError, BinlogDecodeError):
            return -1
        return count
