# cython: boundscheck=False, wraparound=False, cdivision=True
"""Ordinary transactions straight into record batches.

What :class:`~replica_client.readers.group_lane.GroupLane` finds ordinary goes from bytes to columns here;
see there for what does not.

This module is compiled where that is possible and runs as it stands everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cython

from replica_client.constants.event_types import event_type_name
from replica_client.errors import BinlogDecodeError
from replica_client.position.position import Position

if cython.compiled:
    from cython.cimports.replica_client.binlog.layout import (
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
    from cython.cimports.replica_client.codec.event_queue import EventQueue
    from cython.cimports.replica_client.codec.memory import load_le, same_bytes
    from cython.cimports.replica_client.readers.group_lane import GroupLane
    from cython.cimports.replica_client.readers.gtid_runs import GtidRuns
    from cython.cimports.replica_client.readers.lane_tables import LaneTable, LaneTables
    from cython.cimports.replica_client.rows.columnar import ColumnarRows
    from cython.cimports.replica_client.rows.runs import EventRuns
else:
    from replica_client.binlog.layout import (
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
    from replica_client.codec.event_queue import EventQueue
    from replica_client.codec.memory import load_le, same_bytes
    from replica_client.readers.group_lane import GroupLane
    from replica_client.readers.gtid_runs import GtidRuns
    from replica_client.readers.lane_tables import LaneTable, LaneTables
    from replica_client.rows.columnar import ColumnarRows
    from replica_client.rows.runs import EventRuns

if TYPE_CHECKING:
    from replica_client.readers.assembler import TransactionAssembler
    from replica_client.readers.event_feed import EventFeed
    from replica_client.rows.batching import BatchAssembler

_MICROSECONDS = cython.declare(cython.longlong, 1_000_000)
# How a position's sort key ends, which is the commit version: the offset, and the place in a
# transaction.
_OFFSET_WIDTH = 20
_INSIDE = "/0000000000.0000000000"
_INSIDE_BYTES = _INSIDE.encode()


@cython.final
@cython.cclass
class ColumnLane(GroupLane):  # type: ignore[misc]
    """Takes ordinary transactions and puts their rows into columns.

    Args:
        feed: the decoder and the tracker.
        assembler: resolves tables.
        batches: takes the rows.
        in_file: whether events stand in a file, or come as a stream.
    """

    def __init__(
        self,
        feed: EventFeed,
        assembler: TransactionAssembler,
        batches: BatchAssembler,
        in_file: bool,
    ) -> None:
        GroupLane.__init__(self, feed, assembler, batches, in_file)
        self._batches: Any = batches
        self._ready: list[Any] = batches.ready
        # Which of the tables with a name had rows last, and how often that became another one.
        self._last_tables: dict[tuple[str, str], LaneTable] = {}
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
        """As :meth:`GroupLane.take`."""
        self._last_tables = {}
        self._switch += 1
        if file != self._named:
            self._named = file
            version = Position(file, 0).sort_key().removesuffix("0" * _OFFSET_WIDTH + _INSIDE)
            self._version_text = version.encode("utf-8", "surrogateescape")
            self._file_text = file.encode("utf-8", "surrogateescape")
        return int(GroupLane.take(self, events, file, offset, stop))

    def hand_over(self) -> list[Any]:
        """The batches that became full since the last time, in order."""
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
        stamp: cython.longlong
        end: cython.Py_ssize_t
        i: cython.Py_ssize_t
        tables: LaneTables = self._tables
        table: LaneTable
        gtids.read(raw, at, events.marks[2 * first + 1] - self._tail)
        gtid: bytes = gtids.prefix
        # Runs of events take -1 for none.
        number: cython.longlong = gtids.number if gtids.number else -1
        timestamp: cython.longlong = gtids.timestamp_us
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
            event_class = classes[raw[at + TYPE_OFFSET]]
            if event_class == EventClass.TABLE_MAP:
                tables.of_map(raw, at + HEADER_SIZE, end - tail)
            elif event_class == EventClass.ROWS:
                table = cython.cast(
                    LaneTable, tables.known(load_le(raw, at + HEADER_SIZE, TABLE_ID_SIZE))
                )
                if table.builder is not None:
                    if table.switch != self._switch:
                        self._switch_to(table)
                    stamp = timestamp
                    if stamp < 0:
                        stamp = load_le(raw, at + TIMESTAMP_OFFSET, 4) * _MICROSECONDS
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
        code: cython.int = raw[at + TYPE_OFFSET]
        rows: ColumnarRows = table.rows
        runs: EventRuns = table.runs
        form: cython.int = self._forms[code]
        kind: cython.int = form & ROWS_KIND
        # The number of columns, of which the lane takes 250 at most, has one byte.
        at = rows_columns(raw, at + HEADER_SIZE, form) + 1
        bitmap: cython.Py_ssize_t = (table.column_count + 7) >> 3
        known: cython.p_const_uchar = table.before
        if len(table.before) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
            table.before = bytes(raw[at : at + bitmap])
        at += bitmap
        after: bytes | None = None
        if kind == UPDATE:
            known = table.after
            if len(table.after) != bitmap or not same_bytes(known, 0, raw, at, bitmap):
                table.after = bytes(raw[at : at + bitmap])
            after = table.after
            at += bitmap
        if table.gtid is not gtid or table.file is not self._file_text or table.era != runs.era:
            table.gtid = gtid
            table.file = self._file_text
            self._name_texts(table)
        row_index: cython.Py_ssize_t = 0
        done: cython.bint = False
        try:
            rows._begin(kind == INSERT, kind == DELETE, table.before, after, raw, at, end)
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
        table.version_text = runs._text(self._version_text, _OFFSET_WIDTH, _INSIDE_BYTES)
        table.gtid_text = runs._text(table.gtid, 0, b"")
        table.era = runs.era
