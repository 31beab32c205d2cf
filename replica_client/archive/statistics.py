"""The volume of an archive by table and hour, from its indexes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, field
from typing import Any, Final

from replica_client.archive.binlog_archive import IndexedFile, IndexedFiles
from replica_client.archive.file_list import ReadStatement
from replica_client.errors import ReplicaClientError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.gtid import Gtid, GtidSet, GtidSetBuilder, MariadbGtidSet

_SHOWN: Final = 10


@dataclass(slots=True)
class TableVolume:
    """The volume of a table.

    Attributes:
        inserted: rows inserted.
        updated: rows updated.
        deleted: rows deleted.
        size: bytes of its rows events.
    """

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    size: int = 0

    def add(self, inserted: int, updated: int, deleted: int, size: int) -> None:
        """Add rows and bytes."""
        self.inserted += inserted
        self.updated += updated
        self.deleted += deleted
        self.size += size

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True, slots=True)
class TransactionVolume:
    """The volume of a transaction.

    Attributes:
        file: file in which it begins.
        position: position of its first event.
        size: bytes of its events.
        rows: number of changed rows.
        seconds: from the time of its first event to its commit.
        time: time of its commit, in microseconds since 1970.
    """

    file: str
    position: int
    size: int
    rows: int
    seconds: int
    time: int


@dataclass(frozen=True, slots=True)
class LoggedStatement:
    """A statement that may have changed tables or databases.

    Attributes:
        file: its file.
        position: position of its event.
        time: time of its commit, in microseconds since 1970.
        database: the default database.
        text: its text.
    """

    file: str
    position: int
    time: int
    database: str
    text: str


@dataclass(slots=True)
class ArchiveStatistics:
    """The statistics of an archive.

    Attributes:
        files: number of files.
        size: their bytes.
        first_time: time of the first commit, in microseconds since 1970.
        last_time: time of the last commit.
        tables: volumes by ``database.table``.
        hours: volumes by hour since 1970 and ``database.table``.
        largest: the transactions with most bytes.
        most_rows: the transactions with most rows.
        longest: the transactions that took most seconds.
        statements: statements that may have changed tables.
        gaps: transactions that are missing between files, as text.
        minutes: volumes by minute since 1970 and ``database.table``; of a range of an archive.
        threads: volumes by thread of the source's connection; likewise. Key ``""``: not logged.
    """

    files: int = 0
    size: int = 0
    first_time: int = 0
    last_time: int = 0
    tables: dict[str, TableVolume] = field(default_factory=dict)
    hours: dict[int, dict[str, TableVolume]] = field(default_factory=dict)
    largest: list[TransactionVolume] = field(default_factory=list)
    most_rows: list[TransactionVolume] = field(default_factory=list)
    longest: list[TransactionVolume] = field(default_factory=list)
    statements: list[LoggedStatement] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    minutes: dict[int, dict[str, TableVolume]] = field(default_factory=dict)
    threads: dict[str, TableVolume] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the statistics as a dictionary, for JSON."""
        return asdict(self)


def statistics_of(files: IndexedFiles) -> ArchiveStatistics:
    """Return the statistics of an archive, from its indexes.

    Raises:
        BinlogDecodeError: a file whose index is made is damaged.
    """
    found = ArchiveStatistics()
    tables: dict[str, TableVolume] = defaultdict(TableVolume)
    hours: dict[int, dict[str, TableVolume]] = defaultdict(lambda: defaultdict(TableVolume))
    notable: list[TransactionVolume] = []
    reached: GtidSet | None = None
    for file in files:
        index, name = file.index, file.listed.name
        found.files += 1
        found.size += file.listed.size
        times = [t for b in index.blocks for t in (b.first_time, b.last_time) if t]
        if times:
            found.first_time = min(filter(None, (found.first_time, *times)))
            found.last_time = max(found.last_time, *times)
        for count in index.hours:
            table = index.tables[count.table]
            key = f"{table.database}.{table.name}"
            volume = (count.inserted, count.updated, count.deleted, count.size)
            tables[key].add(*volume)
            hours[count.hour][key].add(*volume)
        notable += [
            TransactionVolume(
                name,
                one.start,
                one.end - one.start,
                one.rows,
                one.seconds,
                one.last_time,
            )
            for one in index.notable
        ]
        found.statements += _statements(file, files)
        before = index.facts.gtids_before(name, files.decode)
        if isinstance(before, GtidSet) and reached is not None and (missing := before - reached):
            found.gaps.append(f"before {name}: {missing.compact()}")
        reached = _behind(file, before)
    found.tables = dict(sorted(tables.items(), key=lambda one: -one[1].size))
    found.hours = {hour: dict(hours[hour]) for hour in sorted(hours)}
    keep_notable(found, notable)
    return found


def keep_notable(found: ArchiveStatistics, notable: list[TransactionVolume]) -> None:
    """Set the largest and longest transactions of statistics to those of a list."""
    notable = list(dict.fromkeys(notable))
    found.largest = sorted(notable, key=lambda one: -one.size)[:_SHOWN]
    found.most_rows = sorted(notable, key=lambda one: -one.rows)[:_SHOWN]
    found.longest = sorted(notable, key=lambda one: -one.seconds)[:_SHOWN]


def _statements(file: IndexedFile, files: IndexedFiles) -> list[LoggedStatement]:
    found = []
    name = file.listed.name
    for event, decoder in file.index.facts.statements(name, files.decode):
        try:
            text = ReadStatement.of(event, decoder.format).text
        except ReplicaClientError:
            text = event.body.query.decode("utf-8", "replace")
        database = getattr(event.body, "schema", "") or ""
        if isinstance(database, bytes):
            database = database.decode("utf-8", "replace")
        time = file.index.facts.commit_us(event)
        found.append(LoggedStatement(name, event.position, time, database, text))
    return found


def _behind(file: IndexedFile, before: GtidSet | MariadbGtidSet | None) -> GtidSet | None:
    """Return the GTIDs at the end of a file; None where they are not known."""
    if not isinstance(before, GtidSet):
        return None
    known = GtidSetBuilder(before)
    for block in file.index.blocks:
        for sid, low, high in block.gtids:
            if ":" in sid:
                known.add(Gtid.parse(sid))
            elif "-" not in sid:
                known.add_interval(bytes.fromhex(sid), low, high)
    return known.snapshot()
