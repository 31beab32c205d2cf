"""Tables of binlog files or of a live source, for anything that reads Arrow.

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

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from replica_client.errors import (
    USER_BOUNDARY,
    ConfigError,
    ReplicaClientError,
    SchemaMismatchError,
)
from replica_client.options import checked_types
from replica_client.rows.selection import Selection
from replica_client.rows.where import And, Condition, columns_of, parse_where
from replica_client.schema.ddl.steps import TableName
from replica_client.storage.durable import joined_name
from replica_client.stream.transactions.loss_watch import used_as

if TYPE_CHECKING:
    from replica_client.rows.batching import RecordBatch


class TableSource(Protocol):
    """A source of tables: files, or a live server.

    Attributes:
        failure: the error that ended the last stream of a table.
    """

    failure: ReplicaClientError | None

    def schemas(self) -> dict[TableName, list[pa.Schema]]:
        """Return the schemas of each table's batches, the newest last."""
        ...

    def check_tables(self) -> None:
        """Raise if a pattern of the wanted tables matches no table.

        Raises:
            ConfigError: names the pattern, and the nearest table.
        """
        ...

    def batches(
        self, table: TableName, columns: Sequence[str], where: Condition | None, max_rows: int
    ) -> Iterator[RecordBatch]:
        """Yield the rows of a table, in order."""
        ...


@used_as("give the table to a library that reads Arrow, such as `pyarrow.table(table)`", "__iter__")
class BinlogTable:
    """The row changes of one table as an Arrow stream; made by :func:`~replica_client.scan_binlog`.

    Any library that takes ``__arrow_c_stream__`` reads it: Polars, DuckDB, PyArrow, DataFusion,
    Ibis. Each stream reads from the start, lazily, and may be abandoned early. Columns that are not
    selected are not decoded.

    The columns are those of record batches: ``_change_type`` and so on, then the table's; an update
    is two rows. All rows have one schema, also where the table was altered in between: columns are
    joined by name, a column that a definition lacks is null, and a column whose type changed gets a
    type that holds both.

    Attributes:
        database: the table's database.
        name: the table's name.

    Examples:
        >>> orders = rc.scan_binlog("shop-bin.000001", columns=["id", "state"])["shop.orders"]
        >>> orders.schema.names
        ['id', 'state']
    """

    def __init__(
        self,
        source: TableSource,
        table: TableName,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        max_rows: int = 16384,
    ) -> None:
        self._source = source
        self.database, self.name = table
        self._columns = None if columns is None else tuple(columns)
        self._where = where
        self._max_rows = max_rows

    @cached_property
    def _unified(self) -> pa.Schema:

        name = (self.database, self.name)
        return unified_schema(self._source.schemas()[name], ".".join(name))

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the stream.

        Raises:
            SchemaMismatchError: an ALTER changed a column's type to one that no common type can
                hold.
            BinlogDecodeError: a file is damaged.
        """
        import pyarrow as pa

        if self._columns is None:
            return self._unified
        found = self._unified
        return pa.schema([found.field(name) for name in self._columns], found.metadata)

    @USER_BOUNDARY
    @checked_types
    def select(self, columns: Sequence[str]) -> BinlogTable:
        """Return this table with these columns only, in this order.

        Raises:
            ConfigError: the table has no such column.
        """
        known = self.schema.names
        for name in columns:
            if name not in known:
                raise ConfigError(
                    f"columns: {self.database}.{self.name} has no column {name!r}; it has {', '.join(known)}"
                )
        table = (self.database, self.name)
        return BinlogTable(self._source, table, columns, self._where, self._max_rows)

    @USER_BOUNDARY
    @checked_types
    def filter(self, where: str) -> BinlogTable:
        """Return this table with only the changes whose row before or after meets a condition.

        The condition is that of ``changes --where``.

        Args:
            where: for example ``"state = 'paid' AND total >= 10.5"``.

        Raises:
            ConfigError: the condition is invalid, or names a column that the table does not have.
        """
        condition = parse_where(where)
        own = [name for name in self._unified.names if name not in _change_names()]
        for name in columns_of(condition):
            if name not in own:
                raise ConfigError(
                    f"where: {self.database}.{self.name} has no column {name!r}; it has {', '.join(own)}"
                )
        if self._where is not None:
            condition = And((self._where, condition))
        table = (self.database, self.name)
        return BinlogTable(self._source, table, self._columns, condition, self._max_rows)

    @USER_BOUNDARY
    def reader(self) -> pa.RecordBatchReader:
        """Return a new stream of the table's rows, from the first row on.

        Reading its batches raises:

        Raises:
            DataLossError: a change cannot be delivered as rows.
            SchemaError: a table's definition is not known, or does not fit its rows.
            BinlogDecodeError: a file is damaged; everything before the fault was yielded.
        """
        self._source.failure = None
        wanted = self.schema.names
        needed = dict.fromkeys(wanted)
        if self._where is not None:
            needed.update(dict.fromkeys(columns_of(self._where)))
        table = (self.database, self.name)
        batches = self._source.batches(table, tuple(needed), self._where, self._max_rows)
        return reader_of(self._unified, self._noted(batches), wanted)

    def _noted(self, batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        try:
            yield from batches
        except ReplicaClientError as error:
            self._source.failure = error
            raise

    @property
    def failure(self) -> ReplicaClientError | None:
        """The error that ended the last stream of a table of this scan; None if none did.

        Libraries that read through Arrow's C stream raise an error of their own, with its text only.
        """
        return self._source.failure

    def __arrow_c_schema__(self) -> Any:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<BinlogTable {self.database}.{self.name}>"


@used_as(
    'a scan needs no block; write `tables = rc.scan_binlog(…)` and then `tables["shop.orders"]`'
)
class BinlogTables(Mapping[str, BinlogTable]):
    """The tables of a scan by ``database.table``; made by :func:`~replica_client.scan_binlog`.

    The mapping has the tables with rows in the scanned range. Nothing is read until a table is
    looked up; then the files are read once, without decoding rows, to find the tables and their
    definitions. A point or a percent sign in a name is written ``%2E`` and ``%25`` in the key.

    Examples:
        >>> list(rc.scan_binlog(["shop-bin.000001", "shop-bin.000002"], tables="shop.*"))
        ['shop.customers', 'shop.orders', 'shop.products']
    """

    def __init__(
        self,
        source: TableSource,
        columns: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        where: str | None = None,
        max_rows: int = 16384,
        *,
        allow_empty: bool = True,
    ) -> None:
        self._source = source
        self._allow_empty = allow_empty
        self._columns = columns
        self._where = where
        self._max_rows = max_rows
        # Both are looked at before anything is read.
        self._selection = Selection(None, None, columns)
        if where is not None:
            parse_where(where)

    @cached_property
    def _names(self) -> dict[str, TableName]:
        found = {joined_name(*name): name for name in sorted(self._source.schemas())}
        if not self._allow_empty:
            self._source.check_tables()
        return found

    @USER_BOUNDARY
    def __getitem__(self, key: str) -> BinlogTable:
        name = self._names.get(key)
        if name is None:
            raise KeyError(f"{key}: no such table with rows; there is {', '.join(self) or 'none'}")
        table = BinlogTable(self._source, name, max_rows=self._max_rows)
        if self._where is not None:
            table = table.filter(self._where)
        wanted = self._selection.columns_of(*name)
        if wanted is None or self._columns is None:
            return table
        known = table.schema.names
        if isinstance(self._columns, Mapping):
            return table.select([one for one in known if one in wanted])
        return table.select([one for one in self._columns if one in known])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<BinlogTables {', '.join(self)}>"


def _change_names() -> frozenset[str]:
    from replica_client.rows.batches import CHANGE_FIELDS

    return frozenset(field.name for field in CHANGE_FIELDS)


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
