"""Transaction ranges of binlog files, and their reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, NamedTuple

from replica_client.archive.file_list import ListedFile
from replica_client.errors import BinlogDecodeError, TruncatedEventError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import (
    HEADER_SIZE_V1,
    MAGIC_SIZE,
    BinlogEvent,
    DecodeOptions,
    FileKind,
    file_kind,
)
from replica_client.protocol.binlog.layout import (
    EVENT_SIZE_OFFSET,
    HEADER_SIZE,
    NEXT_POSITION_OFFSET,
    TYPE_OFFSET,
    EventClass,
    types_of,
)
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventType
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.storage.files import open_file, read_at
from replica_client.stream.fast.row_fast_path import RowFastPath
from replica_client.stream.fast.transaction_scan import MORE, UNUSUAL, TransactionScan
from replica_client.stream.files.file_batches import FileSteps
from replica_client.stream.files.file_bytes import BinlogFile, open_events
from replica_client.stream.files.file_order import files_between
from replica_client.stream.files.file_range import FilePrepared
from replica_client.stream.position.groups import class_of
from replica_client.stream.position.prepared import PreparedLedger
from replica_client.stream.position.tracker import PositionTracker, TransactionBoundary
from replica_client.stream.transactions.assembler import AssemblyOptions, TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed
from replica_client.stream.transactions.pending_rows import PreparedRows
from replica_client.stream.transactions.transaction import Transaction

_PASSED_OVER = types_of(EventClass.ROWS, EventClass.TABLE_MAP, EventClass.ANNOTATION)
_DESCRIPTIVE = (
    int(EventType.START_EVENT_V3),
    int(EventType.FORMAT_DESCRIPTION_EVENT),
    int(EventType.START_ENCRYPTION_EVENT),
)
_CLOSING = (int(EventType.ROTATE_EVENT), int(EventType.STOP_EVENT))
_HEAD_SIZE = 4096
_CHUNK = 256 << 10
# Number of event types in the format description of MySQL 5.0.
_MIN_TYPES = 19


class TransactionRange(NamedTuple):
    """The range of a transaction in a file.

    Attributes:
        start: position of its first event.
        end: position after its last event.
        timestamp: seconds since 1970 in its first event's header.
        size: bytes of its events.
    """

    start: Position
    end: Position
    timestamp: int
    size: int


class TransactionRangeTracker:
    """A tracker that turns events into transaction ranges.

    Args:
        tracker: follows the position; with ``payload_ends``.
    """

    def __init__(self, tracker: PositionTracker) -> None:
        self.tracker = tracker
        self._begun = False
        self._timestamp = 0
        self._size = 0

    @property
    def position(self) -> Position:
        """The last point between two transactions, without a GTID set."""
        position = self.tracker.position
        return Position(position.file, position.offset)

    def may_skip(self, type_code: int) -> bool:
        """Return whether an event of this type can be skipped at this point."""
        return self._begun and type_code in _PASSED_OVER

    def skip(self, size: int) -> None:
        """Skip an event for which :meth:`may_skip` is true."""
        self._size += size
        self.tracker.skip(1, size)

    def feed(self, event: BinlogEvent) -> TransactionRange | None:
        """Process an event; return the transaction that ended with it."""
        was_inside = self.tracker.in_transaction
        boundary = self.tracker.feed(event)
        abandoned = boundary is not None and boundary.outcome == "abandoned"
        ended_before = boundary is not None and (abandoned or self.tracker.in_transaction)
        transaction_range: TransactionRange | None = None
        if boundary is not None and ended_before:
            transaction_range = None if abandoned else self._transaction_range(boundary)
            was_inside = False
        if not was_inside:
            self._timestamp, self._size, self._begun = event.header.timestamp, 0, False
        self._size += event.header.event_size
        if class_of(event) in (EventClass.BEGIN, EventClass.GTID_BEGIN):
            self._begun = True
        if boundary is not None and not ended_before:
            transaction_range = self._transaction_range(boundary)
        if not self.tracker.in_transaction:
            self._begun = False
        return transaction_range

    def _transaction_range(self, boundary: TransactionBoundary) -> TransactionRange:
        return TransactionRange(
            Position(boundary.file, boundary.offset),
            Position(boundary.end_file, boundary.end_offset),
            self._timestamp,
            self._size,
        )


class FileTransactionRanges:
    """A finder of transaction ranges in files that may grow; reads each event once.

    Args:
        start: where to start; its file is the first one passed to :meth:`scan`.
        options: how to decode.
        step: ordinary transactions are returned as one range until they have this many bytes.
        on_event: called with each event that is not of an ordinary transaction, and its bytes.

    Attributes:
        closed: whether the file that was scanned last ends with its closing event.
    """

    def __init__(
        self,
        start: Position,
        options: DecodeOptions,
        step: int = 0,
        on_event: Callable[[BinlogEvent, bytes, BinlogDecoder], None] | None = None,
    ) -> None:
        self._options = options
        self._step = step
        self._on_event = on_event
        self._transaction_ranges = TransactionRangeTracker(
            PositionTracker(start, mode="file", payload_ends=True)
        )
        self._decoder = BinlogDecoder(options)
        self._file = start.file
        self._next = max(start.offset, MAGIC_SIZE)
        self._described = ""
        self._ordinary: TransactionScan | None = None
        self.closed = False

    @property
    def reached(self) -> Position:
        """The last point between two transactions."""
        return self._transaction_ranges.position

    @property
    def file(self) -> str:
        """The file that was scanned last, or that will be scanned first."""
        return self._file

    def at_end_of(self, file: ListedFile) -> bool:
        """Return whether all bytes of a file, as it was listed, have been scanned."""
        return file.name == self._file and self._next >= file.size

    def scan(self, file: ListedFile) -> Iterator[TransactionRange]:
        """Yield the transaction ranges that end in a file, from where its last scan ended.

        An incomplete event ends the scan; call it again when the file has grown.

        Raises:
            BinlogDecodeError: the file is damaged.
        """
        if file.name != self._file:
            self._file, self._next, self._ordinary = file.name, MAGIC_SIZE, None
        if file.size < MAGIC_SIZE:
            return
        with open_file(file.where) as stream:
            head = read_at(stream, 0, _HEAD_SIZE)
            if is_plain(head, file.name):
                yield from self._plain(file, stream)
                return
        yield from self._streamed(file)

    def _plain(self, file: ListedFile, stream: BinaryIO) -> Iterator[TransactionRange]:
        """Yield the transaction ranges of a file that is not encrypted."""
        if self._described != file.name:
            self._enter(file.name)
            if self._next > MAGIC_SIZE:
                data = _event_at(stream, MAGIC_SIZE, HEADER_SIZE_V1, file.size)
                if data is None:
                    return
                self._decoder.decode(data, MAGIC_SIZE, file.name)
        while self._next < file.size:
            if not self._transaction_ranges.tracker.in_transaction and self._is_ordinary():
                yield from self._ordinary_ranges(file, stream)
                if self._ordinary is not None:
                    return
            header_size = self._decoder.format.header_size
            head = read_at(stream, self._next, HEADER_SIZE)
            size = int.from_bytes(head[EVENT_SIZE_OFFSET:NEXT_POSITION_OFFSET], "little")
            if len(head) < HEADER_SIZE_V1:
                return
            if size >= header_size and self._next + size > file.size:
                return
            if size >= header_size and self._transaction_ranges.may_skip(head[TYPE_OFFSET]):
                self._transaction_ranges.skip(size)
                self._next += size
                continue
            if size > self._options.max_event_size:
                size = HEADER_SIZE  # the decoder says what is wrong
            data = read_at(stream, self._next, max(size, HEADER_SIZE_V1))
            transaction_range = self._take(data, self._next, file.name)
            if transaction_range is not None:
                yield transaction_range

    def _enter(self, name: str) -> None:
        self._decoder = BinlogDecoder(self._options, name)
        self._described, self.closed = name, False

    def _is_ordinary(self) -> bool:
        """Return whether the file has a format description of the usual kind."""
        form = self._decoder.format
        return form.header_size == HEADER_SIZE and len(form.post_header_sizes) >= _MIN_TYPES

    def _ordinary_ranges(self, file: ListedFile, stream: BinaryIO) -> Iterator[TransactionRange]:
        """Yield the ranges of ordinary transactions, up to the end or an unusual event.

        An unusual event drops the scan, so that it is decoded; the next scan begins after it.
        """
        scan = self._ordinary
        if scan is None:
            tail = 4 if self._decoder.format.checksum_algorithm == ChecksumAlgorithm.CRC32 else 0
            scan = self._ordinary = TransactionScan(self._next, tail, self._step)
        size = _CHUNK
        while True:
            base = scan.position
            data = b""
            if base < file.size:
                data = read_at(stream, base, min(size, file.size - base))
            for start, end, timestamp in scan.run(data, base, file.size):
                self._transaction_ranges.tracker.pass_transactions(file.name, end, 0, ())
                self.closed = False
                self._next = end
                yield TransactionRange(
                    Position(file.name, start), Position(file.name, end), timestamp, end - start
                )
            if scan.reason != MORE:
                break
            # No complete event in the chunk: the next event is larger.
            size = _CHUNK if scan.position > base else size * 4
            if scan.position == base and len(data) < min(size // 4, file.size - base):
                return  # the file was truncated in the meantime
        self._next = scan.position
        if scan.reason == UNUSUAL:
            self._ordinary = None

    def _take(self, data: bytes, position: int, name: str) -> TransactionRange | None:
        event = self._decoder.decode(data, position, name)
        if position < self._next:
            return None  # it only describes the events that follow
        transaction_range = self._transaction_ranges.feed(event)
        if self._on_event is not None:
            self._on_event(event, data, self._decoder)
        self._next = position + len(data)
        self.closed = event.header.type_code in _CLOSING
        return transaction_range

    def _streamed(self, file: ListedFile) -> Iterator[TransactionRange]:
        """Yield the transaction ranges of a file that must be read from its start."""
        enter = self._described != file.name
        if enter:
            self._enter(file.name)
        for position, data in self._events(file, enter):
            if position >= self._next and self._transaction_ranges.may_skip(data[TYPE_OFFSET]):
                self._transaction_ranges.skip(len(data))
                self._next = position + len(data)
                continue
            transaction_range = self._take(data, position, file.name)
            if transaction_range is not None:
                yield transaction_range

    def _events(self, file: ListedFile, enter: bool) -> Iterator[tuple[int, bytes]]:
        """Yield position and bytes of each event; events that describe the file come first."""
        first = self._next
        with open_file(file.where) as stream:
            source = open_events(stream, file.name, self._options)
            if not enter:
                source.skip_to(first)
            while True:
                position = source.position
                header_size = self._decoder.format.header_size
                try:
                    data = source.next_event(header_size, self._options.max_event_size)
                except TruncatedEventError:
                    return
                if data is None or position + len(data) > file.size:
                    return
                if position >= first or data[TYPE_OFFSET] in _DESCRIPTIVE:
                    yield position, data
                else:
                    source.skip_to(first)


def is_plain(head: bytes, file: str) -> bool:
    """Return whether a file is not encrypted and can be read from anywhere, by its first bytes.

    Args:
        head: its first bytes.
        file: its name, for the error.

    Raises:
        BinlogDecodeError: the file is not a binlog.
    """
    try:
        return file_kind(head) is FileKind.PLAIN and not _encrypts_events(head)
    except BinlogDecodeError as error:
        raise error.at(file=file) from None


def _event_at(stream: BinaryIO, position: int, header_size: int, limit: int) -> bytes | None:
    """Return the event at a position of a file; None where it is incomplete."""
    head = read_at(stream, position, header_size)
    if len(head) < header_size:
        return None
    size = int.from_bytes(head[EVENT_SIZE_OFFSET:NEXT_POSITION_OFFSET], "little")
    if position + size > limit:
        return None
    return read_at(stream, position, max(size, header_size))


def _encrypts_events(head: bytes) -> bool:
    """Return whether the file's second event says that the next ones are encrypted (MariaDB)."""
    size_at = MAGIC_SIZE + EVENT_SIZE_OFFSET
    second = MAGIC_SIZE + int.from_bytes(head[size_at : size_at + 4], "little")
    if len(head) <= second + TYPE_OFFSET:
        return False
    return head[second + TYPE_OFFSET] == EventType.START_ENCRYPTION_EVENT


def transactions_between(
    files: Sequence[BinlogFile],
    all_files: Sequence[BinlogFile],
    history: SchemaHistory,
    start: Position,
    stop: Position,
    assembly: AssemblyOptions,
    decode: DecodeOptions,
) -> Iterator[Transaction]:
    """Yield the transactions from one position between transactions to another.

    Args:
        files: the files of the range, in order.
        all_files: the files that are searched for prepared XA transactions.
        history: the definitions of the tables at the start; updated with the statements.
        start: the position before the first transaction.
        stop: no transaction that begins there or later is yielded.
        assembly: which tables.
        decode: how values are decoded.

    Raises:
        BinlogDecodeError: the first fault; the transactions before it were yielded.
        DataLossError: a change cannot be delivered as rows.
    """
    feed = EventFeed(decode, start, mode="file")

    def again(known: SchemaHistory, rows: PreparedRows) -> TransactionAssembler:
        return TransactionAssembler(assembly, decode, None, known, rows)

    prepared = FilePrepared(PreparedLedger(), lambda: list(all_files), decode, history, again)
    assembler = TransactionAssembler(assembly, decode, None, history, prepared)
    steps = FileSteps(feed, assembler, RowFastPath(feed, assembler, True), stop)
    for first, file in files_between(files, start, stop):
        feed.new_decoder(file.name)
        with file.open() as stream:
            source = open_events(stream, file.name, decode)
            for ready in steps.read(source, file.name, first.offset):
                yield from ready
        if steps.stopped:
            return
