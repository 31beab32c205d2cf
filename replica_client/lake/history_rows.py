"""Row histories (SCD type 2).

Values that a row had inside a transaction only are no version. The positions are
``_commit_version`` of the change log, which sorts as the transactions do: at a position P a version
is valid when ``_valid_from_position <= P`` and ``_valid_to_position`` is null or greater.

Current versions are in files of ranges of keys, which are rewritten like those of the current
table. A version that ended goes to another file, which no later change touches.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SinkError
from replica_client.lake.change_files import ChangeFile, one_array
from replica_client.lake.data_files import FULL_DATA_FILE_SIZE, DataFile, data_files_of
from replica_client.lake.key_order import comparable, unheld
from replica_client.lake.lake_table import LakeTable, live_rows
from replica_client.lake.merge import Merge, Merged, Net, plan_merges, rewritten
from replica_client.lake.merge_changes import keys_of_changes, read_changes, rows_there
from replica_client.lake.parquet_files import in_schema, read_parquet
from replica_client.lake.partial_rows import ORDER, groups_of
from replica_client.lake.rewrite import NewFile, Rewrite
from replica_client.lake.state_table import Runner, StateTable
from replica_client.lake.typed_columns import in_lake_types
from replica_client.schema.model import TableModel
from replica_client.storage.location import Location

OPEN: Final = "open"
"""Prefix of the names of files with current versions."""

CLOSED: Final = "closed"
"""Prefix of the names of files with versions that ended."""

_EPOCH: Final = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_TIME: Final = pa.timestamp("us", "UTC")
FIELDS: Final = (
    pa.field("_valid_from", _TIME),
    pa.field("_valid_to", _TIME),
    pa.field("_valid_from_position", pa.string()),
    pa.field("_valid_to_position", pa.string()),
    pa.field("_deleted", pa.bool_()),
)
"""Fields after the table's columns. ``_valid_from`` and ``_valid_to`` are times of commits. ``_deleted``: the version
ended because the row was deleted, or got another key."""

_AFTER: Final = pa.array(["insert", "update_postimage"])


@dataclass(frozen=True)
class HistoryShape(LakeTable):
    """The columns of a table's history."""

    @cached_property
    def schema(self) -> pa.Schema:
        """The table's schema, followed by :data:`FIELDS`."""
        return pa.schema([*LakeTable(self.model).schema, *FIELDS])


@dataclass(frozen=True)
class Moment:
    """A transaction, as a moment of a history.

    Attributes:
        position: its ``_commit_version``.
        time: time of its commit, in microseconds since 1970; None when not known.
    """

    position: str
    time: int | None


def moment_of(row: dict[str, Any]) -> Moment:
    """Return the transaction of a row of the envelope."""
    since = row["_commit_timestamp"] - _EPOCH
    return Moment(row["_commit_version"], since // _MICROSECOND)


@dataclass(frozen=True)
class Changes:
    """Changes of a table, in the order of the binlog for each key.

    Attributes:
        keys: the keys, in the lake's types.
        rows: the rows of the same images; only those after a change count.
        after: whether each is an image after a change.
        order: number of each in the order of the binlog.
        positions: ``_commit_version`` of each.
        times: ``_commit_timestamp`` of each.
    """

    keys: pa.Table
    rows: pa.Table
    after: pa.Array
    order: pa.Array
    positions: pa.Array
    times: pa.Array


@dataclass(frozen=True)
class HistoryWork:
    """The work on a range of keys; can be pickled.

    Attributes:
        unit: the range, its files of current versions, and its changes.
        changes: changes in memory; None: those of the unit's change files.
    """

    unit: Merge
    changes: Changes | None = None

    @property
    def size(self) -> int:
        """Approximate bytes that are read."""
        return self.unit.size

    def run(self) -> Merged:
        """Write the new files; they belong to the table when they are committed.

        Raises:
            SinkError: a file cannot be read or written.
            SchemaMismatchError: rows do not fit the table.
        """
        unit, shape = self.unit, HistoryShape(self.unit.model)
        changes = self.changes or _changes(unit)
        if changes is None:
            return Merged((), ())
        touched, opened, closed = versions(
            shape, changes, lambda keys: rows_there(unit, shape, keys)
        )
        merged = rewritten(unit, shape, Net(touched, opened), OPEN)
        if not closed.num_rows:
            return merged
        added = (*merged.added, *written(unit.directory, shape, closed, CLOSED))
        return Merged(merged.removed, added)


def written(directory: Location, shape: HistoryShape, rows: pa.Table, kind: str) -> list[NewFile]:
    """Write versions to new files, and return the files."""
    work = Rewrite(
        directory, (), 0, shape.schema, shape.key, shape.is_ordered, added=rows, kind=kind
    )
    return work.run() or []


def _changes(unit: Merge) -> Changes | None:
    shape = LakeTable(unit.model)
    rows = read_changes(unit, shape)
    if rows is None:
        return None
    kinds = rows["operation"].cast(pa.string())
    return Changes(
        keys_of_changes(shape, rows),
        in_lake_types(shape, rows),
        one_array(pc.is_in(kinds, value_set=_AFTER)),
        one_array(rows[ORDER]),
        one_array(rows["_commit_version"].cast(pa.string())),
        one_array(rows["_commit_timestamp"].cast(_TIME)),
    )


def changes_of_rows(table: LakeTable, rows: pa.Table) -> Changes:
    """Return the changes in rows of the envelope.

    Raises:
        SchemaMismatchError: a row does not fit the table.
    """
    texts: list[str] = []
    after: list[bool] = []
    sources: list[int] = []
    images = zip(rows["before"].to_pylist(), rows["after"].to_pylist(), strict=True)
    for at, (old, new) in enumerate(images):
        for text, is_after in ((old, False), (new, True)):
            if text is not None:
                texts.append(text)
                after.append(is_after)
                sources.append(at)
    found = table.to_arrow(table.decode(texts))
    heads = rows.select(["_commit_version", "_commit_timestamp"]).take(
        pa.array(sources, pa.int64())
    )
    return Changes(
        found,
        found,
        pa.array(after, pa.bool_()),
        pa.array(range(len(texts)), pa.int64()),
        one_array(heads["_commit_version"].cast(pa.string())),
        one_array(heads["_commit_timestamp"].cast(_TIME)),
    )


def versions(
    shape: HistoryShape, changes: Changes, there: Callable[[pa.Table], pa.Table]
) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the effect of changes on the versions of their rows.

    Args:
        shape: shape of the history.
        changes: changes of the table.
        there: returns the current versions of keys.

    Returns:
        the keys of the changes; versions that are current after them; versions that ended.
    """
    names = list(shape.source_key)
    texts = unheld(changes.keys, names)
    same = comparable(changes.keys, names, texts).append_column(ORDER, changes.order)
    order = pc.sort_indices(same, [(name, "ascending") for name in (*names, ORDER)])
    groups, _ = groups_of(same.select(names).take(order), names)
    positions = changes.positions.take(order)
    # Only the last change of a key in a transaction makes a version.
    last = pc.indices_nonzero(
        pc.or_(_differs_from_next(groups), _differs_from_next(positions))
    ).cast(pa.int64())  # fmt: skip
    order, groups, positions = order.take(last), groups.take(last), positions.take(last)
    times, after = changes.times.take(order), changes.after.take(order)
    count = len(order)
    has_next = pc.invert(_differs_from_next(groups))
    following = pc.add(pa.array(range(count), pa.int64()), has_next.cast(pa.int64()))
    nothing = pa.scalar(None, pa.string())
    table = pa.Table.from_arrays(
        [
            *changes.rows.take(order).columns,
            times,
            pc.if_else(has_next, times.take(following), pa.scalar(None, _TIME)),
            positions,
            pc.if_else(has_next, positions.take(following), nothing),
            pc.and_(has_next, pc.invert(after.take(following))),
        ],
        schema=shape.schema,
    )
    opened = table.filter(pc.and_(after, pc.invert(has_next)))
    firsts = pc.indices_nonzero(
        pc.or_(pa.array([at == 0 for at in range(count)]), _differs_from_last(groups))
    )
    touched = changes.keys.take(order.take(firsts))
    ended = _ended(
        shape,
        there(touched),
        touched,
        times.take(firsts),
        positions.take(firsts),
        pc.invert(after.take(firsts)),
    )
    return touched, opened, pa.concat_tables([ended, table.filter(pc.and_(after, has_next))])


def _differs_from_next(values: pa.Array) -> pa.Array:
    count = len(values)
    inner = pc.not_equal(values.slice(1), values.slice(0, count - 1))
    return pa.concat_arrays([one_array(inner), pa.array([True])])


def _differs_from_last(values: pa.Array) -> pa.Array:
    count = len(values)
    inner = pc.not_equal(values.slice(1), values.slice(0, count - 1))
    return pa.concat_arrays([pa.array([True]), one_array(inner)])


def _ended(
    shape: HistoryShape,
    valid: pa.Table,
    keys: pa.Table,
    times: pa.Array,
    positions: pa.Array,
    deleted: pa.Array,
) -> pa.Table:
    """Return the versions of keys that were current, ended by the first change of each key."""
    if not valid.num_rows:
        return shape.schema.empty_table()
    names = list(shape.source_key)
    texts = sorted({*unheld(keys, names), *unheld(valid, names)})
    mine = comparable(keys, names, texts)
    theirs = comparable(valid, names, texts)
    for at, name in enumerate(names):
        mine = mine.set_column(at, name, mine[name].cast(theirs[name].type))
    numbered = mine.append_column("_change", pa.array(range(mine.num_rows), pa.int64()))
    rows = theirs.append_column("_version", pa.array(range(theirs.num_rows), pa.int64()))
    both = rows.join(numbered, keys=names, join_type="inner")
    change = one_array(both["_change"].combine_chunks())
    valid = valid.take(both["_version"])
    return closed_versions(
        shape, valid, times.take(change), positions.take(change), deleted.take(change)
    )


def closed_versions(
    shape: HistoryShape, valid: pa.Table, times: Any, positions: Any, deleted: Any
) -> pa.Table:
    """Return versions with their end, without those that began in the same transaction."""
    for name, values in (
        ("_valid_to", times),
        ("_valid_to_position", positions),
        ("_deleted", deleted),
    ):
        at = valid.schema.get_field_index(name)
        valid = valid.set_column(at, shape.schema.field(name), values)
    return valid.filter(pc.less(valid["_valid_from_position"], valid["_valid_to_position"]))


def begun_versions(shape: HistoryShape, rows: pa.Table, moment: Moment) -> pa.Table:
    """Return rows of a table as versions that are current since a moment."""
    count = rows.num_rows
    model: TableModel = shape.model
    names = LakeTable(model).schema.names
    begin = pa.array([moment.time], pa.int64()).cast(_TIME)[0]
    return pa.Table.from_arrays(
        [
            *(rows[name].cast(shape.schema.field(name).type) for name in names),
            pa.repeat(begin, count) if begin.is_valid else pa.nulls(count, _TIME),
            pa.nulls(count, _TIME),
            pa.repeat(pa.scalar(moment.position), count),
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar(False), count),
        ],
        schema=shape.schema,
    )


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
