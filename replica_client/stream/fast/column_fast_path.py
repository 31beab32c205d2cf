# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions straight into record batches.

:class:`~replica_client.stream.fast.fast_path.FastPath` finds the ordinary transactions and leaves
out the others; this module turns the former into columns.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

# Over 500 lines: one compiled class, whose methods share C fields that no other module could access
# as fast.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import cython

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.constants.event_types import event_type_name
from replica_client.protocol.position import Position

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        DELETE,
        HEADER_SIZE,
        INSERT,
        ROWS_KIND,
        TABLE_ID_SIZE,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        UPDATE,
        EventClass,
        rows_columns,
    )
    from replica_client.protocol.codec.event_queue import EventQueue
    from replica_client.protocol.codec.memory import load_le, same_bytes
    from replica_client.protocol.codec.turns import Turn
    from replica_client.rows.column_layout import Layout
    from replica_client.rows.columnar import ColumnarRows
    from replica_client.rows.runs import EventRuns
    from replica_client.stream.fast.fast_path import FastPath
    from replica_client.stream.fast.fast_path_tables import FastPathTable, FastPathTables
    from replica_client.stream.fast.gtid_runs import GtidRuns

    RowsRecord: TypeAlias = Any
    RecordPointer: TypeAlias = Any

if TYPE_CHECKING:
    from replica_client.rows.batching import BatchAssembler
    from replica_client.stream.transactions.assembler import TransactionAssembler
    from replica_client.stream.transactions.event_feed import EventFeed

_MICROSECONDS = cython.declare(cython.longlong, 1_000_000)
# The end of a position's sort key, which is the commit version: the offset, and the position in a
# transaction.
_OFFSET_WIDTH = 20
_INSIDE = "/0000000000.0000000000"
_INSIDE_BYTES = _INSIDE.encode()


# Errors of a value that its column cannot hold.
_FAULTS = (ValueError, OverflowError, LookupError, BinlogDecodeError)


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _take_record(
    rows: ColumnarRows,
    runs: EventRuns,
    before: Layout,
    after: Layout | None,
    raw: cython.p_const_uchar,
    record: RecordPointer,
) -> cython.int:
    """Take the rows of a record; return 0 if the batch is full before its end."""
    if not record.begun:
        rows._start(before, after, raw, record.at, record.end)
        record.begun = True
    done: cython.int = rows._take_images(before, after)
    _add_run(runs, rows, record)
    return done


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(-1, check=False)
def _add_run(runs: EventRuns, rows: ColumnarRows, record: RecordPointer) -> cython.int:
    """Add the rows taken from a record as a run."""
    if rows.appended:
        runs._add(
            record.kind,
            rows.appended,
            record.row_index,
            record.timestamp_us,
            record.offset,
            record.index,
            record.file_text,
            record.version_text,
            record.start,
            record.gtid_text,
            record.gtid_number,
            rows.absent_before,
            rows.absent_after,
        )
        record.row_index += rows.appended
    return 0


@cython.final
@cython.cclass
class ColumnFastPath(FastPath):
    """Fast path that puts the rows of ordinary transactions into columns.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        batches: takes the rows.
        in_file: whether events are in a file, or come as a stream.
        defers: collect rows first and then take all of them together without the interpreter's
            lock, so that other threads can work meanwhile; compiled only.
        turn: the turn that this thread has, and gives up meanwhile.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: TransactionAssembler,
        batches: BatchAssembler,
        in_file: bool,
        defers: bool = False,
        turn: Turn | None = None,
    ) -> None:
        FastPath.__init__(self, feed, assembler, batches, in_file)
        self._turn = turn
        self.defers = defers and cython.compiled
        self._records_memory = bytearray()
        self._records_room = self._noted = self._next = 0
        if not cython.compiled:
            self._records: Any = None
            self._raw: Any = b""
        # Objects to which records point.
        self._kept: list[Any] = []
        self._tables_of_turn: list[Any] = []
        self._batches: Any = batches
        self._ready: list[Any] = batches.ready
        # For each table name the table that had rows last, and how often that changed.
        self._last_tables: dict[tuple[str, str], FastPathTable] = {}
        self._switch = 0
        self._named = ""
        self._file_text = self._version_text = b""

    def take(
        self,
        events: EventQueue,
        file: str,
        offset: cython.longlong,
        stop: cython.longlong = -1,
    ) -> int:
        self._last_tables = {}
        self._tables_of_turn.clear()
        self._switch += 1
        if file != self._named:
            self._named = file
            version = Position(file, 0).sort_key().removesuffix("0" * _OFFSET_WIDTH + _INSIDE)
            self._version_text = version.encode("utf-8", "surrogateescape")
            self._file_text = file.encode("utf-8", "surrogateescape")
        return int(FastPath.take(self, events, file, offset, stop))

    def hand_over(self) -> list[Any]:
        """Return the batches that became full since the last call, in order."""
        self.took = False
        ready: list[Any] = self._batches.take_ready()
        return ready

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
        classes: cython.p_const_uchar = self._classes
        event_class: cython.int
        gtids: GtidRuns = self._gtids
        start: cython.longlong = offset
        end: cython.Py_ssize_t
        i: cython.Py_ssize_t
        tables: FastPathTables = self._tables
        table: FastPathTable
        gtids.read(raw, at, events.marks[2 * first + 1] - self._tail)
        gtid: bytes = gtids.prefix
        # Runs of events use -1 for no number.
        number: cython.longlong = gtids.number if gtids.number else -1
        timestamp: cython.longlong = gtids.timestamp_us
        if timestamp < 0:
            # Only the second of the last event is known as the time of the commit.
            end = events.marks[2 * (first + count - 1)]
            timestamp = load_le(raw, end + TIMESTAMP_OFFSET, 4) * _MICROSECONDS
        queue: EventQueue = events
        tail: cython.Py_ssize_t = self._tail
        inside: cython.bint = self._inside > 0
        if inside:
            # Inner events share the payload's position, count on from its index, and have no
            # checksums.
            offset += events.marks[2 * first + 1] - at
            queue = self._inner
            raw = queue.data
            first = -2
            count = self._inside
            tail = 0
        for i in range(0 if inside else first, count if inside else first + count):
            at = queue.marks[2 * i]
            end = queue.marks[2 * i + 1]
            event_class = classes[raw[at + TYPE_OFFSET]]
            if event_class == EventClass.TABLE_MAP:
                tables.of_map(raw, at + HEADER_SIZE, end - tail)
            elif event_class == EventClass.ROWS:
                table = cython.cast(
                    FastPathTable, tables.known(load_le(raw, at + HEADER_SIZE, TABLE_ID_SIZE))
                )
                if table.builder is not None:
                    if table.switch != self._switch:
                        self._switch_to(table)
                    if self.defers:
                        self._note(
                            table,
                            raw,
                            at,
                            end - tail,
                            offset,
                            start,
                            i - first,
                            timestamp,
                            gtid,
                            number,
                        )
                    else:
                        self._append(
                            table,
                            raw,
                            at,
                            end - tail,
                            offset,
                            start,
                            i - first,
                            timestamp,
                            gtid,
                            number,
                        )
            if not inside:
                offset += end - at
        if inside and self._noted:
            # The inner events' memory is freed with the payload.
            self._decode_noted()
        return 0

    def _switch_to(self, table: FastPathTable) -> None:
        """Switch to a table; earlier rows with another definition go into a batch of their own."""
        if self._noted:
            # The rows before may get a batch of their own.
            self._decode_noted()
        shape = table.builder.shape
        name = (shape.database, shape.table)
        before = self._last_tables.get(name)
        if before is not table:
            self._batches.builder(shape, table.builder.decoder)
            self._last_tables[name] = table
            if before is not None:
                self._switch += 1
        table.switch = self._switch
        self._tables_of_turn.append(table)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _append(
        self,
        table: FastPathTable,
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
        code: cython.int = raw[at + TYPE_OFFSET]
        rows: ColumnarRows = table.rows
        runs: EventRuns = table.runs
        kind: cython.int = self._forms[code] & ROWS_KIND
        row_index: cython.Py_ssize_t
        done: cython.bint = False
        at = self._bitmaps(table, raw, at, kind)
        if table.gtid is not gtid or table.file is not self._file_text or table.era != runs.era:
            table.gtid = gtid
            table.file = self._file_text
            self._name_texts(table)
        try:
            rows._begin(
                kind == INSERT,
                kind == DELETE,
                table.before,
                table.after if kind == UPDATE else None,
                raw,
                at,
                end,
            )
            # Nearly every event ends here: it pays to avoid a call with so many arguments.
            try:
                done = rows._take() == 1
            finally:
                row_index = rows.appended
                if row_index:
                    runs._add(
                        kind,
                        row_index,
                        0,
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
            if not done:
                self._take_rest(
                    table,
                    code,
                    kind,
                    offset,
                    start,
                    index,
                    timestamp_us,
                    gtid_number,
                    row_index,
                    True,
                )
        except BinlogDecodeError as error:
            rows._abandon()
            raise self._located(error, offset, code) from error.__cause__
        return 0

    def _located(self, error: BinlogDecodeError, offset: int, code: int) -> BinlogDecodeError:
        return error.at(
            file=self._file or None,
            position=offset,
            event_type=code,
            event_name=event_type_name(code),
        )

    @cython.cfunc
    @cython.inline
    @cython.exceptval(-1, check=False)
    def _bitmaps(
        self,
        table: FastPathTable,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        kind: cython.int,
    ) -> cython.Py_ssize_t:
        """Update a table's column bitmaps from an event; return where its images begin."""
        # The number of columns, at most 250 on the fast path, takes one byte.
        at = rows_columns(raw, at + HEADER_SIZE, self._forms[raw[at + TYPE_OFFSET]]) + 1
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        known: cython.p_const_uchar = table.before
        if len(table.before) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
            self._use_bitmap(table, bytes(raw[at : at + bitmap]), False)
        at += bitmap
        if kind == UPDATE:
            known = table.after
            if len(table.after) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
                self._use_bitmap(table, bytes(raw[at : at + bitmap]), True)
            at += bitmap
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _use_bitmap(self, table: FastPathTable, bitmap: bytes, is_after: cython.bint) -> cython.int:
        """Set a new column bitmap for the images before or after changes."""
        if is_after:
            table.after = bitmap
            if table.after_layout is not None:
                self._kept.append(table.after_layout)
                table.after_layout = None
        else:
            table.before = bitmap
            if table.before_layout is not None:
                self._kept.append(table.before_layout)
                table.before_layout = None
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_rest(
        self,
        table: FastPathTable,
        code: cython.int,
        kind: cython.int,
        offset: cython.longlong,
        start: cython.longlong,
        index: cython.Py_ssize_t,
        timestamp_us: cython.longlong,
        gtid_number: cython.longlong,
        row_index: cython.Py_ssize_t,
        is_full: cython.bint,
    ) -> cython.int:
        """Take the remaining images of the event at which the table's rows stand."""
        rows: ColumnarRows = table.rows
        runs: EventRuns = table.runs
        done: cython.bint = False
        while not done:
            if is_full:
                self._ready.append(table.builder.finish())
                self._name_texts(table)
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
            is_full = not done
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _note(
        self,
        table: FastPathTable,
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
        """Note the rows of the event at ``at`` for later; arguments as in :meth:`_append`."""
        if not cython.compiled:
            return 0
        code: cython.int = raw[at + TYPE_OFFSET]
        kind: cython.int = self._forms[code] & ROWS_KIND
        at = self._bitmaps(table, raw, at, kind)
        rows: ColumnarRows = table.rows
        if table.before_layout is None:
            table.before_layout = rows._layout(table.before)
        if kind == UPDATE and table.after_layout is None:
            table.after_layout = rows._layout(table.after)
        if (
            table.gtid is not gtid
            or table.file is not self._file_text
            or table.era != table.runs.era
        ):
            if self._noted:
                # All notes of one table share the same texts.
                self._decode_noted()
            table.gtid = gtid
            table.file = self._file_text
            self._name_texts(table)
        if self._noted and raw != self._raw:
            self._decode_noted()
        if self._noted == self._records_room:
            self._more_records()
        self._raw = raw
        record: RecordPointer = cython.address(self._records[self._noted])
        record.table = cython.cast(cython.p_void, table)
        record.rows = cython.cast(cython.p_void, rows)
        record.runs = cython.cast(cython.p_void, table.runs)
        record.before = cython.cast(cython.p_void, table.before_layout)
        record.after = cython.cast(cython.p_void, None)
        if kind == UPDATE:
            record.after = cython.cast(cython.p_void, table.after_layout)
        record.at = at
        record.end = end
        record.transaction = self._waiting
        record.index = index
        record.offset = offset
        record.start = start
        record.timestamp_us = timestamp_us
        record.gtid_number = gtid_number
        record.row_index = 0
        record.code = code
        record.kind = kind
        record.file_text = table.file_text
        record.version_text = table.version_text
        record.gtid_text = table.gtid_text
        record.begun = False
        self._noted += 1
        return 0

    def _more_records(self) -> None:
        if not cython.compiled:
            return
        room = max(2 * self._records_room, 256)
        memory = bytearray(room * cython.sizeof(RowsRecord))
        memory[: len(self._records_memory)] = self._records_memory
        self._records_memory = memory
        raw: cython.p_uchar = memory
        self._records = cython.cast(RecordPointer, raw)
        self._records_room = room

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_deferred(self) -> cython.int:
        return self._decode_noted() if self._noted else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _decode_noted(self) -> cython.int:
        """Take all rows that were noted."""
        if not cython.compiled:
            return 0
        record: RecordPointer
        table: FastPathTable
        is_full: cython.bint
        turn: Turn = cython.cast(Turn, self._turn)
        shared: cython.bint = turn is not None
        given: cython.bint
        try:
            while self._next < self._noted:
                is_full = False
                given = shared
                try:
                    with cython.nogil:
                        if shared:
                            turn._give()
                        is_full = self._take_noted() == 1
                        if shared:
                            # First the turn, then the interpreter's lock: the holder of the turn
                            # releases the lock now and then.
                            turn._take()
                        given = False
                except _FAULTS:
                    # The rows are taken again, change by change.
                    pass
                finally:
                    if given:
                        turn.take()
                if self._next == self._noted:
                    break
                record = cython.address(self._records[self._next])
                self._next += 1
                table = cython.cast(FastPathTable, record.table)
                self._take_unusual(table, is_full)
        finally:
            self._noted = self._next = 0
            self._kept.clear()
        return 0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def _take_noted(self) -> cython.int:
        """Take the noted rows; return 1 if a batch became full before all were taken."""
        if not cython.compiled:
            return 0
        record: RecordPointer
        rows: cython.p_void
        runs: cython.p_void
        before: cython.p_void
        after: cython.p_void
        while self._next < self._noted:
            record = cython.address(self._records[self._next])
            rows = record.rows
            runs = record.runs
            before = record.before
            after = record.after
            if not _take_record(
                cython.cast(ColumnarRows, rows),
                cython.cast(EventRuns, runs),
                cython.cast(Layout, before),
                cython.cast(Layout, after),
                self._raw,
                record,
            ):
                return 1
            self._next += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_unusual(self, table: FastPathTable, is_full: cython.bint) -> cython.int:
        """Take the rest of the record before ``_next`` after a fault or a full batch."""
        if not cython.compiled:
            return 0
        record: RecordPointer = cython.address(self._records[self._next - 1])
        rows: ColumnarRows = table.rows
        era: cython.longlong = table.runs.era
        i: cython.Py_ssize_t
        table.file_text = record.file_text
        table.version_text = record.version_text
        table.gtid_text = record.gtid_text
        rows._before = cython.cast(Layout, record.before)
        rows._after = cython.cast(Layout, record.after)
        if not is_full:
            rows._forget_written()
            _add_run(table.runs, rows, record)
        try:
            self._take_rest(
                table,
                record.code,
                record.kind,
                record.offset,
                record.start,
                record.index,
                record.timestamp_us,
                record.gtid_number,
                record.row_index,
                is_full,
            )
        except BinlogDecodeError as error:
            rows._abandon()
            self._failed = record.transaction
            raise self._located(error, record.offset, record.code) from error.__cause__
        if table.runs.era != era:
            # The texts have other numbers.
            for i in range(self._next, self._noted):
                record = cython.address(self._records[i])
                if record.table == cython.cast(cython.p_void, table):
                    record.file_text = table.file_text
                    record.version_text = table.version_text
                    record.gtid_text = table.gtid_text
        return 0

    def _name_texts(self, table: FastPathTable) -> None:
        """Register the texts of the transaction with the runs of a table."""
        runs: EventRuns = table.runs
        table.file_text = runs._text(table.file, 0, b"")
        table.version_text = runs._text(self._version_text, _OFFSET_WIDTH, _INSIDE_BYTES)
        table.gtid_text = runs._text(table.gtid, 0, b"")
        table.era = runs.era
