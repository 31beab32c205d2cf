"""Columns of change files in the types of state tables, mostly without Python values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaMismatchError
from replica_client.lake.change_files import COLUMN
from replica_client.lake.lake_columns import LOSSLESS, LOSSLESS_TYPE, LakeColumn, Lossless
from replica_client.lake.lake_table import COPY_KEY, DELETED, LakeTable
from replica_client.rows.json_values import value_to_json
from replica_client.rows.special_values import WHY_ABSENT
from replica_client.rows.text_columns import TextColumns
from replica_client.schema.kinds import BYTES, DATES, REALS, STRINGS, WHOLE, kinds_of
from replica_client.schema.model import ColumnModel
from replica_client.stream.snapshot.column_selects import sent_as_bytes

_BIG: Final = pa.decimal128(20, 0)
_SAFE_SCALE: Final = 6
_TIMES: Final = ((3_600_000_000, 0), (60_000_000, 60), (1_000_000, 60))
_TEXTS: Final = (pa.types.is_string, pa.types.is_dictionary)
# For each wanted type, the other types that convert to it.
_FITTING: Final = (
    (pa.types.is_integer, (pa.types.is_integer,)),
    (pa.types.is_decimal, (pa.types.is_decimal, pa.types.is_integer, pa.types.is_string)),
    (pa.types.is_string, (*_TEXTS, pa.types.is_decimal, pa.types.is_duration)),
    (pa.types.is_struct, (pa.types.is_struct,)),
    (pa.types.is_list, (pa.types.is_list,)),
)


def check_columns(table: LakeTable, names: list[str]) -> None:
    """Raise an error if rows do not have the table's columns.

    Args:
        table: the lake's table.
        names: names of all columns of the rows.

    Raises:
        SchemaMismatchError: a column is missing, or is not known.
    """
    hidden = {column.name for column in table.model.columns if column.hidden}
    hidden |= {f"DB_ROW_HASH_{number}" for number in range(1, 9)}
    wanted = {column.name for column in table.columns}
    if missing := wanted - set(names):
        raise _mismatch(table, f"its rows lack {', '.join(sorted(missing))}")
    if more := set(names) - wanted - hidden:
        raise _mismatch(table, f"its rows have {', '.join(sorted(more))}, too")


def check_whole(table: LakeTable, absent: pa.ChunkedArray) -> None:
    """Raise an error if an image lacks columns.

    Raises:
        SchemaMismatchError: an image does.
    """
    if absent.null_count != len(absent):
        lacking = pc.drop_null(absent)
        names = [name for name in lacking[0].as_py() if name in table.schema.names]
        if names or any(set(one or ()) & set(table.schema.names) for one in lacking.to_pylist()):
            raise _mismatch(table, f"row images lack {', '.join(names) or 'columns'}: {WHY_ABSENT}")


def _mismatch(table: LakeTable, what: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"{table.model.database}.{table.model.name}: a row image is not of the table that is known ({what}); "
        f"columns are {', '.join(c.name for c in table.columns)}. Set binlog_row_image=FULL on the source "
        "where images lack columns"
    )


def in_lake_types(table: LakeTable, rows: pa.Table, row_keys: pa.Array | None = None) -> pa.Table:
    """Return rows of change files as rows of the state table.

    ``row_keys`` are the keys of a table without a primary key.

    Raises:
        SchemaMismatchError: a column has another type.
    """
    models = {column.name: column for column in table.model.columns}
    columns = []
    for field in table.schema:
        if field.name == LOSSLESS:
            kept = rows["_lossless"]
            empty = kept.null_count == len(kept)
            columns.append(
                pa.nulls(len(kept), LOSSLESS_TYPE) if empty else kept.cast(LOSSLESS_TYPE)
            )
        elif field.name == DELETED and table.keeps_deleted:
            columns.append(rows[DELETED])
        elif field.name == COPY_KEY:
            columns.append(
                row_keys if row_keys is not None else pa.nulls(rows.num_rows, pa.string())
            )
        else:
            columns.append(
                lake_array(table, models[field.name], rows[COLUMN + field.name], field.type)
            )
    return pa.Table.from_arrays(columns, schema=table.schema)


def lake_array(
    table: LakeTable, model: ColumnModel, found: pa.ChunkedArray, wanted: pa.DataType
) -> pa.ChunkedArray | pa.Array:
    """Return a column in the type that it has in the lake.

    Raises:
        SchemaMismatchError: the column's type does not convert to it.
    """
    kind = found.type
    if kind != wanted and not _fits(kind, wanted):
        raise _mismatch(
            table, f"column {model.name} is {kind} in the binlog, and {wanted} in the lake"
        )
    if kind == wanted:
        return found
    if pa.types.is_duration(kind):
        return _time_texts(found, model.fraction_digits or 0)
    if pa.types.is_decimal(kind) and pa.types.is_string(wanted):
        if kind.scale <= _SAFE_SCALE:
            return found.cast(wanted)
        # Arrow writes small numbers with an exponent.
        texts = [None if value is None else format(value, "f") for value in found.to_pylist()]
        return pa.array(texts, wanted)
    if pa.types.is_struct(wanted):
        parts = []
        for chunk in found.chunks:
            members = [pc.struct_field(chunk, [at]).cast(one.type) for at, one in enumerate(wanted)]
            parts.append(
                pa.StructArray.from_arrays(members, fields=list(wanted), mask=chunk.is_null())
            )
        return pa.chunked_array(parts, wanted)
    if pa.types.is_uint64(kind) and pa.types.is_decimal(wanted):
        return found.cast(_BIG).cast(wanted)
    return found.cast(wanted)


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    for test, others in _FITTING:
        if test(wanted):
            return any(other(kind) for other in others)
    return False


def _time_texts(found: pa.ChunkedArray, digits: int) -> pa.ChunkedArray:
    """Return MySQL's text of TIME values: ``-838:59:59.50``."""
    number = found.cast(pa.int64())
    left = pc.abs(number)
    parts = []
    for unit, limit in _TIMES:
        part = pc.divide(left, unit)
        if limit:
            part = pc.subtract(part, pc.multiply(pc.divide(part, limit), limit))
        parts.append(pc.utf8_lpad(part.cast(pa.string()), 2, "0"))
    text = pc.binary_join_element_wise(*parts, ":")
    if digits:
        fraction = pc.subtract(left, pc.multiply(pc.divide(left, 1_000_000), 1_000_000))
        fraction = pc.divide(fraction, 10 ** (6 - digits))
        shown = pc.utf8_lpad(fraction.cast(pa.string()), digits, "0")
        text = pc.binary_join_element_wise(text, shown, ".")
    sign = pc.if_else(pc.less(number, 0), "-", "")
    return pc.binary_join_element_wise(sign, text, "")


# Columns of a text result set in the types of state tables.
#
# Arrow casts most columns. Values that Arrow cannot cast exactly are converted one by one, each
# distinct value once.


Value = Callable[[int, bytes], Any]
"""Converts the server's bytes to the value of a column, which is given by its number."""

_COPIED_TEXTS: Final = frozenset(kinds_of("string", "time", "address", "json"))


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
        if kind in _COPIED_TEXTS:
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
