"""Planning over binlog files: where a query starts, how far it goes, how it is cut."""

from __future__ import annotations

import datetime
import logging
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.header import HEADER_SIZE
from replica_client.constants.event_types import EventFlag, EventType
from replica_client.errors import BinlogDecodeError, ConfigError, DataLossError, UnknownTableError
from replica_client.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.position.position import Position
from replica_client.readers.file_bytes import BinlogFile, open_events
from replica_client.readers.start import timestamp_of
from replica_client.schema.history import SchemaHistory
from replica_client.schema.shape import TableShape
from replica_client.spark.file_list import ListedFile, check_no_gap, from_position, list_files
from replica_client.spark.options import SourceOptions
from replica_client.spark.ranges import BinlogRange, Filters, transactions
from replica_client.spark.spans import FileSpans, Span
from replica_client.spark.typed import TypedTable

FIRST_EVENT = 4
_HEAD_EVENTS = 8
_LOG = logging.getLogger("replica_client")


class FilePlanner:
    """Plans queries over files; keeps what it has scanned.

    Args:
        options: of the query.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._listed: list[ListedFile] | None = None
        self._spans: FileSpans | None = None
        self._floor = Position("", 0)
        self._pending: deque[Span] = deque()
        self._waiting_for = ""
        self._history = SchemaHistory()
        self._schema_spans: FileSpans | None = None
        self._schema_done: set[str] = set()

    def close(self) -> None:
        """Nothing is held open."""

    def filters(self) -> Filters:
        """What is passed over, by the starting position."""
        starting = self._options.starting
        if isinstance(starting, datetime.datetime):
            return Filters(since=timestamp_of(starting))
        if isinstance(starting, Position) and not starting.file:
            return Filters(done=starting.gtid_set)
        return Filters()

    def freeze(self) -> None:
        """Take no notice of what comes after now."""
        self._listed = list_files(self._options.paths, may_be_empty=True)

    def _files(self, may_be_empty: bool = True) -> list[ListedFile]:
        if self._listed is not None:
            return self._listed
        return list_files(self._options.paths, may_be_empty=may_be_empty)

    # Where.

    def start(self, *, stream: bool = False) -> Position:
        """Where the query starts; file ``""``: with the first file that comes.

        Raises:
            ConfigError: no such place.
            DataLossError: the files begin behind a GTID position.
        """
        starting = self._options.starting or "earliest"
        files = self._files(may_be_empty=stream)
        if not files:
            return Position("", 0)
        if starting == "latest":
            if not stream:
                raise ConfigError("startingPosition latest is for streams: a batch would be empty")
            return self.latest(Position(files[0].name, FIRST_EVENT))
        if isinstance(starting, Position) and starting.file:
            if starting.inside_transaction:
                raise ConfigError(f"startingPosition {starting}: give a place between transactions")
            if starting.file not in [file.name for file in files]:
                raise ConfigError(
                    f"startingPosition {starting}: no such file among {files[0].name} … {files[-1].name}"
                )
            return Position(starting.file, starting.offset)
        if isinstance(starting, Position):
            self._check_begins_before(files[0], starting)
        if isinstance(starting, datetime.datetime):
            # The newest file that begins before the moment; earlier transactions are passed over.
            since = timestamp_of(starting)
            for file in reversed(files[1:]):
                if self._head(file)[0].header.timestamp < since:
                    return Position(file.name, FIRST_EVENT)
        return Position(files[0].name, FIRST_EVENT)

    def stop(self) -> Position | None:
        """Where a batch stops; None: at the end of the files."""
        ending = self._options.ending
        if isinstance(ending, datetime.datetime):
            seconds = timestamp_of(ending)
            for span in self._all_spans(self.start()):
                if span.timestamp >= seconds:
                    return span.start
            return None
        if isinstance(ending, Position):
            names = [file.name for file in self._files()]
            if ending.file not in names:
                raise ConfigError(
                    f"endingPosition {ending}: no such file among {names[0]} … {names[-1]}"
                )
            return Position(ending.file, ending.offset)
        return None

    def latest(
        self,
        start: Position,
        max_bytes: int | None = None,
        max_rows: int | None = None,
        wait: float = 0.0,
    ) -> Position:
        """How far the next micro-batch goes: whole transactions, at least one where there is one.

        Args:
            start: of the batch.
            max_bytes: of its transactions, or None.
            max_rows: changed rows of wanted tables, or None.
            wait: seconds to wait for something new.

        Raises:
            DataLossError: files that were not read are gone.
        """
        deadline = time.monotonic() + wait
        while True:
            reached = self._latest(start, max_bytes)
            left = deadline - time.monotonic()
            if reached != start or left <= 0:
                break
            time.sleep(min(self._options.poll_interval, left))
        if max_rows is not None and reached != start:
            return self._cut_rows(start, reached, max_rows)
        return reached

    def _latest(self, start: Position, max_bytes: int | None) -> Position:
        files = self._files()
        if not files:
            if start.file:
                from_position(files, start)
            return start
        if not start.file:
            start = Position(files[0].name, FIRST_EVENT)
        files = from_position(files, start)
        check_no_gap(files)
        spans = self._spans
        if spans is None or not self._floor <= start <= spans.reached:
            spans = self._spans = FileSpans(start, self._options.decode)
            self._pending.clear()
        while self._pending and self._pending[0].end <= start:
            self._pending.popleft()
        self._floor = start
        if max_bytes is None:
            # Every transaction is taken: none needs to be remembered.
            self._pending.clear()
            for _ in self._new(spans, files):
                pass
            self._floor = spans.reached
            return max(start, spans.reached)
        total, reached = 0, start
        for span in self._coming(spans, files):
            total += span.size
            if total > max_bytes and reached != start:
                return reached
            reached = span.end
        # Behind what stands between transactions too, once all transactions are taken.
        return max(reached, spans.reached)

    def _coming(self, spans: FileSpans, files: list[ListedFile]) -> Iterator[Span]:
        """The spans from the start on; they are kept until a later start passes them."""
        yield from list(self._pending)
        for span in self._new(spans, files):
            self._pending.append(span)
            yield span

    def _new(self, spans: FileSpans, files: list[ListedFile]) -> Iterator[Span]:
        names = [file.name for file in files]
        at = names.index(spans.file) if spans.file in names else 0
        for file, following in zip(files[at:], [*files[at + 1 :], None], strict=True):
            yield from spans.scan(file)
            if following is None:
                return
            whole = spans.at_end_of(file) and (spans.closed or self._is_closed(file))
            if not whole and not self._begins_after_restart(following):
                if self._waiting_for != file.name:
                    self._waiting_for = file.name
                    _LOG.warning(
                        "%s has no closing event, although %s is there: waiting for the rest of it",
                        file.path,
                        following.name,
                    )
                return

    def _is_closed(self, file: ListedFile) -> bool:
        """Whether a file ends with its closing event, for a scan that was entered behind it."""
        spans = FileSpans(Position(file.name, FIRST_EVENT), self._options.decode)
        for _ in spans.scan(file):
            pass
        return spans.closed and spans.at_end_of(file)

    def _cut_rows(self, start: Position, end: Position, max_rows: int) -> Position:
        files = self._files()
        first = start if start.file else Position(files[0].name, FIRST_EVENT)
        part = BinlogRange(first, end, self._touched(first, end))
        rows, reached = 0, start
        for transaction in transactions(self._options, part):
            rows += sum(1 for event in transaction.rows for _ in event)
            if transaction.complete:
                if rows > max_rows and reached != start:
                    return reached
                reached = Position(transaction.position.file, transaction.position.offset)
        return end

    # Cutting.

    def ranges(self, start: Position, stop: Position | None) -> list[BinlogRange]:
        """The partitions of a range: at file starts, and inside large files."""
        files = self._touched(start, stop)
        if not files:
            return []
        if not start.file:
            start = Position(files[0].name, FIRST_EVENT)
        cuts = [start]
        for file in files:
            if file.name != start.file and not self._is_relay_log(file):
                cuts.append(Position(file.name, FIRST_EVENT))
            first = start.offset if file.name == start.file else FIRST_EVENT
            last = stop.offset if stop is not None and stop.file == file.name else file.size
            if last - first > self._options.partition_size:
                cuts += self._inner_cuts(file, Position(file.name, first), last)
        if stop is not None:
            cuts = [cut for cut in cuts if cut < stop] or [start]
        ends = [*cuts[1:], stop]
        history = self._schema(start, files[-1])
        return [
            BinlogRange(begin, end, self._touched(begin, end), number, _state(history, begin))
            for number, (begin, end) in enumerate(zip(cuts, ends, strict=True))
        ]

    def _schema(self, start: Position, last: ListedFile) -> SchemaHistory:
        """What tables look like, by the statements in all files up to one; each is read once.

        A range then has the same column names wherever it begins.
        """
        files = self._files()
        if self._schema_spans is None:
            first = Position(files[0].name, FIRST_EVENT)
            self._history = SchemaHistory()
            self._schema_spans = FileSpans(first, self._options.decode, self._history)
        names = [file.name for file in files]
        spans = self._schema_spans
        at = names.index(spans.file) if spans.file in names else 0
        for file in files[at:]:
            if file.name not in self._schema_done:
                try:
                    for _ in spans.scan(file):
                        pass
                except BinlogDecodeError:
                    if Position(file.name, file.size) >= start:
                        raise
                    # A fault in what is not read: what was known before it may not hold behind it.
                    self._history = SchemaHistory()
                    following = names[names.index(file.name) + 1]
                    spans = self._schema_spans = FileSpans(
                        Position(following, FIRST_EVENT), self._options.decode, self._history
                    )
            if file.name == last.name:
                break
            self._schema_done.add(file.name)
        return self._history

    def _inner_cuts(self, file: ListedFile, first: Position, last: int) -> list[Position]:
        cuts, since = [], first.offset
        for span in FileSpans(first, self._options.decode).scan(file):
            if span.start.file != file.name or span.end.offset >= last:
                continue
            if span.end.offset - since >= self._options.partition_size:
                since = span.end.offset
                cuts.append(Position(file.name, since))
        return cuts

    def _touched(self, start: Position, stop: Position | None) -> tuple[ListedFile, ...]:
        files = self._files()
        if start.file:
            files = from_position(files, start)
        if stop is not None:
            files = [
                f for f in files if Position(f.name, FIRST_EVENT) < stop or f.name == start.file
            ]
            if any(file.name == stop.file for file in files):
                names = [file.name for file in files]
                files = files[: names.index(stop.file) + 1]
        return tuple(files)

    def _all_spans(self, start: Position) -> Iterator[Span]:
        files = from_position(self._files(), start)
        spans = FileSpans(start, self._options.decode)
        for file in files:
            yield from spans.scan(file)

    # What files say at their beginning.

    def _head(self, file: ListedFile) -> list[BinlogEvent]:
        """The first events of a file."""
        events: list[BinlogEvent] = []
        opened = BinlogFile(file.name, Path(file.path))
        with opened.open() as stream:
            source = open_events(stream, file.name, self._options.decode)
            decoder = BinlogDecoder(self._options.decode, file.name)
            while len(events) < _HEAD_EVENTS:
                position = source.position
                data = source.next_event(HEADER_SIZE, self._options.decode.max_event_size)
                if data is None:
                    break
                events.append(decoder.decode(data, position, file.name))
        if not events:
            raise DataLossError(f"{file.path}: the file has no event; copy it again")
        return events

    def _is_relay_log(self, file: ListedFile) -> bool:
        if file.size <= FIRST_EVENT + HEADER_SIZE:
            return False
        return bool(self._head(file)[0].header.flags & EventFlag.LOG_EVENT_RELAY_LOG_F)

    def _begins_after_restart(self, file: ListedFile) -> bool:
        if file.size <= FIRST_EVENT + HEADER_SIZE:
            return False
        body = self._head(file)[0].body
        return bool(getattr(body, "create_timestamp", 0))

    def _check_begins_before(self, file: ListedFile, starting: Position) -> None:
        done = starting.gtid_set
        for event in self._head(file):
            missing: object = None
            code = event.header.type_code
            if code == EventType.PREVIOUS_GTIDS_LOG_EVENT and isinstance(done, GtidSet):
                missing = event.body.gtid_set - done
            elif code == EventType.GTID_LIST_EVENT and isinstance(done, MariadbGtidSet):
                before = MariadbGtidSet(MariadbGtid(*gtid) for gtid in event.body.gtids)
                missing = None if before <= done else before
            if missing:
                raise DataLossError(
                    f"startingPosition {starting}: the files begin with {file.name}, behind {missing}; "
                    "add the files before it, or start elsewhere"
                )

    # Typed queries.

    def typed(self, database: str, table: str) -> TypedTable:
        """The plan of a typed query, by the table's first table map.

        Raises:
            UnknownTableError: the files do not have the table.
        """
        files = self._files(may_be_empty=False)
        start = self.start()
        for file in from_position(files, start):
            for event in self._events(file):
                if event.header.type_code == EventType.TABLE_MAP_EVENT:
                    if (event.body.schema, event.body.table) == (database, table):
                        shape = TableShape.from_table_map(event.body)
                        return TypedTable.plan(shape, self._options.columns, self._options.decode)
        raise UnknownTableError(
            f"option table: {database}.{table} is not in {files[0].name} … {files[-1].name}; "
            "check the name (databases and tables are matched with case)"
        )

    def _events(self, file: ListedFile) -> Iterator[BinlogEvent]:
        """Format descriptions, table maps and what transaction payloads hold."""
        decoder = BinlogDecoder(self._options.decode, file.name)
        wanted = (
            EventType.FORMAT_DESCRIPTION_EVENT,
            EventType.START_ENCRYPTION_EVENT,
            EventType.TABLE_MAP_EVENT,
            EventType.TRANSACTION_PAYLOAD_EVENT,
        )
        encrypted = False
        opened = BinlogFile(file.name, Path(file.path))
        with opened.open() as stream:
            source = open_events(stream, file.name, self._options.decode)
            while True:
                position = source.position
                if position >= file.size:
                    return
                data = source.next_event(
                    decoder.format.header_size, self._options.decode.max_event_size
                )
                if data is None:
                    return
                if not encrypted and data[4] not in wanted:
                    continue
                encrypted = encrypted or data[4] == EventType.START_ENCRYPTION_EVENT
                event = decoder.decode(data, position, file.name)
                yield event
                if event.header.type_code == EventType.TRANSACTION_PAYLOAD_EVENT:
                    yield from decoder.inner_events(event)


def _state(history: SchemaHistory, start: Position) -> str | None:
    """The history as it is at a place, to ship; None when it knows nothing."""
    mine = history.copy()
    mine.rewind(start.file, start.offset)
    if not mine.tables():
        return None
    mine.prune(start.file, start.offset, keep=1)
    return mine.to_state()
