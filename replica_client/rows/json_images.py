"""The rows of a record batch as JSON, by change with its before and after images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.protocol.binlog.values.json_diff import JSON_DIFF
from replica_client.protocol.binlog.values.value_types import Geometry, decode_vector
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.arrow_types import allocate
from replica_client.rows.json_rows import (
    BINARY,
    DATE,
    DATETIME,
    DECIMAL,
    DOUBLE,
    ENTRY,
    FLOAT,
    RAW,
    SIGNED,
    TEXT,
    TIME,
    UNSIGNED,
    JsonColumn,
    JsonRows,
    change_rows,
)
from replica_client.rows.json_values import value_to_json, with_json_nulls
from replica_client.schema.shape import ColumnShape, TableShape

_FIRST_COLUMN = 10
_MAX_DIGITS = 18


@dataclass(frozen=True, slots=True)
class JsonImages:
    """The changes of a batch as JSON.

    Attributes:
        before: JSON object of each changed row before it, null for an insert.
        after: JSON object of each changed row after it, null for a delete.
        rows: the batch's first row of each change; None: each row is a change.
    """

    before: pa.Array
    after: pa.Array
    rows: pa.Array | None


def json_images(batch: pa.RecordBatch, shape: TableShape) -> JsonImages:
    """Return the changes of a batch of :class:`~replica_client.rows.batches.BatchBuilder` as JSON.

    The texts are those of :func:`~replica_client.rows.json_values.row_to_json`. A row that holds the JSON document
    ``null`` names it in a member without a name (:func:`~replica_client.rows.json_values.with_json_nulls`).

    Raises:
        OverflowError: more than 2 GiB of text.
    """
    shapes = {column.name: column for column in shape.columns}
    names = batch.schema.names[_FIRST_COLUMN:]
    columns = [
        _json_column(shapes[name], batch.column(at)) for at, name in enumerate(names, _FIRST_COLUMN)
    ]
    kinds = _kinds(batch.column(0))
    absent = _absent(batch.column(8), names)
    lossless = _lossless(batch.column(9), names)
    writer = JsonRows(allocate)
    before = _strings(*writer.images(columns, kinds, False, absent, lossless))
    after = _strings(*writer.images(columns, kinds, True, absent, lossless))
    count, buffer = change_rows(kinds, allocate)
    rows = None
    if count != batch.num_rows:
        rows = pa.Array.from_buffers(pa.int32(), count, [None, buffer])
    nulls = _json_nulls(batch, shape)
    if nulls:
        before, after = _with_json_nulls(before, after, batch.column(0).to_pylist(), nulls)
    return JsonImages(before, after, rows)


def json_columns(shape: TableShape) -> list[str]:
    """Return the names of a table's JSON columns, in its order."""
    code = ColumnType.MYSQL_TYPE_JSON
    return [column.name for column in shape.columns if column.type_code == code]


def _json_nulls(batch: pa.RecordBatch, shape: TableShape) -> dict[int, list[str]]:
    """Return the columns that hold the JSON document ``null``, by row of a batch."""
    found: dict[int, list[str]] = {}
    columns = batch.schema.names[_FIRST_COLUMN:]
    for name in json_columns(shape):
        if name in columns:
            documents = batch.column(_FIRST_COLUMN + columns.index(name))
            for at in pc.indices_nonzero(pc.equal(documents, "null")).to_pylist():
                found.setdefault(at, []).append(name)
    return found


def _with_json_nulls(
    before: pa.Array, after: pa.Array, types: list[str], nulls: Mapping[int, list[str]]
) -> tuple[pa.Array, pa.Array]:
    """Return the images with the names of the documents ``null`` of their rows."""
    images, number = (before.to_pylist(), after.to_pylist()), -1
    for row, kind in enumerate(types):
        number += kind != "update_postimage"
        if row in nulls:
            texts = images[kind not in ("delete", "update_preimage")]
            texts[number] = with_json_nulls(texts[number], nulls[row])
    one, two = (pa.array(texts, pa.string()) for texts in images)
    return one, two


def _kinds(types: pa.DictionaryArray) -> bytes:
    """Return the index of each row's change type, one byte per row."""
    indexes = types.indices.buffers()[1]
    return bytes(memoryview(indexes)[: 4 * len(types) : 4]) if len(types) else b""


def _strings(count: int, buffers: list[Any], nulls: int) -> pa.Array:
    *others, text = buffers
    return pa.Array.from_buffers(pa.string(), count, [*others, pa.py_buffer(text)], nulls)


def _json_column(column: ColumnShape, array: pa.Array) -> JsonColumn:
    key = json.dumps(column.name, ensure_ascii=False).encode("utf-8", "replace") + b": "
    kind, width, digits, entries = RAW, 0, 0, []
    arrow = array.type
    if pa.types.is_signed_integer(arrow):
        kind, width = SIGNED, arrow.bit_width // 8
    elif pa.types.is_unsigned_integer(arrow):
        kind, width = UNSIGNED, arrow.bit_width // 8
    elif column.type_code == ColumnType.MYSQL_TYPE_JSON:
        kind = RAW
    elif pa.types.is_string(arrow):
        kind = TEXT
    elif pa.types.is_binary(arrow):
        kind = BINARY
    elif arrow == pa.float32():
        kind = FLOAT
    elif arrow == pa.float64():
        kind = DOUBLE
    elif pa.types.is_decimal128(arrow) and arrow.precision <= _MAX_DIGITS:
        kind, width, digits = DECIMAL, 16, arrow.scale
    elif pa.types.is_date32(arrow):
        kind = DATE
    elif pa.types.is_timestamp(arrow):
        kind, digits = DATETIME, column.fraction_digits
    elif pa.types.is_duration(arrow):
        kind, digits = TIME, column.fraction_digits
    elif pa.types.is_dictionary(arrow):
        kind, width = ENTRY, arrow.index_type.bit_width // 8
        labelled = column.labels is not None
        entries = [_entry(text, labelled) for text in array.dictionary.to_pylist()]
        array = array.indices
    else:
        texts = [None if value is None else _written(value) for value in array.to_pylist()]
        array = pa.array(texts, pa.string())
    return JsonColumn(key, kind, width, digits, array.buffers(), entries)


def _entry(text: str, labelled: bool) -> bytes:
    """Return a label as JSON; a bare number if labels are unknown and the text is not empty."""
    return (value_to_json(text) if labelled or not text else text).encode()


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return value_to_json(Geometry(value["srid"], value["wkb"]))
    if isinstance(value, list):
        singles = pa.array(value, pa.float32())
        return "[" + ", ".join(repr(number) for number in _shortest(singles)) + "]"
    return value_to_json(value)


def _shortest(singles: pa.Array) -> list[float]:
    return list(decode_vector(singles.buffers()[1].to_pybytes()[: 4 * len(singles)]))


def _absent(array: pa.Array, names: list[str]) -> list[bytes] | None:
    if array.null_count == len(array):
        return None
    numbers = {name: at for at, name in enumerate(names)}
    whole = bytes(len(names))
    known: dict[tuple[str, ...], bytes] = {}
    found = []
    for left_out in array.to_pylist():
        if not left_out:
            found.append(whole)
            continue
        key = tuple(left_out)
        layout = known.get(key)
        if layout is None:
            marks = bytearray(whole)
            for name in key:
                if name in numbers:
                    marks[numbers[name]] = 1
            layout = known[key] = bytes(marks)
        found.append(layout)
    return found


def _lossless(array: pa.Array, names: list[str]) -> Mapping[int, dict[int, bytes]]:
    if array.null_count == len(array):
        return {}
    numbers = {name: at for at, name in enumerate(names)}
    return {
        row: {
            numbers[name]: (text if text.startswith(JSON_DIFF) else value_to_json(text)).encode()
            for name, text in values
        }
        for row, values in enumerate(array.to_pylist())
        if values
    }
