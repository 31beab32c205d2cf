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

from dataclasses import dataclass
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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

from replica_client.errors import ConfigError
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.variant import variant_array
from replica_client.protocol.binlog.context import DecodeOptions
from replica_client.protocol.position import Position
from replica_client.rows.arrow_types import arrow_column
from replica_client.schema.kinds import KINDS, target_type
from replica_client.schema.shape import ColumnShape, TableShape, kind_of

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
    """

    database: str
    table: str
    columns: tuple[str, ...] | None
    fields: tuple[tuple[str, DataType], ...]
    evolves: bool = False
    planned_at: Position | None = None

    def schema(self) -> StructType:
        """Spark's schema."""
        return StructType([*_HEAD, *(StructField(name, kind) for name, kind in self.fields)])


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
    return TypedTable(shape.database, shape.table, columns, fields, options.evolves, planned_at)


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
