"""MariaDB's InnoDB-based binlog (``binlog-NNNNNN.ibb``, 12.3): pages, records and the events in them.

A file is pages, little-endian. The CRC-32C of a page is in its last 4 bytes; the first 512 bytes of the first
page are a page of their own::

    offset  size  field of the first page
    0       4     magic 0x010dfefe
    4       4     page size: 2 to the power of this
    8       4     major version: 1
    12      4     minor version
    16      8     number of the file
    24      8     pages of the file
    32      8     LSN of the start
    40      8     pages between GTID states
    48      8     first file with out-of-band data that this one needs
    56      8     first file with XA transactions that this one needs
    508     4     CRC-32C of the bytes before

All other pages hold chunks: type (1 byte; 0x80 continues a record, 0x40 is the last of one), size (2 bytes),
data. A record may have chunks in several pages and files. A type of 0 ends the data, 0xff the page. A
compressed integer has the number of its further bytes in the low 3 bits (7: eight more), and the value above them.

A transaction is a commit record. It begins with its out-of-band records, none or one or two groups of them (for
each: their count, file and offset of the first, and of the last), then events, the GTID event first. The events in
the out-of-band records follow. Each of these begins with its index, file and offset of the left and of the right
child; a leaf has no left child, and its right child is the tree before it. Records of transactions that were not
committed are in no commit record, and have no events here.

Spec: MariaDB KB "InnoDB-Based Binary Log"; ``innodb_binlog.cc``, ``fsp_binlog.cc`` (12.3). Built by this
published format; not yet read from a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from replica_client.errors import (
    BinlogDecodeError,
    BinlogFormatError,
    ChecksumMismatchError,
    LimitExceededError,
    TruncatedEventError,
)
from replica_client.protocol.binlog.event import INNODB_MAGIC
from replica_client.protocol.codec.quick_dataclass import dataclass

HEAD_SIZE: Final = 512
_CRC_SIZE: Final = 4
_VERSION: Final = 1
_SHIFTS: Final = range(9, 17)
_CHUNK_HEAD: Final = 3
_CONTINUES, _LAST, _KIND = 0x80, 0x40, 0x3F
_FILLS: Final = 0xFF
COMMIT, STATE, OUT_OF_BAND, FILLER, XA_PREPARE, XA_COMPLETE = range(1, 7)
_KINDS: Final = range(1, 7)
_MAX_DEPTH: Final = 4096
_LONG: Final = 7


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of bytes."""
    table, crc = _CRC_TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a compressed integer and the offset after it.

    Raises:
        TruncatedEventError: it is cut.
    """
    more = data[at] & _LONG if at < len(data) else 0
    end = at + 1 + (8 if more == _LONG else more)
    if end > len(data):
        raise TruncatedEventError(f"a record of {len(data)} bytes ends inside a number at {at}")
    return int.from_bytes(data[at:end], "little") >> 3, end


@dataclass(frozen=True, slots=True)
class FileHead:
    """The facts in the first page of a file."""

    page_size: int
    file_number: int
    page_count: int

    @classmethod
    def decode(cls, data: bytes, *, verify: bool = True) -> FileHead:
        """Read the first 512 bytes of a file.

        Raises:
            TruncatedEventError: fewer bytes.
            BinlogFormatError: no such file, or of a later version.
            ChecksumMismatchError: the bytes are damaged.
        """
        if len(data) < HEAD_SIZE:
            raise TruncatedEventError(
                f"a file of {len(data)} bytes has no whole header", position=0
            )
        if data[:4] != INNODB_MAGIC:
            raise BinlogFormatError("not a file of the InnoDB-based binlog", position=0)
        if verify:
            _check_crc(data[:HEAD_SIZE], 0)
        number = int.from_bytes
        shift, version = number(data[4:8], "little"), number(data[8:12], "little")
        if version != _VERSION or shift not in _SHIFTS:
            raise BinlogFormatError(
                f"version {version} of the InnoDB-based binlog with pages of 2^{shift} bytes is not known",
                position=0,
            )
        return cls(1 << shift, number(data[16:24], "little"), number(data[24:32], "little"))


def _check_crc(page: bytes, position: int) -> None:
    stated, computed = int.from_bytes(page[-_CRC_SIZE:], "little"), crc32c(page[:-_CRC_SIZE])
    if stated != computed:
        raise ChecksumMismatchError(
            f"CRC-32C of the page is {stated:08x}, that of its bytes is {computed:08x}",
            position=position,
        )


class _Chunk(NamedTuple):
    kind: int
    continues: bool
    is_last: bool
    data: bytes
    file: int
    offset: int


class InnodbRecords:
    """A reader of the records in files of the InnoDB-based binlog.

    Args:
        read: returns bytes of a file by its number, offset and size; fewer at its end; None if there is no such file.
        max_size: the most bytes of a record.
        verify: check the CRC-32C of each page.
    """

    def __init__(
        self, read: Callable[[int, int, int], bytes | None], max_size: int, *, verify: bool = True
    ) -> None:
        self._read = read
        self._max_size = max_size
        self._verify = verify
        self._heads: dict[int, FileHead | None] = {}

    def head(self, file: int) -> FileHead | None:
        """Return the header of a file; None if there is no such file.

        Raises:
            BinlogDecodeError: the header is damaged, or of another file.
        """
        if file not in self._heads:
            data = self._read(file, 0, HEAD_SIZE)
            head = None if data is None else FileHead.decode(data, verify=self._verify)
            if head is not None and head.file_number != file:
                raise BinlogFormatError(
                    f"file number {file} says that it is number {head.file_number}", position=0
                )
            self._heads[file] = head
        return self._heads[file]

    def transactions(self, file: int) -> Iterator[Iterator[bytes]]:
        """Yield the bytes of the events of each transaction that was committed in a file, in pieces.

        Raises:
            BinlogDecodeError: the file is damaged, or a file that it needs is missing.
        """
        for kind, data, offset in self.records(file):
            if kind == COMMIT:
                yield self._events(data, file, offset)

    def first_state(self, file: int) -> list[tuple[int, int, int]]:
        """Return domain, server and sequence of the last GTIDs before a file."""
        for kind, data, offset in self.records(file):
            if kind != STATE:
                break
            try:
                count, at = read_number(data, 0)
                _, at = read_number(data, at)
                gtids = []
                for _ in range(count):
                    domain, at = read_number(data, at)
                    server, at = read_number(data, at)
                    sequence, at = read_number(data, at)
                    gtids.append((domain, server, sequence))
            except BinlogDecodeError as error:
                raise error.at(position=offset) from None
            return gtids
        return []

    def records(self, file: int) -> Iterator[tuple[int, bytes, int]]:
        """Yield type, data and offset of each record that begins in a file.

        A GTID state inside another record comes before it.

        Raises:
            BinlogDecodeError: the file is damaged, or the next file, in which a record ends, is missing.
        """
        head = self.head(file)
        if head is None:
            raise TruncatedEventError(f"there is no file number {file}")
        open_kind, parts, size, start = 0, list[bytes](), 0, 0
        state: list[bytes] = []
        seen = False
        for chunk in self._chunks(file, head.page_size):
            if chunk.file != file and not open_kind:
                return
            if chunk.kind == STATE and open_kind not in (0, STATE):
                state.append(chunk.data)
                if chunk.is_last:
                    yield STATE, b"".join(state), chunk.offset
                    state = []
                continue
            if not open_kind:
                if chunk.continues:
                    if seen:
                        raise _damaged("a record begins with a chunk that continues one", chunk)
                    continue  # of a record of the file before
                open_kind, parts, size, start = chunk.kind, [], 0, chunk.offset
            elif chunk.kind != open_kind or not chunk.continues:
                raise _damaged(f"the record at {start} has no last chunk", chunk)
            seen = seen or open_kind != STATE
            size += len(chunk.data)
            if size > self._max_size:
                raise LimitExceededError(
                    f"record of more than max_event_size ({self._max_size}) bytes", position=start
                )
            parts.append(chunk.data)
            if chunk.is_last:
                yield open_kind, b"".join(parts), start
                open_kind = 0
        if open_kind:
            raise TruncatedEventError(
                "the file ends inside a record; the next file is missing, or bytes of this one",
                position=start,
            )

    def _chunks(self, file: int, offset: int) -> Iterator[_Chunk]:
        """Yield the chunks from an offset on, also of the files that follow."""
        head = self.head(file)
        filled = False
        while head is not None:
            page, at = offset - offset % head.page_size, offset % head.page_size
            data = self._page(head, page)
            if data is None:
                if page < head.page_count * head.page_size and not filled:
                    raise TruncatedEventError(
                        f"the file has {page // head.page_size} of {head.page_count} pages",
                        position=page,
                    )
                file, head = file + 1, self.head(file + 1)
                offset = head.page_size if head is not None else 0
                continue
            end = head.page_size - _CRC_SIZE
            while at <= end - _CHUNK_HEAD - 1 and data[at] != _FILLS:
                if not data[at]:
                    if any(data[at:end]):
                        raise BinlogDecodeError("data after its end", position=page + at)
                    return
                size = int.from_bytes(data[at + 1 : at + _CHUNK_HEAD], "little")
                behind = at + _CHUNK_HEAD + size
                kind = data[at] & _KIND
                if behind > end or kind not in _KINDS:
                    raise BinlogDecodeError(
                        f"chunk of type {kind} with {size} bytes in a page of {head.page_size}",
                        position=page + at,
                    )
                filled = kind == FILLER
                continues, last = bool(data[at] & _CONTINUES), bool(data[at] & _LAST)
                part = data[at + _CHUNK_HEAD : behind]
                yield _Chunk(kind, continues, last, part, file, page + at)
                at = behind
            offset = page + head.page_size

    def _page(self, head: FileHead, offset: int) -> bytes | None:
        """Return a page; None at the end of the file."""
        data = self._read(head.file_number, offset, head.page_size)
        if not data:
            return None
        if len(data) < head.page_size:
            raise TruncatedEventError(
                f"the file ends inside a page, {len(data)} of {head.page_size} bytes are there",
                position=offset,
            )
        if self._verify and any(data):
            _check_crc(data, offset)
        return data

    def _events(self, data: bytes, file: int, offset: int) -> Iterator[bytes]:
        """Yield the bytes of the events of a commit record."""
        try:
            at, groups = 0, list[tuple[int, int, int]]()
            while len(groups) < 2:
                count, at = read_number(data, at)
                if not count:
                    break
                numbers = []
                for _ in range(4):
                    number, at = read_number(data, at)
                    numbers.append(number)
                groups.append((count, numbers[2], numbers[3]))
        except BinlogDecodeError as error:
            raise error.at(position=offset) from None
        yield data[at:]
        for count, last_file, last_offset in groups:
            yield from self._out_of_band(count, last_file, last_offset)

    def _out_of_band(self, count: int, file: int, offset: int) -> Iterator[bytes]:
        """Yield the data of the records in a forest of trees, in the order of their indexes."""
        done = 0
        # Records whose children come first: place, whether only left children lead there, data, next step.
        stack: list[tuple[int, int, bool, bytes | None]] = [(file, offset, True, None)]
        indexes: list[int] = []
        while stack:
            file, offset, leftmost, data = stack.pop()
            if data is not None:
                if indexes.pop() != done:
                    raise BinlogDecodeError(
                        f"out-of-band record {done} is missing", position=offset
                    )
                done += 1
                yield data
                continue
            if len(stack) > _MAX_DEPTH or done > count:
                raise BinlogDecodeError("out-of-band records form no trees", position=offset)
            index, children, data = self._node(file, offset, leftmost)
            for child_file, child_offset, _ in children:
                if (child_file, child_offset) >= (file, offset):
                    raise BinlogDecodeError(
                        "an out-of-band record comes before its child", position=offset
                    )
            stack.append((file, offset, leftmost, data))
            indexes.append(index)
            stack.extend((*child, None) for child in reversed(children))
        if done != count:
            raise BinlogDecodeError(
                f"{done} out-of-band records were found, {count} were announced", position=offset
            )

    def _node(
        self, file: int, offset: int, leftmost: bool
    ) -> tuple[int, list[tuple[int, int, bool]], bytes]:
        """Return index, children and data of an out-of-band record."""
        record = self._record(file, offset)
        try:
            at, numbers = 0, []
            for _ in range(5):
                number, at = read_number(record, at)
                numbers.append(number)
        except BinlogDecodeError as error:
            raise error.at(position=offset) from None
        index, left_file, left_offset, right_file, right_offset = numbers
        right = (right_file, right_offset)
        if (left_file, left_offset) != (0, 0):
            children = [(left_file, left_offset, leftmost), (*right, False)]
        else:
            children = [(*right, True)] if leftmost and right != (0, 0) else []
        return index, children, record[at:]

    def _record(self, file: int, offset: int) -> bytes:
        """Return the data of the out-of-band record at a place."""
        parts, size = list[bytes](), 0
        if self.head(file) is None:
            raise TruncatedEventError(
                f"a transaction needs file number {file}, which is missing", position=offset
            )
        for chunk in self._chunks(file, offset):
            if chunk.kind == STATE and parts:
                continue
            if chunk.kind != OUT_OF_BAND or chunk.continues != bool(parts):
                raise _damaged("no out-of-band record is there", chunk)
            size += len(chunk.data)
            if size > self._max_size:
                break
            parts.append(chunk.data)
            if chunk.is_last:
                return b"".join(parts)
        raise TruncatedEventError("an out-of-band record has no end", position=offset)


def _damaged(reason: str, chunk: _Chunk) -> BinlogDecodeError:
    return BinlogDecodeError(f"{reason} (file number {chunk.file})", position=chunk.offset)
