"""The index of a binlog file for planning: where the file may be split, and its statements.

An index is made by one scan of the file's headers. It is valid for the bytes that were scanned;
when the file has grown, the scan continues from there.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

from replica_client.archive.file_list import PLAIN_CONTROL, ListedFile, ReadStatement
from replica_client.archive.transaction_ranges import FileTransactionRanges, TransactionRange
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import MAGIC_SIZE, BinlogEvent, DecodeOptions
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.event_types import EventFlag, EventType
from replica_client.protocol.gtid import GtidSet, MariadbGtid, MariadbGtidSet
from replica_client.protocol.position import Position
from replica_client.schema.ddl.steps import Unrelated
from replica_client.storage.files import open_file
from replica_client.stream.files.file_order import FileMark

STEP = 1 << 20
"""Approximate bytes between two cuts."""

PROOF_SIZE = 4096
"""Bytes at the beginning and the end of a file that are hashed to recognize the file."""
_TYPE_OFFSET = 4
QUERIES = (int(EventType.QUERY_EVENT), int(EventType.QUERY_COMPRESSED_EVENT))
"""Types of events that hold a statement."""

_HEAD = (
    int(EventType.FORMAT_DESCRIPTION_EVENT),
    int(EventType.START_EVENT_V3),
    int(EventType.PREVIOUS_GTIDS_LOG_EVENT),
    int(EventType.GTID_LIST_EVENT),
)


@dataclass(frozen=True, slots=True)
class FileIndex:
    """The index of a binlog file.

    Attributes:
        size: size of the file when it was scanned.
        modified: its modification time then, in nanoseconds.
        head: hash of its first bytes.
        tail: hash of the bytes before :attr:`reached`.
        reached: position after the last complete transaction.
        ended: whether everything up to :attr:`size` was complete, and no transaction open.
        closed: whether the file ends with its closing event.
        created: time in its format description; 0 unless the source was restarted.
        is_relay_log: whether a replica wrote it.
        first: time of the first event.
        cuts: ends of transactions, ascending, each with the time at which the first transaction of
            its range began.
        events: position and bytes of events that describe the file and of statements that may
            change tables.
        commits: position of such a statement and the commit time that its GTID event states, in
            microseconds since 1970.
        next_file: the file that the ROTATE event at its end names; ``""`` without one.
        e_tag: what its object store called the file that was uploaded before this index; else
            ``""``.
    """

    size: int
    modified: int
    head: bytes
    tail: bytes = b""
    reached: int = MAGIC_SIZE
    ended: bool = False
    closed: bool = False
    created: int = 0
    is_relay_log: bool = False
    first: int = 0
    cuts: array[int] = field(default_factory=lambda: array("q"))
    events: tuple[tuple[int, bytes], ...] = ()
    commits: tuple[tuple[int, int], ...] = ()
    next_file: str = ""
    e_tag: str = ""

    def mark(self, name: str, options: DecodeOptions) -> FileMark:
        """Return the facts that give the file its place among the files of its source."""
        events = (event for event, _ in self.described(name, options))
        # A relay log holds the ROTATE events of the source.
        return FileMark.of_events(name, events, "" if self.is_relay_log else self.next_file)

    def commit_us(self, event: BinlogEvent) -> int:
        """Return when a statement of :attr:`events` was committed, in microseconds since 1970."""
        return dict(self.commits).get(event.position, event.header.timestamp * 1_000_000)

    def transaction_ranges(self, name: str) -> Iterator[TransactionRange]:
        """Yield the transaction ranges between the cuts."""
        begin = MAGIC_SIZE
        for at in range(0, len(self.cuts), 2):
            end = self.cuts[at]
            start = Position(name, begin)
            yield TransactionRange(start, Position(name, end), self.cuts[at + 1], end - begin)
            begin = end

    def described(
        self, name: str, options: DecodeOptions
    ) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
        """Yield the kept events, decoded, each with the decoder."""
        decoder = BinlogDecoder(options, name)
        for position, data in self.events:
            yield decoder.decode(data, position, name), decoder

    @property
    def has_statements(self) -> bool:
        """Whether there are statements that may change tables."""
        return any(data[_TYPE_OFFSET] in QUERIES for _, data in self.events)

    def statements(
        self, name: str, options: DecodeOptions
    ) -> Iterator[tuple[BinlogEvent, BinlogDecoder]]:
        """Yield the statements that may change tables, each with the decoder."""
        for event, decoder in self.described(name, options):
            if event.header.type_code in QUERIES:
                yield event, decoder

    def gtids_before(self, name: str, options: DecodeOptions) -> GtidSet | MariadbGtidSet | None:
        """Return the GTIDs of the transactions before this file; None where none are recorded."""
        for event, _ in self.described(name, options):
            if event.header.type_code == EventType.PREVIOUS_GTIDS_LOG_EVENT:
                found: GtidSet = event.body.gtid_set
                return found
            if event.header.type_code == EventType.GTID_LIST_EVENT:
                return MariadbGtidSet(MariadbGtid(*gtid) for gtid in event.body.gtids)
        return None

    def to_bytes(self) -> bytes:
        """Return the index as JSON bytes, for a store."""
        return json.dumps(self.to_dict()).encode()

    def to_dict(self) -> dict[str, Any]:
        """Return the index as a dictionary of JSON values."""
        return {
            "size": self.size,
            "modified": self.modified,
            "head": self.head.hex(),
            "tail": self.tail.hex(),
            "reached": self.reached,
            "ended": self.ended,
            "closed": self.closed,
            "created": self.created,
            "is_relay_log": self.is_relay_log,
            "first": self.first,
            "cuts": b64encode(self.cuts.tobytes()).decode(),
            "events": [(at, b64encode(data).decode()) for at, data in self.events],
            "commits": self.commits,
            "next_file": self.next_file,
            "e_tag": self.e_tag,
        }

    @classmethod
    def from_bytes(cls, data: bytes) -> FileIndex:
        """Return the index from the bytes of :meth:`to_bytes`.

        Raises:
            ValueError: the bytes are not an index.
        """
        return cls.from_dict(json.loads(data))

    @classmethod
    def from_dict(cls, text: dict[str, Any]) -> FileIndex:
        """Return the index from the dictionary of :meth:`to_dict`, which is modified.

        Raises:
            ValueError: the dictionary is not an index.
        """
        try:
            cuts = array("q")
            cuts.frombytes(b64decode(text.pop("cuts")))
            events = tuple((int(at), b64decode(one)) for at, one in text.pop("events"))
            head, tail = bytes.fromhex(text.pop("head")), bytes.fromhex(text.pop("tail"))
            commits = tuple((int(at), int(time)) for at, time in text.pop("commits", ()))
            return cls(**text, head=head, tail=tail, cuts=cuts, events=events, commits=commits)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"no index: {error!r}") from None


def is_current(index: FileIndex, file: ListedFile) -> bool:
    """Return whether an index describes all of a file as it is now."""
    if index.size != file.size or (index.modified != file.modified and not file.is_kept):
        return False
    if file.e_tag and index.e_tag == file.e_tag:
        return True  # the store proves it: one request for each file is saved
    with open_file(file.where) as stream:
        return index.head == _hash(stream.read(min(PROOF_SIZE, file.size)))


def make_index(
    file: ListedFile, options: DecodeOptions, earlier: FileIndex | None = None
) -> FileIndex:
    """Scan a file, or only the part that was added since an earlier scan.

    Raises:
        BinlogDecodeError: the file is damaged.
    """
    with open_file(file.where) as stream:
        begin = stream.read(min(PROOF_SIZE, file.size))
        head = _hash(begin)
        known = (
            earlier if earlier is not None and _continues(earlier, file, stream, begin) else None
        )
    index = known or FileIndex(file.size, file.modified, head)
    events, commits = list(index.events), list(index.commits)
    committed: int | None = None
    kept = {at for at, _ in events}
    facts: dict[str, Any] = {}

    def keep(event: BinlogEvent, data: bytes, decoder: BinlogDecoder) -> None:
        nonlocal committed
        code = event.header.type_code
        if hasattr(event.body, "immediate_commit_timestamp"):
            committed = event.body.immediate_commit_timestamp
        rotates = code == EventType.ROTATE_EVENT and not event.header.is_artificial
        facts.update(next_file=event.body.next_file if rotates else "")
        if event.position == MAGIC_SIZE:
            relay = bool(event.header.flags & EventFlag.LOG_EVENT_RELAY_LOG_F)
            facts.update(first=event.header.timestamp, is_relay_log=relay)
            facts.update(created=getattr(event.body, "create_timestamp", 0))
        if code in _HEAD or (code in QUERIES and concerns_tables(event, decoder)):
            if event.position not in kept:
                kept.add(event.position)
                events.append((event.position, data))
                if code in QUERIES and committed is not None:
                    commits.append((event.position, committed))

    transaction_ranges = FileTransactionRanges(
        Position(file.name, index.reached), options, STEP, keep
    )
    cuts = array("q", index.cuts)
    for transaction_range in transaction_ranges.scan(file):
        if (
            cuts
            and transaction_range.end.offset - (cuts[-4] if len(cuts) > 2 else MAGIC_SIZE) < STEP
        ):
            cuts[-2] = transaction_range.end.offset  # the last part was a small one
        elif transaction_range.end.file == transaction_range.start.file == file.name:
            cuts.extend((transaction_range.end.offset, transaction_range.timestamp))
    reached = (
        transaction_ranges.reached.offset
        if transaction_ranges.reached.file == file.name
        else index.reached
    )
    closed = transaction_ranges.closed and transaction_ranges.at_end_of(file)
    if known is not None and file.size == known.size and reached == known.reached:
        closed = known.closed  # its last event was seen by the scan before
    with open_file(file.where) as stream:
        tail = _tail(stream, reached)
    return replace(
        index,
        size=file.size,
        modified=file.modified,
        head=head,
        tail=tail,
        reached=reached,
        ended=transaction_ranges.at_end_of(file) and reached == file.size,
        closed=closed,
        cuts=cuts,
        events=tuple(events),
        commits=tuple(commits),
        **facts,
    )


def _continues(index: FileIndex, file: ListedFile, stream: Any, begin: bytes) -> bool:
    """Return whether a file is the indexed file after it has grown."""
    if file.size < index.size or index.size < PROOF_SIZE or index.head != _hash(begin):
        return False
    return index.tail == _tail(stream, index.reached)


def _tail(stream: Any, reached: int) -> bytes:
    start = max(0, reached - PROOF_SIZE)
    stream.seek(start)
    return _hash(stream.read(reached - start))


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def concerns_tables(event: BinlogEvent, decoder: BinlogDecoder) -> bool:
    """Return whether the statement of a QUERY event may change tables or databases."""
    if event.body.query in PLAIN_CONTROL:
        return False
    return not isinstance(ReadStatement.of(event, decoder.format).meaning, Unrelated)
