"""Versions of the change log, their steps, tables and retention.

A step is a number: the change log's version, and inside it 2 for each statement before (rows) and
one more for the statement itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from replica_client.errors import SinkError, StorageError
from replica_client.lake.change_files import DETAILS, ChangeFile
from replica_client.lake.config import PipelineConfig
from replica_client.lake.data_files import open_delta
from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.parquet_files import read_parquet
from replica_client.lake.unmerged import from_json
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.schema.ddl.steps import TableName
from replica_client.storage.files import read_file
from replica_client.storage.location import Location, reason_of

ORDER = [
    ("_commit_version", "ascending"),
    ("_event_index", "ascending"),
    ("_row_index", "ascending"),
]
_COLUMNS = (
    "_commit_version", "_commit_timestamp", "_gtid", "_file", "_offset", "_event_index", "_row_index",
    "database", "table", "operation", "before", "after",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A file of the change log.

    Attributes:
        path: path relative to the change log.
        rows: number of rows.
        last: the greatest ``_commit_version`` in it; ``""`` when not known.
        details: facts that the task that wrote the file stated; None for a plain file of the
            envelope.
    """

    path: str
    rows: int
    last: str
    details: ChangeFile | None = None


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """A commit of the change log.

    Attributes:
        number: the version.
        files: the files with new rows.
        transactions: number of the commit by application.
        about: position and commit time, as ``replica.position`` and the like.
    """

    number: int
    files: tuple[LoggedFile, ...]
    transactions: dict[str, int]
    about: dict[str, str] = field(default_factory=dict)


class ChangeLogVersions:
    """A reader of a change log, commit by commit.

    Args:
        directory: directory of its Delta table.
    """

    def __init__(self, directory: Location) -> None:
        self.directory = directory
        self._last = -1
        self._ahead: dict[int, bytes] = {}

    def latest(self) -> int:
        """Return the number of the last version.

        The table is opened once: each time that costs as many requests as it has commits since its checkpoint.
        Afterwards the entry of the next commit is looked for.
        """
        if self._last < 0:
            self._last = int(open_delta(self.directory).version())
            return self._last
        while (data := read_file(self._entry(self._last + 1))) is not None:
            self._last += 1
            self._ahead[self._last] = data
        return self._last

    def _entry(self, number: int) -> Location:
        return self.directory / "_delta_log" / f"{number:020d}.json"

    def version(self, number: int) -> LoggedVersion:
        """Read one commit.

        Raises:
            SinkError: its entry in the table's log was removed.
        """
        data = self._ahead.pop(number, None) or read_file(self._entry(number))
        if data is None:
            raise SinkError(
                f"{self._entry(number)} is gone: the current tables have not taken it yet; restore it, or start over "
                "with a snapshot"
            )
        files, transactions, about = [], {}, {}
        for line in data.decode().splitlines():
            action = json.loads(line)
            if (add := action.get("add")) and add.get("dataChange", True):
                statistics = json.loads(add.get("stats") or "{}")
                last = statistics.get("maxValues", {}).get("_commit_version", "")
                details = statistics.get(DETAILS)
                files.append(
                    LoggedFile(
                        add["path"],
                        int(statistics.get("numRecords", 0)),
                        last,
                        None if details is None else ChangeFile(**details),
                    )
                )
            elif txn := action.get("txn"):
                transactions[str(txn["appId"])] = int(txn["version"])
            elif stated := action.get("commitInfo"):
                about = {
                    name: str(text) for name, text in stated.items() if name.startswith("replica.")
                }
        return LoggedVersion(number, tuple(files), transactions, about)

    def rows(self, files: Sequence[LoggedFile], *, sort: bool = True) -> pa.Table:
        """Read the rows of files, in the order of the binlog.

        Raises:
            SinkError: a file cannot be read.
        """
        try:
            parts = [read_parquet(self.directory / file.path, _COLUMNS) for file in files]
        except (OSError, StorageError, pa.ArrowInvalid) as error:
            raise self._unreadable(error) from None
        if not parts:
            return pa.table({name: pa.array([], pa.string()) for name in _COLUMNS})
        found = pa.concat_tables(parts)
        return found.sort_by(ORDER) if sort else found

    def runs(self, version: LoggedVersion) -> Iterator[tuple[list[ChangeFile], pa.Table | None]]:
        """Yield the contents of a version in binlog order: change files, or rows of the envelope.

        Raises:
            SinkError: a file cannot be read.
        """
        plain = [file for file in version.files if file.details is None]
        if plain:
            yield [], self.rows(plain)
        typed: dict[tuple[int, int], list[ChangeFile]] = {}
        others: dict[int, pa.Table] = {}
        for file in version.files:
            if (one := file.details) is None:
                continue
            if one.table:
                typed.setdefault((one.part, one.section), []).append(one)
            else:
                others[one.part] = self._others(file)
        for part in sorted({part for part, _ in typed} | set(others)):
            sections = {section for known, section in typed if known == part}
            rows = others.get(part)
            if rows is not None:
                sections |= set(pc.unique(rows["_section"]).to_pylist())
            for section in sorted(sections):
                if files := typed.get((part, section)):
                    yield sorted(files, key=lambda one: one.piece), None
                if rows is not None:
                    found = rows.filter(pc.equal(rows["_section"], section))
                    if found.num_rows:
                        yield [], found.drop_columns(["_section"])

    def commit_versions(self, file: ChangeFile) -> pa.ChunkedArray:
        """Read the ``_commit_version`` of each row of a change file.

        Raises:
            SinkError: the file cannot be read.
        """
        try:
            found = read_parquet(self.directory / file.path, ["_commit_version"])
            return found["_commit_version"].cast(pa.string())
        except (OSError, StorageError, pa.ArrowInvalid) as error:
            raise self._unreadable(error) from None

    def _others(self, file: LoggedFile) -> pa.Table:
        try:
            return read_parquet(self.directory / file.path, (*_COLUMNS, "_section"))
        except (OSError, StorageError, pa.ArrowInvalid) as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: Exception) -> SinkError:
        text = reason_of(error, self.directory)
        return SinkError(
            f"{self.directory}: {text}; a file that the current tables need cannot be read (was it "
            "removed by a vacuum?): restore it, or start over with a snapshot"
        )

    def since(self, commit_version: str, before: int) -> list[LoggedVersion]:
        """Return the versions, in order, that may have rows of transactions from a position on.

        Args:
            commit_version: ``_commit_version`` of the position.
            before: the version that ends the search.
        """
        found: list[LoggedVersion] = []
        for number in range(before - 1, -1, -1):
            version = self.version(number)
            files = tuple(f for f in version.files if not f.last or f.last >= commit_version)
            if files:
                found.append(LoggedVersion(number, files, version.transactions))
            elif version.files and not any("/snapshot/" in name for name in version.transactions):
                break  # the stream's versions follow the binlog
        return found[::-1]


STEPS: Final = 1 << 20
"""Steps of one version of the change log."""


def end_of(version: int) -> int:
    """Return the last step of a version."""
    return version * STEPS + STEPS - 1


def is_inside(step: int) -> bool:
    """Return whether a step is before the end of its version."""
    return step >= 0 and step % STEPS != STEPS - 1


def first_untaken(step: int) -> int:
    """Return the first version of the change log that has changes after a step."""
    version, inside = divmod(step, STEPS)
    return version + 1 if inside == STEPS - 1 else version


_PAUSE: Final = 3600.0
_READERS_HOURS: Final = 24
"""Hours that a file stays after the version that removed it, for readers of older versions."""


class Retention:
    """The retention of a pipeline's change log; a run applies it repeatedly.

    Args:
        config: the pipeline's configuration.
    """

    def __init__(self, config: PipelineConfig) -> None:
        self._config = config
        self._next = 0.0

    def apply(self, catalog: LakeCatalog | None) -> int:
        """Remove files from the change log, at the first call and then once an hour.

        Changes that the current tables have not applied stay, and all changes while a table is
        copied: the copy is brought up to date from the log. A batch that another process commits at
        the same time goes first.

        Args:
            catalog: the lake's catalog; None where there are no current tables.

        Returns:
            the number of files that the newest version no longer has.

        Raises:
            SinkError: the change log cannot be read or written.
        """
        seconds = self._config.lake.retain
        if seconds is None or time.monotonic() < self._next:
            return 0
        if catalog is not None and any(t.status == "copying" for t in catalog.tables.values()):
            return 0
        self._next = time.monotonic() + _PAUSE
        return forget_changes(self._config, catalog, time.time() - seconds)


def forget_changes(config: PipelineConfig, catalog: LakeCatalog | None, before: float) -> int:
    """Remove applied changes that were written before a time, in seconds since 1970.

    Return the number of files that the newest version no longer has.
    """
    log = ChangeLogVersions(config.change_log)
    try:
        needed: set[str] = set()
        if catalog is not None:
            for entry in catalog.tables.values():
                needed |= {file.path for _, file in from_json(entry.waiting)}
            for number in range(first_untaken(catalog.step), log.latest() + 1):
                needed |= {file.path for file in log.version(number).files}
        delta = open_delta(config.change_log)
        there = pa.table(delta.get_add_actions(flatten=True))
        now = int(time.time() * 1000)
        gone: list[AddAction | RemoveAction] = [
            RemoveAction(path, True, now, size)
            for path, size, written in zip(
                there["path"].to_pylist(),
                there["size_bytes"].to_pylist(),
                there["modification_time"].cast(pa.int64()).to_pylist(),
                strict=True,
            )
            if written < before * 1000 and path not in needed
        ]
        if gone:
            delta.create_write_transaction(
                gone,
                mode="append",
                schema=delta.schema(),
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        delta.vacuum(
            retention_hours=_READERS_HOURS, dry_run=False, enforce_retention_duration=False
        )
    except CommitFailedError:
        return 0
    except (DeltaError, OSError) as error:
        text = reason_of(error, config.change_log)
        raise SinkError(f"{config.change_log}: {text}") from None
    return len(gone)


ROWS = pa.array(["insert", "update", "delete"])
"""Operations of changed rows; all others are statements, losses and copies."""


def by_table(rows: pa.Table) -> Iterator[tuple[TableName, pa.Table]]:
    """Yield the rows of each table, in their order.

    The rows are sorted once, however many tables there are.
    """
    if not rows.num_rows:
        return
    keys = pa.table(
        {
            "database": rows["database"],
            "table": rows["table"],
            "at": pa.array(range(rows.num_rows), pa.int64()),
        }
    )
    names = keys.group_by(["database", "table"], use_threads=False).aggregate([("at", "count")])
    if names.num_rows == 1:
        yield (rows["database"][0].as_py(), rows["table"][0].as_py()), rows
        return
    order = pc.sort_indices(
        keys, [("database", "ascending"), ("table", "ascending"), ("at", "ascending")]
    )
    ordered, begin = rows.take(order), 0
    names = names.sort_by([("database", "ascending"), ("table", "ascending")])
    for name in names.to_pylist():
        yield (name["database"], name["table"]), ordered.slice(begin, name["at_count"])
        begin += name["at_count"]
