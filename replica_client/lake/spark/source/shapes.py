"""Spark's types of the two shapes of changes: the envelope of any tables, and one table in its own columns.

The types are in :data:`~replica_client.schema.kinds.TARGETS`. BIT(64) is decimal(20,0), a DECIMAL of
more than 38 digits a string, and JSON with ``json=variant`` a variant.

A value that its type cannot hold (zero and partial dates; the parts of a JSON document that changed,
where the whole is not in the binlog) is null, and its text stands in ``_lossless``.

A statement that takes all rows away is a row, too, whose columns are null: ``_change_type`` is
``truncate_table``, ``drop_table`` or ``rename_table``. One that changes which rows there are is, too: ``alter_table``
for DROP, TRUNCATE or EXCHANGE PARTITION, ALTER IGNORE and the like.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from inspect import signature
from struct import pack
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from replica_client.errors import ColumnDecodeError, ConfigError
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.arrow_types import arrow_column
from replica_client.schema.kinds import KINDS, target_type
from replica_client.schema.names import check_names
from replica_client.schema.shape import ColumnShape, TableShape, kind_of

# JSON text to Spark's VARIANT.
#
# =======  ==================================================================================
# part     layout
# =======  ==================================================================================
# metadata header (version 1, size of offsets), number of keys, offsets, keys in UTF-8
# value    header; the two low bits tell primitive (0), short string (1), object (2), array (3)
# =======  ==================================================================================
#
# Numbers are what ``parse_json`` makes of them: the smallest integer that holds them, decimals of up
# to 38 digits, else double. Spec: Apache Parquet "Variant Binary Encoding".


_VERSION = 1
_NULL, _TRUE, _FALSE = b"\x00", b"\x04", b"\x08"
_DOUBLE, _STRING = 7 << 2, 16 << 2
_SHORT_STRING = 63
_MAX_DIGITS = 38
_MAX_DEPTH_TEXT = "a JSON document with too many nested levels for VARIANT"


class _Number(str):
    """A number with a fraction or an exponent, as it was written."""

    __slots__ = ()


def variant_array(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """JSON texts as variants; nulls stay.

    Raises:
        ColumnDecodeError: a document is nested too deeply.
    """
    values: list[bytes] = []
    metadata: list[bytes] = []
    for text in texts.to_pylist():
        value, keys = (b"", b"") if text is None else encode_variant(text)
        values.append(value)
        metadata.append(keys)
    parts = {"value": pa.array(values, pa.binary()), "metadata": pa.array(metadata, pa.binary())}
    mask = texts.is_null() if texts.null_count else None
    return pa.StructArray.from_arrays(
        [parts[field.name] for field in kind], fields=list(kind), mask=mask
    )


def encode_variant(text: str) -> tuple[bytes, bytes]:
    """Value and metadata of a JSON text.

    Raises:
        ColumnDecodeError: it is nested too deeply.
    """
    keys: dict[str, int] = {}
    try:
        value = _value(json.loads(text, parse_float=_Number), keys)
    except RecursionError:
        raise ColumnDecodeError(_MAX_DEPTH_TEXT) from None
    return value, _metadata(keys)


def _size_of(number: int) -> int:
    return (number.bit_length() + 7) // 8 or 1


def _offsets(lengths: list[int], size: int) -> bytes:
    at, found = 0, [b"\0" * size]
    for length in lengths:
        at += length
        found.append(at.to_bytes(size, "little"))
    return b"".join(found)


def _metadata(keys: dict[str, int]) -> bytes:
    names = [key.encode() for key in keys]
    text = b"".join(names)
    size = max(_size_of(len(text)), _size_of(len(names)))
    header = _VERSION | (size - 1) << 6
    count = len(names).to_bytes(size, "little")
    return bytes((header,)) + count + _offsets([len(name) for name in names], size) + text


def _value(value: Any, keys: dict[str, int]) -> bytes:
    kind = type(value)
    if kind is str:
        data: bytes = value.encode()
        if len(data) <= _SHORT_STRING:
            return bytes((len(data) << 2 | 1,)) + data
        return pack("<BI", _STRING, len(data)) + data
    if kind is dict:
        return _object(value, keys)
    if kind is list:
        return _array(value, keys)
    if value is None:
        return _NULL
    if value is True:
        return _TRUE
    if value is False:
        return _FALSE
    number: bytes = _integer(value) if kind is int else _number(value)
    return number


def _integer(value: int) -> bytes:
    if -128 <= value < 128:
        return pack("<Bb", 3 << 2, value)
    if -(1 << 15) <= value < 1 << 15:
        return pack("<Bh", 4 << 2, value)
    if -(1 << 31) <= value < 1 << 31:
        return pack("<Bi", 5 << 2, value)
    if -(1 << 63) <= value < 1 << 63:
        return pack("<Bq", 6 << 2, value)
    if abs(value) < 10**_MAX_DIGITS:
        return _decimal(value, 0)
    return pack("<Bd", _DOUBLE, float(value))


def _number(text: str) -> bytes:
    if "e" not in text and "E" not in text:
        _, digits, exponent = Decimal(text).as_tuple()
        scale = -int(exponent)
        if max(len(digits), scale) <= _MAX_DIGITS:
            unscaled = int("".join(map(str, digits)))
            return _decimal(-unscaled if text.startswith("-") else unscaled, scale)
    return pack("<Bd", _DOUBLE, float(text))


def _decimal(unscaled: int, scale: int) -> bytes:
    digits = max(len(str(abs(unscaled))), scale)
    kind, size = (8, 4) if digits <= 9 else (9, 8) if digits <= 18 else (10, 16)
    return bytes((kind << 2, scale)) + unscaled.to_bytes(size, "little", signed=True)


def _object(members: dict[str, Any], keys: dict[str, int]) -> bytes:
    # Fields are found by name, values stand in the order of the text.
    fields = []
    values = []
    size = 0
    for name, member in members.items():
        number = keys.setdefault(name, len(keys))
        value = _value(member, keys)
        fields.append((name.encode(), number, size))
        values.append(value)
        size += len(value)
    fields.sort()
    id_size = _size_of(max((number for _, number, _ in fields), default=0))
    offset_size = _size_of(size)
    large = len(fields) > 255
    header = large << 4 | (id_size - 1) << 2 | (offset_size - 1)
    return b"".join(
        (
            bytes((header << 2 | 2,)),
            len(fields).to_bytes(4 if large else 1, "little"),
            *(number.to_bytes(id_size, "little") for _, number, _ in fields),
            *(at.to_bytes(offset_size, "little") for _, _, at in fields),
            size.to_bytes(offset_size, "little"),
            *values,
        )
    )


def _array(items: list[Any], keys: dict[str, int]) -> bytes:
    values = [_value(item, keys) for item in items]
    offset_size = _size_of(sum(map(len, values)))
    large = len(values) > 255
    header = large << 2 | (offset_size - 1)
    return b"".join(
        (
            bytes((header << 2 | 3,)),
            len(values).to_bytes(4 if large else 1, "little"),
            _offsets([len(value) for value in values], offset_size),
            *values,
        )
    )


POSITION_FIELDS = (
    StructField("_commit_version", StringType(), False),
    StructField("_commit_timestamp", TimestampType(), False),
    StructField("_gtid", StringType(), False),
    StructField("_file", StringType(), False),
    StructField("_offset", LongType(), False),
    StructField("_event_index", LongType(), False),
    StructField("_row_index", LongType(), False),
)
"""Where a change stands. ``_commit_version`` is the same for all rows of a transaction and sorts as
transactions do; with ``_event_index`` and ``_row_index`` it names a change and sorts changes."""

ENVELOPE_SCHEMA = StructType(
    [
        *POSITION_FIELDS,
        StructField("database", StringType(), False),
        StructField("table", StringType(), False),
        StructField("operation", StringType(), False),
        StructField("before", StringType(), True),
        StructField("after", StringType(), True),
    ]
)
"""``operation`` is insert, update or delete; ``before`` and ``after`` are JSON objects, or null.

A ``null`` in them is SQL NULL. A row that holds the JSON document ``null`` names these columns in a member
without a name: ``{"id": 1, "doc": null, "": ["doc"]}``.

A statement that changes a wanted table, or a database, is a row too: ``operation`` is its kind
(``create_table``, ``alter_table``, ``rename_table``, ``drop_table``, ``truncate_table``,
``create_database``, ``alter_database``, ``drop_database``, ``not_understood``; ``table`` is empty for
a database), ``before`` the table's definition where it is known, and ``after`` the object that
:func:`~replica_client.lake.change_log_files.statement_json` makes. One statement may be several rows,
with ``_row_index`` 0, 1 …

With ``recordLosses`` what could not be delivered is a row: ``operation`` is ``loss``, and ``after``
describes it (:func:`~replica_client.lake.source.envelope.loss_json`).
"""

VARIANT_ENVELOPE_SCHEMA = StructType(
    [
        StructField(field.name, VariantType(), True) if field.name in ("before", "after") else field
        for field in ENVELOPE_SCHEMA
    ]
)
"""The envelope with ``before`` and ``after`` as VARIANT."""


_UTC: dict[str, Any] = (
    {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
)
"""PySpark 4.1 has no such argument: its timestamps are in UTC."""


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of a source with this schema."""
    return to_arrow_schema(schema, **_UTC)


_VARIANT_ARROW_SCHEMA = arrow_schema_of(VARIANT_ENVELOPE_SCHEMA)


def with_variants(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of the envelope with ``before`` and ``after`` as VARIANT."""
    arrays = [
        variant_array(array, field.type) if field.name in ("before", "after") else array
        for array, field in zip(batch.columns, _VARIANT_ARROW_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=_VARIANT_ARROW_SCHEMA)


_BIGINT_UNSIGNED = DecimalType(20, 0)
_HEAD = (
    StructField("_change_type", StringType(), False),
    *POSITION_FIELDS,
    StructField("_absent", ArrayType(StringType(), False), True),
    StructField("_lossless", MapType(StringType(), StringType(), False), True),
)
CDC_HEAD = (
    StructField("_sequence", StringType(), False),
    StructField("_deleted", BooleanType(), False),
    StructField(
        "_replica",
        StructType([StructField(one.name[1:], one.dataType, one.nullable) for one in _HEAD]),
        False,
    ),
)
"""Columns before a table's own with ``shape=cdc``; ``_replica`` has the other change columns."""

_TYPES: dict[str, DataType] = {
    "byte": ByteType(),
    "short": ShortType(),
    "integer": IntegerType(),
    "long": LongType(),
    "decimal(20,0)": _BIGINT_UNSIGNED,
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "interval day to second": DayTimeIntervalType(),
    "timestamp_ntz": TimestampNTZType(),
    "timestamp": TimestampType(),
    "array<float>": ArrayType(FloatType(), True),
    "struct<wkb: binary, srid: bigint>": StructType(
        [StructField("wkb", BinaryType(), True), StructField("srid", LongType(), True)]
    ),
}


def spark_type(column: ColumnShape, options: DecodeOptions, json: DataType) -> DataType:
    """Return the Spark type of a column.

    Args:
        column: the column.
        options: how values are decoded.
        json: type of JSON columns.
    """
    arrow = arrow_column(column, options).type
    form = KINDS[kind_of(column)].form
    if form == "json":
        return json
    if form == "bit" and column.length >= 64:
        return _BIGINT_UNSIGNED
    if form == "decimal":
        is_exact = pa.types.is_decimal128(arrow)
        return DecimalType(arrow.precision, arrow.scale) if is_exact else StringType()
    if form == "string" and pa.types.is_binary(arrow):
        return BinaryType()
    return _TYPES[target_type("spark", kind_of(column), unsigned=column.unsigned)]


@dataclass(frozen=True)
class TypedTable:
    """The plan of a typed query; it travels to the executors.

    Attributes:
        database: of the table.
        table: its name.
        columns: names of the wanted columns, None for all.
        fields: name and type of the table's columns as planned.
        evolves: whether rows of other definitions are fitted to these columns where that loses
            nothing, instead of stopping the query.
        planned_at: the position whose definition was planned. Rows before it may have columns that are
            not planned, because they were dropped since; rows after it may not. None: no rows may.
        key: names of the primary key's columns, for ``shape=cdc``; empty where none is known. None: rows
            have their images.
        on_truncate: what a statement that takes rows away does with ``shape=cdc``.
    """

    database: str
    table: str
    columns: tuple[str, ...] | None
    fields: tuple[tuple[str, DataType], ...]
    evolves: bool = False
    planned_at: Position | None = None
    key: tuple[str, ...] | None = None
    on_truncate: str = "error"

    def schema(self) -> StructType:
        """Spark's schema."""
        return self._schema(_HEAD if self.key is None else CDC_HEAD)

    def image_schema(self) -> StructType:
        """Return the schema of rows with their images, of which those of ``shape=cdc`` are made."""
        return self._schema(_HEAD)

    def _schema(self, head: tuple[StructField, ...]) -> StructType:
        return StructType([*head, *(StructField(name, kind) for name, kind in self.fields)])


def plan_table(
    shape: TableShape, options: SourceOptions, planned_at: Position | None = None
) -> TypedTable:
    """Plan a query on a table of this shape.

    Raises:
        ConfigError: a wanted column is not there, or the transforms do not fit the table.
    """
    transformer, columns = options.transformer, options.columns
    plan = None if transformer is None else transformer.plan(shape.database, shape.table)
    if plan is not None:
        if plan.shard is not None:
            raise ConfigError(
                f"option table: {shape.database}.{shape.table} becomes one table with others (shard): read the "
                "envelope (tables instead of table)"
            )
        shape, _ = plan.shape(shape)
    for name in columns or ():
        if name not in shape.column_names:
            raise ConfigError(
                f"option columns: {shape.database}.{shape.table} has no column {name!r}; "
                f"it has {', '.join(shape.column_names)}"
            )
    fields = fields_of(shape, columns, options.decode, json_type(options))
    key = _cdc_key(shape, {name for name, _ in fields}) if options.is_cdc else None
    return TypedTable(
        shape.database, shape.table, columns, fields, options.evolves, planned_at, key,
        options.on_truncate,
    )  # fmt: skip


def _cdc_key(shape: TableShape, taken: set[str]) -> tuple[str, ...]:
    """Return the names of the primary key's columns; none where the key is not known."""
    name = f"{shape.database}.{shape.table}"
    check_names("cdc", name, taken, "shape=cdc has", "leave it out (columns), or leave out shape")
    key = tuple(shape.columns[at].name for at in shape.primary_key)
    if missing := [one for one in key if one not in taken]:
        raise ConfigError(
            f"option columns: shape=cdc needs the primary key of {name}: add {', '.join(missing)}"
        )
    return key


def json_type(options: SourceOptions) -> DataType:
    """Return the Spark type of JSON columns."""
    return VariantType() if options.variant else StringType()


def fields_of(
    shape: TableShape, columns: tuple[str, ...] | None, options: DecodeOptions, json: DataType
) -> tuple[tuple[str, DataType], ...]:
    """Name and type of each wanted column."""
    return tuple(
        (column.name, spark_type(column, options, json))
        for column in shape.columns
        if columns is None or column.name in columns
    )


def fields_text(fields: tuple[tuple[str, DataType], ...]) -> str:
    """Return the fields as text for people."""
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in fields)
