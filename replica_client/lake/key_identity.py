"""What tells keys apart that Arrow has no value for: dates such as ``0000-00-00`` and ``2026-02-00``.

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


def with_texts(rows: pa.Table, names: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """The key of rows; in some columns each value has a text that no other value has.

    Args:
        rows: with their ``_lossless`` map.
        names: of the key.
        columns: those of them that become texts.
    """
    found = {name: rows[name] for name in names}
    for name in columns:
        values = found[name]
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
