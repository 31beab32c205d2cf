"""The files of a change log: what Delta is told of each, and the commits that add them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, Transaction

from replica_client.errors import SinkError, StorageError
from replica_client.lake.delta_files import (
    data_paths,
    delta_address,
    open_delta,
    patiently,
    update_delta,
)
from replica_client.lake.parquet_files import make_directory
from replica_client.storage.files import remove_files
from replica_client.storage.location import Location, ObjectUrl
from replica_client.storage.store_errors import reason_of

COMPRESSION: Final = "zstd"
_COMMIT_ATTEMPTS: Final = 5
LOSS: Final = "loss"
"""Operation of a row that says what could not be delivered."""

_STATISTICS: Final = ("_commit_version", "_file", "database", "table")
_MAX_STATISTIC: Final = 160  # a _commit_version has 63 characters and the file's base name


class Statistics:
    """What a file's rows lie between, for readers that skip files."""

    def __init__(self) -> None:
        self._rows = 0
        self._least: dict[str, str] = {}
        self._most: dict[str, str] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows into account."""
        self._rows += batch.num_rows
        for name in _STATISTICS:
            found = pc.min_max(batch.column(name)).as_py()
            least, most = found["min"], found["max"]
            self._least[name] = min(self._least.get(name, least), least)
            self._most[name] = max(self._most.get(name, most), most)

    def text(self) -> str:
        """As Delta keeps it."""
        short = [name for name in self._most if len(self._most[name]) <= _MAX_STATISTIC]
        return json.dumps(
            {
                "numRecords": self._rows,
                "minValues": {name: self._least[name][:_MAX_STATISTIC] for name in short},
                "maxValues": {name: self._most[name] for name in short},
                "nullCount": dict.fromkeys(_STATISTICS, 0),
            }
        )


def commit_files(
    table: Location,
    application: str,
    number: int,
    actions: Sequence[AddAction],
    *,
    opened: DeltaTable | None = None,
) -> bool:
    """Add files to a change log, all or none, unless (application, number) is there already.

    Args:
        table: directory of the change log.
        application: who commits.
        number: of the commit.
        actions: the files.
        opened: the change log, opened before; it is brought up to date, which takes less than to read all of it.

    Returns:
        whether they were added; False: the change log had them.

    Raises:
        SinkError: it failed; nothing of it is visible.
    """
    for attempt in range(_COMMIT_ATTEMPTS):
        try:
            if opened is None:
                delta = open_delta(table)
            else:
                delta = opened
                update_delta(delta, table)
            done = delta.transaction_version(application)
            if done is not None and done >= number:
                # An answer may be lost, and the request sent again: then our own commit is there.
                return bool(actions) and actions[0].path in data_paths(delta)
            delta.create_write_transaction(
                list(actions),
                mode="append",
                schema=delta.schema(),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(application, number)], max_commit_retries=0
                ),
            )
            return True
        except (DeltaError, OSError) as error:
            # Where somebody else committed meanwhile, it is looked again whether these are there.
            comes_again = isinstance(error, CommitFailedError) or isinstance(table, ObjectUrl)
            if not comes_again or attempt + 1 == _COMMIT_ATTEMPTS:
                text = reason_of(error, table)
                raise SinkError(
                    f"batch {number} of {application} could not be committed to {table}: {text}; "
                    "nothing of it is visible: mend the cause, then start again"
                ) from None
    raise AssertionError("the last attempt returns or raises")


def remove_uncommitted(table: Location, paths: Sequence[str]) -> None:
    """Remove files that are of no version; nothing where that cannot be told."""
    if paths:
        with suppress(DeltaError, OSError, SinkError, StorageError):
            left = set(paths) - data_paths(open_delta(table))
            remove_files(*(table / path for path in left))


def open_change_log(directory: Location, schema: pa.Schema) -> DeltaTable:
    """The change log in a directory, created when there is none.

    Raises:
        SinkError: it cannot be made, or something else is there.
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
