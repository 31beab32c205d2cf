"""A current-state table: a Delta table with the current rows of the source's table.

Every commit carries (pipeline, step): a step that was committed is skipped when it is repeated.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, Transaction

from replica_client.errors import SinkError
from replica_client.lake import rewrite
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.data_files import (
    FULL_DATA_FILE_SIZE,
    DataFile,
    DataFileWork,
    data_files_of,
    data_paths,
    delta_address,
    delta_rows,
    neighbours,
    open_delta,
    patiently,
    plan_data_files,
    update_delta,
)
from replica_client.lake.lake_table import COPY_KEY, LakeTable
from replica_client.lake.merge import Merge, Merged, plan_merges
from replica_client.lake.parquet_files import make_directory, read_parquet
from replica_client.lake.rewrite import NetRows, NewFile, Rewrite
from replica_client.storage.location import Location, reason_of

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_COMMIT_ATTEMPTS: Final = 4
"""Attempts of one commit to a store; each attempt first checks whether the commit exists."""


class Work(Protocol):
    """Files to write: :class:`~replica_client.lake.rewrite.Rewrite`, or a merge."""

    @property
    def size(self) -> int:
        """Approximate bytes that are read."""

    def run(self) -> Any:
        """Write the files, and return the result."""


Runner = Callable[[Sequence[Any]], list[Any]]
"""Runs each :class:`Work`, in this process or on executors; returns the results in order."""


class StateTable:
    """One state table on disk.

    Args:
        directory: directory of the Delta table.
        shape: its shape.
        pipeline: the pipeline under which steps are counted.
    """

    def __init__(self, directory: Location, shape: LakeTable, pipeline: str) -> None:
        self.directory = directory
        self.shape = shape
        self._pipeline = pipeline
        self._delta: DeltaTable | None = None
        self._planned: dict[str, DataFile] = {}

    @property
    def step(self) -> int:
        """The last committed step; -1 for none, also where there is no table."""
        delta = self._open()
        found = None if delta is None else delta.transaction_version(self._pipeline)
        return -1 if found is None else int(found)

    def _open(self) -> DeltaTable | None:
        try:
            if self._delta is None:
                self._delta = open_delta(self.directory)
            else:
                update_delta(self._delta, self.directory)
        except TableNotFoundError:
            self._delta = None
        return self._delta

    def create(self) -> None:
        """Create the table where there is none.

        Raises:
            SinkError: the table cannot be created.
        """
        model = self.shape.model
        try:
            make_directory(self.directory)
            address, options = delta_address(self.directory)
            patiently(
                self.directory,
                "the table cannot be made",
                lambda: DeltaTable.create(
                    address,
                    self.shape.schema,
                    mode="ignore",
                    storage_options=options,
                    name=f"{model.database}.{model.name}",
                    description="Current rows of a MySQL or MariaDB table, kept by replica_client",
                    configuration={"delta.dataSkippingStatsColumns": self.shape.key[0]},
                ),
            )
        except OSError as error:
            raise self._failed("the table cannot be made", error) from None

    def apply(self, change: NetRows, step: int, runner: Runner) -> tuple[int, int]:
        """Commit removed and added rows at once.

        Returns:
            how many files were written or removed, and how many were kept.

        Raises:
            SinkError: the commit failed; none of it is visible.
        """
        delta = self._open()
        if delta is None:
            raise SinkError(f"{self.directory}: the table is gone; restore it, or start over")
        if (done := delta.transaction_version(self._pipeline)) is not None and done >= step:
            return 0, 0
        data_files = data_files_of(delta, self.shape)
        works = plan_data_files(data_files, self.shape, change)
        gone = self.shape.key_table(change.keys)
        written = runner([self._rewrite(work, gone, change.rows) for work in works])
        removed = [
            work.data_file
            for work, files in zip(works, written, strict=True)
            if work.data_file is not None and files is not None
        ]
        added = [file for files in written if files is not None for file in files]
        self._commit(delta, removed, added, step)
        return len(removed) + len(added), len(data_files) - len(removed)

    def add_files(self, files: Sequence[NewFile], step: int) -> None:
        """Commit files with additional rows.

        Raises:
            SinkError: the commit failed; none of it is visible.
        """
        delta = self._open()
        if delta is None:
            raise SinkError(f"{self.directory}: the table is gone; restore it, or start over")
        done = delta.transaction_version(self._pipeline)
        if done is None or done < step:
            self._commit(delta, [], files, step)

    def plan_merges(
        self, log: Location, changes: Sequence[ChangeFile], step: int, since: str = ""
    ) -> list[Merge] | None:
        """Return the merges of change files into data files; None when the table has the step.

        Args:
            log: directory of the change log.
            changes: in the order of the binlog.
            step: step of the commit.
            since: only changes of this ``_commit_version`` or a later one.

        Raises:
            SinkError: the table was removed.
        """
        delta = self._open()
        if delta is None:
            raise SinkError(f"{self.directory}: the table is gone; restore it, or start over")
        if (done := delta.transaction_version(self._pipeline)) is not None and done >= step:
            return None
        files = data_files_of(delta, self.shape)
        self._planned = {file.path: file for file in files}
        return plan_merges(
            self.directory, self.shape, files, log, changes, FULL_DATA_FILE_SIZE, since
        )

    def commit_merges(self, merged: Sequence[Merged], step: int) -> tuple[int, int]:
        """Commit the results of merges at once; returns and raises like :meth:`apply`."""
        assert self._delta is not None
        removed = [self._planned[path] for one in merged for path in one.removed]
        added = [file for one in merged for file in one.added]
        kept = len(self._planned) - len(removed)
        self._commit(self._delta, removed, added, step)
        return len(removed) + len(added), kept

    def _rewrite(self, work: DataFileWork, gone: pa.Table, rows: pa.Table) -> Rewrite:
        data_file = work.data_file
        return Rewrite(
            self.directory,
            () if data_file is None else (data_file.path,),
            0 if data_file is None else data_file.size,
            self.shape.schema,
            self.shape.key,
            self.shape.is_ordered,
            gone.take(pa.array(work.removed, pa.int64())) if work.removed else None,
            rows.take(pa.array(work.added, pa.int64())) if work.added else None,
        )

    def truncate(self, step: int, runner: Runner) -> None:
        """Remove all rows, or mark them as deleted."""
        delta = self._open()
        if delta is None:
            return
        done = delta.transaction_version(self._pipeline)
        if done is not None and done >= step:
            return
        data_files = data_files_of(delta, self.shape)
        added: list[NewFile] = []
        if self.shape.keeps_deleted:
            works = [
                Rewrite(
                    self.directory, (file.path,), file.size, self.shape.schema, self.shape.key,
                    self.shape.is_ordered, deleted=True,
                )
                for file in data_files
            ]  # fmt: skip
            added = [file for files in runner(works) if files is not None for file in files]
        self._commit(delta, data_files, added, step)

    def reshape(
        self, shape: LakeTable, names: Mapping[str, str], step: int, runner: Runner
    ) -> None:
        """Give the table other columns.

        Args:
            shape: the new shape.
            names: the old column of each new column; added columns have none.
            step: step of the commit.
            runner: see :data:`Runner`.
        """
        delta = self._open()
        old, self.shape = self.shape, shape
        if delta is None:
            return
        if (done := delta.transaction_version(self._pipeline)) is not None and done >= step:
            return
        data_files = data_files_of(delta, old)
        kept = {**{name: name for name in shape.schema.names if name.startswith("_")}, **names}
        works = [
            Rewrite(
                self.directory, (data_file.path,), data_file.size, shape.schema, shape.key,
                shape.is_ordered, renamed=kept,
            )
            for data_file in data_files
        ]  # fmt: skip
        written = runner(works)
        added = [file for files in written if files is not None for file in files]
        self._commit(delta, data_files, added, step, reshaped=True)

    def add_columns(self, shape: LakeTable, step: int) -> None:
        """Add columns that are null in all rows; no file is rewritten."""
        delta = self._open()
        self.shape = shape
        if delta is None:
            return
        done = delta.transaction_version(self._pipeline)
        if done is not None and done >= step:
            return
        there = {one.name for one in delta.schema().fields}
        new = [one for one in Schema.from_arrow(shape.schema).fields if one.name not in there]
        try:
            if new:
                delta.alter.add_columns(new)
                delta = open_delta(self.directory)
        except (DeltaError, OSError) as error:
            raise self._failed("columns cannot be added", error) from None
        self._commit(delta, [], [], step)

    def compact(self, runner: Runner) -> tuple[int, int]:
        """Merge neighbouring small files.

        Returns:
            how many files there were, and how many there are.
        """
        delta = self._open()
        if delta is None:
            return 0, 0
        data_files = data_files_of(delta, self.shape)
        groups = neighbours(data_files)
        works = [
            Rewrite(
                self.directory,
                tuple(data_file.path for data_file in group),
                sum(data_file.size for data_file in group),
                self.shape.schema,
                self.shape.key,
                self.shape.is_ordered,
                renamed={name: name for name in self.shape.schema.names},
            )
            for group in groups
        ]
        if not works:
            return len(data_files), len(data_files)
        added = [file for files in runner(works) if files is not None for file in files]
        removed = [data_file for group in groups for data_file in group]
        self._commit(delta, removed, added, None)
        return len(data_files), len(data_files) - len(removed) + len(added)

    def copies(self, digests: Iterable[str]) -> Counter[str]:
        """Return how many equal rows of each digest a table without a primary key has."""
        wanted = set(digests)
        delta = self._open()
        if delta is None or not wanted:
            return Counter()
        values, counted = pa.array(sorted(wanted), pa.string()), Counter[str]()
        for file in data_files_of(delta, self.shape):
            keys = read_parquet(self.directory / file.path, [COPY_KEY])[COPY_KEY]
            parts = pc.list_element(pc.split_pattern(keys, "#"), 0)
            counted.update(parts.filter(pc.is_in(parts, value_set=values)).to_pylist())
        return counted

    def data_files(self) -> list[DataFile]:
        """Return the files of the newest version, in the order of their keys; empty if no table."""
        delta = self._open()
        return [] if delta is None else data_files_of(delta, self.shape)

    def dataset(self) -> ds.Dataset:
        """Return the current rows as a dataset.

        Raises:
            SinkError: there is no table.
        """
        delta = self._open()
        if delta is None:
            raise SinkError(f"{self.directory}: there is no table")
        return delta_rows(delta, self.directory)

    def _commit(
        self,
        delta: DeltaTable,
        removed: Sequence[DataFile],
        added: Sequence[NewFile],
        step: int | None,
        *,
        reshaped: bool = False,
    ) -> None:
        """Commit removed and added files.

        ``step`` None: the rows stay the same, only their files change.
        """
        changed = step is not None
        now = int(time.time() * 1000)
        actions: list[Any] = [
            AddAction(file.path, file.size, {}, file.modified, changed, file.statistics)
            for file in added
        ]
        if not reshaped:  # an overwrite removes all files on its own
            actions += [
                RemoveAction(data_file.path, changed, now, data_file.size) for data_file in removed
            ]
        counted = [] if step is None else [Transaction(self._pipeline, step)]
        planned = delta.version()
        for attempt in range(1, _COMMIT_ATTEMPTS + 1):
            try:
                delta.create_write_transaction(
                    actions,
                    mode="overwrite" if reshaped else "append",
                    schema=Schema.from_arrow(self.shape.schema) if reshaped else delta.schema(),
                    commit_properties=CommitProperties(
                        app_transactions=counted, max_commit_retries=0
                    ),
                )
                return
            except (DeltaError, OSError) as error:
                taken = isinstance(error, CommitFailedError)
                if not taken and isinstance(self.directory, Path):
                    raise self._failed("the commit failed", error) from None
                # If a response is lost and the request repeated, our own commit is the conflict.
                self._delta = None
                now_there = self._open()
                there = set() if now_there is None else data_paths(now_there)
                if added and added[0].path in there:
                    return
                is_done = step is not None and self.step >= step
                # The removal was planned for one version; files of another may have other rows.
                taken = taken or (now_there is not None and now_there.version() != planned)
                if taken or is_done:
                    rewrite.remove(self.directory, added)
                if is_done:
                    return  # an abandoned driver committed it, or we did, unnoticed
                if taken:
                    raise self._failed("somebody else changed the table", error) from None
                if now_there is None or attempt == _COMMIT_ATTEMPTS:
                    raise self._failed("the commit failed", error) from None
                delta = now_there

    def _failed(self, what: str, error: Exception) -> SinkError:
        text = reason_of(error, self.directory)
        return SinkError(
            f"{self.directory}: {what}: {text}; nothing of it is visible: mend the cause, then "
            "start again"
        )
