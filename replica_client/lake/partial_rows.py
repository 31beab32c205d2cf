"""Net changes of a table with a primary key whose row images leave columns out.

The newest state of a key is made from one or more rows of the change log: each column is that of
the last image that has it, and of the existing row where none has it. An update that changes the
key moves the row with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import DataLossError, SchemaMismatchError
from replica_client.lake.change_files import one_array
from replica_client.lake.key_order import comparable, unheld
from replica_client.lake.lake_columns import LOSSLESS, LOSSLESS_TYPE
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.partial_images import POSTIMAGE, PREIMAGE
from replica_client.lake.typed_columns import in_lake_types
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.special_values import WHY_ABSENT

ORDER: Final = "_order"
"""Number of a change in the order of the binlog, over the change files of a merge."""

_DELETE: Final = "delete"
_GROUP: Final = "_group"


def check_partial(shape: LakeTable, rows: pa.Table) -> None:
    """Raise an error if an image lacks the key, or an image of an INSERT lacks any column.

    Raises:
        SchemaMismatchError: an image does.
    """
    absent = one_array(rows["_absent"].combine_chunks())
    if absent.null_count == len(absent):
        return
    lacking = pc.list_flatten(absent)
    kinds = rows["operation"].cast(pa.string()).take(pc.list_parent_indices(absent))
    columns = pa.array([column.name for column in shape.columns], pa.string())
    is_key = pc.is_in(lacking, value_set=pa.array(shape.source_key, pa.string()))
    of_insert = pc.and_(pc.equal(kinds, "insert"), pc.is_in(lacking, value_set=columns))
    wrong = lacking.filter(pc.or_(is_key, one_array(of_insert)))
    if len(wrong):
        raise SchemaMismatchError(
            f"{shape.model.database}.{shape.model.name}: a row image lacks {wrong[0]}: {WHY_ABSENT}; SET GLOBAL "
            "binlog_row_image = 'FULL', and take a new snapshot of the table"
        )


@dataclass(slots=True)
class _Chain:
    """The sources of a row: the existing row (the group of its key; -1: none), then images."""

    origin: int
    images: list[int] = field(default_factory=list)


def newest_rows(
    shape: LakeTable,
    rows: pa.Table,
    keys: pa.Table,
    there: Callable[[pa.Table], pa.Table],
    *,
    moves: bool,
) -> tuple[pa.Table, pa.Table]:
    """Return the keys of changes, and the rows that they have afterwards.

    Args:
        shape: the table's shape.
        rows: rows of its change files, with ``_order``.
        keys: keys of these rows, in the lake's types.
        there: returns the existing rows of keys.
        moves: whether an update that lacks columns may change a key.

    Raises:
        DataLossError: a changed row does not exist.
    """
    names = list(shape.source_key)
    same = comparable(keys, names, unheld(keys, names)).append_column(ORDER, rows[ORDER])
    order = pc.sort_indices(same, [(name, "ascending") for name in (*names, ORDER)])
    sorted_keys = same.select(names).take(order)
    groups, firsts = groups_of(sorted_keys, names)
    rows, keys = rows.take(order), keys.take(order)
    touched = keys.take(firsts)
    found = there(touched)
    located = _located(shape, touched, found)
    chains = _chains(shape, rows, groups) if moves else {}
    images = _Images(shape, rows)
    sources = _by_columns(images, groups, len(firsts), set(chains))
    for group, chain in chains.items():
        if chain is not None:
            sources.append((group, chain.origin, images.last_of(chain.images)))
    return touched, _made(shape, rows, found, located, sources, images)


def groups_of(keys: pa.Table, names: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """Return the number of the key of each sorted row, and the first row of each key."""
    count = keys.num_rows
    differs: Any = None
    for name in names:
        column = one_array(keys[name].combine_chunks())
        one = pc.not_equal(column.slice(1), column.slice(0, count - 1))
        differs = one if differs is None else pc.or_(differs, one)
    begins = pa.concat_arrays([pa.array([True]), one_array(differs)])
    numbers = pc.subtract(pc.cumulative_sum(begins.cast(pa.int64())), 1)
    return one_array(numbers), pc.indices_nonzero(begins)


def _located(shape: LakeTable, touched: pa.Table, found: pa.Table) -> dict[int, int]:
    """Return the index of the existing row by the number of its key."""
    if not found.num_rows:
        return {}
    names = list(shape.source_key)
    texts = sorted({*unheld(touched, names), *unheld(found, names)})
    numbers = pa.array(range(touched.num_rows), pa.int64())
    mine = comparable(touched, names, texts).append_column(_GROUP, numbers)
    rows = pa.array(range(found.num_rows), pa.int64())
    theirs = comparable(found, names, texts).append_column("_row", rows)
    for at, name in enumerate(names):
        mine = mine.set_column(at, name, mine[name].cast(theirs[name].type))
    both = mine.join(theirs, keys=names, join_type="inner")
    return dict(zip(both[_GROUP].to_pylist(), both["_row"].to_pylist(), strict=True))


class _Images:
    """The columns that the images of sorted rows have.

    Attributes:
        names: names of the table's columns.
        after: for each row, whether it is an image after a change.
        lists: the columns that each image lacks.
    """

    def __init__(self, shape: LakeTable, rows: pa.Table) -> None:
        self.names = [column.name for column in shape.columns]
        self.kinds = one_array(rows["operation"].cast(pa.string()))
        self.after = pc.is_in(self.kinds, value_set=pa.array(["insert", POSTIMAGE]))
        self.absent = one_array(rows["_absent"].combine_chunks())
        lacks = pc.fill_null(pc.greater(pc.list_value_length(self.absent), 0), False)
        self.whole = pc.and_(self.after, pc.invert(lacks))
        self._lists: list[Any] | None = None

    def lacking(self, name: str) -> pa.Array:
        """Return for each row whether it lacks a column."""
        entries, parents = pc.list_flatten(self.absent), pc.list_parent_indices(self.absent)
        rows = parents.filter(pc.equal(entries, name))
        everything = pa.array(range(len(self.absent)), pa.int64())
        return pc.is_in(everything, value_set=rows.cast(pa.int64()))

    def last_of(self, images: Sequence[int]) -> dict[str, int]:
        """Return for each column the last of some images that has it; -1: none."""
        if self._lists is None:
            self._lists = self.absent.to_pylist()
        found = dict.fromkeys(self.names, -1)
        for row in images:
            lacks = self._lists[row] or ()
            found.update((name, row) for name in self.names if name not in lacks)
        return found


def _chains(shape: LakeTable, rows: pa.Table, groups: pa.Array) -> dict[int, _Chain | None]:
    """Return the sources of the rows of keys that updates without all columns moved to or from.

    A key whose row moved away or was deleted has None.
    """
    order = one_array(rows[ORDER].combine_chunks())
    kinds = rows["operation"].cast(pa.string()).to_pylist()
    numbers = groups.to_pylist()
    lists = rows["_absent"]
    moved: set[int] = set()
    at_order = pc.sort_indices(order)
    lacks = pc.fill_null(pc.greater(pc.list_value_length(lists), 0), False).to_pylist()
    sequence = at_order.to_pylist()
    before: int | None = None
    for row in sequence:
        if kinds[row] == POSTIMAGE and lacks[row] and before is not None:
            if numbers[before] != numbers[row]:
                moved |= {numbers[before], numbers[row]}
        before = row if kinds[row] == PREIMAGE else None
    chains: dict[int, _Chain | None] = {}
    if not moved:
        return chains
    carried: _Chain | None = None
    for row in sequence:
        group, kind = numbers[row], kinds[row]
        if kind == PREIMAGE:
            carried = chains.get(group, _Chain(group)) if group in moved else _Chain(group)
            if group in moved:
                chains[group] = None
        elif group not in moved:
            continue
        elif kind == _DELETE:
            chains[group] = None
        elif kind == POSTIMAGE and lacks[row]:
            if carried is None:
                raise _lost(shape, "columns")
            chains[group] = _Chain(carried.origin, [*carried.images, row])
        else:
            chains[group] = _Chain(-1, [row])
    return chains


def _lost(shape: LakeTable, what: str) -> DataLossError:
    return DataLossError(
        f"{shape.model.database}.{shape.model.name}: an update leaves out {what}, and the row that it changes is "
        "not in the lake; take a new snapshot of the table"
    )


_Source = tuple[int, int, dict[str, int]]


def _by_columns(
    images: _Images, groups: pa.Array, count: int, passed_over: set[int]
) -> list[_Source]:
    """Return the sources of each key with a row: its number, existing row, and images by column."""
    rows = len(groups)
    numbers = pa.array(range(rows), pa.int64())
    last_is = pc.not_equal(groups.slice(1), groups.slice(0, rows - 1))
    ends = pc.indices_nonzero(pa.concat_arrays([last_is, pa.array([True])]))
    alive = images.after.take(ends)
    if passed_over:
        excluded = pc.is_in(
            pa.array(range(count), pa.int64()), value_set=pa.array(list(passed_over), pa.int64())
        )
        alive = pc.and_(alive, pc.invert(excluded))
    kept = pc.indices_nonzero(alive)
    ends = ends.take(kept)
    firsts = pc.indices_nonzero(
        pa.concat_arrays([pa.array([True]), last_is])
    ).take(kept)  # fmt: skip

    def last(marks: pa.Array) -> pa.Array:
        """Return the last marked row of each kept group, -1 for none."""
        marked = pc.if_else(marks, numbers, pa.scalar(-1, pa.int64()))
        found = one_array(pc.cumulative_max(marked)).take(ends)
        return pc.if_else(pc.less(found, firsts.cast(pa.int64())), pa.scalar(-1, pa.int64()), found)

    base = last(pc.or_(images.whole, pc.equal(images.kinds, _DELETE)))
    by_column = {}
    for name in images.names:
        found = last(pc.and_(images.after, pc.invert(images.lacking(name))))
        by_column[name] = pc.if_else(
            pc.less(found, base), pa.scalar(-1, pa.int64()), found
        ).to_pylist()
    based = base.to_pylist()
    return [
        (group, -1 if based[at] >= 0 else group, {name: by_column[name][at] for name in by_column})
        for at, group in enumerate(kept.to_pylist())
    ]


def _made(
    shape: LakeTable,
    rows: pa.Table,
    found: pa.Table,
    located: dict[int, int],
    sources: Sequence[_Source],
    images: _Images,
) -> pa.Table:
    """Build the rows; each column is taken from the image or existing row that it comes from."""
    logged = in_lake_types(shape, rows)
    both = pa.concat_tables([logged, found.select(shape.schema.names).cast(shape.schema)])
    first = rows.num_rows
    indexes: dict[str, list[int]] = {name: [] for name in images.names}
    for _, origin, columns in sources:
        there = located.get(origin, -1) if origin >= 0 else -1
        for name, row in columns.items():
            if row < 0:
                if there < 0:
                    raise _lost(shape, name)
                row = first + there
            indexes[name].append(row)
    arrays = [
        _lossless(shape, both[LOSSLESS], indexes)
        if name == LOSSLESS
        else both[name].take(pa.array(indexes[name], pa.int64()))
        for name in shape.schema.names
    ]
    return pa.Table.from_arrays(arrays, schema=shape.schema)


def _lossless(shape: LakeTable, texts: pa.ChunkedArray, indexes: dict[str, list[int]]) -> pa.Array:
    """Return the texts of dates that Arrow cannot hold, each with its column's value."""
    names = [c.name for c in shape.columns if pa.types.is_temporal(c.type)]
    count = len(indexes[names[0]])
    if texts.null_count == len(texts):
        return pa.nulls(count, LOSSLESS_TYPE)
    known: list[Any] = texts.to_pylist()
    values: list[Any] = [None] * count
    for name in names:
        for at, row in enumerate(indexes[name]):
            for entry in known[row] or ():
                if entry[0] == name:
                    values[at] = [*(values[at] or ()), entry]
    return pa.array(values, LOSSLESS_TYPE)
