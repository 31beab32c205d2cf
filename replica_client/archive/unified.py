"""One Arrow schema for all rows of a table whose definition an ALTER changed.

Columns are joined by name. They are in the order of the newest definition, followed, in their
order, by columns that only older definitions had. A column that a definition lacks is null in its rows. Where the
types differ a column has the smallest type that holds every value of both:

=============================================  =========================================
types                                          type
=============================================  =========================================
integers                                       an integer; decimal(20, 0) for int64 and uint64
integer, decimal                               decimal
decimals                                       decimal with the digits of both
float, double; up to 32 bits of integer        double
DATE, DATETIME                                 timestamp[us]
ENUM, SET, and other texts                     string
integer or decimal, and text                   string: the number's digits
text, BLOB                                     binary: the text in UTF-8
=============================================  =========================================

Other types have no common type; reading such a table raises an error with a remedy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import SchemaMismatchError

_MAX_128, _MAX_256 = 38, 76
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 20}
_EXACT_IN_DOUBLE = 32


def unified_schema(schemas: Sequence[pa.Schema], table: str) -> pa.Schema:
    """Return the schema that fits the rows of all schemas, which are ordered with the newest last.

    Raises:
        SchemaMismatchError: the types of a column have no common type.
    """
    newest = schemas[-1]
    names = list(newest.names)
    for schema in reversed(schemas[:-1]):
        names += [name for name in schema.names if name not in names]
    fields = []
    for name in names:
        kind: pa.DataType | None = None
        nullable = False
        for schema in schemas:
            if name not in schema.names:
                nullable = True
                continue
            field = schema.field(name)
            nullable |= field.nullable
            kind = field.type if kind is None else _both(kind, field.type, name, table)
        fields.append(pa.field(name, kind, nullable))
    return pa.schema(fields, newest.metadata)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the unified schema."""
    if batch.schema.equals(schema):
        return batch
    known = set(batch.schema.names)
    arrays = [
        as_type(batch.column(field.name), field.type)
        if field.name in known
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _both(one: pa.DataType, other: pa.DataType, name: str, table: str) -> pa.DataType:
    """Return the smallest type that holds the values of two types."""
    if one == other:
        return one
    kinds = (one, other)
    if all(map(_is_text, kinds)):
        return pa.string()
    if all(_is_text(kind) or pa.types.is_binary(kind) for kind in kinds):
        return pa.binary()
    if all(map(pa.types.is_integer, kinds)):
        return _integer(one, other)
    if all(map(_is_exact, kinds)):
        found = _decimal(one, other)
        if found is not None:
            return found
    if any(map(pa.types.is_floating, kinds)) and all(map(_is_exact_in_double, kinds)):
        return pa.float64()
    if {one, other} == {pa.date32(), pa.timestamp("us")}:
        return pa.timestamp("us")
    if any(map(_is_text, kinds)) and any(map(_is_exact, kinds)):
        return pa.string()
    raise SchemaMismatchError(
        f"{table}: column {name} was {one} and became {other}, which have no common type; read the two sides"
        " of the ALTER apart with since and until, or leave the column out with columns"
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_dictionary(kind))


def _is_exact(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _is_exact_in_double(kind: pa.DataType) -> bool:
    if pa.types.is_integer(kind):
        return bool(kind.bit_width <= _EXACT_IN_DOUBLE)
    return bool(pa.types.is_floating(kind))


def _integer(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    signed = [pa.types.is_signed_integer(kind) for kind in (one, other)]
    width = max(one.bit_width, other.bit_width)
    if signed[0] != signed[1]:
        unsigned = other if signed[0] else one
        width = max(width, 2 * unsigned.bit_width)
    if width > 64:
        return pa.decimal128(20, 0)
    kinds = {
        True: {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()},
        False: {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()},
    }
    return kinds[any(signed)][width]


def _decimal(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    digits = [
        (_DIGITS[kind.bit_width], 0)
        if pa.types.is_integer(kind)
        else (kind.precision - kind.scale, kind.scale)
        for kind in (one, other)
    ]
    whole, scale = (max(pair) for pair in zip(*digits, strict=True))
    if whole + scale > _MAX_256:
        return None
    make = pa.decimal128 if whole + scale <= _MAX_128 else pa.decimal256
    return make(whole + scale, scale)


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array in another type that holds its values."""
    found = array.type
    if found == kind:
        return array
    if pa.types.is_dictionary(found):
        array = array.dictionary_decode()
    elif pa.types.is_integer(found) and pa.types.is_decimal(kind):
        # Arrow demands a decimal for all digits of the integer's type; the values have fewer.
        array = array.cast(pa.decimal128(_DIGITS[found.bit_width], 0))
    elif pa.types.is_decimal(found) and pa.types.is_string(kind):
        return pa.array([_digits(value) for value in array.to_pylist()], kind)
    return pc.cast(array, kind)


def _digits(value: Any) -> str | None:
    # Arrow writes small numbers with an exponent.
    return None if value is None else format(value, "f")


def reader_of(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], columns: Sequence[str]
) -> pa.RecordBatchReader:
    """Return batches as a stream of some columns of a unified schema."""
    wanted = pa.schema([schema.field(name) for name in columns], schema.metadata)
    return pa.RecordBatchReader.from_batches(wanted, (fitted(one, wanted) for one in batches))
