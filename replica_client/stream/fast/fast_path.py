# cython: boundscheck=False, wraparound=False, cdivision=True
"""Detection of ordinary transactions of row changes, without event objects.

Nearly all of a binlog consists of transactions of the same form: a GTID event, BEGIN, table maps,
rows, XID; or a GTID event and a payload with the others in it. This module finds them;
:mod:`replica_client.stream.fast.column_fast_path` and
:mod:`replica_client.stream.fast.row_fast_path` decode them.

Everything else (a transaction with anything unusual in it, or one that fails a check) is left to
:class:`~replica_client.stream.transactions.event_feed.EventFeed` and
:class:`~replica_client.stream.transactions.assembler.TransactionAssembler`, which handle every event and raise
the errors. The two paths meet between transactions, in the position tracker.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module could access
# as fast.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.layout import CLASSES, ROWS_FORMS
from replica_client.protocol.binlog.payload import NOT_INSIDE, payload_bytes
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.stream.position.groups import STEPS

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        ARTIFICIAL_FLAG,
        EVENT_SIZE_OFFSET,
        FLAGS_OFFSET,
        GTID_CLOCK_OFFSET,
        GTID_NUMBER_OFFSET,
        GTID_NUMBER_SIGN_OFFSET,
        GTID_TIMESTAMP_OFFSET,
        GTID_TIMESTAMP_SIZE,
        GTID_VERSION_SIZE,
        HEADER_SIZE,
        LENGTH_8_BYTES,
        LENGTH_ERROR,
        LENGTH_NULL,
        LOGICAL_CLOCK,
        MARIADB_COMMIT_ID,
        MARIADB_COMMIT_ID_SIZE,
        MARIADB_FIELDS_OFFSET,
        MARIADB_FLAGS_OFFSET,
        MARIADB_GTID_SIZE,
        MARIADB_SEQUENCE_OFFSET,
        MARIADB_SEQUENCE_SIGN_OFFSET,
        MARIADB_THREAD_ID,
        MARIADB_THREAD_ID_SIZE,
        MARIADB_UNUSUAL,
        NEXT_POSITION_OFFSET,
        QUERY_POST_HEADER_SIZE,
        SIGN_BIT,
        TYPE_OFFSET,
        XID_SIZE,
        EventClass,
        query_text,
    )
    from replica_client.protocol.codec.crc import valid_until
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le, longs
    from replica_client.stream.fast.fast_path_tables import FastPathTables
    from replica_client.stream.fast.gtid_runs import GtidRuns
    from replica_client.stream.fast.tagged_gtid import TaggedGtid
    from replica_client.stream.position.groups import (
        Ending,
        State,
        control_of,
        is_plain_statement,
        step,
    )

if TYPE_CHECKING:
    from replica_client.stream.fast.fast_path_tables import RowConsumers, TableResolver
    from replica_client.stream.transactions.event_feed import EventFeed

_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_TAGGED = cython.declare(cython.int, int(EventType.GTID_TAGGED_LOG_EVENT))
# A literal would be a Python int.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_CRC32 = ChecksumAlgorithm.CRC32
# Post-header sizes that the fast path requires, by event type.
_POST_HEADERS = {
    EventType.QUERY_EVENT: 13,
    EventType.XID_EVENT: 0,
    EventType.TABLE_MAP_EVENT: 8,
    EventType.ROWS_QUERY_LOG_EVENT: 0,
    EventType.ANNOTATE_ROWS_EVENT: 0,
}
_NOT_INSIDE = bytes(NOT_INSIDE)
# C pointers to the tables; the bytes objects keep their memory alive.
_CLASSES = cython.declare(bytes, CLASSES)
_FORMS = cython.declare(bytes, ROWS_FORMS)
_STEPS = cython.declare(bytes, STEPS)
_CLASS_TABLE = cython.declare(cython.p_const_uchar, _CLASSES)
_FORM_TABLE = cython.declare(cython.p_const_uchar, _FORMS)
_STEP_TABLE = cython.declare(cython.p_const_uchar, _STEPS)
# How many events have their checksums verified together: few until it is known whether the fast
# path takes them, and no more than fit the processor's first cache.
FIRST_AHEAD = cython.declare(cython.Py_ssize_t, 8)
_MOST_AHEAD = cython.declare(cython.Py_ssize_t, 64)
_BYTES_AHEAD = cython.declare(cython.longlong, 32 << 10)
# The same limits when other threads can work meanwhile: releasing the interpreter's lock has its
# cost, too.
_MOST_AHEAD_SHARED = cython.declare(cython.Py_ssize_t, 4096)
_BYTES_AHEAD_SHARED = cython.declare(cython.longlong, 512 << 10)

MAX_WAITING = 8 << 20
"""Bytes of a transaction that may wait for its end; a larger transaction is read event by event."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fields_ok(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Return whether a GTID event has the fields of 5.7, or of 8.0 with any further fields."""
    if raw[at + GTID_CLOCK_OFFSET] != LOGICAL_CLOCK:
        return False
    at += GTID_TIMESTAMP_OFFSET
    if end < at + GTID_TIMESTAMP_SIZE:
        return end == at
    # The first timestamp or version says whether a second one follows.
    if raw[at + GTID_TIMESTAMP_SIZE - 1] & SIGN_BIT:
        at += GTID_TIMESTAMP_SIZE
    at += GTID_TIMESTAMP_SIZE
    if end < at + 1 or raw[at] == LENGTH_NULL or raw[at] == LENGTH_ERROR:
        return False
    if raw[at] < LENGTH_NULL:
        at += 1
    else:
        at += 9 if raw[at] == LENGTH_8_BYTES else raw[at] - LENGTH_NULL + 2
    if end < at + GTID_VERSION_SIZE:
        return end == at
    if raw[at + GTID_VERSION_SIZE - 1] & SIGN_BIT:
        at += GTID_VERSION_SIZE
    return end >= at + GTID_VERSION_SIZE


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mysql_opens(
    raw: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.int,
) -> cython.bint:
    """Return whether a MySQL GTID event with its body at ``at`` begins a fast path transaction."""
    # MySQL 5.6 wrote nothing after the number.
    if end < at + GTID_TIMESTAMP_OFFSET and end != at + GTID_CLOCK_OFFSET:
        return False
    if code != _ANONYMOUS and (
        raw[at + GTID_NUMBER_SIGN_OFFSET] & SIGN_BIT or not load_le(raw, at + GTID_NUMBER_OFFSET, 8)
    ):
        return False
    return end == at + GTID_CLOCK_OFFSET or _fields_ok(raw, at, end)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mariadb_opens(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Return whether a MariaDB GTID event begins a fast path transaction."""
    # Neither standalone nor XA. Further fields only of a group commit, and the session's number,
    # which MariaDB 11.5 and later always write. Zeros pad the body to 19 bytes.
    if end < at + MARIADB_GTID_SIZE or raw[at + MARIADB_FLAGS_OFFSET] & MARIADB_UNUSUAL:
        return False
    if raw[at + MARIADB_SEQUENCE_SIGN_OFFSET] & SIGN_BIT:
        return False
    if not load_le(raw, at + MARIADB_SEQUENCE_OFFSET, 8):
        return False
    extra: cython.Py_ssize_t = at + MARIADB_FIELDS_OFFSET
    if raw[at + MARIADB_FLAGS_OFFSET] & MARIADB_COMMIT_ID:
        extra += MARIADB_COMMIT_ID_SIZE
    if end > extra and raw[extra]:
        if raw[extra] != MARIADB_THREAD_ID:
            return False
        extra += 1 + MARIADB_THREAD_ID_SIZE
    return end == (extra if extra > at + MARIADB_GTID_SIZE else at + MARIADB_GTID_SIZE)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _class_of_other(
    tagged: TaggedGtid,
    raw: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.int,
    event_class: cython.int,
) -> cython.int:
    """Return the grammar's class of an event that is no table map, no whole XID, and has no rows.

    Returns UNKNOWN for an event that is not for the fast path. This is a function of its own to
    keep :func:`_step` small enough for the C compiler to inline.
    """
    if event_class == EventClass.QUERY:
        return control_of(raw, at, end)
    if event_class == EventClass.GTID:
        if code == _TAGGED:
            if not tagged.read(raw, at, end):
                return EventClass.UNKNOWN
        elif not _mysql_opens(raw, at, end, code):
            return EventClass.UNKNOWN
    elif event_class == EventClass.MARIADB_GTID:
        if not _mariadb_opens(raw, at, end):
            return EventClass.UNKNOWN
        return EventClass.GTID_BEGIN
    elif event_class != EventClass.ANNOTATION and event_class != EventClass.PAYLOAD:
        return EventClass.UNKNOWN
    return event_class


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def _step(
    tables: FastPathTables,
    tagged: TaggedGtid,
    classes: cython.p_const_uchar,
    steps: cython.p_const_uchar,
    raw: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    state: cython.int,
) -> cython.int:
    """Check the event that begins at ``start`` completely and return the state after it.

    Returns UNCERTAIN for an event that is not for the fast path. ``end`` is where its checksum
    begins.
    """
    code: cython.int = raw[start + TYPE_OFFSET]
    event_class: cython.int = classes[code]
    at: cython.Py_ssize_t = start + HEADER_SIZE
    if event_class == EventClass.ROWS:
        if not tables.rows_ok(raw, at, end, code):
            return Ending.UNCERTAIN
    elif event_class == EventClass.TABLE_MAP:
        if not tables.is_near(raw, at, end) and tables.of_map(raw, at, end) is None:
            return Ending.UNCERTAIN
    elif event_class != EventClass.COMMIT or end < at + XID_SIZE:
        event_class = _class_of_other(tagged, raw, at, end, code, event_class)
        if event_class == EventClass.UNKNOWN:
            return Ending.UNCERTAIN
    return step(steps, state, event_class)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def header_fits(
    raw: cython.p_const_uchar,
    start: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    tail: cython.Py_ssize_t,
    after: cython.longlong,
    in_file: cython.bint,
    tells_ends: cython.bint,
    states_end: cython.bint,
) -> cython.bint:
    """Return whether an event's header fits its size and its place.

    Args:
        raw: bytes with the event.
        start: where it begins in them.
        size: of the event.
        tail: bytes of its checksum.
        after: offset in its file after it.
        in_file: whether it is in a file, or comes in a stream.
        tells_ends: whether headers state where events end.
        states_end: whether this one has to.
    """
    if size < HEADER_SIZE + tail:
        return False
    if load_le(raw, start + EVENT_SIZE_OFFSET, 4) != cython.cast(cython.ulonglong, size):
        return False
    if not in_file and raw[start + FLAGS_OFFSET] & ARTIFICIAL_FLAG:
        return False
    if not tells_ends:
        return True
    stated: cython.ulonglong = load_le(raw, start + NEXT_POSITION_OFFSET, 4)
    return stated == cython.cast(cython.ulonglong, after & _LOW_32) or not (stated or states_end)


@cython.cclass
class FastPath:
    """Finder of ordinary transactions; subclasses decode them.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        consumers: take the rows.
        in_file: whether events are in a file, or come as a stream.

    Attributes:
        took: whether transactions were taken since :meth:`hand_over`.
        incomplete: whether :meth:`take` stopped because a transaction's end is not there yet.
        checks: whether checksums of events are verified, by the format at the last :meth:`take`.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: TableResolver,
        consumers: RowConsumers,
        in_file: bool,
    ) -> None:
        self._feed: Any = feed
        self._assembler: Any = assembler
        self._in_file = in_file
        self._classes = _CLASS_TABLE
        self._forms = _FORM_TABLE
        # Whether headers state where in the file their events end.
        self._tells_ends = False
        self._format: Any = None
        self._works = self.checks = False
        self._tail = 0
        # Number of events of the current transaction that are inside another event; these are in a
        # queue of their own. _part_size: a transaction of so many bytes is left, as it may have to
        # be delivered in parts; 0: none is left for its size.
        self._part_size = 0
        # Whether transactions without wanted rows are only skipped, which is quicker if events were
        # cut from a file: their sizes and positions are then right.
        self._passes_over = in_file
        # Whether a MySQL GTID event followed by a statement is taken, too: for callers that do not
        # look at statements.
        self._takes_statements = False
        self._last_count = 0
        self._inside = 0
        self._inner: EventQueue = EventQueue(0)
        self._verified = 0
        self._verified_begin = -1
        # Index of the event up to which checksums were found right, and how many are verified next.
        self._valid = 0
        self._ahead = FIRST_AHEAD
        self._max_event_size = feed.options.max_event_size
        self._tables: FastPathTables = FastPathTables(feed, assembler, consumers)
        self._gtids: GtidRuns = GtidRuns()
        self._tagged: TaggedGtid = TaggedGtid()
        self.took = False
        self.incomplete = False
        self._fault: Any = None
        self._file = ""
        # For each transaction whose rows are taken later: index of its first event, number of its
        # events, offset after it.
        self.defers = False
        self._marks_memory = bytearray()
        self._deferred_room = self._waiting = self._settled = 0
        self._failed = -1

    def hand_over(self) -> list[Any]:
        """Return what became complete since the last call, in order."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget the tables, as another file or connection begins."""
        self._format = None
        self._verified_begin = -1

    def _prepare(self, file: str) -> bool:
        """Adopt a changed format; return whether whole transactions can be taken."""
        return self._adopts(file) and bool(self._assembler.is_between)

    def _adopts(self, file: str) -> bool:
        """Adopt a changed format; return whether the fast path can be used for its events."""
        decoder = self._feed.decoder
        format = decoder.format
        if format is not self._format:
            self._format = format
            self._verified_begin = -1
            self._tables.use_format(format)
            sizes = format.post_header_sizes
            self._works = (
                decoder.is_plain
                and len(sizes) >= 19
                and format.header_size == HEADER_SIZE
                and format.checksum_algorithm in (ChecksumAlgorithm.OFF, _CRC32)
                and all(
                    format.post_header_size(code, size) == size
                    for code, size in _POST_HEADERS.items()
                )
            )
            self._tail = 4 if format.checksum_algorithm == _CRC32 else 0
            self.checks = bool(self._tail) and self._feed.options.verify_checksum
        self._tells_ends = not self._in_file or decoder.tells_ends
        self._tables.begin_turn()
        if file != self._file:
            self._file = file
            self._verified_begin = -1
        return bool(self._works and file and decoder.is_plain)

    def take(
        self,
        events: EventQueue,
        file: str,
        offset: cython.longlong,
        stop: cython.longlong = -1,
    ) -> int:
        """Take the transactions at the front of the queue, as long as they are ordinary.

        Args:
            events: the queue; no transaction is open before its first event.
            file: the file that the events are in.
            offset: the offset of the first event.
            stop: no transaction that begins there or later is taken; -1: no limit.

        Returns:
            The number of events that were taken and removed from the queue.

        Raises:
            BinlogDecodeError: rows do not fit their table; says file and position.
        """
        self.incomplete = False
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if not self._prepare(file):
            return 0
        self._gtids.forget_read()
        at: cython.Py_ssize_t = events.first
        self._valid = at
        self._ahead = FIRST_AHEAD
        count: cython.Py_ssize_t
        last: cython.Py_ssize_t = 0
        begin: cython.longlong = offset
        # Values of both before the first transaction that waits.
        last_before: cython.Py_ssize_t = 0
        begin_before: cython.longlong = offset
        try:
            while at < events.last:
                # A transaction that waited for more events is already partly verified.
                if self._passes_over and not self._tables.wanted and offset != self._verified_begin:
                    if self._waiting:
                        self._settle(events)
                    count = self._pass_over(events, at, offset, stop)
                    if count:
                        offset = begin = self._end
                        last = self._last_count
                        at += count
                        continue
                if stop >= 0 and offset >= stop:
                    break
                count = self._count(events, at, offset)
                if not count:
                    break
                if self._tables.wanted:
                    self._apply(events, at, count, offset)
                if self.defers:
                    if not self._waiting:
                        last_before = last
                        begin_before = begin
                    self._defer(at, count)
                else:
                    self._join(events, at)
                offset = self._end
                begin = offset
                last = count
                at += count
            if self._waiting:
                self._settle(events)
        except BinlogDecodeError as error:
            fault = self._first_fault(events, error)
            if 0 <= self._failed < self._settled:
                last, begin = last_before, begin_before
                at = self._deferred[3 * self._failed]
                if self._failed:
                    last = self._deferred[3 * self._failed - 2]
                    begin = self._deferred[3 * self._failed - 1]
            self._failed = -1
            if at == events.first:
                raise fault from fault.__cause__
            # The transactions before the fault are done.
            self._fault = fault
        finally:
            count = at - events.first
            if last:
                self.took = True
                gtids = self._gtids.take()
                self._feed.tracker.pass_transactions(file, begin, last - 1, gtids)
                events.drop(count)
        return int(count)

    def _first_fault(self, events: EventQueue, error: BinlogDecodeError) -> BinlogDecodeError:
        """Return the first fault: of the waiting rows, which come earlier, or else the given one."""
        if self._waiting:
            try:
                self._settle(events)
            except BinlogDecodeError as earlier:
                return earlier
        return error

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _defer(self, first: cython.Py_ssize_t, count: cython.Py_ssize_t) -> cython.int:
        """Defer a transaction of ``count`` events until its rows are taken."""
        if self._waiting == self._deferred_room:
            self._more_deferred()
        at: cython.Py_ssize_t = 3 * self._waiting
        self._deferred[at] = first
        self._deferred[at + 1] = count
        self._deferred[at + 2] = self._end
        self._waiting += 1
        return 0

    def _more_deferred(self) -> None:
        memory = bytearray(max(48 * self._deferred_room, 24 << 8))
        memory[: len(self._marks_memory)] = self._marks_memory
        self._marks_memory = memory
        self._deferred = longs(memory)
        self._deferred_room = len(memory) // 24

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _settle(self, events: EventQueue) -> cython.int:
        """Take the rows of the deferred transactions, and complete these.

        Raises:
            BinlogDecodeError: rows do not fit their table; ``_failed`` is the index of the
                transaction, and those before it are done.
        """
        done: cython.Py_ssize_t = self._waiting
        i: cython.Py_ssize_t
        try:
            if self._failed < 0:
                self._take_deferred()
        finally:
            if 0 <= self._failed < done:
                done = self._failed
            for i in range(done):
                self._join(events, self._deferred[3 * i])
            self._settled = self._waiting
            self._waiting = 0
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_deferred(self) -> cython.int:
        """Take the rows that were deferred."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        """Return the number of events of the transaction at ``first``; 0 when it is not ordinary.

        Sets ``_end`` to the offset after the transaction, and ``_tables.wanted`` to whether it has
        rows to take.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = events.last
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        size: cython.Py_ssize_t
        end: cython.Py_ssize_t
        state: cython.int = State.BETWEEN
        class_table: cython.p_const_uchar = self._classes
        step_table: cython.p_const_uchar = _STEP_TABLE
        tagged: TaggedGtid = self._tagged
        # Events verified before the transaction waited for more are not verified again.
        if offset != self._verified_begin:
            self._verified_begin = self._verified = offset
        verified: cython.longlong = self._verified
        valid: cython.Py_ssize_t = self._valid if self.checks else last
        tail: cython.Py_ssize_t = self._tail
        max_event_size: cython.longlong = self._max_event_size
        in_file: cython.bint = self._in_file
        tells_ends: cython.bint = self._tells_ends
        tables: FastPathTables = self._tables
        tables.wanted = False
        self._inside = 0
        if marks[2 * first + 1] - marks[2 * first] < HEADER_SIZE:
            return 0
        if not self._names(raw[marks[2 * first] + TYPE_OFFSET]):
            return 0
        for i in range(first, last):
            start = marks[2 * i]
            size = marks[2 * i + 1] - start
            end = start + size - tail
            if size > max_event_size or not header_fits(
                raw, start, size, tail, offset + size, in_file, tells_ends, in_file and i == first
            ):
                return 0
            if i >= valid and offset >= verified:
                valid = self._look_ahead(events, i)
                if i == valid:
                    return 0
            offset += size
            state = _step(tables, tagged, class_table, step_table, raw, start, end, state)
            if state == State.OPEN or state == State.NAMED:
                continue
            if state == State.PAYLOAD:
                if not self._look_inside(raw, start + HEADER_SIZE, end):
                    return 0
            elif state == Ending.UNCERTAIN:
                if i != first + 1 or not self._is_statement(raw, marks[2 * first], start, end):
                    return 0
            elif state != Ending.ENDS:
                return 0
            if self._part_size and self._is_large(offset - self._verified_begin):
                return 0
            self._verified_begin = -1
            self._end = offset
            return i - first + 1
        self._verified = offset
        self.incomplete = True
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_statement(
        self,
        raw: cython.p_const_uchar,
        first: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
    ) -> cython.bint:
        """Return whether a statement at ``start`` ends the group of the GTID event at ``first``."""
        if (
            not self._takes_statements
            or self._classes[raw[first + TYPE_OFFSET]] != EventClass.GTID
            or self._classes[raw[start + TYPE_OFFSET]] != EventClass.QUERY
            or end < start + HEADER_SIZE + QUERY_POST_HEADER_SIZE
        ):
            return False
        return is_plain_statement(raw, query_text(raw, start + HEADER_SIZE), end)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_large(self, size: cython.longlong) -> cython.bint:
        """Return whether a transaction of so many bytes may have to be delivered in parts."""
        if self._inside:
            size += self._inner.filled
        return size >= self._part_size

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _names(self, code: cython.int) -> cython.bint:
        """Return whether events of a type give their group a GTID; other groups are not ordinary."""
        event_class: cython.int = self._classes[code]
        return event_class == EventClass.GTID or event_class == EventClass.MARIADB_GTID

    @cython.final
    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _pass_over(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        offset: cython.longlong,
        stop: cython.longlong,
    ) -> cython.Py_ssize_t:
        """Return how many events the next ordinary but unwanted transactions have.

        Joins their GTIDs; sets ``_end`` to the offset after them and ``_last_count`` to the number
        of events of the last one. May stop before any transaction. Only for events that were cut
        from a file.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = events.last
        tail: cython.Py_ssize_t = self._tail
        tables: FastPathTables = self._tables
        gtids: GtidRuns = self._gtids
        class_table: cython.p_const_uchar = self._classes
        step_table: cython.p_const_uchar = _STEP_TABLE
        tagged: TaggedGtid = self._tagged
        at: cython.Py_ssize_t = first
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        end: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        state: cython.int
        stated: cython.ulonglong
        here: cython.longlong
        valid: cython.Py_ssize_t = self._valid if self.checks else last
        tells_ends: cython.bint = self._tells_ends
        while at + 1 < last and (stop < 0 or offset < stop):
            begin = marks[2 * at]
            if not self._names(raw[begin + TYPE_OFFSET]):
                break
            here = offset
            state = State.BETWEEN
            i = at
            while i < last:
                if i >= valid:
                    valid = self._look_ahead(events, i)
                    if i >= valid:
                        break
                start = marks[2 * i]
                end = marks[2 * i + 1]
                here += end - start
                if tells_ends:
                    # Each event is where its header says; the header of the first event must say
                    # it.
                    stated = load_le(raw, start + NEXT_POSITION_OFFSET, 4)
                    if stated != cython.cast(cython.ulonglong, here & _LOW_32) and (
                        stated or i == at
                    ):
                        break
                state = _step(
                    tables, tagged, class_table, step_table, raw, start, end - tail, state
                )
                if tables.wanted or (state != State.OPEN and state != State.NAMED):
                    break
                i += 1
            # The transaction did not end: a state or an event is left for the caller.
            if state != Ending.ENDS or tables.wanted:
                break
            i += 1
            gtids.join(raw, begin, marks[2 * at + 1] - tail)
            self._last_count = i - at
            offset = here
            at = i
        if at > first:
            self._verified_begin = -1
            self._end = offset
        return at - first

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look_ahead(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Verify checksums from the event at ``first`` on; return the index of the first wrong one.

        Looks at some events ahead; returns the index after them when all are right. Events that the
        queue verified as it cut them are not verified again.
        """
        if events.first_valid <= first < events.last_valid:
            self._valid = events.last_valid
            return self._valid
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = first + self._ahead
        if last > events.last:
            last = events.last
        if first < events.first_valid < last:
            last = events.first_valid
        most: cython.longlong = _BYTES_AHEAD_SHARED if self.defers else _BYTES_AHEAD
        while last > first + 1 and marks[2 * last - 1] - marks[2 * first] > most:
            last = first + ((last - first) >> 1)
        if self._ahead < (_MOST_AHEAD_SHARED if self.defers else _MOST_AHEAD):
            self._ahead *= 2
        if not self.defers:
            self._valid = valid_until(events.data, marks, first, last)
            return self._valid
        with cython.nogil:
            self._valid = valid_until(events.data, marks, first, last)
        return self._valid

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look_inside(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Return whether a payload with its body at ``at`` has the rest of an ordinary transaction."""
        plain: bytes | None = payload_bytes(bytes(raw[at:end]), self._feed.options, MAX_WAITING)
        if plain is None:
            return False
        tables: FastPathTables = self._tables
        inner: EventQueue = self._inner
        inner.clear()
        inner.lend(memoryview(plain), 0)
        inner.received(len(plain))
        inner.split(self._max_event_size, _NOT_INSIDE)
        if inner.tail != inner.filled:
            return False
        data: cython.p_const_uchar = inner.data
        class_table: cython.p_const_uchar = self._classes
        step_table: cython.p_const_uchar = _STEP_TABLE
        tagged: TaggedGtid = self._tagged
        state: cython.int = State.PAYLOAD
        i: cython.Py_ssize_t
        for i in range(inner.last):
            at = inner.marks[2 * i]
            end = inner.marks[2 * i + 1]
            state = _step(tables, tagged, class_table, step_table, data, at, end, state)
            if state != State.PAYLOAD_OPEN:
                break
        if state == Ending.ENDS and i == inner.last - 1:
            self._inside = inner.last
        return self._inside > 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _apply(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.int:
        """Take the rows of the transaction of ``count`` events from ``first`` on."""
        raise NotImplementedError

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _join(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.int:
        """Join the GTID of a finished transaction to the run of those before it."""
        begin: cython.Py_ssize_t = events.marks[2 * first]
        return self._gtids.join(events.data, begin, events.marks[2 * first + 1] - self._tail)
