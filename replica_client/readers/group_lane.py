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
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import checksum, load_le, same_bytes
    from cython.cimports.replica_client.rows.columnar import ColumnarRows
    from cython.cimports.replica_client.rows.runs import EventRuns
else:
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import checksum, load_le, same_bytes
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
        self.table_map = table_map
        self.builder: Any = builder
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
        self._works = self._verify = False
        self._full_rows = assembler.full_rows
        self._rows_codes = 0
        self._tail = 0
        self._wanted = False
        # Whether this lane takes transactions whose events are inside another, and how many of the
        # one at hand are: they are in a queue of their own then.
        self._takes_payloads = True
        # A transaction of so many bytes is left, as it may have to be given in parts; 0: none is.
        self._part_size = 0
        self._inside = 0
        self._inner: EventQueue = EventQueue(0)
        self._verified = 0
        self._verified_begin = -1
        self._max_event_size = feed.options.max_event_size
        self._revision: Any = None
        self._generation: Any = None
        self._tables: dict[bytes, LaneTable] = {}
        # By table id: the tables of this turn, and the same where a table map is looked up first.
        self._by_id: dict[int, LaneTable] = {}
        self._near: list[LaneTable | None] = [None] * _NEAR
        self._turn = 0
        # Which of the tables with a name had rows last, and how often that became another one.
        self._last_tables: dict[tuple[str, str], LaneTable] = {}
        self._switch = 0
        self._ready: list[Any] = batches.ready
        self.took = False
        self.incomplete = False
        self._gtids: list[Any] = []
        self._fault: Any = None
        self._sid = b""
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
            self._verify = bool(self._tail) and self._feed.options.verify_checksum
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
        count: cython.Py_ssize_t
        last: cython.Py_ssize_t = 0
        begin: cython.longlong = offset
        try:
            while at < events.last:
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
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        size: cython.Py_ssize_t
        end: cython.Py_ssize_t
        next_position: cython.ulonglong
        code: cython.int
        is_open: cython.bint = False
        # What was verified before more of the transaction was waited for is not verified again.
        if offset != self._verified_begin:
            self._verified_begin = self._verified = offset
        verified: cython.longlong = self._verified
        self._wanted = False
        self._inside = 0
        for i in range(first, events.last):
            start = events.marks[2 * i]
            size = events.marks[2 * i + 1] - start
            end = start + size - self._tail
            if end < start + _HEADER or size > self._max_event_size:
                return 0
            if load_le(raw, start + 9, 4) != cython.cast(cython.ulonglong, size):
                return 0
            code = raw[start + 4]
            if not self._in_file:
                if raw[start + 17] & _ARTIFICIAL:
                    return 0
                next_position = load_le(raw, start + 13, 4)
                if next_position and next_position != cython.cast(
                    cython.ulonglong, (offset + size) & _LOW_32
                ):
                    return 0
            if i == first:
                if not self._opens(raw, start + _HEADER, end, code):
                    return 0
                # MariaDB's has the BEGIN in it.
                is_open = code == _MARIADB_GTID
            elif code == _TABLE_MAP:
                if not is_open:
                    return 0
                if self._table_of(raw, start + _HEADER, end, self._tail) is None:
                    return 0
            elif 23 <= code <= 25 or 30 <= code <= 32:
                if not is_open or not self._rows_codes >> code & 1:
                    return 0
                if not self._rows_ok(raw, start + _HEADER, end, code):
                    return 0
            elif code == _QUERY:
                if is_open or i != first + 1 or not self._begins(raw, start + _HEADER, end):
                    return 0
                is_open = True
            elif code == _XID:
                if not is_open or end < start + _HEADER + 8:
                    return 0
            elif code == _PAYLOAD:
                if is_open or i != first + 1 or not self._takes_payloads:
                    return 0
            elif not is_open or code not in (_ROWS_QUERY, _ANNOTATE):
                return 0
            if self._verify and offset >= verified:
                if checksum(raw, start, end - start) != load_le(raw, end, 4):
                    return 0
            if code == _PAYLOAD and not self._look_inside(raw, start + _HEADER, end):
                return 0
            offset += size
            if code in (_XID, _PAYLOAD):
                if self._part_size and offset - self._verified_begin >= self._part_size:
                    return 0
                self._verified_begin = -1
                self._end = offset
                return i - first + 1
        self._verified = offset
        self.incomplete = True
        return 0

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
                if code != _QUERY or not self._begins(data, at, end):
                    return False
            elif code == _TABLE_MAP:
                if self._table_of(data, at, end, 0) is None:
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
    @cython.exceptval(-1, check=False)
    def _opens(
        self,
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
            return self._fields_ok(raw, at, end)
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
    @cython.exceptval(-1, check=False)
    def _fields_ok(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
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
    @cython.exceptval(-1, check=False)
    def _begins(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Whether a QUERY event is a BEGIN."""
        if end < at + 13 + 1 + 5:
            return False
        database: cython.Py_ssize_t = raw[at + 8]
        at += 13 + database + 1 + cython.cast(cython.Py_ssize_t, load_le(raw, at + 11, 2))
        # A NUL follows the database.
        return at + 5 == end and not raw[at - 1] and same_bytes(raw, at, b"BEGIN", 0, 5)

    @cython.cfunc
    def _table_of(
        self,
        raw: cython.p_const_uchar,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        tail: cython.Py_ssize_t,
    ) -> LaneTable | None:
        """The table of the table map from ``start`` to ``end``; None where the lane cannot tell it."""
        if end - start < 8:
            return None
        number: cython.longlong = load_le(raw, start, 6)
        table: LaneTable | None = self._near_table(number)
        known: cython.p_const_uchar
        if table is not None:
            known = table.content
            if len(table.content) == end - start and same_bytes(known, 0, raw, start, end - start):
                return table
        content = bytes(raw[start:end])
        table = self._tables.get(content)
        if table is None:
            if tail and self._verify:
                # Nothing is learned of bytes that are not as they were written.
                if checksum(raw, start - _HEADER, end - start + _HEADER) != load_le(raw, end, 4):
                    return None
            table = self._new_table(content)
            if table is None:
                return None
        if self._by_id.get(number) is not table:
            self._by_id[number] = table
            self._feed.decoder.announce(table.table_map)
        table.number = number
        table.turn = self._turn
        self._near[number & (_NEAR - 1)] = table
        return table

    @cython.cfunc
    @cython.inline
    def _near_table(self, number: cython.longlong) -> LaneTable | None:
        """The table that had this id in this turn, where that is quickly told."""
        table: LaneTable | None = self._near[number & (_NEAR - 1)]
        if table is not None and table.number == number and table.turn == self._turn:
            return table
        return None

    @cython.cfunc
    def _known(self, number: cython.longlong) -> LaneTable | None:
        """The table that has an id now."""
        table: LaneTable | None = self._near_table(number)
        return self._by_id.get(number) if table is None else table

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
        if len(self._tables) >= _MAX_TABLES:
            self._tables = {}
        table = LaneTable(content, table_map, builder)
        self._tables[content] = table
        return table

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
        table: LaneTable | None = self._known(load_le(raw, at, 6))
        at += 8
        if table is None:
            return False
        if code >= 30:
            # Nothing, or which partition the rows are in: for updates also which they were in.
            if load_le(raw, at, 2) != 2:
                if load_le(raw, at, 2) != (7 if code == 31 else 5) or raw[at + 2] != _PARTITION:
                    return False
            at += cython.cast(cython.Py_ssize_t, load_le(raw, at, 2))
            if at >= end:
                return False
        if raw[at] > 250 or raw[at] != table.column_count or not raw[at]:
            return False
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        first: cython.Py_ssize_t = at + 1
        i: cython.Py_ssize_t
        at = first + bitmap
        if code in (24, 31):
            at += bitmap
        if at > end:
            return False
        if table.builder is not None:
            self._wanted = True
            if self._full_rows:
                last: cython.int = 0xFF >> (-table.column_count & 7)
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
                self._table_of(raw, at + _HEADER, end - tail, tail)
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

    @cython.cfunc
    def _mysql_prefix(self, raw: cython.p_const_uchar, at: cython.Py_ssize_t) -> bytes:
        """What a GTID begins with whose UUID is at ``at``, up to its number."""
        known: cython.p_const_uchar = self._sid
        if len(self._sid) != 16 or not same_bytes(known, 0, raw, at, 16):
            self._end_run()
            sid = bytes(raw[at : at + 16])
            self._sid = sid
            self._domain = None
            self._gtid_bytes = str(Gtid(sid, 1, "")).removesuffix("1").encode()
        return self._gtid_bytes

    def _mariadb_prefix(self, domain: int, server: int) -> bytes:
        if self._domain != (domain, server):
            self._end_run()
            self._sid = b""
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
