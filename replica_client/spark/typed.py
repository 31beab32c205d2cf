"""One table in its own typed columns.

=========================  =======================================================
column                     Spark
=========================  =======================================================
TINYINT … BIGINT           byte, short, int, long
unsigned                   the next larger one; BIGINT UNSIGNED decimal(20,0)
YEAR                       int
BIT                        long; BIT(64) decimal(20,0)
FLOAT, DOUBLE              float, double
DECIMAL                    decimal; string from 39 digits on
DATE                       date
TIME                       interval day to second
DATETIME                   timestamp_ntz
TIMESTAMP                  timestamp
CHAR, VARCHAR, TEXT, JSON  string
ENUM, SET                  string
BINARY, VARBINARY, BLOB    binary
GEOMETRY                   struct<wkb: binary, srid: bigint>
VECTOR                     array<float>
UUID, INET4, INET6         string
=========================  =======================================================

A value that its type cannot hold (zero and partial dates; the parts of a JSON document that changed,
where the whole is not in the binlog) is null, and its text stands in ``_lossless``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
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
)

from replica_client.binlog.options import DecodeOptions
from replica_client.binlog.values.json_binary import JsonDocument
from replica_client.constants.column_types import ColumnType
from replica_client.errors import ConfigError, SchemaMismatchError
from replica_client.readers.transaction import Transaction
from replica_client.rows.absent import ABSENT
from replica_client.rows.arrow_types import arrow_column
from replica_client.rows.change import Change, RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.json_values import value_to_json
from replica_client.rows.row import Row
from replica_client.schema.shape import ColumnDefinition, ColumnShape, TableShape
from replica_client.spark.envelope import MAX_ROWS, PLACE_FIELDS, BatchColumns, commit_timestamp_us

_BIGINT_UNSIGNED = DecimalType(20, 0)
_HEAD = (
    StructField("_change_type", StringType(), False),
    *PLACE_FIELDS,
    StructField("_absent", ArrayType(StringType(), False), True),
    StructField("_lossless", MapType(StringType(), StringType(), False), True),
)
_SIMPLE: tuple[tuple[pa.DataType, DataType], ...] = (
    (pa.int8(), ByteType()),
    (pa.int16(), ShortType()),
    (pa.int32(), IntegerType()),
    (pa.int64(), LongType()),
    (pa.uint8(), ShortType()),
    (pa.uint16(), IntegerType()),
    (pa.uint32(), LongType()),
    (pa.uint64(), _BIGINT_UNSIGNED),
    (pa.float32(), FloatType()),
    (pa.float64(), DoubleType()),
    (pa.string(), StringType()),
    (pa.binary(), BinaryType()),
    (pa.date32(), DateType()),
    (pa.duration("us"), DayTimeIntervalType()),
    (pa.timestamp("us"), TimestampNTZType()),
    (pa.timestamp("us", "UTC"), TimestampType()),
    (pa.list_(pa.float32()), ArrayType(FloatType(), True)),
)
Converters = list[tuple[str, Callable[[Any], Any]]]
_GEOMETRY = StructType(
    [StructField("wkb", BinaryType(), True), StructField("srid", LongType(), True)]
)


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """How one column goes to Spark: its type, and what makes a value ``pa.array`` takes for it."""

    type: DataType
    convert: Callable[[Any], Any]


def _fixed(value: Any) -> str:
    return format(value, "f")


def _document(value: Any) -> str | None:
    """A JSON document's text; None for a partial change whose whole document is not known."""
    return str(value.text) if isinstance(value, JsonDocument) else None


def _lossless_text(value: Any) -> str:
    return value_to_json(value) if isinstance(value, tuple) else str(value)


def spark_column(column: ColumnShape, options: DecodeOptions) -> SparkColumn:
    """The Spark form of a column."""
    arrow = arrow_column(column, options)
    if column.type_code == ColumnType.MYSQL_TYPE_BIT and column.length < 64:
        return SparkColumn(LongType(), arrow.convert)
    if column.type_code == ColumnType.MYSQL_TYPE_JSON:
        return SparkColumn(StringType(), _document)
    if arrow.type == pa.uint64():
        return SparkColumn(_BIGINT_UNSIGNED, Decimal)
    if pa.types.is_dictionary(arrow.type):
        return SparkColumn(StringType(), arrow.convert)
    if pa.types.is_decimal256(arrow.type):
        return SparkColumn(StringType(), _fixed)
    if pa.types.is_decimal128(arrow.type):
        return SparkColumn(DecimalType(arrow.type.precision, arrow.type.scale), arrow.convert)
    if pa.types.is_struct(arrow.type):
        return SparkColumn(_GEOMETRY, arrow.convert)
    for kind, spark in _SIMPLE:
        if arrow.type == kind:
            return SparkColumn(spark, arrow.convert)
    raise SchemaMismatchError(f"column {column.name}: no Spark type for {arrow.type}")


@dataclass(frozen=True)
class TypedTable:
    """What a typed query was planned with; travels to the executors.

    Attributes:
        database: of the table.
        table: its name.
        columns: names of the wanted columns, None for all.
        fields: name and type of the table's columns as planned.
        definitions: what the binlog may not tell (names, signedness, labels), when known.
    """

    database: str
    table: str
    columns: tuple[str, ...] | None
    fields: tuple[tuple[str, DataType], ...]
    definitions: tuple[ColumnDefinition, ...] | None = None

    @classmethod
    def plan(
        cls,
        shape: TableShape,
        columns: tuple[str, ...] | None,
        options: DecodeOptions,
        definitions: tuple[ColumnDefinition, ...] | None = None,
    ) -> TypedTable:
        """Plan a query on a table of this shape.

        Raises:
            ConfigError: a wanted column is not there.
        """
        for name in columns or ():
            if name not in shape.column_names:
                raise ConfigError(
                    f"option columns: {shape.database}.{shape.table} has no column {name!r}; "
                    f"it has {', '.join(shape.column_names)}"
                )
        fields = _fields(shape, columns, options)
        return cls(shape.database, shape.table, columns, fields, definitions)

    def schema(self) -> StructType:
        """Spark's schema."""
        return StructType([*_HEAD, *(StructField(name, kind) for name, kind in self.fields)])


def _fields(
    shape: TableShape, columns: tuple[str, ...] | None, options: DecodeOptions
) -> tuple[tuple[str, DataType], ...]:
    return tuple(
        (column.name, spark_column(column, options).type)
        for column in shape.columns
        if columns is None or column.name in columns
    )


class TypedBatches:
    """Builds typed batches.

    Args:
        table: as planned.
        options: how values are decoded.
    """

    def __init__(self, table: TypedTable, options: DecodeOptions) -> None:
        self._table = table
        self._options = options
        self._columns = BatchColumns(table.schema())
        self._known: dict[int, tuple[RowImageDecoder, TableShape, RowImageDecoder, Converters]] = {}

    def add(self, transaction: Transaction) -> list[pa.RecordBatch]:
        """Take a transaction, or a part of one; returns the batches that became full.

        Raises:
            SchemaMismatchError: the table's columns are not those that were planned.
        """
        full = []
        for rows in transaction.rows:
            timestamp = commit_timestamp_us(transaction, rows)
            resolved, converters = self._resolve(rows)
            for change in resolved:
                place = (
                    transaction.commit_version,
                    timestamp,
                    change.gtid,
                    change.file,
                    change.position,
                    change.event_index,
                    change.row_index,
                )
                for change_type, row in _images(change):
                    self._append(change_type, place, row, converters)
                if len(self._columns) + 2 > MAX_ROWS:
                    full.append(self._columns.finish())
        return full

    def finish(self) -> list[pa.RecordBatch]:
        """What is left."""
        return [self._columns.finish()] if len(self._columns) else []

    def _append(
        self,
        change_type: str,
        place: tuple[Any, ...],
        row: Row,
        converters: Converters,
    ) -> None:
        absent: list[str] = []
        lossless: dict[str, str] = {}
        converted: list[Any] = []
        for name, convert in converters:
            value = row[name]
            if value is ABSENT:
                absent.append(name)
                value = None
            elif value is not None:
                text, value = value, convert(value)
                if value is None:
                    lossless[name] = _lossless_text(text)
            converted.append(value)
        head = (change_type, *place, absent or None, list(lossless.items()) or None)
        for column, value in zip(self._columns.values, (*head, *converted), strict=True):
            column.append(value)

    def _resolve(self, rows: RowsOfEvent) -> tuple[RowsOfEvent, Converters]:
        """The rows with the columns' definitions filled in, and how their values are converted."""
        # The decoder is kept with its entry, so that its id stays its own.
        found = self._known.get(id(rows.decoder))
        if found is None:
            shape, decoder = rows.shape, rows.decoder
            if self._table.definitions is not None:
                shape = shape.resolved_with(self._table.definitions)
            if shape is not rows.shape:
                wanted = None if self._table.columns is None else frozenset(self._table.columns)
                decoder = RowImageDecoder(shape, self._options, columns=wanted)
            self._check(shape, rows)
            converters = [
                (column.name, spark_column(column, self._options).convert)
                for column in shape.columns
                if self._table.columns is None or column.name in self._table.columns
            ]
            found = self._known[id(rows.decoder)] = (rows.decoder, shape, decoder, converters)
        _, shape, decoder, converters = found
        if decoder is not rows.decoder:
            rows = replace(rows, shape=shape, decoder=decoder)
        return rows, converters

    def _check(self, shape: TableShape, rows: RowsOfEvent) -> None:
        found = _fields(shape, self._table.columns, self._options)
        if found == self._table.fields:
            return
        place = f"{rows.event.file}:{rows.event.position}"
        raise SchemaMismatchError(
            f"{shape.database}.{shape.table} at {place} is ({_text(found)}), but the query was planned "
            f"with ({_text(self._table.fields)}); end the query before it (endingPosition), start a new "
            "one there, or read the envelope (tables instead of table)"
        )


def _images(change: Change) -> tuple[tuple[str, Row], ...]:
    if change.kind == "insert":
        assert change.after is not None
        return (("insert", change.after),)
    assert change.before is not None
    if change.kind == "delete":
        return (("delete", change.before),)
    assert change.after is not None
    return (("update_preimage", change.before), ("update_postimage", change.after))


def _text(fields: tuple[tuple[str, DataType], ...]) -> str:
    return ", ".join(f"{name} {kind.simpleString()}" for name, kind in fields)
