"""Where transactions begin and end, found by the headers and the few events that tell."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import NamedTuple

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.file_scan import MAGIC_SIZE, FileKind, HeaderScan, file_kind
from replica_client.binlog.header import HEADER_SIZE
from replica_client.binlog.options import DecodeOptions
from replica_client.constants.event_types import EventType
from replica_client.errors import TruncatedEventError
from replica_client.position.groups import Role, role_of
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker, TransactionBoundary
from replica_client.readers.file_bytes import BinlogFile, open_events
from replica_client.readers.schema_tracking import SchemaTracker
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.spark.file_list import ListedFile

_ROWS = frozenset((*range(20, 26), *range(30, 33), 39, *range(166, 172)))
_PASSED_OVER = _ROWS | {
    int(EventType.TABLE_MAP_EVENT),
    int(EventType.ROWS_QUERY_LOG_EVENT),
    int(EventType.ANNOTATE_ROWS_EVENT),
}
_DESCRIPTIVE = (
    int(EventType.START_EVENT_V3),
    int(EventType.FORMAT_DESCRIPTION_EVENT),
    int(EventType.START_ENCRYPTION_EVENT),
)
_CLOSING = (int(EventType.ROTATE_EVENT), int(EventType.STOP_EVENT))
_QUERIES = (int(EventType.QUERY_EVENT), int(EventType.QUERY_COMPRESSED_EVENT))
_PLAIN_CONTROL = (b"BEGIN", b"COMMIT", b"ROLLBACK")
_TYPE_OFFSET = 4
_SIZE_OFFSET = 9


class Span(NamedTuple):
    """A transaction's place.

    Attributes:
        start: of its first event.
        end: behind its last event.
        timestamp: seconds since 1970 in its first event's header.
        size: bytes of its events.
    """

    start: Position
    end: Position
    timestamp: int
    size: int


class SpanTracker:
    """Events in, spans of transactions out.

    Rows inside a BEGIN … COMMIT are passed over undecoded.

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
        """Whether an event of this type changes nothing now."""
        return self._begun and type_code in _PASSED_OVER

    def skip(self, size: int) -> None:
        """Pass over an event for which :meth:`may_skip` is true."""
        self._size += size
        self.tracker.skip(1, size)

    def feed(self, event: BinlogEvent) -> Span | None:
        """Take an event; the transaction that ended with it."""
        was_inside = self.tracker.in_transaction
        boundary = self.tracker.feed(event)
        abandoned = boundary is not None and boundary.outcome == "abandoned"
        ended_before = boundary is not None and (abandoned or self.tracker.in_transaction)
        span: Span | None = None
        if boundary is not None and ended_before:
            span = None if abandoned else self._span(boundary)
            was_inside = False
        if not was_inside:
            self._timestamp, self._size, self._begun = event.header.timestamp, 0, False
        self._size += event.header.event_size
        if role_of(event) in (Role.BEGIN, Role.GTID_BEGIN):
            self._begun = True
        if boundary is not None and not ended_before:
            span = self._span(boundary)
        if not self.tracker.in_transaction:
            self._begun = False
        return span

    def _span(self, boundary: TransactionBoundary) -> Span:
        return Span(
            Position(boundary.file, boundary.offset),
            Position(boundary.end_file, boundary.end_offset),
            self._timestamp,
            self._size,
        )


class FileSpans:
    """Finds the spans in files that may grow; each event is looked at once.

    Args:
        start: where to start; its file is the first that is given to :meth:`scan`.
        options: how to decode.
        history: moved on by the statements that are met, or None.

    Attributes:
        closed: whether the file that was scanned last ends with its closing event.
    """

    def __init__(
        self, start: Position, options: DecodeOptions, history: SchemaHistory | None = None
    ) -> None:
        self._options = options
        self._schema = None if history is None else SchemaTracker(history, Selection())
        self._spans = SpanTracker(PositionTracker(start, mode="file", payload_ends=True))
        self._decoder = BinlogDecoder(options)
        self._file = start.file
        self._next = max(start.offset, MAGIC_SIZE)
        self._described = ""
        self.closed = False

    @property
    def reached(self) -> Position:
        """The last point between two transactions."""
        return self._spans.position

    @property
    def file(self) -> str:
        """The file that was scanned last, or is to be scanned first."""
        return self._file

    def at_end_of(self, file: ListedFile) -> bool:
        """Whether everything in a file was looked at, as large as it was listed."""
        return file.name == self._file and self._next >= file.size

    def scan(self, file: ListedFile) -> Iterator[Span]:
        """The spans that end in a file, from where the last scan of it ended.

        An event that is only there in part ends the scan; call again when the file has grown.

        Raises:
            BinlogDecodeError: a fault in the file.
        """
        if file.name != self._file:
            self._file, self._next = file.name, MAGIC_SIZE
        for position, size, data in self._raw(file):
            if data is None:
                self._spans.skip(size)
                self._next = position + size
                continue
            event = self._decoder.decode(data, position, file.name)
            if position < self._next:
                continue  # only described what follows
            span = self._spans.feed(event)
            if self._schema is not None and event.header.type_code in _QUERIES:
                if event.body.query not in _PLAIN_CONTROL:
                    self._schema.run(event, self._decoder.format, 0)
            self._next = position + size
            self.closed = event.header.type_code in _CLOSING
            if span is not None:
                yield span

    def _raw(self, file: ListedFile) -> Iterator[tuple[int, int, bytes | None]]:
        """Position, size and bytes of each event, None for one that may be passed over.

        Descriptive events of a file that is entered in its midst come first.
        """
        enter = self._described != file.name
        if enter:
            self._decoder = BinlogDecoder(self._options, file.name)
            self._described, self.closed = file.name, False
        with open(file.path, "rb") as stream:
            if file.size < MAGIC_SIZE:
                return
            if file_kind(stream.read(MAGIC_SIZE)) is FileKind.PLAIN:
                with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    # No further than the size that was listed: what comes later is for later.
                    with memoryview(data) as whole, whole[: file.size] as view:
                        if not _encrypts_events(view):
                            yield from self._mapped(view, enter)
                            return
        yield from self._streamed(file, enter)

    def _mapped(self, view: memoryview, enter: bool) -> Iterator[tuple[int, int, bytes | None]]:
        first = self._next
        if enter and first > MAGIC_SIZE:
            for position, header in HeaderScan(view):
                size = header.event_size
                yield position, size, bytes(view[position : position + size])
                break
        size_of_header = self._decoder.format.header_size if first > MAGIC_SIZE else HEADER_SIZE
        for position, header in HeaderScan(view, first, header_size=size_of_header):
            size = header.event_size
            if self._spans.may_skip(header.type_code):
                yield position, size, None
            else:
                yield position, size, bytes(view[position : position + size])

    def _streamed(self, file: ListedFile, enter: bool) -> Iterator[tuple[int, int, bytes | None]]:
        first = self._next
        with open(file.path, "rb") as opened:
            stream = BinlogFile(file.name, None, opened).open()
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
                if position >= first or data[_TYPE_OFFSET] in _DESCRIPTIVE:
                    yield position, len(data), data
                else:
                    source.skip_to(first)


def _encrypts_events(view: memoryview) -> bool:
    """Whether the file's second event says that the following ones are encrypted (MariaDB)."""
    size_at = MAGIC_SIZE + _SIZE_OFFSET
    second = MAGIC_SIZE + int.from_bytes(view[size_at : size_at + 4], "little")
    if len(view) <= second + _TYPE_OFFSET:
        return False
    return view[second + _TYPE_OFFSET] == EventType.START_ENCRYPTION_EVENT
