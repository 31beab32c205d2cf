"""The history of a table: a Delta table with each version that its rows had (SCD 2).

Current versions are in files of ranges of keys, which are rewritten like those of the current
table. A version that ended goes to another file, which no later change touches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from replica_client.errors import SinkError
from replica_client.lake.change_files import ChangeFile
from replica_client.lake.data_files import FULL_DATA_FILE_SIZE, DataFile, data_files_of
from replica_client.lake.history_rows import (
    CLOSED,
    OPEN,
    Changes,
    HistoryShape,
    HistoryWork,
    Moment,
    begun_versions,
    changes_of_rows,
    closed_versions,
    written,
)
from replica_client.lake.lake_table import LakeTable, live_rows
from replica_client.lake.merge import Merge, plan_merges
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.rewrite import NewFile, Rewrite
from replica_client.lake.state_table import Runner, StateTable
from replica_client.storage.location import Location


class HistoryTable(StateTable):
    """A table's history on disk.

    Args:
        directory: directory of the Delta table.
        shape: its shape.
        pipeline: the pipeline under which steps are counted.
    """

    shape: HistoryShape

    def _is_done(self, step: int) -> bool:
        return self.step >= step

    def _files(self, kind: str) -> list[DataFile]:
        delta = self._open()
        if delta is None:
            raise SinkError(f"{self.directory}: the table is gone; restore it, or start over")
        return [one for one in data_files_of(delta, self.shape) if one.path.startswith(kind)]

    def begin(self, current: StateTable, moment: Moment, step: int) -> None:
        """Create the table where there is none, with the current rows, valid since a moment.

        Raises:
            SinkError: the table cannot be created.
        """
        self.create()
        if self._is_done(step):
            return
        added: list[NewFile] = []
        for file in current.data_files():
            rows = read_parquet(current.directory / file.path)
            if current.shape.keeps_deleted:
                rows = live_rows(rows)
            rows = in_schema(rows, LakeTable(current.shape.model).schema, None)
            versions = begun_versions(self.shape, rows, moment)
            added += written(self.directory, self.shape, versions, OPEN)
        if added:
            self.add_files(added, step)

    def plan(
        self, log: Location, changes: Sequence[ChangeFile] | pa.Table, step: int
    ) -> list[HistoryWork]:
        """Return the work that merges changes into files; empty when the table has the step.

        Args:
            log: directory of the change log.
            changes: change files, or rows of the envelope, in the order of the binlog.
            step: step of the commit.
        """
        if self._is_done(step):
            return []
        files = self._files(OPEN)
        self._planned = {file.path: file for file in files}
        if isinstance(changes, pa.Table):
            found: Changes = changes_of_rows(LakeTable(self.shape.model), changes)
            whole = Merge(self.directory, self.shape.model, tuple(files), log, ())
            return [HistoryWork(whole, found)] if len(found.after) else []
        units = plan_merges(self.directory, self.shape, files, log, changes, FULL_DATA_FILE_SIZE)
        return [HistoryWork(replace(unit, dated=True)) for unit in units]

    def end(self, moment: Moment, step: int, *, deleted: bool) -> None:
        """Close all current versions."""
        if self._open() is None or self._is_done(step):
            return
        files, added = self._files(OPEN), []
        time = pa.array([moment.time], pa.int64()).cast(self.shape.schema.field("_valid_to").type)
        for file in files:
            valid = in_schema(read_parquet(self.directory / file.path), self.shape.schema, None)
            count = pa.array([0] * valid.num_rows, pa.int64())
            rows = closed_versions(
                self.shape, valid, time.take(count), pa.array([moment.position]).take(count),
                pa.array([deleted]).take(count),
            )  # fmt: skip
            if rows.num_rows:
                added += written(self.directory, self.shape, rows, CLOSED)
        delta = self._open()
        if delta is not None and files:
            self._commit(delta, files, added, step)

    def alter(
        self, shape: HistoryShape, names: Mapping[str, str] | None, step: int, runner: Runner
    ) -> None:
        """Give the table other columns.

        Args:
            shape: the new shape.
            names: the old column of each new column; None: columns were only added, or none
                changed.
            step: step of the commit.
            runner: rewrites files.
        """
        if names is None:
            if shape.schema == self.shape.schema:
                self.shape = shape
            elif not self._is_done(step):
                self.add_columns(shape, step)
            self.shape = shape
            return
        if self._is_done(step):
            self.shape = shape
            return
        files = [*self._files(OPEN), *self._files(CLOSED)]
        kept = {**{name: name for name in shape.schema.names if name.startswith("_")}, **names}
        self.shape = shape
        works: list[Any] = [
            Rewrite(
                self.directory, (file.path,), file.size, shape.schema, shape.key, shape.is_ordered,
                renamed=kept, kind=OPEN if file.path.startswith(OPEN) else CLOSED,
            )
            for file in files
        ]  # fmt: skip
        made = [file for new in runner(works) if new is not None for file in new]
        delta = self._open()
        assert delta is not None
        self._commit(delta, files, made, step, reshaped=True)
