"""The changes that a merge reads from change files, and the existing rows of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_client.lake.change_files import (
    ARRIVAL,
    COLUMN,
    DIGEST,
    ChangeFile,
    shape_in,
    with_digests,
)
from replica_client.lake.data_files import DataFile
from replica_client.lake.lake_columns import LOSSLESS, LOSSLESS_TYPE
from replica_client.lake.lake_table import LakeTable
from replica_client.lake.parquet_files import in_schema, parquet_file, read_parquet
from replica_client.lake.partial_rows import ORDER, check_partial
from replica_client.lake.rewrite import without_keys
from replica_client.lake.typed_columns import check_columns, check_whole, lake_array
from replica_client.storage.location import Location

TIMES: Final = ("_commit_version", "_commit_timestamp")
_NUMBER: Final = "_row_number"
_ORDER_BITS: Final = 32


class MergeInput(Protocol):
    """The files of a merge, see :class:`~replica_client.lake.merge.Merge`.

    Attributes:
        directory: the table's directory.
        data_files: files that may be rewritten.
        log: directory of the change log.
        changes: the change files, in the order of the binlog.
        low: the first key of the range; None: from the beginning.
        high: the first key after the range; None: to the end.
        since: only changes of this ``_commit_version`` or a later one.
        dated: whether the changes come with their order and commit times.
    """

    @property
    def directory(self) -> Location: ...
    @property
    def data_files(self) -> tuple[DataFile, ...]: ...
    @property
    def log(self) -> Location: ...
    @property
    def changes(self) -> tuple[ChangeFile, ...]: ...
    @property
    def low(self) -> Any: ...
    @property
    def high(self) -> Any: ...
    @property
    def since(self) -> str: ...
    @property
    def dated(self) -> bool: ...


def read_changes(work: MergeInput, shape: LakeTable, *, partial: bool = False) -> pa.Table | None:
    """Read the changes of the unit's range, in the order of the binlog for each key; None for none.

    With ``partial``, images may lack columns, and the rows have ``_order``.
    """
    bounds = [scalar_of(shape, one) for one in (work.low, work.high)]
    parts = []
    for number, change in enumerate(work.changes):
        with parquet_file(work.log / change.path) as file:
            rows = _groups(file, change, shape, work)
        if rows is None:
            continue
        check_columns(shape, [n[len(COLUMN) :] for n in rows.column_names if n.startswith(COLUMN)])
        if partial or work.dated:
            arrival = rows[ARRIVAL].cast(pa.int64())
            rows = rows.append_column(ORDER, pc.add(arrival, number << _ORDER_BITS))
        if change.partial and partial:
            check_partial(shape, rows)
        else:
            check_whole(shape, rows["_absent"])
        if work.since:
            rows = rows.filter(pc.greater_equal(rows["_commit_version"], work.since))
        if any(one is not None for one in bounds):
            rows = rows.filter(inside(keys_of_changes(shape, rows)[shape.source_key[0]], bounds))
        if rows.num_rows:
            parts.append(rows)
    if not parts:
        return None
    return pa.concat_tables(parts, promote_options="permissive") if len(parts) > 1 else parts[0]


def _groups(
    file: pq.ParquetFile, change: ChangeFile, shape: LakeTable, work: MergeInput
) -> pa.Table | None:
    """Read the row groups of a file that may have keys of the range; None for none."""
    wanted = [
        name
        for name in file.schema_arrow.names
        if name.startswith(COLUMN) or name in ("operation", "_absent", "_lossless", DIGEST, ARRIVAL)
        or (work.since and name == "_commit_version")
        or (work.dated and name in TIMES)
    ]  # fmt: skip
    groups = list(range(file.num_row_groups))
    if change.key and change.key == shape.key[0] and isinstance(change.least, int):
        column = file.schema_arrow.names.index(COLUMN + change.key)
        # Columns are numbered by leaves, and nested columns before this one have several.
        at = next(
            (n for n in range(file.metadata.num_columns)
             if file.metadata.schema.column(n).path == file.schema_arrow.names[column]), None,
        )  # fmt: skip
        groups = [one for one in groups if at is None or _may_have(file, one, at, work)]
    if not groups:
        return None
    rows = file.read_row_groups(groups, columns=wanted)
    if not shape.source_key and DIGEST not in rows.column_names:
        rows = with_digests(rows.unify_dictionaries(), shape_in(file.schema_arrow))
    for at, one in enumerate(rows.schema):
        if pa.types.is_dictionary(one.type):
            rows = rows.set_column(at, one.name, rows[one.name].cast(one.type.value_type))
    return rows


def _may_have(file: pq.ParquetFile, group: int, column: int, work: MergeInput) -> bool:
    found = file.metadata.row_group(group).column(column).statistics
    if found is None or not found.has_min_max:
        return True
    try:
        least, greatest = int(found.min), int(found.max)
        return (work.low is None or greatest >= work.low) and (
            work.high is None or least < work.high
        )
    except (TypeError, ValueError):
        return True


def scalar_of(shape: LakeTable, value: Any) -> pa.Scalar | None:
    """Return a bound of a range of keys in the type of the first key column."""
    if value is None:
        return None
    kind = shape.schema.field(shape.key[0]).type
    if pa.types.is_date(kind):
        return pa.scalar(value, pa.string()).cast(kind)
    return pa.scalar(int(value) if pa.types.is_decimal(kind) else value, kind)


def inside(values: pa.ChunkedArray, bounds: Sequence[pa.Scalar | None]) -> pa.ChunkedArray:
    """Return for each key whether it is in a range, which has at least one bound."""
    low, high = bounds
    found = None if low is None else pc.greater_equal(values, low)
    if high is not None:
        below = pc.less(values, high)
        found = below if found is None else pc.and_(found, below)
    return found


def keys_of_changes(shape: LakeTable, rows: pa.Table) -> pa.Table:
    """Return the primary key of rows in the lake's types, with ``_lossless`` if a date needs it."""
    models = {column.name: column for column in shape.model.columns}
    columns = {
        name: lake_array(shape, models[name], rows[COLUMN + name], shape.schema.field(name).type)
        for name in shape.source_key
    }
    if any(column.null_count for column in columns.values()):
        columns[LOSSLESS] = rows["_lossless"].cast(LOSSLESS_TYPE)
    return pa.table(columns)


def rows_there(work: MergeInput, shape: LakeTable, keys: pa.Table) -> pa.Table:
    """Read the rows that the data files have for keys."""
    parts = []
    for file in work.data_files:
        found = in_schema(read_parquet(work.directory / file.path), shape.schema, None)
        numbered = found.append_column(_NUMBER, pa.array(range(found.num_rows), pa.int64()))
        others = without_keys(numbered, keys, shape.key)[_NUMBER]
        mine = pc.invert(pc.is_in(numbered[_NUMBER], value_set=others))
        parts.append(found.filter(mine))
    return pa.concat_tables(parts) if parts else shape.schema.empty_table()
