"""Columns of a text result set in the types of state tables.

Arrow casts most columns. Values that Arrow cannot cast exactly are converted one by one, each
distinct value once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.lake.lake_columns import LakeColumn, Lossless
from replica_client.lake.lake_table import LakeTable
from replica_client.rows.json_values import value_to_json
from replica_client.rows.text_columns import TextColumns
from replica_client.schema.kinds import BYTES, DATES, REALS, STRINGS, WHOLE, kinds_of
from replica_client.schema.model import ColumnModel
from replica_client.stream.snapshot.column_selects import sent_as_bytes

Value = Callable[[int, bytes], Any]
"""Converts the server's bytes to the value of a column, which is given by its number."""

_TEXTS: Final = frozenset(kinds_of("string", "time", "address", "json"))


def copied_rows(table: LakeTable, found: TextColumns, value: Value) -> pa.Table:
    """Return rows of a state table with a primary key, converted from a text result set.

    Args:
        table: the state table.
        found: its columns, as :mod:`replica_client.stream.snapshot` selects them.
        value: converts a value.

    Raises:
        ReplicaClientError: a value does not fit its column.
    """
    models = [column for column in table.model.columns if not column.hidden]
    lossless: Lossless = {}
    arrays = []
    for at, (model, column) in enumerate(zip(models, table.columns, strict=True)):
        buffers, nulls = found.columns[at].buffers()
        texts = pa.Array.from_buffers(pa.binary(), found.count, buffers, nulls)
        array = _cast(model, column, texts)
        if array is None:
            array = _made(column, texts, partial(value, at), lossless)
        arrays.append(array)
    return table.of_arrays(arrays, lossless, found.count)


def _cast(model: ColumnModel, column: LakeColumn, texts: pa.Array) -> pa.Array | None:
    """Return the column cast by Arrow; None where the cast would not be exact."""
    kind, wanted = model.kind, column.type
    if sent_as_bytes(model):
        return None
    if pa.types.is_binary(wanted):
        return texts if kind in BYTES or kind in STRINGS else None
    try:
        if kind in _TEXTS:
            return texts.cast(pa.string())
        text = texts.cast(pa.string())
        if kind in WHOLE:
            if pa.types.is_decimal(wanted):
                return text.cast(pa.uint64()).cast(wanted)
            return text.cast(wanted)
        if kind in REALS:
            return text.cast(pa.float64()).cast(wanted)
        if kind == "decimal" and pa.types.is_decimal(wanted):
            return text.cast(wanted)
        if kind in DATES:
            if wanted == pa.timestamp("us", "UTC"):
                return pc.assume_timezone(text.cast(pa.timestamp("us")), "UTC")
            return text.cast(wanted)
    except pa.ArrowInvalid:
        return None
    return None


def _made(
    column: LakeColumn, texts: pa.Array, value: Callable[[bytes], Any], lossless: Lossless
) -> pa.Array:
    """Return the column converted value by value."""
    if pa.types.is_temporal(column.type):  # a value that Arrow cannot hold is recorded by its row
        return column.to_arrow(_decoded(column, texts.to_pylist(), value), lossless)
    encoded = texts.dictionary_encode()
    made = column.to_arrow(_decoded(column, encoded.dictionary.to_pylist(), value), lossless)
    return made.take(encoded.indices)


def _decoded(
    column: LakeColumn, found: Sequence[bytes | None], value: Callable[[bytes], Any]
) -> list[Any]:
    # The same conversion as for rows of the change log.
    texts = ["null" if one is None else value_to_json(value(one)) for one in found]
    made: list[Any] = msgspec.json.decode(f"[{','.join(texts)}]", type=list[column.decoded])  # type: ignore[name-defined]
    return [None if one is None else value for one, value in zip(found, made, strict=True)]
