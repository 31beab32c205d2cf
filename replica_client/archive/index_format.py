"""The sidecar index of a binlog file, as bytes: ``NAME.rcindex`` next to the file ``NAME``.

::

    offset  bytes  field
    0       4      magic: "RCIX"
    4       2      version of this format, little-endian
    6       4      size of the head
    10      4      CRC-32 of the head
    14      …      the head: JSON, compressed with zlib
            …      one section for each table that has filters, at the offsets that the head states

    section
    0       4      size of the records
    4       …      records, one for each block with rows of the table, of varints:
                   distance from the number of the block before (from -1 for the first), flags, bits,
                   words, and with the flag ZONE the smallest zone number and its distance from the largest
            …      the records' filters: Bloom filters, each of its record's number of 64-bit words

A key's zone number is the number of the bytes of its first column: little-endian if the column has a
fixed size of at most 8 bytes, else its first 8 bytes, big-endian. Bit n of a filter is bit n % 8 of
its byte n / 8. The number of a key is mixed to 64 bits; its high half is the start and its low half,
made odd, the step: the bits are those of start, start + step, … (modulo 2^32), each times the
filter's bits, divided by 2^32.

A record without words has no filter, only its zone. With ``ALWAYS`` the block has rows whose key is
not known.
"""

from __future__ import annotations

import json
import zlib
from array import array
from base64 import b64decode, b64encode
from dataclasses import field, replace
from enum import IntFlag
from itertools import accumulate
from pathlib import Path
from struct import Struct
from typing import Any, BinaryIO, Final, NamedTuple

from replica_client.archive.file_index import FileIndex
from replica_client.archive.key_scan import matching_blocks
from replica_client.errors import GtidFormatError
from replica_client.protocol.binlog.layout import GTID_SID_SIZE
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import Gtid
from replica_client.storage.files import read_at
from replica_client.stream.files.file_names import INDEX_SUFFIX

MAGIC: Final = b"RCIX"
VERSION: Final = 3
SUFFIX: Final = INDEX_SUFFIX
_PREFIX: Final = Struct("<4sHII")
_SIZE: Final = Struct("<I")
_MAX_HEAD: Final = 256 << 20
_MAX_SECTION: Final = 1 << 31
_MAX_ZONE: Final = (1 << 64) - 1
_MAX_GTID: Final = (1 << 63) - 1
_DAMAGES: Final = (
    GtidFormatError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    RecursionError,
)


class BlockFlag(IntFlag):
    """Flags of a block's record."""

    ZONE = 1
    """The record has the smallest and the largest zone number of the keys."""
    ALWAYS = 2
    """The block has rows whose key is not known."""


class BlockRecord(NamedTuple):
    """The facts about a table's keys in a block.

    Attributes:
        block: number of the block in the file.
        flags: see :class:`BlockFlag`.
        bits: number of bits that a key sets in the filter.
        words: size of the filter in 64-bit words; 0 for no filter.
        low: the smallest zone number of the keys.
        high: the largest zone number of the keys.
    """

    block: int
    flags: int
    bits: int = 0
    words: int = 0
    low: int = 0
    high: int = 0


@dataclass(slots=True)
class IndexedTable:
    """A table in an index.

    Attributes:
        database: the table's database.
        name: the table's name.
        content: body of a table map of it, without the table id.
        key: indexes of the key's columns.
        key_names: names of the key's columns.
        zone_size: bytes of a key that is one column of fixed size; 0 for others.
        lead_size: bytes of the key's first column, if it has a fixed size; 0 for others.
        unfiltered: the reason why there are no filters; ``""`` where there are.
        blocks: numbers of the blocks with rows of the table.
        low: the smallest zone number of its keys.
        high: the largest zone number of its keys.
        offset: offset of its section in the index; 0 for none.
        size: size of its section.
        checksum: CRC-32 of its section.
    """

    database: str
    name: str
    content: bytes
    key: tuple[int, ...]
    key_names: tuple[str, ...]
    zone_size: int
    lead_size: int
    unfiltered: str
    blocks: list[int] = field(default_factory=list)
    low: int = 0
    high: int = _MAX_ZONE
    offset: int = 0
    size: int = 0
    checksum: int = 0


@dataclass(slots=True)
class IndexedBlock:
    """A block of complete transactions.

    Attributes:
        start: position of its first byte in the file.
        end: position after its last byte.
        first_time: the first commit time, in microseconds since 1970; 0 for none.
        last_time: the last commit time.
        must_read: whether it may have rows, or losses, that no table of the index accounts for.
        gtids: runs of GTIDs: (UUID in hex or ``domain-server``, first number, last number).
    """

    start: int
    end: int
    first_time: int
    last_time: int
    must_read: bool
    gtids: list[tuple[str, int, int]]


class HourCount(NamedTuple):
    """The rows of a table in an hour.

    Attributes:
        table: number of the table in the index.
        hour: hours since 1970, from the time of the rows events.
        inserted: rows inserted.
        updated: rows updated.
        deleted: rows deleted.
        size: bytes of the rows events.
    """

    table: int
    hour: int
    inserted: int
    updated: int
    deleted: int
    size: int


class NotableTransaction(NamedTuple):
    """A large or long transaction.

    Attributes:
        start: position of its first event.
        end: position after its last event.
        rows: number of changed rows.
        first_time: the first second in its headers, since 1970.
        last_time: its commit time, in microseconds since 1970.
    """

    start: int
    end: int
    rows: int
    first_time: int
    last_time: int

    @property
    def seconds(self) -> int:
        """Seconds from its first event to its commit."""
        return max(0, self.last_time // 1_000_000 - self.first_time) if self.first_time else 0


@dataclass(slots=True)
class SidecarIndex:
    """The index of one file.

    Attributes:
        facts: the index made from the headers.
        blocks: the blocks, which cover the file's transactions.
        tables: the tables with rows.
        hours: rows by table and hour.
        notable: the largest and longest transactions.
        sections: sections of the tables that are not written yet, by table number.
    """

    facts: FileIndex
    blocks: list[IndexedBlock] = field(default_factory=list)
    tables: list[IndexedTable] = field(default_factory=list)
    hours: list[HourCount] = field(default_factory=list)
    notable: list[NotableTransaction] = field(default_factory=list)
    sections: dict[int, bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the index as the bytes of its file, and set the tables' offsets."""
        bodies = []
        at = 0
        for number, table in enumerate(self.tables):
            body = self.sections.get(number, b"")
            table.offset, table.size = at, len(body)
            table.checksum = zlib.crc32(body)
            bodies.append(body)
            at += len(body)
        head = zlib.compress(json.dumps(self._head(), separators=(",", ":")).encode(), 6)
        begin = _PREFIX.pack(MAGIC, VERSION, len(head), zlib.crc32(head))
        return b"".join((begin, head, *bodies))

    def _head(self) -> dict[str, Any]:
        return {
            "facts": self.facts.to_dict(),
            "begin": self.blocks[0].start if self.blocks else 0,
            "blocks": [
                [one.end - one.start for one in self.blocks],
                [one.first_time for one in self.blocks],
                [one.last_time for one in self.blocks],
                [int(one.must_read) for one in self.blocks],
            ],
            **self._gtid_runs(),
            "tables": [
                {
                    "database": t.database,
                    "name": t.name,
                    "content": b64encode(t.content).decode(),
                    "key": t.key,
                    "key_names": t.key_names,
                    "zone_size": t.zone_size,
                    "lead_size": t.lead_size,
                    "zone": (t.low, t.high),
                    "unfiltered": t.unfiltered,
                    "blocks": _distances(t.blocks),
                    "section": (t.offset, t.size, t.checksum),
                }
                for t in self.tables
            ],
            "hours": self.hours,
            "notable": self.notable,
        }

    def _gtid_runs(self) -> dict[str, list[Any]]:
        """Return the GTID runs of all blocks by column, which makes the head fast to read."""
        runs = [(at, *run) for at, block in enumerate(self.blocks) for run in block.gtids]
        origins = list(dict.fromkeys(sid for _, sid, _, _ in runs))
        numbers = {sid: at for at, sid in enumerate(origins)}
        columns = [
            [at for at, *_ in runs],
            [numbers[sid] for _, sid, _, _ in runs],
            [low for _, _, low, _ in runs],
            [high for *_, high in runs],
        ]
        return {"origins": origins, "gtids": columns}


def read_index(stream: BinaryIO) -> tuple[SidecarIndex, int]:
    """Read an index without its sections; return it and the offset of the first section.

    Raises:
        ValueError: the index has another version or is damaged; the message says which.
    """
    begin = read_at(stream, 0, _PREFIX.size)
    if len(begin) < _PREFIX.size or begin[:4] != MAGIC:
        raise ValueError("it is not an index")
    _, version, size, checksum = _PREFIX.unpack(begin)
    if version != VERSION:
        raise ValueError(f"it is of version {version}, this release reads {VERSION}")
    if size > _MAX_HEAD:
        raise ValueError(f"a head of {size} bytes")
    head = read_at(stream, _PREFIX.size, size)
    if len(head) != size or zlib.crc32(head) != checksum:
        raise ValueError("its head is damaged")
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(head, _MAX_HEAD)
    except zlib.error:
        raise ValueError("its head is damaged: it is not compressed with zlib") from None
    if inflate.unconsumed_tail:
        raise ValueError("its head is too large")
    try:
        return _decoded(json.loads(text)), _PREFIX.size + size
    except (*_DAMAGES, ValueError):
        raise ValueError("its head is damaged: a field is missing or is not of its type") from None


def with_e_tag(index: Path, e_tag: str) -> bytes:
    """Return the bytes of an index that says what an object store calls the indexed file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    with index.open("rb") as stream:
        found, base = read_index(stream)
        for number, table in enumerate(found.tables):
            if table.size:
                found.sections[number] = read_section(stream, base, table)
    found.facts = replace(found.facts, e_tag=e_tag)
    return found.to_bytes()


def read_section(stream: BinaryIO, base: int, table: IndexedTable) -> bytes:
    """Read the section of a table.

    Args:
        stream: the index.
        base: offset of the first section.
        table: the table.

    Raises:
        ValueError: the section is damaged.
    """
    if not 0 <= table.size < _MAX_SECTION:
        raise ValueError(f"a section of {table.size} bytes")
    found = read_at(stream, base + table.offset, table.size)
    if len(found) != table.size or zlib.crc32(found) != table.checksum:
        raise ValueError(f"the section of {table.database}.{table.name} is damaged")
    return found


def section_of(records: list[BlockRecord], filters: list[bytes | bytearray]) -> bytes:
    """Return a section made of records and their filters."""
    head = bytearray()
    before = -1
    for one in records:
        _put(head, one.block - before)
        before = one.block
        _put(head, one.flags)
        _put(head, one.bits)
        _put(head, one.words)
        if one.flags & BlockFlag.ZONE:
            _put(head, one.low)
            _put(head, one.high - one.low)
    return b"".join((_SIZE.pack(len(head)), head, *filters))


def blocks_with(section: bytes, number: int, zone: int) -> list[int]:
    """Return the numbers of the blocks that may have a key.

    Args:
        section: the table's section.
        number: the key's number, from :func:`~replica_client.archive.key_scan.key_number`.
        zone: the key's zone, from :func:`~replica_client.archive.key_scan.zone_number`.

    Raises:
        ValueError: the section is damaged.
    """
    if len(section) < _SIZE.size:
        raise ValueError("a section is cut")
    return matching_blocks(section, number, zone)


def _decoded(head: dict[str, Any]) -> SidecarIndex:
    found = SidecarIndex(FileIndex.from_dict(head["facts"]))
    # An array accepts only integers of its size, so that damaged numbers are refused.
    sizes, firsts, lasts, must_reads = (array("Q", one) for one in head["blocks"])
    ends = list(accumulate(sizes, initial=int(head["begin"])))
    found.blocks = [
        IndexedBlock(start, end, first, last, bool(must_read), [])
        for start, end, first, last, must_read in zip(
            *(ends[:-1], ends[1:], firsts, lasts, must_reads), strict=True
        )
    ]
    origins = [_origin(str(one)) for one in head["origins"]]
    columns = (array("Q", one) for one in head["gtids"])
    for at, origin, low, high in zip(*columns, strict=True):
        if not low <= high < _MAX_GTID:
            raise ValueError(f"GTIDs {low} to {high}")
        found.blocks[at].gtids.append((origins[origin], low, high))
    for one in head["tables"]:
        offset, size, checksum = map(int, one["section"])
        low, high = map(int, one["zone"])
        found.tables.append(
            IndexedTable(
                str(one["database"]),
                str(one["name"]),
                b64decode(one["content"]),
                tuple(map(_index, one["key"])),
                tuple(map(str, one["key_names"])),
                int(one["zone_size"]),
                int(one["lead_size"]),
                str(one["unfiltered"]),
                _numbers(one["blocks"], len(found.blocks)),
                low,
                high,
                offset,
                size,
                checksum,
            )
        )
    found.hours = [HourCount(*map(int, one)) for one in head["hours"]]
    if any(not 0 <= one.table < len(found.tables) for one in found.hours):
        raise ValueError("rows of a table that is not there")
    found.notable = [NotableTransaction(*map(int, one)) for one in head["notable"]]
    return found


def _origin(text: str) -> str:
    """Return the origin of a GTID run: a UUID in hexadecimal, "domain-server", or a tagged GTID."""
    if ":" in text:
        Gtid.parse(text)
    elif "-" in text:
        domain, server = text.split("-")
        _index(domain), _index(server)
    elif len(bytes.fromhex(text)) != GTID_SID_SIZE:
        raise ValueError("an origin that is not a UUID")
    return text


def _index(number: Any) -> int:
    found = int(number)
    if found < 0:
        raise ValueError("a negative number")
    return found


def _distances(numbers: list[int]) -> list[int]:
    """Return runs of numbers as pairs: distance from the end of the run before, and length."""
    found: list[int] = []
    after = 0
    for number in numbers:
        if found and number == after:
            found[-1] += 1
        else:
            found += (number - after, 1)
        after = number + 1
    return found


def _numbers(distances: list[int], limit: int) -> list[int]:
    found: list[int] = []
    at = 0
    for skip, count in zip(distances[::2], distances[1::2], strict=True):
        at += int(skip)
        if not 0 <= at <= at + int(count) <= limit:
            raise ValueError("a table has rows in blocks that are not there")
        found += range(at, at + int(count))
        at += int(count)
    return found


def _put(target: bytearray, number: int) -> None:
    while number > 0x7F:
        target.append(number & 0x7F | 0x80)
        number >>= 7
    target.append(number)
