"""How keys are told apart that have no value in Arrow: dates such as ``0000-00-00`` and ``2026-02-00``.

In a state table such a date is null, and its text stands in the row's ``_lossless`` map. Keys are unique on the
source, and must be here: two of them are not one because both are null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.lake_columns import LOSSLESS


def unheld(keys: pa.Table, names: Sequence[str]) -> list[str]:
    """The columns of a key that have a date which Arrow cannot hold, in one of these rows at least."""
    return [name for name in names if keys[name].null_count]


def comparable(rows: pa.Table, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """The key of rows, in a form in which Arrow finds equal what the source does.

    In some columns each value has a text that no other value has. Negative zeros of FLOAT and DOUBLE are zeros.

    Args:
        rows: with their ``_lossless`` map.
        names: of the key.
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
