"""The merge of a data file of a state table with the changes of its range of keys, in Arrow.

It runs on executors, or in this process for small merges; the driver passes paths, and gets paths
and statistics back. The unit is (table, key range): the ranges of a table's units follow each other
without a gap, so that each change is in one. Where keys have no order, or rows are counted (tables
without a primary key), the whole table is one unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaMismatchError, SinkError, StorageError
from replica_client.lake import rewrite
from replica_client.lake.change_files import DIGEST, ChangeFile, one_array
from replica_client.lake.data_files import DataFile, plan_data_files
from replica_client.lake.key_order import comparable, order_of, unheld
from replica_client.lake.lake_table import COPY_KEY, DELETED, LakeTable
from replica_client.lake.merge_changes import (
    inside,
    keys_of_changes,
    read_changes,
    rows_there,
    scalar_of,
)
from replica_client.lake.parquet_files import read_parquet
from replica_client.lake.partial_rows import newest_rows
from replica_client.lake.rewrite import NetRows, NewFile, Rewrite, copies_of
from replica_client.lake.typed_columns import in_lake_types
from replica_client.schema.model import TableModel
from replica_client.storage.location import Location, reason_of

_BEFORE: Final = pa.array(["delete", "update_preimage"])
_MOST_NAMED: Final = 20


@dataclass(frozen=True)
class Merge:
    """The work of one merge; can be pickled.

    Attributes:
        directory: the table's directory.
        model: the table's definition.
        data_files: files that may be rewritten: one, none, or all of a table whose keys have no
            ranges.
        log: directory of the change log.
        changes: the change files, in the order of the binlog.
        low: the first key of the range, as JSON has it; None: from the beginning.
        high: the first key after the range; None: to the end.
        since: only changes of this ``_commit_version`` or a later one.
        dated: whether the changes come with their order and commit times.
        soft_deletes: see :class:`~replica_client.lake.lake_table.LakeTable`.
    """

    directory: Location
    model: TableModel
    data_files: tuple[DataFile, ...]
    log: Location
    changes: tuple[ChangeFile, ...]
    low: Any = None
    high: Any = None
    since: str = ""
    dated: bool = False
    soft_deletes: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of the files that may be rewritten."""
        return tuple(file.path for file in self.data_files)

    @property
    def size(self) -> int:
        """Approximate bytes that are read."""
        files = sum(file.size for file in self.data_files)
        return files + sum(change.size for change in self.changes)

    def run(self) -> Merged:
        """Write the new files; they belong to the table when they are committed.

        Raises:
            SinkError: a file cannot be read or written.
            SchemaMismatchError: rows do not fit the table.
            DataLossError: changes delete rows that do not exist.
        """
        try:
            shape = LakeTable(self.model, self.soft_deletes)
            if shape.source_key:
                net = net_by_key(self, shape)
                return Merged((), ()) if net is None else rewritten(self, shape, net)
            counted = _by_copies(self, shape)
            return Merged((), ()) if counted is None else _rewritten_copies(self, shape, counted)
        except (OSError, StorageError, pa.ArrowInvalid) as error:
            reason = reason_of(error, self.directory)
            raise SinkError(
                f"{self.directory}: {', '.join(self.paths[:_MOST_NAMED]) or 'a new file'}: {reason}; what was "
                "committed before is whole"
            ) from None


@dataclass(frozen=True)
class Merged:
    """The result of a merge.

    Attributes:
        removed: paths of the files to remove.
        added: the files to add.
    """

    removed: tuple[str, ...]
    added: tuple[NewFile, ...]


@dataclass(frozen=True)
class Net:
    """The keys of changes, and the rows that they have afterwards."""

    keys: pa.Table
    rows: pa.Table


def plan_merges(
    directory: Location,
    shape: LakeTable,
    data_files: Sequence[DataFile],
    log: Location,
    changes: Sequence[ChangeFile],
    full_size: int,
    since: str = "",
) -> list[Merge]:
    """Return the units of a table that changes concern; other data files stay as they are.

    Args:
        directory: the table's directory.
        shape: the table's shape.
        data_files: all data files of the table, in the order of their keys.
        log: directory of the change log.
        changes: in the order of the binlog.
        full_size: bytes of the last file above which rows after its range go to a new file.
        since: see :class:`Merge`.
    """
    for change in changes:
        if lacks := change.lacks_of(shape):
            raise SchemaMismatchError(f"{shape.model.database}.{shape.model.name}: {lacks}")
    whole = Merge(
        directory,
        shape.model,
        tuple(data_files),
        log,
        tuple(changes),
        since=since,
        soft_deletes=shape.soft_deletes,
    )
    key = shape.key[0]
    ranged = shape.source_key and shape.is_ordered
    if not ranged or any(file.least is None for file in data_files):
        return [whole]
    if any(one.moves for one in changes):
        return [whole]  # a row moves to another key with columns that its images lack
    if pa.types.is_date(shape.schema.field(key).type) and any(one.least is None for one in changes):
        return [whole]  # a date that Arrow cannot hold is in no range
    if not data_files:
        return [whole]
    groups = _without_overlap(data_files)
    units = []
    for at, files in enumerate(groups):
        low = None if at == 0 else files[0].least
        high = None if at + 1 == len(groups) else groups[at + 1][0].least
        units.append(replace(whole, data_files=tuple(files), low=low, high=high))
    if data_files[-1].size >= full_size:
        # Rows after a full last file go to a new file.
        end = _behind(max(file.greatest for file in groups[-1]))
        if end is not None:
            units[-1] = replace(units[-1], high=end)
            units.append(replace(whole, data_files=(), low=end))
    found = []
    for unit in units:
        concerned = tuple(one for one in changes if _concerns(one, key, unit.low, unit.high))
        if concerned:
            found.append(replace(unit, changes=concerned))
    return found


def _without_overlap(data_files: Sequence[DataFile]) -> list[list[DataFile]]:
    """Return groups of files; files whose ranges overlap are in one group.

    Rows of one value may be in several of them.
    """
    groups: list[list[DataFile]] = []
    greatest: Any = None
    for file in data_files:
        if groups and file.least <= greatest:
            groups[-1].append(file)
            greatest = max(greatest, file.greatest)
        else:
            groups.append([file])
            greatest = file.greatest
    return groups


def _behind(value: Any) -> Any:
    """Return the first key after a key; None where it is not known."""
    if isinstance(value, str):
        return value + "\0" if value.isascii() and not _is_date(value) else None
    return None if isinstance(value, bool) or value is None else int(value) + 1


def _is_date(value: str) -> bool:
    return len(value) == 10 and value[4] == value[7] == "-"


def _concerns(change: ChangeFile, key: str, low: Any, high: Any) -> bool:
    if change.key != key or change.least is None:
        return True
    try:
        return (low is None or change.greatest >= low) and (high is None or change.least < high)
    except TypeError:
        return True  # a key whose type was changed


def net_by_key(work: Merge, shape: LakeTable, *, backward: bool = False) -> Net | None:
    """Return the newest state of each key; with ``backward``, the state before the first change."""
    is_partial = not backward and any(change.partial for change in work.changes)
    rows = read_changes(work, shape, partial=is_partial)
    if rows is None:
        return None
    keys = keys_of_changes(shape, rows)
    if is_partial:
        moves = any(change.moves for change in work.changes)
        found = newest_rows(
            shape, rows, keys, lambda wanted: rows_there(work, shape, wanted), moves=moves
        )
        return Net(*found)
    names = list(shape.source_key)
    originals = keys
    keys = comparable(keys, names, unheld(keys, names)).combine_chunks()
    # Rows of one key stay in the order of the binlog.
    order = order_of(keys, names)
    if order is not None:
        keys, originals = keys.take(order).combine_chunks(), originals.take(order)
    count = keys.num_rows
    differs: Any = None
    for name in names:
        column = one_array(keys[name])
        one = pc.not_equal(column.slice(1), column.slice(0, count - 1))
        differs = one if differs is None else pc.or_(differs, one)
    end = pa.array([True])
    ends = pa.concat_arrays([end, differs] if backward else [differs, end])
    outermost = rows.filter(ends) if order is None else rows.take(order.filter(ends))
    is_before = one_array(pc.is_in(outermost["operation"], value_set=_BEFORE))
    if shape.keeps_deleted and not backward:
        left = outermost.append_column(DELETED, is_before)
    else:
        stays = is_before if backward else pc.invert(is_before)
        left = outermost if pc.all(stays).as_py() else outermost.filter(stays)
    return Net(originals.filter(ends), in_lake_types(shape, left))


def undone(work: Merge, there: pa.Table) -> Net | None:
    """Return the rows of a table as they were before changes; None where no change is of the table.

    Args:
        work: its changes, without data files.
        there: the rows after the changes.

    Raises:
        SinkError: a file cannot be read.
        SchemaMismatchError: rows do not fit the table.
        DataLossError: changes inserted rows that do not exist.
    """
    shape = LakeTable(work.model)
    try:
        if shape.source_key:
            return net_by_key(work, shape, backward=True)
        rows = read_changes(work, shape)
        if rows is None:
            return None
        net = _net_of_copies(work, shape, rows, lambda wanted: _digests(there, wanted), -1)
        return Net(shape.key_table(net.keys), net.rows)
    except (OSError, StorageError, pa.ArrowInvalid) as error:
        reason = reason_of(error, work.log)
        raise SinkError(
            f"{work.log}: {reason}; a file of the change log cannot be read: was it removed (retain, vacuum)?"
        ) from None


def rewritten(work: Merge, shape: LakeTable, net: Net, kind: str = "part") -> Merged:
    """Rewrite each data file without the keys, and with the rows of its range.

    The names of the new files begin with ``kind``.
    """
    removed: list[str] = []
    added: list[NewFile] = []
    files: Sequence[DataFile | None] = work.data_files or (None,)
    for at, file in enumerate(files):
        rows = _share(shape, net.rows, files, at)
        one = Rewrite(
            work.directory,
            () if file is None else (file.path,),
            0 if file is None else file.size,
            shape.schema,
            shape.key,
            shape.is_ordered,
            None if file is None else net.keys,
            rows,
            kind=kind,
        )
        made = rewrite.run(one)
        if made is not None:
            removed += one.paths
            added += made
    return Merged(tuple(removed), tuple(added))


def _share(
    shape: LakeTable, rows: pa.Table, files: Sequence[DataFile | None], at: int
) -> pa.Table | None:
    """Return the rows for one of several files: those of its range.

    Without known ranges, the last file gets all rows.
    """
    least = [None if file is None else file.least for file in files]
    if len(files) == 1:
        return rows
    if None in least:
        return rows if at + 1 == len(files) else None
    low = None if at == 0 else scalar_of(shape, least[at])
    high = None if at + 1 == len(files) else scalar_of(shape, least[at + 1])
    # A date that Arrow cannot hold has no range: the last file gets it.
    chosen = inside(rows[shape.key[0]], (low, high))
    return rows.filter(pc.fill_null(chosen, at + 1 == len(files)))


def _by_copies(work: Merge, shape: LakeTable) -> NetRows | None:
    """Return the net rows of a table without a primary key, by counting equal rows."""
    rows = read_changes(work, shape)
    if rows is None:
        return None

    def there(wanted: pa.Array) -> Counter[str]:
        found: Counter[str] = Counter()
        for file in work.data_files:
            found += _digests(read_parquet(work.directory / file.path, [COPY_KEY]), wanted)
        return found

    return _net_of_copies(work, shape, rows, there, 1)


def _digests(rows: pa.Table, wanted: pa.Array) -> Counter[str]:
    heads = pc.list_element(pc.split_pattern(rows[COPY_KEY], "#"), 0)
    return Counter(heads.filter(pc.is_in(heads, value_set=wanted)).to_pylist())


def _net_of_copies(
    work: Merge,
    shape: LakeTable,
    rows: pa.Table,
    there: Callable[[pa.Array], Counter[str]],
    sign: int,
) -> NetRows:
    """Return the net effect of changes; ``sign`` -1 reverses them."""
    if DIGEST not in rows.column_names or rows[DIGEST].null_count:
        raise SchemaMismatchError(
            f"{work.model.database}.{work.model.name}: the binlog says that it has a primary key, and the lake "
            "that it has none; take a new snapshot of the table"
        )
    digests = rows[DIGEST].to_pylist()
    goes = pc.is_in(rows["operation"], value_set=_BEFORE).to_pylist()
    change: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for at, (digest, gone) in enumerate(zip(digests, goes, strict=True)):
        change[digest] += -sign if gone else sign
        newest[digest] = at
    wanted = pa.array([digest for digest, count in change.items() if count], pa.string())
    return _counted(work.model, shape, rows, change, newest, there(wanted))


def _counted(
    model: TableModel,
    shape: LakeTable,
    rows: pa.Table,
    change: Counter[str],
    newest: dict[str, int],
    there: Counter[str],
) -> NetRows:
    gone, come = copies_of(f"{model.database}.{model.name}", change, there)
    keys = [key for key, _ in come]
    taken = rows.take(pa.array([newest[digest] for _, digest in come], pa.int64()))
    return NetRows([*gone, *keys], in_lake_types(shape, taken, pa.array(keys, pa.string())), keys)


def _rewritten_copies(work: Merge, shape: LakeTable, net: NetRows) -> Merged:
    removed: list[str] = []
    added: list[NewFile] = []
    gone = shape.key_table(net.keys)
    for one in plan_data_files(work.data_files, shape, net):
        file = one.data_file
        made = rewrite.run(
            Rewrite(
                work.directory,
                () if file is None else (file.path,),
                0 if file is None else file.size,
                shape.schema,
                shape.key,
                shape.is_ordered,
                gone.take(pa.array(one.removed, pa.int64())) if one.removed else None,
                net.rows.take(pa.array(one.added, pa.int64())) if one.added else None,
            )
        )
        if made is not None:
            removed += [] if file is None else [file.path]
            added += made
    return Merged(tuple(removed), tuple(added))
