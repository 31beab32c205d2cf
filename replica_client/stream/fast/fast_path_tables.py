# cython: boundscheck=False, wraparound=False, cdivision=True
"""The tables that a fast path knows, by their table maps and by their current ids.

This module is compiled where that is possible, and runs as plain Python everywhere else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import cython

from replica_client.errors import MissingTableMapError
from replica_client.protocol.binlog.events.rows import PARTITION
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.layout import ROWS_FORMS, ROWS_TYPES
from replica_client.protocol.codec.compression import SizedCache
from replica_client.schema.shape import TableShape

if not cython.compiled:
    from replica_client.protocol.binlog.layout import (
        LENGTH_NULL,
        PARTITION_INSERT_SIZE,
        PARTITION_UPDATE_SIZE,
        ROWS_COMPRESSED,
        ROWS_EXTRA,
        ROWS_EXTRA_SIZE,
        ROWS_KIND,
        ROWS_OTHER,
        ROWS_POST_HEADER_SIZE,
        TABLE_ID_SIZE,
        TABLE_MAP_POST_HEADER_SIZE,
        UPDATE,
    )
    from replica_client.protocol.codec.memory import load_le, same_bytes
    from replica_client.rows.column_layout import Layout
    from replica_client.rows.columnar import ColumnarRows
    from replica_client.rows.runs import EventRuns

if TYPE_CHECKING:
    from replica_client.protocol.binlog.decoder import BinlogDecoder
    from replica_client.protocol.binlog.event import BinlogFormat
    from replica_client.rows.image import RowImageDecoder
    from replica_client.stream.transactions.event_feed import EventFeed

_PARTITION = cython.declare(cython.int, PARTITION)
_MAX_TABLES = 10_000
_MAX_BYTES = 16 << 20
# Flag of a rows form that the fast path takes in this file.
_TAKEN = cython.declare(cython.int, 0x80)
_NEAR = cython.declare(cython.int, 16384)
# Rows whose images are compressed, in parts, or from before 5.1.
_LEFT = ROWS_COMPRESSED | ROWS_OTHER


class RowConsumers(Protocol):
    """Factory of the objects that take the rows of tables.

    Attributes:
        generation: changes when objects made earlier must not be used any more.
    """

    generation: int

    def made_builder(self, shape: TableShape, decoder: RowImageDecoder) -> Any:
        """Create the object that takes a table's rows; None if the fast path must leave them."""
        ...


class TableResolver(Protocol):
    """A resolver of the tables of table maps: the assembler, or what takes its place."""

    @property
    def full_rows(self) -> bool:
        """Whether row images that lack wanted columns are refused."""
        ...

    @property
    def is_between(self) -> bool:
        """Whether no transaction is open."""
        ...

    @property
    def revision(self) -> int:
        """A number that changes when tables may resolve differently."""
        ...

    def decoder_if_certain(
        self, table_map: TableMapEvent, decoder: BinlogDecoder
    ) -> tuple[tuple[TableShape, RowImageDecoder] | None] | None:
        """Return a table's shape and decoder in a tuple, (None,) for an unwanted table, None if uncertain."""
        ...


class RowTables(TableResolver, RowConsumers, Protocol):
    """A resolver of tables that also makes what takes their rows."""


@cython.final
@cython.cclass
class FastPathTable:
    """A table map that the fast path knows, and the destination of its rows.

    Args:
        content: the map's body after the table id, which changes each time that a server opens the
            table.
        table_map: the decoded map, with any id.
        builder: takes the rows; None: they are not wanted.
    """

    def __init__(self, content: bytes, table_map: Any, builder: Any) -> None:
        self.content = content
        self.text: Any = content
        self.size = len(content)
        self.table_map = table_map
        self.builder: Any = builder
        self.is_wanted = builder is not None
        self.before = b""
        self.after = b""
        self.before_layout: Layout | None = None
        self.after_layout: Layout | None = None
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


@cython.final
@cython.cclass
class FastPathTables:
    """Lookup of the tables of table maps and rows events, which also detects unusual rows.

    Args:
        feed: the decoder.
        assembler: resolves tables.
        consumers: take the rows.

    Attributes:
        wanted: whether :meth:`rows_ok` met rows of a wanted table since this was last set to False.
    """

    def __init__(self, feed: EventFeed, assembler: TableResolver, consumers: RowConsumers) -> None:
        self._feed: Any = feed
        self._assembler: Any = assembler
        self._consumers: Any = consumers
        self._full_rows = assembler.full_rows
        self.wanted = False
        # Form of the rows that are taken, by type code.
        self._forms_memory = bytearray(256)
        self._forms: Any = self._forms_memory
        self._revision: Any = None
        self._generation: Any = None
        # By the body of their table map after the id. Entries are valid as long as the schema
        # history does not change.
        self._tables: SizedCache[bytes, FastPathTable] = SizedCache(
            _MAX_TABLES, _MAX_BYTES, small=0
        )
        # The tables of this turn by table id; a turn ends when the decoder meets other table maps.
        # _near has the same tables by the last bits of their ids and is searched first. The slots
        # hold no references; the last slot is always empty.
        self._by_id: dict[int, FastPathTable] = {}
        self._near: list[FastPathTable | None] = [None] * (_NEAR + 1)
        self._near_used: list[int] = []
        self._decoder: Any = None
        self._announced = -1
        if not cython.compiled:
            self._slots: Any = self._near
        else:
            self._slots_memory = bytearray(8 * (_NEAR + 1))
            raw: cython.p_uchar = self._slots_memory
            self._slots = cython.cast(cython.pp_void, raw)
        self._turn = 0

    def use_format(self, format: BinlogFormat) -> None:
        """Adopt another format."""
        self._forget()
        for code in ROWS_TYPES:
            form = ROWS_FORMS[code]
            size = ROWS_POST_HEADER_SIZE + (ROWS_EXTRA_SIZE if form & ROWS_EXTRA else 0)
            is_taken = not form & _LEFT and format.post_header_size(code, size) == size
            self._forms_memory[code] = form | 0x80 if is_taken else 0

    def begin_turn(self) -> None:
        """Forget tables that may have changed, and the ids that the decoder met since."""
        revision = self._assembler.revision
        if revision != self._revision or self._consumers.generation != self._generation:
            self._revision = revision
            self._generation = self._consumers.generation
            self._forget()
        decoder = self._feed.decoder
        if (
            decoder is not self._decoder
            or decoder.announced != self._announced
            or len(self._by_id) > _MAX_TABLES
        ):
            self._decoder = decoder
            self._announced = decoder.announced
            self._by_id = {}
            self._turn += 1

    def _forget(self) -> None:
        """Forget all tables everywhere: the objects that take their rows may use much memory."""
        self._tables.clear()
        self._by_id = {}
        i: cython.Py_ssize_t
        for i in self._near_used:
            if cython.compiled:
                self._slots[i] = cython.NULL
            self._near[i] = None
        self._near_used = []

    @cython.cfunc
    def of_map(
        self, raw: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> FastPathTable | None:
        """Return the table of a table map's bytes; None if it is not for the fast path."""
        if end - start < TABLE_MAP_POST_HEADER_SIZE:
            return None
        number: cython.longlong = load_le(raw, start, TABLE_ID_SIZE)
        table: FastPathTable | None
        if self.is_near(raw, start, end):
            table = cython.cast(FastPathTable, self._near_slot(number))
            return table
        content = bytes(raw[start + TABLE_ID_SIZE : end])
        table = self._tables.get(content)
        if table is None:
            table = self._new_table(content, bytes(raw[start:end]))
            if table is None:
                return None
        if self._by_id.get(number) is not table:
            self._by_id[number] = table
            self._decoder.announce(table.table_map, number)
            self._announced = self._decoder.announced
        self._bring_near(number)
        return table

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _bring_near(self, number: cython.longlong) -> cython.bint:
        """Put the table that has an id now into its near slot; return False when there is none."""
        table: FastPathTable | None = self._by_id.get(number)
        if table is None:
            return False
        table.number = number
        table.turn = self._turn
        at: cython.Py_ssize_t = number & (_NEAR - 1)
        if self._near[at] is None:
            self._near_used.append(at)
        self._near[at] = table
        if cython.compiled:
            self._slots[at] = cython.cast(cython.p_void, table)
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _near_slot(self, number: cython.longlong) -> cython.p_void:
        """Return the pointer in an id's near slot; the empty slot's if the slot has another table."""
        slot: cython.p_void = self._slots[number & (_NEAR - 1)]
        if (
            slot
            and cython.cast(FastPathTable, slot).number == number
            and cython.cast(FastPathTable, slot).turn == self._turn
        ):
            return slot
        return self._slots[_NEAR]

    @cython.cfunc
    @cython.exceptval(check=False)
    def is_near(
        self, raw: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Return whether a table map equals the one in its near slot in this turn."""
        if end - start < TABLE_MAP_POST_HEADER_SIZE:
            return False
        slot: cython.p_void = self._near_slot(load_le(raw, start, TABLE_ID_SIZE))
        return (
            slot
            and cython.cast(FastPathTable, slot).size == end - start - TABLE_ID_SIZE
            and same_bytes(
                cython.cast(FastPathTable, slot).text,
                0,
                raw,
                start + TABLE_ID_SIZE,
                end - start - TABLE_ID_SIZE,
            )
        )

    @cython.cfunc
    def known(self, number: cython.longlong) -> FastPathTable | None:
        """Return the table that has an id now."""
        slot: cython.p_void = self._near_slot(number)
        table: FastPathTable | None = (
            cython.cast(FastPathTable, slot) if slot else self._by_id.get(number)
        )
        return table

    def _new_table(self, content: bytes, body: bytes) -> FastPathTable | None:
        table_map = self._feed.decoder.table_map_of(body)
        table = None if table_map is None else self._resolved(content, table_map)
        if table is not None:
            self._tables.put(content, table, len(content))
        return table

    def _resolved(self, content: bytes, table_map: TableMapEvent) -> FastPathTable | None:
        """Return the table of a map, with what takes its rows; None if it is uncertain."""
        found = self._assembler.decoder_if_certain(table_map, self._feed.decoder)
        if found is None:
            return None
        builder = None
        if found[0] is not None:
            builder = self._consumers.made_builder(*found[0])
            if builder is None:
                return None
        return FastPathTable(content, table_map, builder)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def adopt(self, number: cython.longlong) -> cython.bint:
        """Take over the table of an id whose map the full decoder read; return False if it is uncertain."""
        if self._by_id.get(number) is not None:
            return False
        try:
            table_map = self._decoder.table_map(number)
        except MissingTableMapError:
            return False
        table: FastPathTable | None = self._resolved(b"", table_map)
        if table is None:
            return False
        self._by_id[number] = table
        return self._bring_near(number)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def rows_ok(
        self,
        raw: cython.p_const_uchar,
        at: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        code: cython.int,
    ) -> cython.bint:
        """Return whether a rows event has a known table map and nothing unusual."""
        form: cython.int = self._forms[code]
        if not form & _TAKEN or end < at + ROWS_POST_HEADER_SIZE + ROWS_EXTRA_SIZE + 1:
            return False
        slot: cython.p_void = self._near_slot(load_le(raw, at, TABLE_ID_SIZE))
        if not slot:
            if not self._bring_near(load_le(raw, at, TABLE_ID_SIZE)):
                return False
            slot = self._near_slot(load_le(raw, at, TABLE_ID_SIZE))
        columns: cython.Py_ssize_t = cython.cast(FastPathTable, slot).column_count
        extra: cython.Py_ssize_t
        update: cython.bint = form & ROWS_KIND == UPDATE
        at += ROWS_POST_HEADER_SIZE
        if form & ROWS_EXTRA:
            # The extra data is empty or says which partition the rows are in; for updates also the
            # partition before.
            extra = load_le(raw, at, ROWS_EXTRA_SIZE)
            if extra != ROWS_EXTRA_SIZE:
                if extra != (PARTITION_UPDATE_SIZE if update else PARTITION_INSERT_SIZE):
                    return False
                if raw[at + ROWS_EXTRA_SIZE] != _PARTITION:
                    return False
            at += extra
            if at >= end:
                return False
        if raw[at] >= LENGTH_NULL or raw[at] != columns or not raw[at]:
            return False
        bitmap: cython.Py_ssize_t = (columns + 7) >> 3
        first: cython.Py_ssize_t = at + 1
        i: cython.Py_ssize_t
        at = first + bitmap
        if update:
            at += bitmap
        if at > end:
            return False
        if not cython.cast(FastPathTable, slot).is_wanted:
            return True
        self.wanted = True
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
