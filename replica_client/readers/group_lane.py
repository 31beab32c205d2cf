# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions of row changes straight into record batches.

What nearly all of a binlog is made of (a GTID event, BEGIN, table maps, rows, XID; or a GTID event and
a payload with the others in it) goes from bytes to columns here, without event objects. Whatever else
comes, a transaction with anything unusual in it, and one that fails a check, is left to
:class:`~replica_client.readers.event_feed.EventFeed` and
:class:`~replica_client.readers.assembler.TransactionAssembler`, which know everything and raise the
errors; the two ways meet between transactions, in the position tracker.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.binlog.events.mariadb_gtid import MariadbGtidExtraFlag
from replica_client.binlog.events.rows_extra import PARTITION
from replica_client.binlog.header import HEADER_SIZE
from replica_client.binlog.payload import NOT_INSIDE, payload_bytes
from replica_client.constants.event_types import ChecksumAlgorithm, EventType, event_type_name
from replica_client.errors import BinlogDecodeError
from replica_client.gtid import Gtid, MariadbGtid
from replica_client.position.position import Position

if cython.compiled:
    from cython.cimports.replica_client.codec.crc import sound_until
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
    from cython.cimports.replica_client.rows.columnar import ColumnarRows
    from cython.cimports.replica_client.rows.runs import EventRuns
else:
    from replica_client.codec.crc import sound_until
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le, same_bytes
    from replica_client.rows.columnar import ColumnarRows
    from replica_client.rows.runs import EventRuns

if TYPE_CHECKING:
    from replica_client.readers.assembler import TransactionAssembler
    from replica_client.readers.event_feed import EventFeed
    from replica_client.rows.batching import BatchAssembler

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
_PARTITION = cython.declare(cython.int, PARTITION)
_THREAD_ID = cython.declare(cython.int, int(MariadbGtidExtraFlag.FL_EXTRA_THREAD_ID))
_ARTIFICIAL = cython.declare(cython.int, 0x20)
_SECOND_TIMESTAMP = cython.declare(cython.longlong, 1 << 55)
# As a number in the code it would be Python's.
_LOW_32 = cython.declare(cython.longlong, 0xFFFFFFFF)
_MICROSECONDS = cython.declare(cython.longlong, 1_000_000)
_CRC32 = ChecksumAlgorithm.CRC32
# Post-header sizes by type: what the lane takes for granted, and what rows events must have.
_POST_HEADERS = {2: 13, 16: 0, 19: 8, 29: 0, 160: 0}
_ROWS_POST_HEADERS = {23: 8, 24: 8, 25: 8, 30: 10, 31: 10, 32: 10}
_NOT_INSIDE = bytes(NOT_INSIDE)
_MAX_TABLES = 4096
_NEAR = cython.declare(cython.int, 1024)
# How many events have their checksums looked at together: few while it is not known whether the lane
# takes them, and no more than stay in the processor's first cache.
_FIRST_AHEAD = cython.declare(cython.Py_ssize_t, 8)
_MOST_AHEAD = cython.declare(cython.Py_ssize_t, 64)
_BYTES_AHEAD = cython.declare(cython.longlong, 32 << 10)

MAX_WAITING = 8 << 20
"""Bytes of a transaction that wait for its end; a larger one is read event by event."""

_NO_GTID = b""
_OFFSET_WIDTH = 20
_INSIDE = "/0000000000.0000000000"


@cython.final
@cython.cclass
class LaneTable:
    """A table map that the lane knows, and where its rows go (nowhere: they are not wanted)."""

    def __init__(self, content: bytes, table_map: Any, builder: Any) -> None:
        self.content = content
        self.text: Any = content
        self.size = len(content)
        self.table_map = table_map
        self.builder: Any = builder
        self.is_wanted = builder is not None
        self.before = b""
        self.after = b""
        self.gtid = b""
        self.file = b""
        self.era = -1
        self.number = -1
        self.turn = 0
        self.switch = -1
        self.file_text = self.version_text = self.gtid_text = 0
        self.column_count = len(table_map.column_types)
        if builder is not None:
            self.rows: ColumnarRows = builder.rows
            self.runs: EventRuns = builder.runs


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
        if end < at + 42:
            return False
        if code == _GTID and (raw[at + 24] & 0x80 or not load_le(raw, at + 17, 8)):
            return False
        return _fields_ok(raw, at, end)
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
    """Takes ordinary transactions.

    This one puts their rows into columns; :class:`~replica_client.readers.row_lane.RowLane` is the one
    that gives them as objects.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        batches: takes the rows.
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
        batches: BatchAssembler,
        in_file: bool,
    ) -> None:
        self._feed: Any = feed
        self._assembler: Any = assembler
        self._batches: Any = batches
        self._in_file = in_file
        self._format: Any = None
        self._works = self.checks = False
        self._full_rows = assembler.full_rows
        self._rows_codes = 0
        self._tail = 0
        self._wanted = False
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
        self._revision: Any = None
        self._generation: Any = None
        self._tables: dict[bytes, LaneTable] = {}
        # By table id: the tables of this turn. The same by the last bits of their ids, where they are
        # looked up first: there are no references to them in the slots, of which the last is of none.
        self._by_id: dict[int, LaneTable] = {}
        self._near: list[LaneTable | None] = [None] * (_NEAR + 1)
        if not cython.compiled:
            self._slots: Any = self._near
        else:
            self._slots_memory = bytearray(8 * (_NEAR + 1))
            raw: cython.p_uchar = self._slots_memory
            self._slots = cython.cast(cython.pp_void, raw)
        self._turn = 0
        # Which of the tables with a name had rows last, and how often that became another one.
        self._last_tables: dict[tuple[str, str], LaneTable] = {}
        self._switch = 0
        self._ready: list[Any] = batches.ready
        self.took = False
        self.incomplete = False
        self._gtids: list[Any] = []
        self._fault: Any = None
        # Its bytes as numbers, too: they are compared for each GTID.
        self._sid = b""
        self._sid_first = self._sid_second = 0
        self._has_sid = False
        self._gtid_bytes = b""
        self._gtid_first = self._gtid_last = 0
        self._domain: Any = None
        self._file = ""
        self._version_prefix = ""
        self._file_bytes = self._version_bytes = b""

    def hand_over(self) -> list[Any]:
        """The batches that became full since the last time, in order."""
        self.took = False
        ready: list[Any] = self._batches.take_ready()
        return ready

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
            self._tables = {}
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
            self._rows_codes = 0
            for code, size in _ROWS_POST_HEADERS.items():
                if format.post_header_size(code, size) == size:
                    self._rows_codes |= 1 << code
            self._tail = 4 if format.checksum_algorithm == _CRC32 else 0
            self.checks = bool(self._tail) and self._feed.options.verify_checksum
        revision = self._assembler.schema.history.revision
        if revision != self._revision or self._batches.generation != self._generation:
            self._revision = revision
            self._generation = self._batches.generation
            self._tables = {}
        # The decoder may have met other tables since.
        self._by_id = {}
        self._turn += 1
        self._last_tables = {}
        self._switch += 1
        if file != self._file:
            self._file = file
            key = Position(file, 0).sort_key()
            self._verified_begin = -1
            self._version_prefix = key.removesuffix("0" * _OFFSET_WIDTH + _INSIDE)
            self._version_bytes = self._version_prefix.encode("utf-8", "surrogateescape")
            self._file_bytes = file.encode("utf-8", "surrogateescape")
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
                if self._passes_over and not self._wanted and offset != self._verified_begin:
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
                if self._wanted:
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
                self._end_run()
                gtids, self._gtids = self._gtids, []
                self._feed.tracker.pass_transactions(file, begin, last - 1, gtids)
                events.drop(count)
        return int(count)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _count(
        self, events: EventQueue, first: cython.Py_ssize_t, offset: cython.longlong
    ) -> cython.Py_ssize_t:
        """How many events the transaction at ``first`` has; 0 when it is none for the lane.

        ``_end`` is the offset behind it then, and ``_wanted`` whether rows of it are to be taken.
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
        self._wanted = False
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
            if not in_file:
                if raw[start + 17] & _ARTIFICIAL:
                    return 0
                next_position = load_le(raw, start + 13, 4)
                if next_position and next_position != cython.cast(
                    cython.ulonglong, offset & _LOW_32
                ):
                    return 0
            if 30 <= code <= 32 or 23 <= code <= 25:
                if not is_open or not self._rows_codes >> code & 1:
                    return 0
                if not self._rows_ok(raw, at, end, code):
                    return 0
            elif code == _TABLE_MAP:
                if not is_open:
                    return 0
                if not self._is_near(raw, at, end) and self._table_of(raw, at, end) is None:
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
        at: cython.Py_ssize_t = first
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        end: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        number: cython.longlong
        code: cython.int
        is_gtid: cython.bint
        while at + 1 < last and (stop < 0 or offset < stop):
            begin = marks[2 * at]
            code = raw[begin + 4]
            if not _opens(raw, begin + header, marks[2 * at + 1] - tail, code):
                break
            if not self._is_sound(events, at):
                break
            is_gtid = code == _GTID
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
                    if not self._rows_codes >> code & 1:
                        break
                    if not self._rows_ok(raw, start + header, end - tail, code) or self._wanted:
                        break
                elif code != _TABLE_MAP or not self._is_near(raw, start + header, end - tail):
                    break
                i += 1
            if i == last or code != _XID or end - tail < start + header + 8:
                break
            i += 1
            number = load_le(raw, begin + header + 17, 8)
            if (
                is_gtid
                and number == self._gtid_last + 1
                and self._gtid_last
                and self._is_same_server(raw, begin + header + 1)
            ):
                self._gtid_last = number
            else:
                self._join(events, at)
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
                if not self._is_near(data, at, end) and self._table_of(data, at, end) is None:
                    return False
            elif 23 <= code <= 25 or 30 <= code <= 32:
                if not self._rows_codes >> code & 1 or not self._rows_ok(data, at, end, code):
                    return False
            elif code == _XID:
                if end < at + 8 or i != inner.last - 1:
                    return False
                self._inside = inner.last
            elif code != _ROWS_QUERY:
                return False
        return self._inside > 0

    @cython.cfunc
    def _table_of(
        self, raw: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> LaneTable | None:
        """The table of the table map from ``start`` to ``end``; None where the lane cannot tell it."""
        if end - start < 8:
            return None
        number: cython.longlong = load_le(raw, start, 6)
        table: LaneTable | None
        if self._is_near(raw, start, end):
            table = cython.cast(LaneTable, self._near_slot(number))
            return table
        content = bytes(raw[start:end])
        table = self._tables.get(content)
        if table is None:
            table = self._new_table(content)
            if table is None:
                return None
        if self._by_id.get(number) is not table:
            self._by_id[number] = table
            self._feed.decoder.announce(table.table_map)
        self._bring_near(number)
        return table

    @cython.final
    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _bring_near(self, number: cython.longlong) -> cython.bint:
        """Have the table that has an id now where it is found quickly; False when there is none."""
        table: LaneTable | None = self._by_id.get(number)
        if table is None:
            return False
        table.number = number
        table.turn = self._turn
        self._near[number & (_NEAR - 1)] = table
        if cython.compiled:
            self._slots[number & (_NEAR - 1)] = cython.cast(cython.p_void, table)
        return True

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _near_slot(self, number: cython.longlong) -> cython.p_void:
        """The table that had this id in this turn, where that is quickly told; no reference to it."""
        slot: cython.p_void = self._slots[number & (_NEAR - 1)]
        if (
            slot
            and cython.cast(LaneTable, slot).number == number
            and cython.cast(LaneTable, slot).turn == self._turn
        ):
            return slot
        return self._slots[_NEAR]

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_near(
        self, raw: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a table map is the one that had its id in this turn, where that is quickly told."""
        if end - start < 8:
            return False
        slot: cython.p_void = self._near_slot(load_le(raw, start, 6))
        return (
            slot
            and cython.cast(LaneTable, slot).size == end - start
            and same_bytes(cython.cast(LaneTable, slot).text, 0, raw, start, end - start)
        )

    @cython.cfunc
    def _known(self, number: cython.longlong) -> LaneTable | None:
        """The table that has an id now."""
        slot: cython.p_void = self._near_slot(number)
        table: LaneTable | None = cython.cast(LaneTable, slot) if slot else self._by_id.get(number)
        return table

    def _new_table(self, content: bytes) -> LaneTable | None:
        decoder = self._feed.decoder
        table_map = decoder.table_map_of(content)
        if table_map is None:
            return None
        found = self._assembler.undoubted_decoder(table_map, decoder)
        if found is None:
            return None
        builder = None
        if found[0] is not None:
            builder = self._batches.made_builder(*found[0])
            if builder is None:
                return None
        if len(self._tables) >= _MAX_TABLES:
            self._tables = {}
        table = LaneTable(content, table_map, builder)
        self._tables[content] = table
        return table

    @cython.final
    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _rows_ok(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
    ) -> cython.bint:
        """Whether a rows event is of the table map before it and has nothing unusual."""
        if end < at + 11:
            return False
        slot: cython.p_void = self._near_slot(load_le(raw, at, 6))
        if not slot:
            if not self._bring_near(load_le(raw, at, 6)):
                return False
            slot = self._near_slot(load_le(raw, at, 6))
        columns: cython.Py_ssize_t = cython.cast(LaneTable, slot).column_count
        extra: cython.Py_ssize_t
        at += 8
        if code >= 30:
            # Nothing, or which partition the rows are in: for updates also which they were in.
            extra = load_le(raw, at, 2)
            if extra != 2:
                if extra != (7 if code == 31 else 5) or raw[at + 2] != _PARTITION:
                    return False
            at += extra
            if at >= end:
                return False
        if raw[at] > 250 or raw[at] != columns or not raw[at]:
            return False
        bitmap: cython.Py_ssize_t = (columns + 7) >> 3
        first: cython.Py_ssize_t = at + 1
        i: cython.Py_ssize_t
        at = first + bitmap
        if code in (24, 31):
            at += bitmap
        if at > end:
            return False
        if cython.cast(LaneTable, slot).is_wanted:
            self._wanted = True
            if self._full_rows:
                last: cython.int = 0xFF >> (-columns & 7)
                while first < at:
                    for i in range(first, first + bitmap - 1):
                        if raw[i] != 0xFF:
                            return False
                    first += bitmap
                    if raw[first - 1] & last != last:
                        return False
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _apply(
        self,
        events: EventQueue,
        first: cython.Py_ssize_t,
        count: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> cython.int:
        """Append the rows of a transaction."""
        raw: cython.p_const_uchar = events.data
        at: cython.Py_ssize_t = events.marks[2 * first]
        code: cython.int = raw[at + 4]
        start: cython.longlong = offset
        timestamp: cython.longlong = -1
        number: cython.longlong = -1
        stamp: cython.longlong
        end: cython.Py_ssize_t
        i: cython.Py_ssize_t
        gtid: bytes = _NO_GTID
        table: LaneTable
        if code == _MARIADB_GTID:
            number = load_le(raw, at + _HEADER, 8)
            gtid = self._mariadb_prefix(load_le(raw, at + _HEADER + 8, 4), load_le(raw, at + 5, 4))
        else:
            if code == _GTID:
                number = load_le(raw, at + _HEADER + 17, 8)
                gtid = self._mysql_prefix(raw, at + _HEADER + 1)
            if events.marks[2 * first + 1] - at - self._tail >= _HEADER + 49:
                timestamp = load_le(raw, at + _HEADER + 42, 7) & ~_SECOND_TIMESTAMP
        queue: EventQueue = events
        tail: cython.Py_ssize_t = self._tail
        inside: cython.bint = self._inside > 0
        if inside:
            # They have the place of the payload, count on from it, and have no checksums.
            offset += events.marks[2 * first + 1] - at
            queue = self._inner
            raw = queue.data
            first = -2
            count = self._inside
            tail = 0
        for i in range(0 if inside else first, count if inside else first + count):
            at = queue.marks[2 * i]
            end = queue.marks[2 * i + 1]
            code = raw[at + 4]
            if code == _TABLE_MAP:
                self._table_of(raw, at + _HEADER, end - tail)
            elif 23 <= code <= 25 or 30 <= code <= 32:
                table = cython.cast(LaneTable, self._known(load_le(raw, at + _HEADER, 6)))
                if table.builder is not None:
                    if table.switch != self._switch:
                        self._switch_to(table)
                    stamp = timestamp
                    if stamp < 0:
                        stamp = load_le(raw, at, 4) * _MICROSECONDS
                    self._append(
                        table,
                        raw,
                        at,
                        end - tail,
                        offset,
                        start,
                        i - first,
                        stamp,
                        gtid,
                        number,
                    )
            if not inside:
                offset += end - at
        return 0

    def _switch_to(self, table: LaneTable) -> None:
        """Rows of a table come; if it looked otherwise before, those are in a batch of their own."""
        shape = table.builder.shape
        name = (shape.database, shape.table)
        before = self._last_tables.get(name)
        if before is not table:
            self._batches.builder(shape, table.builder.decoder)
            self._last_tables[name] = table
            if before is not None:
                self._switch += 1
        table.switch = self._switch

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _append(
        self,
        table: LaneTable,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        offset: cython.longlong,
        start: cython.longlong,
        index: cython.Py_ssize_t,
        timestamp_us: cython.longlong,
        gtid: bytes,
        gtid_number: cython.longlong,
    ) -> cython.int:
        """Append the rows of the event at ``at``."""
        code: cython.int = raw[at + 4]
        rows: ColumnarRows = table.rows
        runs: EventRuns = table.runs
        at += _HEADER + 9
        if code >= 30:
            at += cython.cast(cython.Py_ssize_t, load_le(raw, at - 1, 2))
        kind: cython.int = code - 30 if code >= 30 else code - 23
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        known: cython.p_const_uchar = table.before
        if len(table.before) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
            table.before = bytes(raw[at : at + bitmap])
        at += bitmap
        after: bytes | None = None
        if kind == 1:
            known = table.after
            if len(table.after) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
                table.after = bytes(raw[at : at + bitmap])
            after = table.after
            at += bitmap
        if table.gtid is not gtid or table.file is not self._file_bytes or table.era != runs.era:
            table.gtid = gtid
            table.file = self._file_bytes
            self._name_texts(table)
        row_index: cython.Py_ssize_t = 0
        done: cython.bint = False
        try:
            rows._begin(kind == 0, kind == 2, table.before, after, raw, at, end)
            while not done:
                try:
                    done = rows._take() == 1
                finally:
                    if rows.appended:
                        runs._add(
                            kind,
                            rows.appended,
                            row_index,
                            timestamp_us,
                            offset,
                            index,
                            table.file_text,
                            table.version_text,
                            start,
                            table.gtid_text,
                            gtid_number,
                            rows.absent_before,
                            rows.absent_after,
                        )
                        row_index += rows.appended
                if not done:
                    self._ready.append(table.builder.finish())
                    self._name_texts(table)
        except BinlogDecodeError as error:
            rows._abandon()
            raise error.at(
                file=self._file or None,
                position=offset,
                event_type=code,
                event_name=event_type_name(code),
            ) from error.__cause__
        return 0

    def _name_texts(self, table: LaneTable) -> None:
        """Let the runs of a table know the texts of the transaction."""
        runs: EventRuns = table.runs
        table.file_text = runs._text(table.file, 0, b"")
        table.version_text = runs._text(self._version_bytes, _OFFSET_WIDTH, _INSIDE.encode())
        table.gtid_text = runs._text(table.gtid, 0, b"")
        table.era = runs.era

    @cython.final
    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _is_same_server(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.bint:
        """Whether a UUID is that of the last GTID."""
        return (
            self._has_sid
            and load_le(raw, at, 8) == self._sid_first
            and load_le(raw, at + 8, 8) == self._sid_second
        )

    @cython.cfunc
    def _mysql_prefix(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> bytes:
        """What a GTID begins with whose UUID is at ``at``, up to its number."""
        if not self._is_same_server(raw, at):
            self._end_run()
            sid = bytes(raw[at : at + 16])
            self._sid = sid
            self._sid_first = load_le(raw, at, 8)
            self._sid_second = load_le(raw, at + 8, 8)
            self._has_sid = True
            self._domain = None
            self._gtid_bytes = str(Gtid(sid, 1, "")).removesuffix("1").encode()
        return self._gtid_bytes

    def _mariadb_prefix(self, domain: int, server: int) -> bytes:
        if self._domain != (domain, server):
            self._end_run()
            self._has_sid = False
            self._domain = (domain, server)
            self._gtid_bytes = f"{domain}-{server}-".encode()
        return self._gtid_bytes

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _join(self, events: EventQueue, first: cython.Py_ssize_t) -> cython.int:
        """The GTID of a transaction that is done joins the run of those before it."""
        raw: cython.p_const_uchar = events.data
        at: cython.Py_ssize_t = events.marks[2 * first]
        code: cython.int = raw[at + 4]
        if code == _ANONYMOUS:
            return 0
        number: cython.longlong
        if code == _GTID:
            if not self._is_same_server(raw, at + _HEADER + 1):
                self._mysql_prefix(raw, at + _HEADER + 1)
            number = load_le(raw, at + _HEADER + 17, 8)
            if self._gtid_last and number not in (self._gtid_last, self._gtid_last + 1):
                self._end_run()
        else:
            self._mariadb_prefix(load_le(raw, at + _HEADER + 8, 4), load_le(raw, at + 5, 4))
            number = load_le(raw, at + _HEADER, 8)
        if not self._gtid_last:
            self._gtid_first = number
        self._gtid_last = number
        return 0

    def _end_run(self) -> None:
        """A run of GTIDs ends."""
        if not self._gtid_last:
            return
        if self._domain is not None:
            gtid: Any = MariadbGtid(self._domain[0], self._domain[1], self._gtid_last)
        else:
            gtid = Gtid(self._sid, self._gtid_first, "")
        self._gtids.append((gtid, self._gtid_last))
        self._gtid_first = self._gtid_last = 0
