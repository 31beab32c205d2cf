"""The builder of a file's sidecar index: one scan of its headers, and one walk over its rows."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from heapq import nlargest
from operator import add
from typing import BinaryIO, Final

from replica_client.archive.file_index import QUERIES, FileIndex, make_index
from replica_client.archive.file_list import PLAIN_CONTROL, ListedFile
from replica_client.archive.index_format import (
    BlockFlag,
    BlockRecord,
    HourCount,
    IndexedBlock,
    IndexedTable,
    NotableTransaction,
    SidecarIndex,
    section_of,
)
from replica_client.archive.key_scan import KeyScan, KeyTable, fill_filter, has_number
from replica_client.archive.transaction_ranges import is_plain
from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import MAGIC_SIZE, BinlogEvent, DecodeOptions
from replica_client.protocol.binlog.events.rows import NO_TABLE_ID
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.binlog.layout import (
    HEADER_SIZE,
    ROWS_COMPRESSED,
    ROWS_FORMS,
    ROWS_TYPES,
)
from replica_client.protocol.binlog.payload import open_payload
from replica_client.protocol.codec.compression import inflate_record
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import Gtid
from replica_client.rows.column_ops import column_op
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape
from replica_client.storage.files import open_file, read_at
from replica_client.stream.files.file_bytes import open_events
from replica_client.stream.transactions.query_text import first_word, may_change_rows
from replica_client.stream.transactions.schema_tracking import SchemaTracker

_CHUNK: Final = 8 << 20
_PIECE: Final = 4 << 20
_NOTABLE: Final = 10
_NO_FLOOR: Final = 1 << 62
_MAX_BITS: Final = 12.0
"""Maximum bits of a filter for each key."""
_BITS_SHARE: Final = math.log(2)
"""Bits that a key sets, as a share of the filter's bits for each key: a Bloom filter's optimum."""
_SHARE: Final = 0.0048
"""Maximum size of a block's filters, as a share of the block's bytes."""
_KINDS: Final = {"insert": 0, "update": 1, "delete": 2}
_HARMLESS_NAMES: Final = (
    "STOP_EVENT ROTATE_EVENT PREVIOUS_GTIDS_LOG_EVENT GTID_LIST_EVENT ANONYMOUS_GTID_LOG_EVENT "
    "GTID_LOG_EVENT INTVAR_EVENT RAND_EVENT USER_VAR_EVENT HEARTBEAT_LOG_EVENT XA_PREPARE_LOG_EVENT "
    "BINLOG_CHECKPOINT_EVENT VIEW_CHANGE_EVENT TRANSACTION_CONTEXT_EVENT"
)
_HARMLESS: Final = frozenset(int(EventType[name]) for name in _HARMLESS_NAMES.split())
_ROWS_FROM: Final = re.compile(rb"SELECT|VALUES|WITH|TABLE.*TABLE", re.IGNORECASE | re.DOTALL)
_MIN_TYPES: Final = 19
_ROWS_POST_HEADERS: Final = (8, 10)


def make_sidecar(file: ListedFile, options: DecodeOptions, history: SchemaHistory) -> SidecarIndex:
    """Build the index of a file.

    Args:
        file: the file as listed; bytes that were added later are ignored.
        options: how to decode.
        history: the definitions of the tables at the start; updated up to the end of the file.

    Raises:
        BinlogDecodeError: the file is damaged.
        OSError: the file cannot be read.
        StorageError: the file cannot be read from an object store.
    """
    return _Indexing(file, options, history).made()


class BlockWalk:
    """A walk over the blocks of a file; decodes the events that the key scan does not read.

    Args:
        file: the file as listed.
        options: how to decode.
        facts: the index made from the headers.
    """

    def __init__(self, file: ListedFile, options: DecodeOptions, facts: FileIndex) -> None:
        self._file, self._options, self._facts = file, options, facts
        self._decoder = BinlogDecoder(options, file.name)
        self._scan = KeyScan(self, 0)
        self._must_read = False
        self._in_payload = False
        self._gtids: list[tuple[str, int, int]] = []

    def table_of(self, content: bytes) -> KeyTable:
        raise NotImplementedError

    def notable(self, start: int, end: int, rows: int, first: int, last: int) -> None:
        """Do nothing."""

    def statement(self, event: BinlogEvent) -> None:
        """Handle a statement that may change a table."""

    def _is_walkable(self) -> bool:
        """Return whether the events have the layout that all servers of the last 15 years write."""
        for event, decoder in self._facts.described(self._file.name, self._options):
            if event.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                form = decoder.format
                sizes = {form.post_header_size(code, 8) for code in ROWS_TYPES}
                return (
                    form.header_size == HEADER_SIZE
                    and len(form.post_header_sizes) >= _MIN_TYPES
                    and sizes <= {*_ROWS_POST_HEADERS, 0}
                    and form.post_header_size(EventType.TABLE_MAP_EVENT, 8) == 8
                )
        return False

    def _pieces(self, ends: list[int]) -> Iterator[tuple[int, int]]:
        """Walk over the file; yield the positions before and after each range that was walked."""
        if not ends:
            return
        with open_file(self._file.where) as stream:
            plain = is_plain(read_at(stream, 0, 4096), self._file.name)
            if plain:
                at = MAGIC_SIZE
                for end in ends:
                    size = _CHUNK
                    while at < end:
                        data = read_at(stream, at, min(size, end - at))
                        done = self._scan.run(data, at)
                        if not done:
                            if len(data) < min(size, end - at):
                                raise BinlogDecodeError(
                                    "the file was cut while it was read",
                                    file=self._file.name,
                                    position=at,
                                )
                            size *= 4
                            continue
                        yield at, at + done
                        at += done
                        size = _CHUNK
                return
        yield from self._streamed(ends)

    def _streamed(self, ends: list[int]) -> Iterator[tuple[int, int]]:
        """Walk over an encrypted file, which must be read from its start.

        Yield the positions before and after each event.
        """
        last = ends[-1]
        with open_file(self._file.where) as stream:
            source = open_events(stream, self._file.name, self._options)
            while (position := source.position) < last:
                data = source.next_event(HEADER_SIZE, self._options.max_event_size)
                if data is None:
                    return
                self._scan.run(self._decoder.decrypted(data, position), position)
                yield position, source.position

    def other(self, code: int, event: bytes, position: int) -> None:
        if code in _HARMLESS:
            return
        if code in (EventType.FORMAT_DESCRIPTION_EVENT, EventType.START_EVENT_V3):
            self._decoder.decode(event, position)
            self._scan.begin_format(self._decoder.format.checksum_size)
        elif code == EventType.TRANSACTION_PAYLOAD_EVENT:
            self._open_payload(self._decode(event, position), position + len(event))
        elif code == EventType.GTID_TAGGED_LOG_EVENT:
            body = self._decode(event, position).body
            if body.immediate_commit_timestamp is not None:
                self._scan.commit_us = body.immediate_commit_timestamp
            self._gtids.append((str(Gtid(body.sid, body.gno, body.tag)), 0, 0))
        elif code in QUERIES:
            self._statement(self._decode(event, position))
        elif code == EventType.START_ENCRYPTION_EVENT:
            self._decoder.decode(event, position)
        elif code in ROWS_TYPES:
            self._rows(code, event, position)
        else:
            self._must_read = True

    def _open_payload(self, event: BinlogEvent, behind: int) -> None:
        stream = open_payload(event.body, self._options.max_uncompressed_size)
        left = b""
        self._in_payload = True
        try:
            while part := stream.read(_PIECE):
                data = left + part if left else part
                left = data[self._scan.run(data, 0, behind) :]
        finally:
            self._in_payload = False
        if left:
            self._must_read = True

    def _decode(self, event: bytes, position: int) -> BinlogEvent:
        """Decode an event of the file, or of the payload that is being read."""
        if self._in_payload:
            return self._decoder.decode_inner(event, position, self._file.name, 0)
        return self._decoder.decode(event, position)

    def _statement(self, event: BinlogEvent) -> None:
        query: bytes = event.body.query
        if query in PLAIN_CONTROL:
            return
        word = first_word(query)
        if word == b"XA" or (may_change_rows(query) and not _only_creates(word, query)):
            self._must_read = True
        if word != b"XA":
            self.statement(event)

    def _rows(self, code: int, event: bytes, position: int) -> None:
        """Handle a rows event that the scan does not read: compressed, or of another format."""
        number = int.from_bytes(event[HEADER_SIZE : HEADER_SIZE + 6], "little")
        if number in NO_TABLE_ID:
            return
        if ROWS_FORMS[code] & ROWS_COMPRESSED:
            found = self._decode(event, position)
            body = found.body
            images = inflate_record(body.rows, self._options.max_uncompressed_size)
            bitmaps = (body.columns_before, body.columns_after)
            facts = (found.header.timestamp, len(event))
            if self._scan.take_images(number, images, bitmaps, _KINDS[body.kind], *facts):
                return
        self._must_read = True


class _Indexing(BlockWalk):
    """The walk over a file that makes its index."""

    def __init__(self, file: ListedFile, options: DecodeOptions, history: SchemaHistory) -> None:
        super().__init__(file, options, make_index(file, options))
        selection = Selection()
        self._schema = SchemaTracker(history, selection, "positional", "positional", reports=False)
        self._index = SidecarIndex(self._facts)
        self._tables: dict[tuple[bytes, tuple[int, ...]], KeyTable] = {}
        self._current: dict[
            bytes, tuple[KeyTable, TableMapEvent]
        ] = {}  # by table map, until a revision
        self._revision = self._schema.history.revision
        self._records: list[list[BlockRecord]] = []
        self._filters: list[list[bytes | bytearray]] = []
        self._notable: list[NotableTransaction] = []
        self._hours: dict[tuple[int, int], HourCount] = {}

    def made(self) -> SidecarIndex:
        """Walk over all blocks, and return the index."""
        index = self._index
        start = MAGIC_SIZE
        ends = list(index.facts.cuts[::2])
        walks = self._is_walkable()
        pieces = self._pieces(ends) if walks else iter(())
        block_end = iter(ends)
        end = next(block_end, -1)
        for position, behind in pieces:
            if behind != end or position == behind:
                continue
            index.blocks.append(self._block(start, end))
            start, end = end, next(block_end, -1)
        while end >= 0:
            # The walk cannot read an older format, so that every block must be read.
            index.blocks.append(IndexedBlock(start, end, 0, 0, True, []))
            start, end = end, next(block_end, -1)
        index.sections = {
            number: section_of(records, filters)
            for number, (records, filters) in enumerate(
                zip(self._records, self._filters, strict=True)
            )
            if records
        }
        for table, records in zip(index.tables, self._records, strict=True):
            if records and all(one.flags == BlockFlag.ZONE for one in records):
                table.low = min(one.low for one in records)
                table.high = max(one.high for one in records)
        index.hours = list(self._hours.values())
        index.notable = _largest(self._notable)
        return index

    def _block(self, start: int, end: int) -> IndexedBlock:
        """Return the facts of the block that ends, and begin the next one."""
        scan, index = self._scan, self._index
        number = len(index.blocks)
        scan.end_transaction()
        scan.end_gtid_run()
        scan.end_hours()
        keys = sum(table.count for table in scan.touched)
        budget = min(_MAX_BITS, (end - start) * 8 * _SHARE / keys) if keys else _MAX_BITS
        for table in scan.touched:
            index.tables[table.number].blocks.append(number)
            if not table.unfiltered:
                self._keep_keys(table, number, budget)
        for one in scan.hours:
            self._count(HourCount(*one))
        gtids = self._gtids + [(_sid_text(sid), low, high) for sid, low, high in scan.gtid_runs]
        block = IndexedBlock(start, end, scan.first_time, scan.last_time, self._must_read, gtids)
        self._must_read, self._gtids = False, []
        scan.flush()
        return block

    def _count(self, one: HourCount) -> None:
        """Add a count to that of the same table and hour."""
        known = self._hours.get(one[:2])
        if known is not None:
            one = HourCount(*one[:2], *map(add, known[2:], one[2:]))
        self._hours[one[:2]] = one

    def _keep_keys(self, table: KeyTable, block: int, budget: float) -> None:
        """Store the record and the filter of a table's keys in a block."""
        flags = BlockFlag.ALWAYS if table.lacks_key else BlockFlag(0)
        low = high = words = bits = 0
        if table.count:
            flags |= BlockFlag.ZONE
            low, high = table.low, table.high
        is_dense = table.zone_size > 0 and high - low < table.count
        filled = b""
        if table.count and not is_dense and not table.lacks_key:
            words = max(1, round(table.count * budget / 64))
            bits = max(1, round(budget * _BITS_SHARE))
            memory = bytearray(8 * words)
            fill_filter(memory, table.keys, table.count, bits)
            filled = bytes(memory)
        self._records[table.number].append(BlockRecord(block, flags, bits, words, low, high))
        self._filters[table.number].append(filled)

    def table_of(self, content: bytes) -> KeyTable:
        found = self._current.get(content[6:])
        if found is None:
            table_map = self._decoder.table_map_of(content)
            if table_map is None:
                raise BinlogDecodeError("a table map that cannot be read", file=self._file.name)
            found = self._defined(content[6:], table_map), table_map
            self._current[content[6:]] = found
        self._decoder.announce(found[1], int.from_bytes(content[:6], "little"))
        return found[0]

    def _defined(self, content: bytes, table_map: TableMapEvent) -> KeyTable:
        """Return the table of a table map, with its current definition in the schema history."""
        shape = self._schema.shape(table_map, self._decoder.format)
        key = shape.primary_key
        known = self._tables.get((content, key))
        if known is not None:
            return known
        readers = [column_op(column, self._options) for column in shape.columns]
        number = len(self._index.tables)
        table = KeyTable(table_map.schema, table_map.table, content, shape, number, readers, key)
        self._tables[content, key] = table
        self._index.tables.append(
            IndexedTable(
                table_map.schema,
                table_map.table,
                content,
                key if not table.unfiltered else (),
                tuple(shape.columns[at].name for at in key) if not table.unfiltered else (),
                table.zone_size,
                table.lead_size,
                table.unfiltered,
            )
        )
        self._records.append([])
        self._filters.append([])
        return table

    def notable(self, start: int, end: int, rows: int, first: int, last: int) -> None:
        self._notable.append(NotableTransaction(start, end, rows, first, last))
        if len(self._notable) < 16 * _NOTABLE:
            return
        self._notable = _largest(self._notable)
        by_size = nlargest(_NOTABLE, self._notable, key=_size)
        by_rows = nlargest(_NOTABLE, self._notable, key=_rows)
        by_seconds = nlargest(_NOTABLE, self._notable, key=_seconds)
        self._scan.floor_size, self._scan.floor_rows = _size(by_size[-1]), by_rows[-1].rows
        self._scan.floor_seconds = _seconds(by_seconds[-1])

    def statement(self, event: BinlogEvent) -> None:
        """Apply a statement to the schema history, too."""
        self._schema.run(event, self._decoder.format, 0)
        if self._revision != self._schema.history.revision:
            self._revision = self._schema.history.revision
            # Two definitions may have the same table map.
            self._current = {}
            self._scan.forget_ids()


class KeyConfirmation(BlockWalk):
    """A check whether a block whose filter matches a key really has the key.

    Args:
        file: the file as listed.
        options: how to decode.
        index: the file's index.
        numbers: numbers of the wanted keys, by the number of their table in the index.
    """

    def __init__(
        self,
        file: ListedFile,
        options: DecodeOptions,
        index: SidecarIndex,
        numbers: Mapping[int, Collection[int]],
    ) -> None:
        super().__init__(file, options, index.facts)
        self._numbers = numbers
        self._known: dict[bytes, KeyTable] = {}
        for event, decoder in index.facts.described(file.name, options):
            if event.header.type_code == EventType.FORMAT_DESCRIPTION_EVENT:
                self._decoder = decoder
                self._scan.begin_format(decoder.format.checksum_size)
                break
        self._tables: dict[bytes, list[int]] = {}
        for number, table in enumerate(index.tables):
            self._tables.setdefault(table.content, []).append(number)
        self._index = index
        self._doubt = False
        # Floors that no transaction reaches: none is notable here.
        scan = self._scan
        scan.floor_size = scan.floor_rows = scan.floor_seconds = _NO_FLOOR

    def table_of(self, content: bytes) -> KeyTable:
        known = self._known.get(content[6:])
        if known is not None:
            return known
        table_map = self._decoder.table_map_of(content)
        numbers = self._tables.get(content[6:], [])
        if table_map is None:
            raise BinlogDecodeError("a table map that cannot be read", file=self._file.name)
        if len(numbers) != 1:
            # Two definitions have the same table map; only the schema history could decide.
            self._doubt = True
        shape = TableShape.from_table_map(table_map, self._decoder.format.flavor)
        readers = [column_op(column, self._options) for column in shape.columns]
        key = self._index.tables[numbers[0]].key if numbers else ()
        if any(column >= len(readers) for column in key):
            self._doubt, key = True, ()  # an index of other columns, although its checksum is right
        found = KeyTable("", "", content[6:], shape, numbers[0] if numbers else -1, readers, key)
        self._known[content[6:]] = found
        return found

    def has(self, stream: BinaryIO, block: IndexedBlock) -> bool:
        """Return whether a block has one of the keys, or may have rows whose key is not known."""
        self._doubt = self._must_read = False
        self._scan.flush()
        data = read_at(stream, block.start, block.end - block.start)
        if self._scan.run(data, block.start) != block.end - block.start:
            return True
        if self._doubt or self._must_read:
            return True
        for table in self._scan.touched:
            wanted = self._numbers.get(table.number, ())
            if wanted and (table.lacks_key or table.unfiltered):
                return True
            if any(has_number(table.keys, table.count, number) for number in wanted):
                return True
        return False


def _only_creates(word: bytes, query: bytes) -> bool:
    """Return whether a statement is a CREATE that inserts no rows: it names no source of rows."""
    return word == b"CREATE" and not _ROWS_FROM.search(query)


def _sid_text(sid: object) -> str:
    return sid.hex() if isinstance(sid, bytes) else "{}-{}".format(*sid)  # type: ignore[misc]


def _size(one: NotableTransaction) -> int:
    return one.end - one.start


def _rows(one: NotableTransaction) -> int:
    return one.rows


def _seconds(one: NotableTransaction) -> int:
    return one.seconds


def _largest(found: list[NotableTransaction]) -> list[NotableTransaction]:
    """Return the largest transactions, those with most rows, and the longest, sorted."""
    kept = {one for key in (_size, _rows, _seconds) for one in nlargest(_NOTABLE, found, key=key)}
    return sorted(kept)
