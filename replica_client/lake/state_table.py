"""A current-state table: a Delta table with the rows that the source's table has now.

Every commit carries (pipeline, step): a step that was committed is passed over when it comes again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
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
    neighbours,
    plan_data_files,
)
from replica_client.lake.delta_files import (
    data_paths,
    delta_address,
    delta_rows,
    open_delta,
    patiently,
    update_delta,
)
from replica_client.lake.lake_table import COPY_KEY, LakeTable
from replica_client.lake.merge import Merge, Merged, plan_merges
from replica_client.lake.net_rows import NetRows
from replica_client.lake.parquet_files import make_directory, read_parquet
from replica_client.lake.rewrite import NewFile, Rewrite
from replica_client.storage.location import Location
from replica_client.storage.store_errors import reason_of

_COMMIT_ATTEMPTS: Final = 4
"""Times that a store is asked for one commit; each time it is looked first whether it is there."""


class Work(Protocol):
    """Files to be written: :class:`~replica_client.lake.rewrite.Rewrite`, or a merge."""

    @property
    def size(self) -> int:
        """Bytes that are read, about."""

    def run(self) -> Any:
        """Write them; what they are."""


Runner = Callable[[Sequence[Any]], list[Any]]
"""Runs works (:class:`Work`) somewhere; the results are in their order."""


class StateTable:
    """One state table on disk.

    Args:
        directory: of the Delta table.
        shape: what it looks like.
        pipeline: under which steps are counted.
    """

    def __init__(self, directory: Location, shape: LakeTable, pipeline: str) -> None:
        self.directory = directory
        self.shape = shape
        self._pipeline = pipeline
        self._delta: DeltaTable | None = None
        self._planned: dict[str, DataFile] = {}

    @property
    def step(self) -> int:
        """The last step that was committed; -1 for none, also where there is no table."""
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
        """Make the table where there is none.

        Raises:
            SinkError: it cannot be made.
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
        """Let rows go and come, in one commit.

        Returns:
            how many files were written or removed, and how many stayed as they were.

        Raises:
            SinkError: it failed; nothing of it is visible.
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
        """Let files with more rows be in the table, in one commit.

        Raises:
            SinkError: it failed; nothing of it is visible.
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
        """What change files have to be merged into which files; None when the table has the step.

        Args:
            log: directory of the change log.
            changes: in the order of the binlog.
            step: of the commit.
            since: only changes of this ``_commit_version`` or a later one.

        Raises:
            SinkError: the table is gone.
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
        """Let what was merged be in the table, in one commit; as :meth:`apply`."""
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
        """Let all rows go, or be marked as deleted."""
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
            shape: the new one.
            names: for each new column the old one that it is made of; new ones have none.
            step: of the commit.
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
        """Give the table more columns, null in all rows; no file is written anew."""
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
        """Put neighbouring small files together.

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
        """How many equal rows of each digest there are, of a table without a primary key."""
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
        """The files of the newest version, in the order of their keys; none where there is no table."""
        delta = self._open()
        return [] if delta is None else data_files_of(delta, self.shape)

    def dataset(self) -> ds.Dataset:
        """The rows that are there now."""
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
        """``step`` None: the rows stay the same, their files do not."""
        changed = step is not None
        now = int(time.time() * 1000)
        actions: list[Any] = [
            AddAction(file.path, file.size, {}, file.modified, changed, file.statistics)
            for file in added
        ]
        if not reshaped:  # an overwrite removes all by itself
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
                # An answer may be lost, and the request sent again: then our own commit is in the way.
                self._delta = None
                now_there = self._open()
                there = set() if now_there is None else data_paths(now_there)
                if added and added[0].path in there:
                    return
                is_done = step is not None and self.step >= step
                # What is removed was planned for one version: in another one it would take other rows away.
                taken = taken or (now_there is not None and now_there.version() != planned)
                if taken or is_done:
                    rewrite.remove(self.directory, added)
                if is_done:
                    return  # a driver that was given up did it, or we without a file
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
