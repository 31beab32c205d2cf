"""Ranges of the binlog that a partition reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.archive.file_list import ListedFile
from replica_client.archive.transaction_ranges import TransactionRange, TransactionRangeTracker
from replica_client.errors import ReplicaClientError
from replica_client.lake.source.envelope import EnvelopeChanges, lost_batch
from replica_client.lake.source.live_partition import (
    Changes,
    TransformedChanges,
    file_batches,
    live_batches,
)
from replica_client.lake.source_options import SourceOptions
from replica_client.options import options_of
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import BinlogEvent, DecodeOptions
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.stream.fast.statement_scan import NO_LIMIT, StatementScan
from replica_client.stream.position.tracker import PositionTracker
from replica_client.stream.transactions.loss_watch import withheld_error
from replica_client.stream.transport.dump import DumpStream

GtidSets = GtidSet | MariadbGtidSet


@dataclass(frozen=True)
class Filters:
    """Filters by GTID inside the ranges; transactions without a GTID always pass.

    Attributes:
        done: transactions of this set do not pass.
        wanted: only transactions of this set pass.
    """

    done: GtidSets | None = None
    wanted: GtidSets | None = None

    @classmethod
    def of(cls, options: SourceOptions) -> Filters:
        """Return the filters of a query."""
        starting, ending = options.starting, options.ending
        return cls(
            starting.gtid_set if isinstance(starting, Position) and not starting.file else None,
            ending.gtid_set if isinstance(ending, Position) and not ending.file else None,
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that pass."""
        if self.done is None and self.wanted is None:
            return batch
        # A column of the user's that is called so stands after ours.
        gtids = batch.column(batch.schema.names.index("_gtid"))
        if pa.types.is_dictionary(gtids.type):
            gtids = gtids.cast(pa.string())
        known = pc.unique(gtids)
        given = [text for text in known.to_pylist() if self._gives(text)]
        if len(given) == len(known):
            return batch
        return batch.filter(pc.is_in(gtids, pa.array(given, pa.string())))

    def _gives(self, text: str) -> bool:
        if not text:
            return True
        if self.done is not None and _has(self.done, text):
            return False
        return self.wanted is None or _has(self.wanted, text)


def _has(gtids: GtidSets, text: str) -> bool:
    if isinstance(gtids, GtidSet):
        return Gtid.parse(text) in gtids
    return MariadbGtid.parse(text) in gtids


class BinlogRange:
    """A partition: from one point between transactions to another.

    Args:
        start: of the first transaction.
        stop: the first transaction that begins there or later is not read; None: all are.
        files: the files of the range, with the sizes that they had; empty for a live source.
        number: of the partition.
        schema: the schema history, as ``SchemaHistory.to_state`` returns it; entries after the start
            are ignored.
        filters: which transactions pass.
        is_lost: whether the source purged the range: one row says so.
        stays: whether the connection stays for the next range of a stream; no other range is read at
            the same time, so that no server id is used twice.
    """

    def __init__(
        self,
        start: Position,
        stop: Position | None,
        files: tuple[ListedFile, ...] = (),
        number: int = 0,
        schema: str | None = None,
        filters: Filters | None = None,
        stays: bool = False,
        is_lost: bool = False,
    ) -> None:
        self.start = start
        self.stop = stop
        self.files = files
        self.number = number
        self.schema = schema
        self.filters = Filters() if filters is None else filters
        self.stays = stays
        self.is_lost = is_lost

    def __repr__(self) -> str:
        return f"BinlogRange({self.start} to {self.stop or 'end'})"


@lru_cache(maxsize=4)
def _history(state: str) -> SchemaHistory:
    return SchemaHistory.from_state(state)


def envelope_batches(
    source: SourceOptions, part: BinlogRange, schema: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a range in the envelope.

    Args:
        source: the options of the query.
        part: the range.
        schema: the schema history, when the range does not carry it.

    Raises:
        ReplicaClientError: the range cannot be read to its end.
    """
    if part.is_lost:
        assert part.stop is not None
        yield lost_batch(part.start, part.stop, part.schema)
        return
    with options_of("spark"):
        for batch in range_batches(source, part, schema, EnvelopeChanges(source.decode)):
            batch = part.filters.apply(batch)
            if batch.num_rows:
                yield batch


def range_batches(
    source: SourceOptions, part: BinlogRange, schema: str | None, changes: Changes
) -> Iterator[pa.RecordBatch]:
    """Yield the batches that ``changes`` makes of the transactions of a range.

    Args:
        source: the options of the query.
        part: the range, which the source still has.
        schema: the schema history, when the range does not carry it.
        changes: takes the transactions.

    Raises:
        ReplicaClientError: the range cannot be read to its end.
    """
    history = None
    schema = part.schema or schema
    if schema is not None:
        history = _history(schema).copy()
        history.rewind(part.start.file, part.start.offset)
    elif source.letter_case is not None:
        history = SchemaHistory(lower_case_names=source.letter_case != 0)
    transformer = source.transformer
    if transformer is not None:
        changes = TransformedChanges(changes, transformer, source.assembly().record_losses)
    try:
        if source.connect is not None:
            yield from live_batches(
                source, part.start, part.stop, part.number, changes, part.stays, history
            )
        else:
            yield from file_batches(
                part.files,
                part.start,
                part.stop,
                source.assembly(),
                source.decode,
                history,
                changes,
                source.locations,
                by_transaction=transformer is not None,
            )
    except ReplicaClientError as error:
        if transformer is None or not transformer.hides:
            raise
        raise withheld_error(error) from None


def cut_rows(source: SourceOptions, parts: list[BinlogRange], max_rows: int) -> Position | None:
    """Return the start of the transaction that exceeds ``max_rows``, or None if none does.

    A transaction that has too many rows on its own comes alone.
    """
    rows, last = 0, ""
    for part in parts:
        for batch in envelope_batches(source, part):
            runs = pc.run_end_encode(batch.column("_commit_version"))
            begin = 0
            for version, end in zip(
                runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True
            ):
                rows += end - begin
                if version != last and last and rows > max_rows:
                    known = [batch.column("_file")[begin].as_py(), part.start.file]
                    cut = _position_of(version, [*known, *(file.name for file in part.files)])
                    if cut is not None:
                        return cut
                begin, last = end, version
    return None


def _position_of(version: str, files: list[str]) -> Position | None:
    """Return the position that a ``_commit_version`` was made of, or None if no given file has it.

    Rows of an XA transaction may be in another file than their commit.
    """
    head, _, indexes = version.rpartition(":")
    for file in files:
        if Position(file, 0).sort_key().rpartition(":")[0] == head:
            return Position(file, int(indexes.partition("/")[0]))
    return None


class PassedTransactions:
    """Passes over the transactions of a dump.

    Args:
        dump: a dump that begins between two transactions.
        start: where it begins.
        options: how events are decoded that show where transactions end.
        on_event: called with each event that does not belong to an ordinary transaction, except
            rows events.
    """

    def __init__(
        self,
        dump: DumpStream,
        start: Position,
        options: DecodeOptions,
        on_event: Callable[[BinlogEvent, BinlogDecoder], None] | None = None,
    ) -> None:
        self._dump = dump
        self._ranges = TransactionRangeTracker(PositionTracker(start, payload_ends=True))
        self._decoder = BinlogDecoder(options)
        self._scan = StatementScan()
        self._on_event = on_event

    @property
    def position(self) -> Position:
        """The last point between two transactions."""
        return self._ranges.position

    async def next(self, limit: int = NO_LIMIT) -> TransactionRange | None:
        """Return the next transaction; several adjacent ones with GTIDs and no statement come as one.

        Args:
            limit: bytes of several together.

        Returns:
            their range, with the time 0 where they are several; None at the end of the dump.
        """
        dump, scan, tracker = self._dump, self._scan, self._ranges.tracker
        while len(dump.events) or await dump.more():
            if not tracker.in_transaction:
                file, offset = tracker.file, tracker.offset
                tail = self._decoder.format.checksum_size
                scan.pass_over(dump.events, offset, tail, limit)
                if scan.whole:
                    dump.events.drop(scan.whole)
                    end = Position(file, offset + scan.whole_size)
                    tracker.pass_transactions(file, end.offset, 0, ())
                    return TransactionRange(Position(file, offset), end, 0, scan.whole_size)
            found = self._pass_event(await anext(dump))
            if found is not None:
                return found
        return None

    def _pass_event(self, data: bytes) -> TransactionRange | None:
        ranges, decoder = self._ranges, self._decoder
        header = decoder.peek_header(data)
        position = ranges.tracker.locate(header)
        size = header.event_size
        if ranges.may_skip(header.type_code) and header.next_position == position + size:
            ranges.skip(size)
            return None
        event = decoder.decode(data, position, ranges.tracker.file)
        if self._on_event is not None:
            self._on_event(event, decoder)
        return ranges.feed(event)
