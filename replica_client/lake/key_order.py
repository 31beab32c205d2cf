"""The order of rows by their keys, without sorting rows that are in order already.

Rows that were changed one after the other often are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.lake_columns import LOSSLESS


def order_of(keys: pa.Table, names: Sequence[str]) -> pa.Array | None:
    """Return the indexes of rows in the order of their keys; None if the rows are in order already.

    Rows of equal keys keep their order. A check of all keys takes a tenth of the time of a sort,
    and rows in order need not be moved either.

    Args:
        keys: keys of the rows.
        names: names of the key's columns.
    """
    if _are_ordered(keys, names):
        return None
    # The sort is stable.
    return pc.sort_indices(keys, [(name, "ascending") for name in names])


def _are_ordered(keys: pa.Table, names: Sequence[str]) -> bool:
    count = keys.num_rows
    if count < 2:
        return True
    tied: Any = None  # rows whose key columns so far are those of the row before
    for name in names:
        column = keys[name]
        if column.null_count:  # a date that Arrow cannot hold
            return False
        before, after = column.slice(0, count - 1), column.slice(1)
        rises = pc.less(before, after)
        same = pc.equal(before, after)
        fits = pc.or_(rises, same)
        if tied is not None:
            fits = pc.or_(fits, pc.invert(tied))
        if not pc.all(fits).as_py():
            return False
        tied = same if tied is None else pc.and_(tied, same)
    return True


# Comparison of keys that Arrow cannot hold: dates such as ``0000-00-00`` and ``2026-02-00``.
#
# In a state table such a date is null, and its text is in the row's ``_lossless`` map. Keys are
# unique on the source, and must be here: two keys are not equal because both are null.


def unheld(keys: pa.Table, names: Sequence[str]) -> list[str]:
    """Return the key columns with a date that Arrow cannot hold in at least one of the rows."""
    return [name for name in names if keys[name].null_count]


def comparable(rows: pa.Table, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Return the key columns of rows in a form in which Arrow compares like the source.

    The columns in ``columns`` become texts, one for each distinct value. Negative zeros of FLOAT
    and DOUBLE become zeros.

    Args:
        rows: the rows, with their ``_lossless`` map.
        names: names of the key's columns.
        columns: those of them that become texts.
    """
    found = {name: rows[name] for name in names}
    for name in names:
        values = found[name]
        if pa.types.is_floating(values.type):
            found[name] = pc.add(values, pa.scalar(0.0, values.type))
        if name not in columns:
            continue
        number = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
        numbers = values.cast(number).cast(pa.string())
        if LOSSLESS in rows.column_names:
            kept = rows[LOSSLESS]
            chunks = kept.chunks if isinstance(kept, pa.ChunkedArray) else [kept]
            texts = pa.chunked_array(
                [pc.map_lookup(chunk, query_key=name, occurrence="first") for chunk in chunks],
                pa.string(),
            )
            numbers = pc.coalesce(numbers, texts)
        found[name] = numbers
    return pa.table(found)
