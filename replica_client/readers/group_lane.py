# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions of row changes, without event objects.

What nearly all of a binlog is made of (a GTID event, BEGIN, table maps, rows, XID; or a GTID event and
a payload with the others in it) is found here; :mod:`replica_client.readers.column_lane` and
:mod:`replica_client.readers.row_lane` make something of it. Whatever else comes, a transaction with
anything unusual in it, and one that fails a check, is left to
:class:`~replica_client.readers.event_feed.EventFeed` and
:class:`~replica_client.readers.assembler.TransactionAssembler`, which know everything and raise the
errors; the two ways meet between transactions, in the position tracker.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.binlog.events.mariadb_gtid import MariadbGtidExtraFlag
from replica_client.binlog.header import HEADER_SIZE
from replica_client.binlog.payload import NOT_INSIDE, payload_bytes
from replica_client.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.errors import BinlogDecodeError

if cython.compiled:
    from cython.cimports.replica_client.codec.crc import sound_until
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
    from cython.cimports.replica_client.readers.gtid_runs import GtidRuns
    from cython.cimports.replica_client.readers.lane_tables import LaneTables
else:
    from replica_client.codec.crc import sound_until
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le, same_bytes
    from replica_client.readers.gtid_runs import GtidRuns
    from replica_client.readers.lane_tables import LaneTables

if TYPE_CHECKING:
    from replica_client.readers.assembler import TransactionAssembler
    from replica_client.readers.event_feed import EventFeed
    from replica_client.readers.lane_tables import RowTakers

_HEADER = cython.declare(cython.int, HEADER_SIZE)
_QUERY = cython.declare(cython.int, int(EventType.QUERY_EVENT))
_XID = cython.declare(cython.int, int(EventType.XID_EVENT))
_TABLE_MAP = cython.declare(cython.int, int(EventType.TABLE_MAP_EVENT))
_ROWS_QUERY = cython.declare(cython.int, int(EventType.ROWS_QUERY_LOG_EVENT))
_ANNOTATE = cython.declare(cython.int, int(EventType.ANNOTATE_ROWS_EVENT))
_GTID = cython.declare(cython.int, int(EventType.GTID_LOG_EVENT))
_ANONYMOUS = cython.declare(cython.int, int(EventType.ANONYMOUS_GTID_LOG_EVENT))
_PAYLOAD = cython.declare(cython.int, int(EventType.TRANSACTION_PAYLOAD_EVENT))
_MARIADB_GTID = cython.declare(cython.int, int(EventType.GTID_EVENT))
_THREAD_ID = cython.declare(cython.int, int(MariadbGtidExtraFlag.FL_EXTRA_THREAD_ID))
_ARTIFICIAL = cython.declare(cython.int, 0x20)
# As a number in the code it would be Python's.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_CRC32 = ChecksumAlgorithm.CRC32
# Post-header sizes by type that the lane takes for granted.
_POST_HEADERS = {2: 13, 16: 0, 19: 8, 29: 0, 160: 0}
_NOT_INSIDE = bytes(NOT_INSIDE)
# How many events have their checksums looked at together: few while it is not known whether the lane
# takes them, and no more than stay in the processor's first cache.
_FIRST_AHEAD = cython.declare(cython.Py_ssize_t, 8)
_MOST_AHEAD = cython.declare(cython.Py_ssize_t, 64)
_BYTES_AHEAD = cython.declare(cython.longlong, 32 << 10)

MAX_WAITING = 8 << 20
"""Bytes of a transaction that wait for its end; a larger one is read event by event."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _fields_ok(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether a GTID event has the fields of 5.7, or of 8.0 with whatever follows."""
    if raw[at + 25] != 2:
        return False
    at += 42
    if end < at + 7:
        return end == at
    at += 14 if raw[at + 6] & 0x80 else 7
    if end < at + 1 or raw[at] in (251, 255):
        return False
    at += 1 if raw[at] < 251 else (9 if raw[at] == 254 else raw[at] - 249)
    if end < at + 4:
        return end == at
    return end >= at + (8 if raw[at + 3] & 0x80 else 4)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _opens(
    raw: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    code: cython.int,
) -> cython.bint:
    """Whether an event with its body at ``at`` begins a transaction for the lane."""
    if code in (_GTID, _ANONYMOUS):
        # MySQL 5.6 wrote nothing behind the number.
        if end < at + 42 and end != at + 25:
            return False
        if code == _GTID and (raw[at + 24] & 0x80 or not load_le(raw, at + 17, 8)):
            return False
        return end == at + 25 or _fields_ok(raw, at, end)
    if code != _MARIADB_GTID:
        return False
    # Neither standalone nor XA; further fields only of a group commit and, as MariaDB 11.5 and
    # later have it in each, the session's number. Zeros fill it up to 19 bytes.
    if end < at + 19 or raw[at + 12] & 0xE1:
        return False
    if raw[at + 7] & 0x80 or not load_le(raw, at, 8):
        return False
    extra: cython.Py_ssize_t = at + (21 if raw[at + 12] & 2 else 13)
    if end > extra and raw[extra]:
        if raw[extra] != _THREAD_ID:
            return False
        extra += 5
    return end == (extra if extra > at + 19 else at + 19)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _begins(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.bint:
    """Whether a QUERY event is a BEGIN."""
    if end < at + 13 + 1 + 5:
        return False
    database: cython.Py_ssize_t = raw[at + 8]
    at += 13 + database + 1 + cython.cast(cython.Py_ssize_t, load_le(raw, at + 11, 2))
    # A NUL follows the database.
    return at + 5 == end and not raw[at - 1] and same_bytes(raw, at, b"BEGIN", 0, 5)


@cython.cclass
class GroupLane:
    """Takes ordinary transactions; subclasses say what becomes of them.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        takers: take the rows.
        in_file: whether events stand in a file, or come as a stream.

    Attributes:
        took: whether transactions were taken since :meth:`hand_over`.
        incomplete: whether :meth:`take` stopped because a transaction's end is not there yet.
        checks: whether checksums of events are looked at, by the format at the last :meth:`take`.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: TransactionAssembler,
        takers: RowTakers,
        in_file: bool,
    ) -> None:
        self._feed: Any = feed
        self._assembler: Any = assembler
        self._in_file = in_file
        # Whether headers say where in the file their events end.
        self._tells_ends = False
        self._format: Any = None
        self._works = self.checks = False
        self._tail = 0
        # Whether this lane takes transactions whose events are inside another, and how many of the
        # one at hand are: they are in a queue of their own then.
        self._takes_payloads = True
        # A transaction of so many bytes is left, as it may have to be given in parts; 0: none is.
        self._part_size = 0
        # Whether transactions of which no row is wanted need nothing but to be passed over, which is
        # quicker where events were cut from a file: their sizes and places are right then.
        self._passes_over = in_file
        self._last_count = 0
        self._inside = 0
        self._inner: EventQueue = EventQueue(0)
        self._verified = 0
        self._verified_begin = -1
        # Index of the event up to which checksums were found right, and how many are looked at next.
        self._sound = 0
        self._ahead = _FIRST_AHEAD
        self._max_event_size = feed.options.max_event_size
        self._tables: LaneTables = LaneTables(feed, assembler, takers)
        self._gtids: GtidRuns = GtidRuns()
        self.took = False
        self.incomplete = False
        self._fault: Any = None
        self._file = ""

    def hand_over(self) -> list[Any]:
        """What became complete since the last time, in order."""
        raise NotImplementedError

    def forget(self) -> None:
        """Forget the tables: another file or connection begins."""
        self._format = None
        self._verified_begin = -1

    def _prepare(self, file: str) -> bool:
        """Look whether the lane can be used, and what changed since the last time."""
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
        return bool(self._works and file and self._assembler.is_between and decoder.is_plain)

    def take(
        self,
        events: EventQueue,
        file: str,
        offset: cython.longlong,
        stop: cython.longlong = -1,
    ) -> int:
        """Take the transactions at the front of the queue, as long as they are ordinary.

        Args:
            events: no transaction is open before them.
            file: the file that they are in.
            offset: the offset of the first one.
            stop: no transaction that begins there or later is taken; -1: all are.

        Returns:
            how many events were taken, which the queue has no more.

        Raises:
            BinlogDecodeError: rows do not fit their table; says file and position.
        """
        self.incomplete = False
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        if not self._prepare(file):
            return 0
        at: cython.Py_ssize_t = events.first
        self._sound = at
        self._ahead = _FIRST_AHEAD
        count: cython.Py_ssize_t
        last: cython.Py_ssize_t = 0
        begin: cython.longlong = offset
        try:
            while at < events.last:
                # One that more was waited for is partly verified.
                if self._passes_over and not self._tables.wanted and offset != self._verified_begin:
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
                self._join(events, at)
                offset = self._end
                begin = offset
                last = count
                at += count
        except BinlogDecodeError as error:
            if at == events.first:
                raise
            # The transactions before it are done.
            self._fault = error
        finally:
            count = at - events.first
            if last:
                self.took = True
                gtids = self._gtids.take()
                self._feed.tracker.pass_transactions(file, begin, last - 1, gtids)
                events.drop(count)
        return int(count)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        """How many events the transaction at ``first`` has; 0 when it is none for the lane.

        ``_end`` is the offset behind it then, and ``_tables.wanted`` whether rows of it are to be taken.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = events.last
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        size: cython.Py_ssize_t
        at: cython.Py_ssize_t
        end: cython.Py_ssize_t
        next_position: cython.ulonglong
        code: cython.int
        is_open: cython.bint = False
        # What was verified before more of the transaction was waited for is not verified again.
        if offset != self._verified_begin:
            self._verified_begin = self._verified = offset
        verified: cython.longlong = self._verified
        sound: cython.Py_ssize_t = self._sound if self.checks else last
        tail: cython.Py_ssize_t = self._tail
        header: cython.Py_ssize_t = _HEADER
        max_event_size: cython.longlong = self._max_event_size
        in_file: cython.bint = self._in_file
        tells_ends: cython.bint = self._tells_ends
        tables: LaneTables = self._tables
        tables.wanted = False
        self._inside = 0
        if marks[2 * first + 1] - marks[2 * first] < header:
            return 0
        code = raw[marks[2 * first] + 4]
        if code not in (_GTID, _ANONYMOUS, _MARIADB_GTID):
            return 0
        for i in range(first, last):
            start = marks[2 * i]
            size = marks[2 * i + 1] - start
            at = start + header
            end = start + size - tail
            if end < at or size > max_event_size:
                return 0
            if load_le(raw, start + 9, 4) != cython.cast(cython.ulonglong, size):
                return 0
            if i >= sound and offset >= verified:
                sound = self._look_ahead(events, i)
                if i == sound:
                    return 0
            offset += size
            code = raw[start + 4]
            if not in_file and raw[start + 17] & _ARTIFICIAL:
                return 0
            if tells_ends:
                next_position = load_le(raw, start + 13, 4)
                if next_position != cython.cast(cython.ulonglong, offset & _LOW_32) and (
                    next_position or (in_file and i == first)
                ):
                    return 0
            if 30 <= code <= 32 or 23 <= code <= 25:
                if not is_open or not tables.rows_ok(raw, at, end, code):
                    return 0
            elif code == _TABLE_MAP:
                if not is_open:
                    return 0
                if not tables.is_near(raw, at, end) and tables.of_map(raw, at, end) is None:
                    return 0
            elif code == _QUERY:
                if is_open or i != first + 1 or not _begins(raw, at, end):
                    return 0
                is_open = True
            elif code == _XID:
                if not is_open or end < at + 8:
                    return 0
                if self._part_size and offset - self._verified_begin >= self._part_size:
                    return 0
                self._verified_begin = -1
                self._end = offset
                return i - first + 1
            elif i == first:
                if not _opens(raw, at, end, code):
                    return 0
                # MariaDB's has the BEGIN in it.
                is_open = code == _MARIADB_GTID
            elif code == _PAYLOAD:
                if is_open or i != first + 1 or not self._takes_payloads:
                    return 0
                if not self._look_inside(raw, at, end):
                    return 0
                self._verified_begin = -1
                self._end = offset
                return 2
            elif not is_open or code not in (_ROWS_QUERY, _ANNOTATE):
                return 0
        self._verified = offset
        self.incomplete = True
        return 0

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
        """How many events the next transactions have that :meth:`_count` takes and that are not wanted.

        Their GTIDs are joined, ``_end`` is the offset behind them and ``_last_count`` how many events
        the last one has. It may stop before any transaction. Only for events that were cut from a
        file.
        """
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = events.last
        header: cython.Py_ssize_t = _HEADER
        tail: cython.Py_ssize_t = self._tail
        tables: LaneTables = self._tables
        gtids: GtidRuns = self._gtids
        at: cython.Py_ssize_t = first
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        end: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        code: cython.int
        tells_ends: cython.bint = self._tells_ends
        while at + 1 < last and (stop < 0 or offset < stop):
            begin = marks[2 * at]
            code = raw[begin + 4]
            if not _opens(raw, begin + header, marks[2 * at + 1] - tail, code):
                break
            if not self._is_sound(events, at):
                break
            i = at + 1
            if code != _MARIADB_GTID:
                start = marks[2 * i]
                if raw[start + 4] != _QUERY:
                    break
                if not _begins(raw, start + header, marks[2 * i + 1] - tail):
                    break
                if not self._is_sound(events, i):
                    break
                i += 1
            end = 0
            while i < last:
                if not self._is_sound(events, i):
                    code = 0
                    break
                start = marks[2 * i]
                end = marks[2 * i + 1]
                code = raw[start + 4]
                if 30 <= code <= 32 or 23 <= code <= 25:
                    if not tables.rows_ok(raw, start + header, end - tail, code) or tables.wanted:
                        break
                elif code != _TABLE_MAP or not tables.is_near(raw, start + header, end - tail):
                    break
                i += 1
            if i == last or code != _XID or end - tail < start + header + 8:
                break
            i += 1
            if tells_ends and not self._end_where_told(events, at, i, offset):
                break
            gtids.join(raw, begin)
            self._last_count = i - at
            offset += end - begin
            at = i
        if at > first:
            self._verified_begin = -1
            self._end = offset
        return at - first

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _end_where_told(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        last: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.bint:
        """Whether a transaction's events are where their headers say; the first one's has to say it."""
        raw: cython.p_const_uchar = events.data
        marks: cython.p_longlong = events.marks
        told: cython.ulonglong
        i: cython.Py_ssize_t
        for i in range(first, last):
            offset += marks[2 * i + 1] - marks[2 * i]
            told = load_le(raw, marks[2 * i] + 13, 4)
            if told != cython.cast(cython.ulonglong, offset & _LOW_32) and (told or i == first):
                return False
        return True

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _is_sound(self, events: EventQueue, index: cython.Py_ssize_t) -> cython.bint:
        """Whether the checksum of an event is right."""
        if index < self._sound or not self.checks:
            return True
        return self._look_ahead(events, index) > index

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look_ahead(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Look at the checksums of the event at ``first`` and some behind it; which is the first wrong.

        That is the one behind them when they are all right. Those that the queue looked at when it
        cut them are.
        """
        if events.first_sound <= first < events.last_sound:
            self._sound = events.last_sound
            return self._sound
        marks: cython.p_longlong = events.marks
        last: cython.Py_ssize_t = first + self._ahead
        if last > events.last:
            last = events.last
        if first < events.first_sound < last:
            last = events.first_sound
        while last > first + 1 and marks[2 * last - 1] - marks[2 * first] > _BYTES_AHEAD:
            last = first + ((last - first) >> 1)
        if self._ahead < _MOST_AHEAD:
            self._ahead *= 2
        self._sound = sound_until(events.data, marks, first, last)
        return self._sound

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _look_inside(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a payload with its body at ``at`` has the rest of a transaction for the lane."""
        plain: bytes | None = payload_bytes(bytes(raw[at:end]), self._feed.options, MAX_WAITING)
        if plain is None:
            return False
        tables: LaneTables = self._tables
        inner: EventQueue = self._inner
        inner.clear()
        inner.lend(memoryview(plain), 0)
        inner.received(len(plain))
        inner.split(self._max_event_size, _NOT_INSIDE)
        if inner.tail != inner.filled:
            return False
        data: cython.p_const_uchar = inner.data
        code: cython.int
        i: cython.Py_ssize_t
        for i in range(inner.last):
            at = inner.marks[2 * i]
            end = inner.marks[2 * i + 1]
            code = data[at + 4]
            at += _HEADER
            if i == 0:
                if code != _QUERY or not _begins(data, at, end):
                    return False
            elif code == _TABLE_MAP:
                if not tables.is_near(data, at, end) and tables.of_map(data, at, end) is None:
                    return False
            elif 23 <= code <= 25 or 30 <= code <= 32:
                if not tables.rows_ok(data, at, end, code):
                    return False
            elif code == _XID:
                if end < at + 8 or i != inner.last - 1:
                    return False
                self._inside = inner.last
            elif code != _ROWS_QUERY:
                return False
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
        """The GTID of a transaction that is done joins the run of those before it."""
        return self._gtids.join(events.data, events.marks[2 * first])
