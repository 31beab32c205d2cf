"""Planning over binlog files: where a query starts, how far it goes, how it is cut."""

from __future__ import annotations

import datetime
import logging
import time
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from replica_client.archive.file_index import STEP, FileIndex
from replica_client.archive.file_list import ListedFile, check_no_gap, from_position
from replica_client.archive.transaction_ranges import FileTransactionRanges
from replica_client.errors import ConfigError, DataLossError, UnknownTableError
from replica_client.lake.source.file_catalog import FileCatalog, table_maps, table_names
from replica_client.lake.source.read_ranges import BinlogRange, Filters, cut_rows
from replica_client.lake.source.schema_timeline import SchemaTimeline
from replica_client.lake.source_options import SourceOptions
from replica_client.options import remedies
from replica_client.protocol.binlog.event import FIRST_EVENT
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.rows.selection import Selection
from replica_client.schema.shape import TableShape
from replica_client.stream.files.binlog_file import BinlogFileReader
from replica_client.stream.files.file_bytes import BinlogFile
from replica_client.stream.files.file_order import FileMark, check_pair
from replica_client.stream.transactions.arguments import micros_of, stop_of
from replica_client.stream.transactions.assembler import AssemblyOptions
from replica_client.stream.transactions.schema_tracking import SchemaTracker

_FIRST_WAIT = 0.002
_PACKED_PART = 4
"""Files that together are no larger than so much of a partition are one: a task of Spark costs 30 ms."""

_LOG = logging.getLogger("replica_client.lake")


class FilePlanner:
    """The planner of queries over files; it keeps what it has scanned.

    Args:
        options: of the query.

    Attributes:
        newest: where the files ended when they were looked at last.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._catalog = FileCatalog(options)
        self._timeline = SchemaTimeline(self._catalog, options.decode, options.letter_case)
        self._waiting_for = ""
        self._waits = False
        self.newest: Position | None = None

    def close(self) -> None:
        """Do nothing: the planner holds nothing open."""

    def filters(self) -> Filters:
        """Return the filters that apply inside the ranges."""
        return Filters.of(self._options)

    def check_tables(self, start: Position | None = None) -> None:
        """Raise if a pattern of the wanted tables matches no table of the files; call it after :meth:`ranges`.

        Args:
            start: ignored: all files are at hand.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        selection = self._options.assembly().selection
        files = self._catalog.files()
        if self._options.allow_empty or not selection.unmatched() or not files:
            return
        history = self._timeline.history_at(Position(files[-1].name, files[-1].size))
        if not selection.unmatched_of(history):
            return
        seen: set[tuple[str, str]] = set()
        for file in files:
            for name in table_names(file, self._options.decode):
                if name not in seen:
                    seen.add(name)
                    selection.for_server(history.lower_case_names).wants(*name)
            if not selection.unmatched():
                return
        selection.check_matched(history, seen, f"; {remedies('empty answer')}")

    def freeze(self, end: Position | None = None) -> None:
        """Fix the end, or the current end of the files: later changes are ignored."""
        self._catalog.freeze()

    def size(self, start: Position, stop: Position | None = None) -> int:
        """Return the bytes of the files between two positions; without ``stop`` up to the end."""
        files = self._catalog.files(may_be_empty=True)
        return sum(
            (stop.offset if stop is not None and file.name == stop.file else file.size)
            - (start.offset if file.name == start.file else 0)
            for file in _touched(files, start, stop)
        )

    # Where.

    def start(self, *, stream: bool = False) -> Position:
        """Return where the query starts; file ``""`` means the first file that appears.

        Raises:
            ConfigError: no such place.
            DataLossError: the files begin after the GTID position.
        """
        starting = self._options.starting or "earliest"
        files = self._catalog.files(may_be_empty=stream)
        if not files:
            return Position("", 0)
        if starting == "latest":
            if not stream:
                raise ConfigError("startingPosition latest is for streams: a batch would be empty")
            return self.latest(Position(files[-1].name, FIRST_EVENT))
        if isinstance(starting, Position) and starting.file:
            if starting.inside_transaction:
                raise ConfigError(f"startingPosition {starting}: give a place between transactions")
            if starting.file not in [file.name for file in files]:
                raise ConfigError(
                    f"startingPosition {starting}: no such file among {files[0].name} … {files[-1].name}"
                )
            return Position(starting.file, starting.offset)
        if isinstance(starting, Position):
            return self._start_of_gtids(files, starting)
        if isinstance(starting, datetime.datetime):
            return self._first_at(files, micros_of(starting)) or self._end(files)
        return Position(files[0].name, FIRST_EVENT)

    def _start_of_gtids(self, files: list[ListedFile], starting: Position) -> Position:
        """Return the start of the last file before which a GTID set covers everything.

        A filter skips the rest of the set.
        """
        done = starting.gtid_set
        assert done is not None
        self._catalog.load(files)
        for file in reversed(files):
            before = self._gtids_before(file)
            if before is None and file is not files[0]:
                continue
            if before is None or _covers(done, before):
                self._catalog.save()
                return Position(file.name, FIRST_EVENT)
        missing = self._gtids_before(files[0])
        if isinstance(done, GtidSet) and isinstance(missing, GtidSet):
            missing = missing - done
        raise DataLossError(
            f"startingPosition {starting}: the files begin with {files[0].name}, after {missing}; "
            "add the files before it, or start elsewhere"
        )

    def _gtids_before(self, file: ListedFile) -> GtidSet | MariadbGtidSet | None:
        index = self._catalog.index(file)
        return index.gtids_before(file.name, self._options.decode)

    def _first_at(self, files: list[ListedFile], micros: int) -> Position | None:
        """Return where the first transaction begins that was committed at a time or later; None without one."""
        self._catalog.load(files)
        first = files[0]
        for file in reversed(files[1:]):
            # A file has the second in which it was begun.
            if self._catalog.index(file).first < micros // 1_000_000:
                first = file
                break
        self._catalog.save()
        read = [BinlogFile(one.name, one.where) for one in files[files.index(first) :]]
        assembly, decode = AssemblyOptions(Selection()), self._options.decode
        return BinlogFileReader(read, assembly, decode, "earliest", "latest").first_at(micros)

    def _end(self, files: list[ListedFile]) -> Position:
        return Position(files[-1].name, self._catalog.index(files[-1]).reached)

    def resume(self, saved: Mapping[str, Any]) -> Position:
        """Return the position of an offset."""
        return Position.from_json(saved)

    def offset(self, position: Position) -> dict[str, Any]:
        """Return a position as an offset."""
        return position.to_json()

    def stop(self) -> Position | None:
        """Return where a batch stops; None means the end of the files."""
        starting = self._options.starting or "earliest"
        ending = None if self._options.ending is None else stop_of(starting, self._options.ending)
        files = self._catalog.files()
        if isinstance(ending, datetime.datetime):
            return self._first_at(from_position(files, self.start()), micros_of(ending))
        if isinstance(ending, Position) and not ending.file:
            wanted = ending.gtid_set
            assert wanted is not None
            self._catalog.load(files)
            for file in files:
                before = self._gtids_before(file)
                if before is not None and _covers(before, wanted):
                    return Position(file.name, FIRST_EVENT)
            return None
        if isinstance(ending, Position):
            names = [file.name for file in files]
            if ending.file not in names:
                raise ConfigError(
                    f"endingPosition {ending}: no such file among {names[0]} … {names[-1]}"
                )
            return Position(ending.file, ending.offset)
        return None

    # How far.

    def latest(
        self,
        start: Position,
        max_bytes: int | None = None,
        max_rows: int | None = None,
        wait: float = 0.0,
    ) -> Position:
        """Return the end of the next micro-batch: whole transactions, at least one if there is one.

        Args:
            start: of the batch.
            max_bytes: of its transactions, or None.
            max_rows: changed rows of wanted tables, or None.
            wait: seconds to wait for something new.

        Raises:
            DataLossError: files that were not read are gone.
        """
        deadline = time.monotonic() + wait
        pause = _FIRST_WAIT
        while True:
            reached = self._latest(start, max_bytes)
            left = deadline - time.monotonic()
            if reached != start or left <= 0:
                break
            time.sleep(min(pause, left))
            pause = min(2 * pause, self._options.poll_interval)
        self._catalog.save()
        if max_rows is not None and reached != start:
            parts = self.ranges(start, reached)
            return cut_rows(self._options, parts, max_rows) or reached
        return reached

    def _latest(self, start: Position, max_bytes: int | None) -> Position:
        files = self._catalog.files()
        if not files:
            if start.file:
                from_position(files, start)
            if not self._waits:
                self._waits = True
                _LOG.warning(
                    "%s: no binlog file is there yet: waiting", ", ".join(self._options.paths)
                )
            return start
        self.newest = Position(files[-1].name, files[-1].size)
        if not start.file:
            start = Position(files[0].name, FIRST_EVENT)
        files = from_position(files, start)
        check_no_gap(files)
        self._catalog.load(files)
        total, reached = 0, start
        before: FileMark | None = None
        for at, file in enumerate(files):
            index = self._catalog.index(file)
            mark = index.mark(file.name, self._options.decode)
            if before is not None:
                check_pair(before, mark)
            before = mark
            if index.is_relay_log:
                return self._latest_of_relay_logs(files, start, max_bytes)
            first = start.offset if not at else FIRST_EVENT
            if index.reached < first:
                return reached
            if index.cuts and index.cuts[-2] > first:
                size = index.cuts[-2] - first
                if max_bytes is not None and total + size > max_bytes:
                    cut = self._cut(file, index, first, max_bytes - total)
                    return cut or (reached if total else self._one(file, index, first))
                total += size
            reached = Position(file.name, index.reached)
            following = files[at + 1] if at + 1 < len(files) else None
            if following is None:
                break
            whole = index.ended and index.closed
            if not whole and not self._catalog.index(following).created:
                self._warn(file, following)
                break
        return reached

    def _warn(self, file: ListedFile, following: ListedFile) -> None:
        if self._waiting_for != file.name:
            self._waiting_for = file.name
            _LOG.warning(
                "%s has no closing event, although %s is there: waiting for the rest of it",
                file.path,
                following.name,
            )

    def _cut(self, file: ListedFile, index: FileIndex, first: int, room: int) -> Position | None:
        """Return the end of the transactions that fit into ``room``, or None if the first does not fit."""
        end = max((cut for cut in index.cuts[::2] if first < cut <= first + room), default=first)
        transaction_ranges = FileTransactionRanges(Position(file.name, end), self._options.decode)
        for transaction_range in transaction_ranges.scan(file):
            if transaction_range.end.offset > first + room:
                break
            end = transaction_range.end.offset
        return Position(file.name, end) if end > first else None

    def _one(self, file: ListedFile, index: FileIndex, first: int) -> Position:
        """Return the end of the first transaction."""
        transaction_ranges = FileTransactionRanges(
            Position(file.name, first), self._options.decode
        ).scan(file)
        return next(
            (transaction_range.end for transaction_range in transaction_ranges),
            Position(file.name, index.reached),
        )

    def _latest_of_relay_logs(
        self, files: list[ListedFile], start: Position, max_bytes: int | None
    ) -> Position:
        """Return the end of a micro-batch of relay logs, where a transaction may continue in the next file."""
        transaction_ranges = FileTransactionRanges(start, self._options.decode)
        total, reached = 0, start
        for file, following in zip(files, [*files[1:], None], strict=True):
            for transaction_range in transaction_ranges.scan(file):
                total += transaction_range.size
                if max_bytes is not None and total > max_bytes and reached != start:
                    return reached
                reached = transaction_range.end
            if following is not None and not (
                transaction_ranges.at_end_of(file) and transaction_ranges.closed
            ):
                self._warn(file, following)
                break
        return max(reached, transaction_ranges.reached)

    # Cutting.

    def ranges(self, start: Position, stop: Position | None) -> list[BinlogRange]:
        """Return the partitions of a range. Large files are cut, and small files are packed together."""
        everything = self._catalog.files()
        files = _touched(everything, start, stop)
        if not files:
            return []
        if not start.file:
            start = Position(files[0].name, FIRST_EVENT)
        self._catalog.load(everything)
        cuts: list[tuple[Position, int]] = [(start, 0)]
        most, packed = self._options.partition_size // _PACKED_PART, 0
        for number, file in enumerate(files):
            index = self._catalog.index(file)
            first = start.offset if file.name == start.file else FIRST_EVENT
            last = stop.offset if stop is not None and stop.file == file.name else file.size
            if index.is_relay_log:
                inner = self._inner_cuts(file, None, first, last)
            else:
                packed += last - first
                behind = stop is not None and Position(file.name, FIRST_EVENT) >= stop
                if number and packed > most and not behind:
                    cuts.append((Position(file.name, FIRST_EVENT), number))
                    packed = last - first
                inner = self._inner_cuts(file, index, first, last)
            cuts += [(Position(file.name, cut), number) for cut in inner]
        self._timeline.follow(everything, start, files[-1])
        filters = self.filters()
        state = self._timeline.between(start, cuts[-1][0])
        found = []
        for number, (begin, at) in enumerate(cuts):
            end, upto = cuts[number + 1] if number + 1 < len(cuts) else (stop, len(files) - 1)
            if end is not None and end.offset <= FIRST_EVENT and upto > at:
                upto -= 1
            found.append(
                BinlogRange(begin, end, tuple(files[at : upto + 1]), number, state, filters)
            )
        return found

    def _inner_cuts(
        self, file: ListedFile, index: FileIndex | None, first: int, last: int
    ) -> list[int]:
        """Return the offsets at which to cut a part of a file into pieces of about the wanted size."""
        size = self._options.partition_size
        if last - first <= size:
            return []
        ends: Iterator[int]
        if index is not None and size >= STEP:
            ends = iter(index.cuts[::2])
        else:
            transaction_ranges = FileTransactionRanges(
                Position(file.name, first), self._options.decode, size
            )
            ends = (
                transaction_range.end.offset
                for transaction_range in transaction_ranges.scan(file)
                if transaction_range.start.file == file.name
            )
        cuts, since = [], first
        for end in ends:
            if end >= last:
                break
            if end - since >= size:
                cuts.append(end)
                since = end
        return cuts

    # Typed queries.

    def shape(self, database: str, table: str) -> tuple[TableShape, Position | None]:
        """Return the shape and position of a table's first table map, or of its last one to evolve.

        Raises:
            UnknownTableError: the files do not have the table.
        """
        options = self._options
        files = self._catalog.files(may_be_empty=False)
        read = from_position(files, self.start()) if options.starting != "latest" else files
        for file in reversed(read) if options.evolves else read:
            maps = table_maps(file, database, table, options.decode)
            found = deque(maps, maxlen=1) if options.evolves else deque(islice(maps, 1))
            if found:
                event, decoder = found[0]
                position = Position(event.file, event.position)
                self._timeline.follow(files, position, file)
                tracker = SchemaTracker(
                    self._timeline.history_at(position),
                    Selection(),
                    options.reading.get("on_unknown_table"),
                )
                return tracker.shape(event.body, decoder.format), position
        raise UnknownTableError(
            f"option table: {database}.{table} is not in {files[0].name} … {files[-1].name}; "
            "check the name (databases and tables are matched with case)"
        )


def _covers(done: GtidSet | MariadbGtidSet, wanted: GtidSet | MariadbGtidSet) -> bool:
    """Return whether a set has all GTIDs of another; sets of different kinds only cover an empty set."""
    if isinstance(done, GtidSet) and isinstance(wanted, GtidSet):
        return not wanted - done
    if isinstance(done, MariadbGtidSet) and isinstance(wanted, MariadbGtidSet):
        return wanted <= done
    return not wanted


def _touched(files: list[ListedFile], start: Position, stop: Position | None) -> list[ListedFile]:
    """Return the files that a range has parts of."""
    if start.file:
        files = from_position(files, start)
    if stop is not None:
        names = [file.name for file in files]
        if stop.file in names:
            files = files[: names.index(stop.file) + 1]
            if stop.offset <= FIRST_EVENT and len(files) > 1:
                files = files[:-1]
        else:
            files = [file for file in files if Position(file.name, FIRST_EVENT) < stop]
    return files
