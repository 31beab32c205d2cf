"""Start and end of a range of files, and XA transactions prepared before it.

A time or a GTID set becomes a position between transactions, by reading the transactions before it
without their rows. The range is then read like any other.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from replica_client.errors import ConfigError, GtidFormatError
from replica_client.protocol.binlog.event import FIRST_EVENT, BinlogEvent, DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet, MariadbSkip
from replica_client.protocol.position import Position
from replica_client.schema.history import SchemaHistory
from replica_client.stream.files.file_batches import raw_events
from replica_client.stream.files.file_bytes import BinlogFile
from replica_client.stream.position.prepared import PreparedLedger, XaId
from replica_client.stream.position.tracker import TransactionBoundary
from replica_client.stream.transactions.assembler import TransactionAssembler
from replica_client.stream.transactions.event_feed import EventFeed, LocatedEvent
from replica_client.stream.transactions.pending_rows import PreparedRows, passes_over
from replica_client.stream.transactions.transaction import Transaction

_EVENTS_BEFORE = 8  # format description, encryption, GTIDs, checkpoints

AnyGtidSet = GtidSet | MariadbGtidSet
Transactions = Callable[[Position | None], Iterator[Transaction]]
"""Reads the transactions from a position on; None: from the first event."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The point where reading of files begins.

    Attributes:
        position: the point; None for the first event.
        passed: GTIDs that are not wanted, and were not seen before the point; None when there are
            none.
        history: definitions of the tables there and before; None if unknown.
    """

    position: Position | None
    passed: AnyGtidSet | None = None
    history: SchemaHistory | None = None

    def check(self, transaction: Transaction) -> None:
        """Check that a transaction may follow.

        Raises:
            ConfigError: the transaction is not wanted: the GTID set is no position in these files.
        """
        if self.passed is None or self.position is None:
            return
        if transaction.gtid and _has(self.passed, transaction, self.position):
            raise ConfigError(
                f"start: {transaction.gtid} at {transaction.start} is in the GTID set, and stands after "
                f"{self.position.file}:{self.position.offset}, which begins with one that is not; give "
                "FILE:OFFSET"
            )


def spooled(files: Sequence[BinlogFile]) -> list[BinlogFile]:
    """Return the files, with streams copied to temporary files so that they can be read twice."""
    found = []
    for file in files:
        if file.stream is not None:
            import shutil  # these take long to import
            import tempfile

            with tempfile.TemporaryFile() as copy:
                shutil.copyfileobj(file.stream, copy, 1 << 20)
                copy.flush()
                pages = mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ) if copy.tell() else b""
            file = replace(file, stream=None, memory=memoryview(pages))
        found.append(file)
    return found


def begin_at_time(transactions: Transactions, first_file: str, since: int) -> Begin:
    """Return the position before the first transaction that was committed at a time or later.

    Args:
        transactions: reads the transactions.
        first_file: name of the first file.
        since: microseconds since 1970.
    """
    before = Position(first_file, FIRST_EVENT)
    last: Transaction | None = None
    for transaction in transactions(None):
        if not transaction.complete:
            continue
        if not transaction.is_before(since):
            break
        last = transaction
    return Begin(before if last is None else last.position)


def first_at(transactions: Iterator[Transaction], since: int) -> Position | None:
    """Return the start of the first of some transactions that was committed at a time or later.

    Args:
        transactions: in order.
        since: microseconds since 1970.
    """
    start: Position | None = None
    for transaction in transactions:
        if not transaction.part:
            start = transaction.start
        if transaction.complete and not transaction.is_before(since):
            return start
    return None


def begin_behind_gtids(
    transactions: Transactions,
    files: Sequence[str],
    previous: Callable[[str], AnyGtidSet | None],
    wanted: Position,
) -> Begin:
    """Return the position before the first transaction that is not in a GTID set.

    Args:
        transactions: reads the transactions.
        files: names of the files.
        previous: returns the GTIDs of the transactions before a file; None if the file does not
            say.
        wanted: a position that has only the GTID set.

    Raises:
        ConfigError: a transaction has no GTID, or one of the other flavor.
    """
    done = wanted.gtid_set
    assert done is not None
    first = _newest(files, previous, done)
    if first is None:
        # A gap before the first file is detected, and refused or recorded, when that file is read.
        return Begin(Position(files[0], FIRST_EVENT, done))
    start = Position(first, FIRST_EVENT)
    before = previous(first)
    last, is_whole = _last_done(transactions(start), wanted, _filter(done, before))
    if not is_whole:  # the last GTID of a domain is missing: numbers decide
        last, _ = _last_done(transactions(start), wanted, _filter(done, before, MariadbGtidSet()))
    reached = start if last is None else last.position
    seen = before if last is None else reached.gtid_set
    return Begin(replace(reached, gtid_set=done), _more(done, seen))


_Filter = Callable[[MariadbGtid | Gtid], bool]


def _filter(
    done: AnyGtidSet, before: AnyGtidSet | None, executed: MariadbGtidSet | None = None
) -> _Filter | MariadbSkip:
    """Return a function that says of one transaction after the other whether it is done."""
    if isinstance(done, MariadbGtidSet):
        known = before if isinstance(before, MariadbGtidSet) else None
        return MariadbSkip(done, known, executed)
    return lambda gtid: isinstance(gtid, Gtid) and done.contains(gtid)


def _last_done(
    transactions: Iterator[Transaction], wanted: Position, done: _Filter | MariadbSkip
) -> tuple[Transaction | None, bool]:
    """Return the last transaction before the first that is not done, and whether that is certain.

    It is certain if a transaction that is not done was found, or if no GTID is left to wait for.
    """
    last: Transaction | None = None
    for transaction in transactions:
        if not transaction.complete:
            continue
        if not _is_done(done, transaction, wanted):
            return last, True
        last = transaction
    return last, not (isinstance(done, MariadbSkip) and done.pending)


def _is_done(done: _Filter | MariadbSkip, transaction: Transaction, wanted: Position) -> bool:
    if any(loss.kind == "gtid_gap" for loss in transaction.losses):
        return False
    try:
        if isinstance(done, MariadbSkip):
            return done.passes_over(MariadbGtid.parse(transaction.gtid))
        return done(Gtid.parse(transaction.gtid))
    except GtidFormatError:
        raise _other_kind(transaction, wanted) from None


def end_behind_gtids(
    transactions: Transactions, start: Position, seen: AnyGtidSet | None, wanted: Position
) -> Position:
    """Return the position after the last transaction of a GTID set.

    Args:
        transactions: reads the transactions.
        start: where reading begins.
        seen: the GTIDs before the start.
        wanted: a position that has only the GTID set.

    Raises:
        ConfigError: the files do not hold all of the set.
    """
    left = _more(wanted.gtid_set, seen)
    for transaction in transactions(start) if left else ():
        if transaction.complete and transaction.gtid and _has(left, transaction, wanted):
            left = _more(left, transaction.position.gtid_set)
            if not left:
                return transaction.position
    if left:
        raise ConfigError(f"stop {wanted}: the files do not hold {left.compact()}")
    return start


def previous_gtids(events: Iterator[BinlogEvent]) -> AnyGtidSet | None:
    """Return the GTIDs before a file from its first events; None if these do not say."""
    for event in islice(events, _EVENTS_BEFORE):
        if event.header.type_code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
            found: GtidSet = event.body.gtid_set
            return found
        if event.header.type_code == EventType.GTID_LIST_EVENT:
            return MariadbGtidSet(MariadbGtid(*gtid) for gtid in event.body.gtids)
    return None


def _newest(
    files: Sequence[str], previous: Callable[[str], AnyGtidSet | None], done: AnyGtidSet
) -> str | None:
    """Return the newest file before which only transactions of a set stand."""
    for file in reversed(files):
        before = previous(file)
        if before and done and type(before) is not type(done):
            raise ConfigError(f"{done.compact()}: the files' GTIDs are of the other kind")
        if before is not None and not _more(before, done):
            return file
    return files[0] if previous(files[0]) is None else None


def _more(one: AnyGtidSet | None, other: AnyGtidSet | None) -> AnyGtidSet | None:
    """Return the GTIDs in which a set exceeds another; None for none."""
    if isinstance(one, GtidSet) and isinstance(other, GtidSet):
        return one - other or None
    if isinstance(one, MariadbGtidSet) and isinstance(other, MariadbGtidSet):
        beyond = one.domains_beyond(other)
        later = [gtid for gtid in one.positions() if gtid.domain_id in beyond]
        return MariadbGtidSet(later) if later else None
    return one or None


def _has(gtids: AnyGtidSet | None, transaction: Transaction, wanted: Position) -> bool:
    """Return whether a transaction is in a set."""
    text = transaction.gtid
    if any(loss.kind == "gtid_gap" for loss in transaction.losses):
        return False
    try:
        if isinstance(gtids, MariadbGtidSet):
            return gtids.contains(MariadbGtid.parse(text))
        return gtids is not None and gtids.contains(Gtid.parse(text))
    except GtidFormatError:
        raise _other_kind(transaction, wanted) from None


def _other_kind(transaction: Transaction, wanted: Position) -> ConfigError:
    text = transaction.gtid
    named = f"the GTID {text}, which is of another kind" if text else "no GTID"
    return ConfigError(
        f"{wanted}: the transaction at {transaction.start} has {named}; give FILE:OFFSET"
    )


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
        """Read from the ledger's position or the last XA PREPARE."""
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
