"""The starts and ends of the transactions of a dump, ordinary ones many at a time."""

from __future__ import annotations

from collections.abc import Callable

from replica_client.archive.transaction_ranges import TransactionRange, TransactionRangeTracker
from replica_client.binlog.decoder import BinlogDecoder
from replica_client.binlog.event import BinlogEvent
from replica_client.binlog.options import DecodeOptions
from replica_client.position.position import Position
from replica_client.position.tracker import PositionTracker
from replica_client.readers.fast.statement_scan import NO_LIMIT, StatementScan
from replica_client.transport.dump import DumpStream


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
