"""The change log: its schema, rows and files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, Transaction

from replica_client.errors import SinkError, StorageError
from replica_client.lake.change_files import envelope_rows, is_typed
from replica_client.lake.data_files import (
    data_paths,
    delta_address,
    open_delta,
    patiently,
    update_delta,
)
from replica_client.lake.parquet_files import make_directory, read_parquet
from replica_client.schema.history import SchemaChange
from replica_client.storage.files import remove_files
from replica_client.storage.location import Location, ObjectUrl, reason_of

COMPRESSION: Final = "zstd"
_COMMIT_ATTEMPTS: Final = 5
LOSS: Final = "loss"
"""Operation of a row that records changes that could not be delivered."""

_STATISTICS: Final = ("_commit_version", "_file", "database", "table")
_MAX_STATISTIC: Final = 160  # a _commit_version has 63 characters and the file's base name


class Statistics:
    """The bounds of a file's rows, for readers that skip files."""

    def __init__(self) -> None:
        self._rows = 0
        self._least: dict[str, str] = {}
        self._most: dict[str, str] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Include the rows of a batch."""
        self._rows += batch.num_rows
        for name in _STATISTICS:
            found = pc.min_max(batch.column(name)).as_py()
            least, most = found["min"], found["max"]
            self._least[name] = min(self._least.get(name, least), least)
            self._most[name] = max(self._most.get(name, most), most)

    def text(self) -> str:
        """Return the statistics as JSON, in Delta's format."""
        short = [name for name in self._most if len(self._most[name]) <= _MAX_STATISTIC]
        return json.dumps(
            {
                "numRecords": self._rows,
                "minValues": {name: self._least[name][:_MAX_STATISTIC] for name in short},
                "maxValues": {name: self._most[name] for name in short},
                "nullCount": dict.fromkeys(_STATISTICS, 0),
            }
        )


class CountedFiles(NamedTuple):
    """Files of one application's commit.

    Attributes:
        application: the application that commits.
        number: the application's number of the commit.
        actions: the files.
    """

    application: str
    number: int
    actions: Sequence[AddAction]


def commit_files(
    table: Location,
    application: str,
    number: int,
    actions: Sequence[AddAction],
    about: Mapping[str, str] | None = None,
    opened: DeltaTable | None = None,
) -> bool:
    """Add files to a change log, all or none, unless (application, number) was committed already.

    Args:
        table: directory of the change log.
        application: the application that commits.
        number: its number of the commit.
        actions: the files.
        about: information for readers of the commit (``commitInfo``).
        opened: the change log, which is brought up to date; None: it is opened.

    Returns:
        whether they were added; False: the change log had them.

    Raises:
        SinkError: the commit failed; none of the files is visible.
    """
    return commit_several(table, [CountedFiles(application, number, actions)], about, opened)


def commit_several(
    table: Location,
    parts: Sequence[CountedFiles],
    about: Mapping[str, str] | None = None,
    opened: DeltaTable | None = None,
) -> bool:
    """Add files of several applications in one commit; skip those that were committed already.

    Returns:
        whether any were added; False: the change log had all.

    Raises:
        SinkError: the commit failed; none of the files is visible.
    """
    for attempt in range(_COMMIT_ATTEMPTS):
        try:
            delta = open_delta(table) if opened is None else opened
            if opened is not None:
                update_delta(opened, table)
            left = [one for one in parts if not _is_there(delta, one)]
            if not left:
                # If a response is lost and the request is repeated, our own commit exists already.
                there = data_paths(delta)
                return any(one.actions and one.actions[0].path in there for one in parts)
            delta.create_write_transaction(
                [action for one in left for action in one.actions],
                mode="append",
                schema=delta.schema(),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(one.application, one.number) for one in left],
                    max_commit_retries=0,
                    custom_metadata=dict(about or {}),
                ),
            )
            return True
        except (DeltaError, OSError) as error:
            # After a commit by another writer, check again whether these files were added.
            comes_again = isinstance(error, CommitFailedError) or isinstance(table, ObjectUrl)
            if not comes_again or attempt + 1 == _COMMIT_ATTEMPTS:
                what = ", ".join(f"batch {one.number} of {one.application}" for one in parts[:3])
                text = reason_of(error, table)
                raise SinkError(
                    f"{what} could not be committed to {table}: {text}; "
                    "nothing of it is visible: mend the cause, then start again"
                ) from None
    raise AssertionError("the last attempt returns or raises")


def _is_there(delta: DeltaTable, files: CountedFiles) -> bool:
    done = delta.transaction_version(files.application)
    return done is not None and done >= files.number


def remove_uncommitted(table: Location, paths: Sequence[str]) -> None:
    """Remove files that are of no version; do nothing where that cannot be determined."""
    if paths:
        with suppress(DeltaError, OSError, SinkError, StorageError):
            left = set(paths) - data_paths(open_delta(table))
            remove_files(*(table / path for path in left))


def open_change_log(directory: Location, schema: pa.Schema) -> DeltaTable:
    """Open the change log in a directory, and create it when there is none.

    Raises:
        SinkError: the change log cannot be created, or the directory has something else.
    """
    try:
        make_directory(directory)
        address, options = delta_address(directory)
        return patiently(
            directory,
            "the change log cannot be made",
            lambda: DeltaTable.create(
                address,
                schema,
                mode="ignore",
                storage_options=options,
                name="change_log",
                description="Row changes from a binlog, in the envelope of replica_client",
                configuration={"delta.dataSkippingStatsColumns": ",".join(_STATISTICS)},
            ),
        )
    except OSError as error:
        text = reason_of(error, directory)
        raise SinkError(f"{directory}: the change log cannot be made: {text}") from None


_OPERATIONS = ("insert", "update", "delete")


def change_log_rows(directory: Location) -> list[dict[str, Any]]:
    """Return all row changes in the order of the binlog, as mappings by the envelope's columns.

    Typed change files are converted to the envelope, with ``before`` and ``after`` as JSON objects.
    Without a table, the list is empty.
    """
    rows: list[dict[str, Any]] = []
    for found in _files(directory):
        if is_typed(found.schema):
            rows += envelope_rows(found)
        else:
            rows += [row for row in found.to_pylist() if row["operation"] in _OPERATIONS]
    rows.sort(key=lambda row: (row["_commit_version"], row["_event_index"], row["_row_index"]))
    return rows


def change_log_row_count(directory: Location) -> int:
    """Return the number of row changes in a change log; 0 without a table."""
    count = 0
    wanted = pa.array([*_OPERATIONS, "update_postimage"], pa.string())
    for found in _files(directory, ["operation"]):
        kinds = found["operation"].cast(pa.string())
        count += pc.sum(pc.is_in(kinds, value_set=wanted)).as_py() or 0
    return count


def _files(directory: Location, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    try:
        paths = data_paths(open_delta(directory))
    except TableNotFoundError:
        return
    for path in sorted(paths):
        yield read_parquet(directory / path, columns)


SNAPSHOT, SNAPSHOT_CHUNK = "snapshot", "snapshot_chunk"
"""Operations of a copied row, and of the last row of a chunk, which describes the chunk."""

CHANGE_LOG_SCHEMA: Final = pa.schema(
    [
        pa.field("_commit_version", pa.string(), nullable=False),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("_gtid", pa.string(), nullable=False),
        pa.field("_file", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_event_index", pa.int64(), nullable=False),
        pa.field("_row_index", pa.int64(), nullable=False),
        pa.field("database", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("operation", pa.string(), nullable=False),
        pa.field("before", pa.string()),
        pa.field("after", pa.string()),
    ]
)


def statement_json(change: SchemaChange) -> str:
    """Return a statement as JSON: its text, its session settings, and the resulting definition.

    ``{"statement": …, "session": {"database": …, "flavor": …, "version": […], "sql_mode": …,
    "server_charset": …, "thread_id": …, "error_code": …}, "definition": {"database": …, "name": …,
    "columns": […], …}}``; ``definition`` is null when the table was dropped or its definition is
    not known.
    """
    after = change.after
    definition = None
    if after is not None:
        definition = {"database": after.database, "name": after.name, **after.to_json()}
    session = None if change.context is None else asdict(change.context)
    return json.dumps(
        {"statement": change.statement, "session": session, "definition": definition},
        ensure_ascii=False,
    )
