"""Search of files for XA transactions that were prepared before the first event to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from replica_client.binlog.file_scan import FIRST_EVENT
from replica_client.binlog.options import DecodeOptions
from replica_client.position.position import Position
from replica_client.position.prepared import PreparedLedger, XaId
from replica_client.position.tracker import TransactionBoundary
from replica_client.readers.assembler import TransactionAssembler
from replica_client.readers.event_feed import EventFeed, LocatedEvent
from replica_client.readers.files.file_batches import raw_events
from replica_client.readers.files.file_bytes import BinlogFile
from replica_client.readers.prepared_rows import PreparedRows, passes_over
from replica_client.schema.history import SchemaHistory

AssemblerMaker = Callable[[SchemaHistory, PreparedRows], TransactionAssembler]
"""Creates an assembler that reads one transaction again, into rows of its own."""


class FilePrepared(PreparedRows):
    """Prepared transactions that are read back from files.

    Args:
        ledger: the transactions that were prepared before reading began.
        files: lists all files that may be read, in order; called when a search begins.
        decode: how values are decoded.
        history: the current schema history.
        make: creates the assembler of a transaction.
    """

    def __init__(
        self,
        ledger: PreparedLedger,
        files: Callable[[], Sequence[BinlogFile]],
        decode: DecodeOptions,
        history: SchemaHistory,
        make: AssemblerMaker,
    ) -> None:
        super().__init__(ledger)
        self._list = files
        self._files: dict[str, BinlogFile] = {}
        self._decode = decode
        self._history = history
        self._make = make

    def read_back(self, xid: XaId, commit: Position) -> None:
        """See :class:`PreparedRows`; reads from the ledger's position or the last XA PREPARE."""
        # A stream cannot be read again.
        self._files = {file.name: file for file in self._list() if file.stream is None}
        known = self.ledger.find(xid)
        if known is not None and known.start.file in self._files:
            start: Position | None = known.start
        else:
            start = self._find(xid, commit)
        if start is None:
            return
        history = self._history.copy()
        history.rewind(start.file, start.offset)
        rows = PreparedRows(storage=self.storage)
        assembler = self._make(history, rows)
        for feed, located in self._events(start):
            for _ in assembler.feed(located, feed.decoder, feed.tracker):
                pass
            if located.boundary is not None:
                break
        self.adopt(xid, rows)

    def _events(self, start: Position) -> Iterator[tuple[EventFeed, LocatedEvent]]:
        feed = EventFeed(self._decode, start, mode="file")
        file = self._files[start.file]
        for position, data in raw_events(file, feed, start.offset):
            for located in feed.feed(data, position, file.name):
                yield feed, located

    def _find(self, xid: XaId, commit: Position) -> Position | None:
        """Find the start of the transaction with the last XA PREPARE of an xid before a position."""
        names = list(self._files)
        if commit.file not in names:
            return None
        for name in reversed(names[: names.index(commit.file) + 1]):
            file = self._files[name]
            found: Position | None = None
            for prepared, boundary in prepares(file, commit, self._decode):
                if prepared == xid:
                    found = Position(boundary.file, boundary.offset)
            if found is not None:
                return found
        return None


def prepares(
    file: BinlogFile, limit: Position, decode: DecodeOptions
) -> Iterator[tuple[XaId, TransactionBoundary]]:
    """Yield each XA PREPARE of a file before a position, with the transaction that it ends.

    Raises:
        BinlogDecodeError: a fault in the file.
    """
    feed = EventFeed(decode, Position(file.name, FIRST_EVENT), mode="file")
    for position, data in raw_events(file, feed, FIRST_EVENT):
        if Position(file.name, position) >= limit:
            return
        if passes_over(feed.tracker, data):
            continue
        for located in feed.feed(data, position, file.name):
            boundary = located.boundary
            if boundary is not None and boundary.outcome == "prepare":
                yield XaId.of_event(located.event.body), boundary
