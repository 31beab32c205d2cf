# cython: boundscheck=False, wraparound=False, cdivision=True
"""The key scan: collects the index facts of a block of transactions in one walk over its bytes.

The walk counts rows and bytes by table, notes times and GTIDs, and takes a number of 64 bits from
the key of each row image. No value is decoded.

This module runs compiled or as plain Python; both produce the same numbers.
"""

# Over 500 lines: one compiled walk, whose functions share C fields that no other module may reach
# at this speed.

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from replica_client.errors import BinlogFormatError
from replica_client.protocol.binlog.layout import CLASSES, ROWS_FORMS
from replica_client.rows.column_ops import ColumnOp, ColumnReader

if TYPE_CHECKING:  # the same types whether or not the user's environment has Cython
    from replica_client import _cython as cython
else:
    import cython

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        EVENT_SIZE_OFFSET,
        GTID_NUMBER_OFFSET,
        GTID_SID_OFFSET,
        GTID_SID_SIZE,
        GTID_TIMESTAMP_OFFSET,
        GTID_TIMESTAMP_SIZE,
        HEADER_SIZE,
        LENGTH_2_BYTES,
        LENGTH_NULL,
        MARIADB_DOMAIN_OFFSET,
        MARIADB_FIELDS_OFFSET,
        MARIADB_SEQUENCE_OFFSET,
        ROWS_EXTRA_SIZE,
        ROWS_POST_HEADER_SIZE,
        SERVER_ID_OFFSET,
        TABLE_ID_SIZE,
        TABLE_MAP_POST_HEADER_SIZE,
        TIMESTAMP_OFFSET,
        TYPE_OFFSET,
        EventClass,
    )
    from replica_client.protocol.codec.memory import (
        copy_bytes,
        load_be,
        load_le,
        same_bytes,
        store_number,
    )
    from replica_client.stream.position.groups import control_of

MAX_KEY_COLUMNS = 32
"""Maximum number of columns of a key: 16 in MySQL, 32 in MariaDB."""

_SEED = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_FIRST = cython.declare(cython.ulonglong, 0xBF58476D1CE4E5B9)
_SECOND = cython.declare(cython.ulonglong, 0x94D049BB133111EB)
_ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_STEPS = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_NO_SLOT = cython.declare(cython.int, 255)
_SLOTS = cython.declare(cython.int, 32)
_LEADS = cython.declare(cython.int, 64)
_INSERT = cython.declare(cython.int, 0)
_UPDATE = cython.declare(cython.int, 1)
_DELETE = cython.declare(cython.int, 2)
_KIND = cython.declare(cython.int, 0x03)
_EXTRA = cython.declare(cython.int, 0x04)
_COMPRESSED = cython.declare(cython.int, 0x08)
_OTHER = cython.declare(cython.int, 0x10)
_PARTIAL_UPDATE = cython.declare(cython.int, 39)
_GTID = cython.declare(cython.int, 33)
_TAGGED = cython.declare(cython.int, 42)
_MICROSECONDS = cython.declare(cython.longlong, 1_000_000)
# Flag of a commit time in a GTID event: a second time follows.
_SECOND_TIMESTAMP = cython.declare(cython.longlong, 1 << 55)
_HOUR = cython.declare(cython.longlong, 3600)
_MAX_IDS = 1 << 14
_SECTION_HEAD = cython.declare(cython.int, 4)
# Flags of a block's record, as in index_format.
_ZONE = cython.declare(cython.ulonglong, 1)
_ALWAYS = cython.declare(cython.ulonglong, 2)


class ScanOwner(Protocol):
    """The object that builds an index with a scan; the scan calls it."""

    def table_of(self, content: bytes) -> KeyTable:
        """Return the table of a new table map, by the body of the event."""
        ...

    def other(self, code: int, event: bytes, position: int) -> None:
        """Handle an event that the scan does not read: all but those of ordinary transactions."""
        ...

    def notable(self, start: int, end: int, rows: int, first: int, last: int) -> None:
        """Handle a transaction that exceeds one of the floors.

        The arguments are its range, rows, first second, and commit time.
        """
        ...


@cython.final
@cython.cclass
class KeyTable:
    """A table as the scan reads its rows.

    Args:
        database: the table's database.
        name: the table's name.
        content: body of its table map, without the table id.
        shape: the columns of its rows.
        number: its number in the index.
        readers: readers of its columns.
        key: indexes of the key's columns; empty where no key is known.

    Attributes:
        unfiltered: the reason why its keys are not taken; ``""`` where they are.
        lacks_key: whether a row image left out a column of the key.
        zone_size: bytes of a key that is one column of fixed size of at most 8 bytes, whose number
            is its value; 0 for others.
        lead_size: bytes of the key's first column, if that is such a column.
        count: number of 64-bit keys in :attr:`keys`.
        low: the smallest number of the key's first column, see :func:`zone_number`.
        high: the largest number of the key's first column.
    """

    def __init__(
        self,
        database: str,
        name: str,
        content: bytes,
        shape: Any,
        number: int,
        readers: Sequence[ColumnReader],
        key: Sequence[int],
    ) -> None:
        self.database, self.name, self.content, self.shape = database, name, content, shape
        self.number = number
        self.unfiltered = ""
        if any(reader.op == ColumnOp.UNKNOWN or reader.size > 255 for reader in readers):
            self.unfiltered = "unreadable"
        elif not key or len(key) > MAX_KEY_COLUMNS:
            self.unfiltered = "no key"
        slots = bytearray([255]) * len(readers)
        if not self.unfiltered:
            for slot, column in enumerate(key):
                slots[column] = slot
        self._columns = len(readers)
        self._json_count = sum(reader.is_json for reader in readers)
        unknown = self.unfiltered == "unreadable"
        self._sizes = bytes(0 if unknown else reader.size for reader in readers)
        self._prefixes = bytes(0 if unknown else reader.prefix for reader in readers)
        self._slots = bytes(slots)
        self.key_count = 0 if self.unfiltered else len(key)
        lead = readers[key[0]] if self.key_count else None
        self.lead_size = lead.size if lead is not None and not lead.prefix and lead.size <= 8 else 0
        self.zone_size = self.lead_size if self.key_count == 1 else 0
        # Numbers of the key's columns in the image before and in the one after; then the zone number
        # of the first column in both.
        self._hashes = bytearray(8 * (2 * 32 + 2))
        self._capacity = 1024
        self.keys = bytearray(8 * 1024)
        self.clear()
        self._grow()

    def clear(self) -> None:
        """Begin another block."""
        self.inserted = self.updated = self.deleted = self.size = self.count = 0
        self.low, self.high = _ALL, 0
        self.lacks_key = self.is_touched = False
        self.hour = -1
        self._there = self._last = 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _grow(self) -> cython.int:
        """Double the memory of the keys when it is full, and refresh the pointers to it."""
        if self.count >= self._capacity:
            self.keys = self.keys + bytearray(len(self.keys))
            self._capacity *= 2
        if cython.compiled:
            memory: bytearray = self.keys
            raw: cython.p_uchar = memory
            self._values = raw
            numbers: cython.p_uchar = self._hashes
            self._found = cython.cast(cython.p_ulonglong, numbers)
        else:
            self._values = memoryview(self.keys).cast("Q")
            self._found = memoryview(self._hashes).cast("Q")
        return 0


@cython.final
@cython.cclass
class KeyScan:
    """A walk over the events of a file.

    Args:
        owner: returns tables, and handles the events that the scan does not read.
        checksum_size: bytes after each event's body.

    Attributes:
        touched: tables with rows since :meth:`flush`.
        gtid_runs: runs since then: (16 bytes of a UUID, or (domain, server), first number, last
            number).
        hours: counts since then: (table number, hour since 1970, rows inserted, updated, deleted,
            bytes).
        first_time: the first commit time since then in microseconds since 1970, 0 for none.
        last_time: the last commit time.
        commit_us: the commit time that the GTID event of the current transaction states; -1 where
            it states none.
        floor_size: a transaction of more bytes is notable.
        floor_rows: a transaction of more rows is notable.
        floor_seconds: a longer transaction is notable.
    """

    def __init__(self, owner: ScanOwner, checksum_size: int) -> None:
        self._owner: Any = owner
        self._tail = checksum_size
        self._by_id: dict[int, KeyTable] = {}
        self._last_number = -1
        self._last: KeyTable | None = None
        self.touched: Any = []
        self.gtid_runs: Any = []
        self.hours: Any = []
        self.first_time = self.last_time = 0
        self.floor_size = self.floor_rows = self.floor_seconds = 0
        self._sid = bytearray(GTID_SID_SIZE)
        self._has_run = self._is_mariadb = False
        self._run_first = self._run_last = 0
        self._start = -1
        self._first = self._stamp = self._rows = 0
        self.commit_us = -1

    def begin_format(self, checksum_size: int) -> None:
        """Handle a format description: earlier table ids are no longer valid."""
        self._tail = checksum_size
        self.forget_ids()

    def forget_ids(self) -> None:
        """Drop the cache of table ids, so that the scan asks the owner for the tables again."""
        self._by_id = {}
        self._last = None
        self._last_number = -1

    def flush(self) -> None:
        """Begin another block, and drop the facts of the last one."""
        self._start = -1
        self.commit_us = -1
        table: KeyTable
        for table in self.touched:
            table.clear()
        self.touched, self.gtid_runs, self.hours = [], [], []
        self.first_time = self.last_time = 0

    def end_transaction(self) -> None:
        """Count the commit time of a transaction that the end of a block ends."""
        if self._start >= 0:
            self._ends(self._start, self._stamp)

    def end_gtid_run(self) -> None:
        """Add the current run of GTIDs to :attr:`gtid_runs`."""
        if self._has_run:
            self._has_run = False
            if self._is_mariadb:
                domain = int.from_bytes(self._sid[:4], "little")
                server = int.from_bytes(self._sid[4:8], "little")
                self.gtid_runs.append(((domain, server), self._run_first, self._run_last))
            else:
                self.gtid_runs.append((bytes(self._sid), self._run_first, self._run_last))

    def end_hours(self) -> None:
        """Add the current counts to :attr:`hours`."""
        table: KeyTable
        for table in self.touched:
            self._end_hour(table)

    def _end_hour(self, table: KeyTable) -> None:
        if table.hour >= 0:
            self.hours.append(
                (
                    table.number,
                    table.hour,
                    table.inserted,
                    table.updated,
                    table.deleted,
                    table.size,
                )
            )
            table.inserted = table.updated = table.deleted = table.size = 0
        table.hour = -1

    def run(self, data: bytes, base: cython.longlong, inside: cython.longlong = -1) -> int:
        """Walk over complete events.

        Args:
            data: events.
            base: position of the first byte.
            inside: position after the event that contains these, which have no checksums; -1:
                events of the file.

        Returns:
            bytes of the events that were complete.

        Raises:
            BinlogFormatError: an event's size is smaller than its header.
        """
        raw: cython.p_const_uchar = data
        classes: bytes = CLASSES
        class_table: cython.p_const_uchar = classes
        ready: cython.Py_ssize_t = len(data)
        at: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        body: cython.Py_ssize_t
        end: cython.Py_ssize_t
        code: cython.int
        kind: cython.int
        stamp: cython.longlong
        position: cython.longlong
        while at + HEADER_SIZE <= ready:
            size = load_le(raw, at + EVENT_SIZE_OFFSET, 4)
            position = base + at if inside < 0 else inside
            if size < HEADER_SIZE:
                raise BinlogFormatError(
                    f"event size {size} is smaller than its header", position=int(position)
                )
            if at + size > ready:
                break
            code = raw[at + TYPE_OFFSET]
            kind = class_table[code]
            stamp = load_le(raw, at + TIMESTAMP_OFFSET, 4)
            body = at + HEADER_SIZE
            end = at + size - (self._tail if inside < 0 else 0)
            if stamp:
                if self._start >= 0 and (stamp < self._first or not self._first):
                    self._first = stamp
            if kind == EventClass.ROWS:
                if not self._take_rows(raw, body, end, code, stamp, size):
                    self._owner.other(code, data[at : at + size], int(position))
            elif kind == EventClass.TABLE_MAP:
                self._map(raw, body, end)
            elif kind == EventClass.GTID or kind == EventClass.MARIADB_GTID:
                if self._start >= 0:
                    self._committed(self._stamp)
                self.commit_us = -1
                if (
                    kind == EventClass.GTID
                    and code != _TAGGED
                    and end >= body + GTID_TIMESTAMP_OFFSET + GTID_TIMESTAMP_SIZE
                ):
                    self.commit_us = (
                        load_le(raw, body + GTID_TIMESTAMP_OFFSET, GTID_TIMESTAMP_SIZE)
                        & ~_SECOND_TIMESTAMP
                    )
                self._start, self._first, self._rows = position, 0, 0
                if kind == EventClass.GTID and (
                    code != _GTID or end < body + GTID_NUMBER_OFFSET + 8
                ):
                    self._owner.other(code, data[at : at + size], int(position))
                else:
                    self._gtid(raw, at, end, kind == EventClass.MARIADB_GTID)
            elif kind == EventClass.COMMIT:
                self._ends(position + size if inside < 0 else inside, stamp)
            elif kind == EventClass.QUERY and control_of(raw, body, end) == EventClass.BEGIN:
                if self._start < 0:
                    self._start, self._first, self._rows = position, stamp, 0
            elif kind == EventClass.QUERY and control_of(raw, body, end) == EventClass.COMMIT:
                self._ends(position + size if inside < 0 else inside, stamp)
            elif kind != EventClass.ANNOTATION:
                self._owner.other(code, data[at : at + size], int(position))
                if (
                    kind == EventClass.QUERY
                    or kind == EventClass.QUERY_COMPRESSED
                    or kind == EventClass.XA_PREPARE
                ):
                    self._ends(position + size if inside < 0 else inside, stamp)
            if stamp:
                self._stamp = stamp
            at += size
        return int(at)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _gtid(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        mariadb: cython.bint,
    ) -> cython.int:
        """Add a GTID to the current run, or end the run and begin another."""
        body: cython.Py_ssize_t = at + HEADER_SIZE
        number: cython.ulonglong
        sid: cython.p_uchar = self._sid
        same: cython.bint
        if mariadb:
            if end < body + MARIADB_FIELDS_OFFSET:
                return 0
            number = load_le(raw, body + MARIADB_SEQUENCE_OFFSET, 8)
            same = same_bytes(sid, 0, raw, body + MARIADB_DOMAIN_OFFSET, 4) and same_bytes(
                sid, 4, raw, at + SERVER_ID_OFFSET, 4
            )
        else:
            number = load_le(raw, body + GTID_NUMBER_OFFSET, 8)
            same = same_bytes(sid, 0, raw, body + GTID_SID_OFFSET, GTID_SID_SIZE)
        if self._has_run and same and number == self._run_last + 1:
            self._run_last = number
            return 0
        self.end_gtid_run()
        self._has_run, self._is_mariadb = True, mariadb
        if mariadb:
            copy_bytes(sid, 0, raw, body + MARIADB_DOMAIN_OFFSET, 4)
            copy_bytes(sid, 4, raw, at + SERVER_ID_OFFSET, 4)
        else:
            copy_bytes(sid, 0, raw, body + GTID_SID_OFFSET, GTID_SID_SIZE)
        self._run_first = self._run_last = number
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _ends(self, position: cython.longlong, stamp: cython.longlong) -> cython.bint:
        """Handle the end of a transaction: note its commit time, and report it if it is notable."""
        start: cython.longlong = self._start
        committed: cython.longlong = self.commit_us
        if committed < 0:
            committed = stamp * _MICROSECONDS
        self._committed(stamp)
        if start < 0:
            return True
        self._start = -1
        if (
            position - start > self.floor_size
            or self._rows > self.floor_rows
            or (self._first and committed // _MICROSECONDS - self._first > self.floor_seconds)
        ):
            self._owner.notable(
                int(start), int(position), int(self._rows), int(self._first), int(committed)
            )
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _committed(self, stamp: cython.longlong) -> cython.bint:
        """Note the commit time of a transaction: the stated one, or that of its last event."""
        time: cython.longlong = self.commit_us
        self.commit_us = -1
        if time < 0:
            time = stamp * _MICROSECONDS
        if time > self.last_time:
            self.last_time = time
        if time and (time < self.first_time or not self.first_time):
            self.first_time = time
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _map(
        self, raw: cython.p_const_uchar, at: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Handle a table map; ask the owner for its table unless the cache has this map."""
        if end - at < TABLE_MAP_POST_HEADER_SIZE:
            return True
        number: cython.longlong = load_le(raw, at, TABLE_ID_SIZE)
        table: KeyTable | None = self._last
        if table is None or number != self._last_number:
            table = self._by_id.get(number)
        if (
            table is None
            or len(cython.cast(bytes, table.content)) != end - at - TABLE_ID_SIZE
            or not same_bytes(table.content, 0, raw, at + TABLE_ID_SIZE, end - at - TABLE_ID_SIZE)
        ):
            table = self._owner.table_of(bytes(raw[at:end]))
            if len(self._by_id) >= _MAX_IDS:
                # The ids of the current statement are among the last ones, which are kept.
                self._by_id = dict(list(self._by_id.items())[_MAX_IDS // 2 :])
            self._by_id.pop(number, None)
            self._by_id[number] = table
        self._last, self._last_number = table, number
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_rows(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
        stamp: cython.longlong,
        size: cython.Py_ssize_t,
    ) -> cython.bint:
        """Count the rows of an event and take their keys; False if the owner must read it."""
        forms: bytes = ROWS_FORMS
        form_table: cython.p_const_uchar = forms
        form: cython.int = form_table[code]
        partial: cython.bint = code == _PARTIAL_UPDATE
        if end - at < ROWS_POST_HEADER_SIZE + ROWS_EXTRA_SIZE + 1:
            return False
        if form & _COMPRESSED or (form & _OTHER and not partial):
            return False
        number: cython.longlong = load_le(raw, at, TABLE_ID_SIZE)
        table: KeyTable | None = self._last
        if table is None or number != self._last_number:
            table = self._by_id.get(number)
            if table is None:
                return False
            self._last, self._last_number = table, number
        at += ROWS_POST_HEADER_SIZE
        if form & _EXTRA:
            at += load_le(raw, at, ROWS_EXTRA_SIZE)
        columns: cython.Py_ssize_t
        if at >= end:
            return False
        columns = raw[at]
        at += 1
        if columns == LENGTH_2_BYTES and at + 2 <= end:
            columns = load_le(raw, at, 2)
            at += 2
        elif columns >= LENGTH_NULL:
            return False
        bitmap: cython.Py_ssize_t = (columns + 7) >> 3
        before: cython.Py_ssize_t = at
        after: cython.Py_ssize_t = at
        kind: cython.int = form & _KIND
        at += bitmap
        if kind == _UPDATE:
            after = at
            at += bitmap
        if at > end or columns != table._columns:
            return False
        self._take_images(table, raw, at, end, raw, before, after, kind, partial, stamp, size)
        return True

    def take_images(
        self,
        number: int,
        images: bytes,
        bitmaps: tuple[bytes, bytes | None],
        kind: int,
        stamp: int,
        size: int,
    ) -> bool:
        """Count the rows of an event that the owner decompressed, and take their keys.

        Args:
            number: id of the table.
            images: row images.
            bitmaps: columns in the images before and after; None where there is one kind of image.
            kind: 0 insert, 1 update, 2 delete.
            stamp: seconds since 1970.
            size: bytes of the event.

        Returns:
            False where the table is not known, or has other columns.
        """
        table: KeyTable | None = self._by_id.get(number)
        bits: bytes = bitmaps[0] if bitmaps[1] is None else bitmaps[0] + bitmaps[1]
        width: cython.Py_ssize_t = len(bitmaps[0])
        if table is None or width != (table._columns + 7) >> 3:
            return False
        after: cython.Py_ssize_t = 0 if bitmaps[1] is None else width
        raw: cython.p_const_uchar = images
        raw_bits: cython.p_const_uchar = bits
        self._take_images(table, raw, 0, len(images), raw_bits, 0, after, kind, False, stamp, size)
        return True

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _take_images(
        self,
        table: KeyTable,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        bits: cython.p_const_uchar,
        before: cython.Py_ssize_t,
        after: cython.Py_ssize_t,
        kind: cython.int,
        partial: cython.bint,
        stamp: cython.longlong,
        size: cython.Py_ssize_t,
    ) -> cython.bint:
        """Count row images, and take their keys."""
        if not table.is_touched:
            table.is_touched = True
            self.touched.append(table)
        if table.hour != stamp // _HOUR:
            self._end_hour(table)
            table.hour = stamp // _HOUR
        table.size += size
        rows: cython.longlong = 0
        if table.unfiltered != "unreadable":
            while at < end:
                at = self._row(table, raw, at, end, bits, before, after, kind, partial)
                if at < 0:
                    # The reader reports the fault: it always reads such a block.
                    table.lacks_key = True
                    break
                rows += 1
        self._rows += rows
        if kind == _INSERT:
            table.inserted += rows
        elif kind == _UPDATE:
            table.updated += rows
        else:
            table.deleted += rows
        return True

    @cython.cfunc
    @cython.exceptval(-2)
    def _row(
        self,
        table: KeyTable,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        bits: cython.p_const_uchar,
        before: cython.Py_ssize_t,
        after: cython.Py_ssize_t,
        kind: cython.int,
        partial: cython.bint,
    ) -> cython.Py_ssize_t:
        """Take the keys of one row.

        Return the offset after the row, -1 where the bytes are not a row of the table.
        """
        there: cython.ulonglong = 0
        also: cython.ulonglong = 0
        i: cython.int
        keys: cython.int = table.key_count
        if kind != _INSERT:
            at = _image(table, raw, at, end, bits, before, 0)
            if at < 0:
                return -1
            there = table._there
        if kind == _DELETE:
            self._keep(table, there, 0)
            return at
        if partial:
            if at >= end or raw[at] > 1:
                return -1
            at += 1 + (((table._json_count + 7) >> 3) if raw[at] else 0)
            if at > end:
                return -1
        if kind == _UPDATE:
            for i in range(keys):
                table._found[_SLOTS + i] = table._found[i]
            table._found[_LEADS + 1] = table._found[_LEADS]
        at = _image(table, raw, at, end, bits, after, _SLOTS if kind == _UPDATE else 0)
        if at < 0:
            return -1
        also = table._there
        if kind == _INSERT:
            self._keep(table, also, 0)
            return at
        self._keep(table, there, 0)
        if also:
            for i in range(keys):
                if table._found[_SLOTS + i] != table._found[i]:
                    self._keep(table, there | also, _SLOTS)
                    break
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _keep(self, table: KeyTable, there: cython.ulonglong, first: cython.int) -> cython.bint:
        """Store the key of an image, whose columns' numbers begin at ``first``."""
        keys: cython.int = table.key_count
        if not keys:
            return True
        if there != (cython.cast(cython.ulonglong, 1) << keys) - 1:
            table.lacks_key = True
            return True
        number: cython.ulonglong = table._found[first]
        i: cython.int
        # A key that is one integer is its own number.
        lead: cython.ulonglong = number
        if not table.zone_size:
            lead = table._found[_LEADS + (first >> 5)]
        if lead < table.low:
            table.low = lead
        if lead > table.high:
            table.high = lead
        for i in range(1, keys):
            number = joined(number, table._found[first + i])
        if table.count and number == table._last:
            return True
        table._last = number
        if table.count >= table._capacity:
            table._grow()
        store_number(
            table._values,
            table.count,
            8,
            number,
        )
        table.count += 1
        return True


@cython.cfunc
@cython.exceptval(check=False)
def _image(
    table: KeyTable,
    raw: cython.p_const_uchar,
    at: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    bits: cython.p_const_uchar,
    bitmap: cython.Py_ssize_t,
    first: cython.int,
) -> cython.Py_ssize_t:
    """Skip a row image, and store the numbers of the key's columns from ``first`` on."""
    sizes: cython.p_const_uchar = table._sizes
    prefixes: cython.p_const_uchar = table._prefixes
    slots: cython.p_const_uchar = table._slots
    columns: cython.int = table._columns
    i: cython.int
    present: cython.int = 0
    size: cython.Py_ssize_t
    slot: cython.int
    there: cython.ulonglong = 0
    for i in range(columns):
        present += (bits[bitmap + (i >> 3)] >> (i & 7)) & 1
    nulls: cython.Py_ssize_t = at
    at += (present + 7) >> 3
    if at > end:
        return -1
    present = 0
    for i in range(columns):
        if not (bits[bitmap + (i >> 3)] >> (i & 7)) & 1:
            continue
        if (raw[nulls + (present >> 3)] >> (present & 7)) & 1:
            present += 1
            continue
        present += 1
        size = sizes[i]
        if prefixes[i]:
            if at + prefixes[i] > end:
                return -1
            size = load_le(raw, at, prefixes[i])
            at += prefixes[i]
        if at + size > end:
            return -1
        slot = slots[i]
        if slot != _NO_SLOT:
            there |= cython.cast(cython.ulonglong, 1) << slot
            if table.zone_size:
                table._found[first + slot] = load_le(raw, at, size)
            else:
                table._found[first + slot] = hash_of(raw, at, size)
                if slot == 0:
                    table._found[_LEADS + (first >> 5)] = _zone_of(raw, at, size, table.lead_size)
        at += size
    table._there = there
    return at


@cython.ccall
@cython.exceptval(check=False)
def joined(number: cython.ulonglong, other: cython.ulonglong) -> cython.ulonglong:
    """Return the number of a key of several columns, extended by one column."""
    number = ((number ^ (number >> 31)) * _SECOND) & _ALL
    number = ((number ^ other) * _FIRST) & _ALL
    return number ^ (number >> 29)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _zone_of(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, lead_size: cython.int
) -> cython.ulonglong:
    """Return the number of :func:`zone_number`."""
    if lead_size:
        return load_le(raw, at, lead_size)
    if size >= 8:
        return load_be(raw, at, 8)
    return (load_be(raw, at, size) << (8 * (8 - size))) & _ALL if size else 0


def zone_number(value: bytes, lead_size: int) -> int:
    """Return the number by which zones order keys.

    It is the little-endian number of the first column, if that has a fixed size, else its first 8
    bytes.

    Args:
        value: the key's first column in the form of row images, without a length prefix.
        lead_size: :attr:`KeyTable.lead_size`.
    """
    if lead_size and len(value) != lead_size:
        raise ValueError(f"a key of {len(value)} bytes in a column of {lead_size}")
    raw: cython.p_const_uchar = value
    return int(_zone_of(raw, 0, len(value), lead_size))


@cython.cfunc
@cython.exceptval(check=False)
def hash_of(
    raw: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t
) -> cython.ulonglong:
    """Return a 64-bit hash of bytes that is the same on every platform."""
    number: cython.ulonglong = _SEED ^ size
    while size >= 8:
        number = ((number ^ load_le(raw, at, 8)) * _FIRST) & _ALL
        number ^= number >> 29
        at += 8
        size -= 8
    if size:
        number = ((number ^ load_le(raw, at, size)) * _FIRST) & _ALL
        number ^= number >> 29
    number = (number * _SECOND) & _ALL
    return number ^ (number >> 32)


def key_number(values: Sequence[bytes], is_zone: bool) -> int:
    """Return the number of a key.

    Args:
        values: values of the columns in the key's order, in the form of row images without a length
            prefix.
        is_zone: whether the key is one column of fixed size: :attr:`KeyTable.zone_size`.
    """
    if is_zone:
        return int.from_bytes(values[0], "little")
    number = 0
    for at, value in enumerate(values):
        one: bytes = value
        raw: cython.p_const_uchar = one
        found = hash_of(raw, 0, len(value))
        number = joined(number, found) if at else found
    return int(number)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mixed(number: cython.ulonglong) -> cython.ulonglong:
    number = ((number ^ (number >> 30)) * _FIRST) & _ALL
    number = ((number ^ (number >> 27)) * _SECOND) & _ALL
    return number ^ (number >> 31)


def has_number(keys: bytearray, count: cython.longlong, number: cython.ulonglong) -> bool:
    """Return whether a number is among keys.

    Args:
        keys: 64-bit numbers.
        count: how many.
        number: the wanted number.
    """
    if not cython.compiled:
        return number in memoryview(keys).cast("Q")[:count]
    raw: cython.p_uchar = keys
    numbers: cython.p_ulonglong = cython.cast(cython.p_ulonglong, raw)
    i: cython.longlong
    for i in range(count):  # noqa: SIM110 - a loop in C
        if numbers[i] == number:
            return True
    return False


def fill_filter(
    cells: bytearray,
    keys: bytearray,
    count: cython.longlong,
    bits: cython.int,
) -> None:
    """Set the bits of keys in a Bloom filter.

    Args:
        cells: the filter, all zero.
        keys: 64-bit numbers.
        count: how many.
        bits: number of bits that each key sets.
    """
    size: cython.ulonglong = cython.cast(cython.ulonglong, len(cells)) * 8
    i: cython.longlong
    _j: cython.int
    at: cython.ulonglong
    step: cython.ulonglong
    bit: cython.ulonglong
    mix: cython.ulonglong
    raw: cython.p_uchar = keys
    target: cython.p_uchar = cells
    for i in range(count):
        mix = _mixed(load_le(raw, 8 * i, 8))
        at = mix >> 32
        step = (mix & _STEPS) | 1
        for _j in range(bits):
            bit = (at * size) >> 32
            target[bit >> 3] |= 1 << (bit & 7)
            at = (at + step) & _STEPS


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _has_bits(
    raw: cython.p_const_uchar,
    cells: cython.Py_ssize_t,
    words: cython.ulonglong,
    mix: cython.ulonglong,
    bits: cython.int,
) -> cython.bint:
    """Return whether a filter of this many words has all bits of a key, by its mixed number."""
    size: cython.ulonglong = words << 6
    at: cython.ulonglong = mix >> 32
    step: cython.ulonglong = (mix & _STEPS) | 1
    bit: cython.ulonglong
    _j: cython.int
    for _j in range(bits):
        bit = (at * size) >> 32
        if not (raw[cells + cython.cast(cython.Py_ssize_t, bit >> 3)] >> (bit & 7)) & 1:
            return False
        at = (at + step) & _STEPS
    return True


def matching_blocks(section: bytes, number: cython.ulonglong, zone: cython.ulonglong) -> list[int]:
    """Return the numbers of the blocks of a section that may have a key.

    The section is described in :mod:`~replica_client.archive.index_format`.

    Args:
        section: the section of a table, with its size.
        number: the key's number.
        zone: the key's zone, from :func:`zone_number`.

    Raises:
        ValueError: the section is truncated, or has a number of more than 64 bits.
    """
    raw: cython.p_const_uchar = section
    whole: cython.Py_ssize_t = len(section)
    at: cython.Py_ssize_t = _SECTION_HEAD
    end: cython.Py_ssize_t = at + load_le(raw, 0, _SECTION_HEAD)
    cells: cython.Py_ssize_t = end
    mix: cython.ulonglong = _mixed(number)
    field: cython.ulonglong
    count: cython.int
    i: cython.int
    shift: cython.int
    block: cython.longlong = -1
    flags: cython.ulonglong = 0
    bits: cython.int = 0
    words: cython.ulonglong = 0
    low: cython.ulonglong = 0
    width: cython.ulonglong = 0
    there: cython.bint
    found: list[int] = []
    if end > whole:
        raise ValueError("a section is cut")
    while at < end:
        count = 4
        i = 0
        while i < count:
            field = 0
            shift = 0
            while True:
                if at >= end or shift > 63:
                    raise ValueError("a section is cut")
                field |= (cython.cast(cython.ulonglong, raw[at] & 0x7F) << shift) & _ALL
                shift += 7
                at += 1
                if raw[at - 1] < 0x80:
                    break
            if i == 0:
                block += field
            elif i == 1:
                flags = field
                if flags & _ZONE:
                    count = 6
            elif i == 2:
                bits = cython.cast(cython.int, field & 63)
            elif i == 3:
                words = field
            elif i == 4:
                low = field
            else:
                width = field
            i += 1
        there = not flags & _ZONE or (low <= zone and zone - low <= width)
        if words > cython.cast(cython.ulonglong, whole - cells) >> 3:
            raise ValueError("a section is cut")
        if there and words:
            there = _has_bits(raw, cells, words, mix, bits)
        cells += 8 * cython.cast(cython.Py_ssize_t, words)
        if there or flags & _ALWAYS:
            found.append(block)
    return found
