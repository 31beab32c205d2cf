"""Comparison of keys that Arrow cannot hold: dates such as ``0000-00-00`` and ``2026-02-00``.

In a state table such a date is null, and its text is in the row's ``_lossless`` map. Keys are
unique on the source, and must be here: two keys are not equal because both are null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.lake_columns import LOSSLESS


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
