"""Search conditions: keys, changes of a column, and names that an archive lacks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Any, Final

from replica_client.errors import ConfigError, DataLossError, ReplicaClientError
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.values.decimal import encode_decimal
from replica_client.protocol.binlog.values.numbers import (
    encode_bit,
    encode_double,
    encode_float,
    encode_integer,
)
from replica_client.protocol.binlog.values.strings import BINARY_COLLATION
from replica_client.protocol.binlog.values.temporal import Date, DateTime, Time, Timestamp
from replica_client.protocol.binlog.values.temporal_storage import (
    encode_date,
    encode_datetime2,
    encode_time2,
    encode_timestamp2,
    encode_year,
)
from replica_client.protocol.binlog.values.value_types import (
    encode_inet4,
    encode_inet6,
    encode_uuid,
)
from replica_client.protocol.codec.charsets import encode_text
from replica_client.protocol.codec.printable import did_you_mean
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.column_ops import ColumnOp, ColumnReader, column_op
from replica_client.rows.conditions import is_equal, temporal_literal
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row import Row
from replica_client.rows.row_change import Change
from replica_client.rows.row_screen import AFTER, BEFORE
from replica_client.rows.screens import Wanted
from replica_client.rows.special_values import ABSENT
from replica_client.rows.where import Comparison, Value
from replica_client.schema.shape import ColumnShape, TableShape

_NUMBERS: Final = frozenset(
    (
        ColumnOp.SIGNED,
        ColumnOp.UNSIGNED,
        ColumnOp.FLOAT,
        ColumnOp.DOUBLE,
        ColumnOp.DECIMAL,
        ColumnOp.YEAR,
        ColumnOp.BIT,
    )
)
_HEX: Final = re.compile("[xX]'((?:[0-9a-fA-F]{2})*)'")
_LIKE: Final[dict[int, Any]] = {
    ColumnOp.DATE: Date(1970, 1, 1),
    ColumnOp.TIME: Time(False, 0, 0, 0, 0),
    ColumnOp.DATETIME: DateTime(1970, 1, 1, 0, 0, 0, 0),
    ColumnOp.TIMESTAMP: Timestamp(0),
}
_NETWORK: Final = {"uuid": encode_uuid, "inet4": encode_inet4, "inet6": encode_inet6}


def literal_of(column: ColumnShape, text: str) -> Value:
    """Return the text that a user typed for a column as a literal of a condition.

    Bytes that are not text are typed as ``x'00ff'``.

    Raises:
        ConfigError: the column is a number and the text is not.
    """
    op = column_op(column, DecodeOptions()).op
    if op not in _NUMBERS:
        typed = _HEX.fullmatch(text) if op in (ColumnOp.BINARY, ColumnOp.BYTES) else None
        return text if typed is None else bytes.fromhex(typed[1])
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ConfigError(f"column {column.name!r} is a number, {text[:80]!r} is not") from None


def key_forms(
    shape: TableShape, key: Sequence[int], values: Sequence[Value]
) -> list[tuple[bytes, ...]] | None:
    """Return the forms that a key may have in row images, column by column; None if not known.

    Args:
        shape: the table's shape.
        key: indexes of the key's columns.
        values: values of the key's columns.
    """
    forms = []
    for at, value in zip(key, values, strict=True):
        found = stored_forms(shape.columns[at], value)
        if found is None:
            return None
        forms.append(found)
    return list(product(*forms))


def stored_forms(column: ColumnShape, value: Value) -> list[bytes] | None:
    """Return the forms that a value may have in row images, without a length prefix.

    An empty list means that no row can have the value.

    Returns:
        None where the forms are not known: the caller checks all rows then.
    """
    reader = column_op(column, DecodeOptions())
    try:
        found = _encoded(column, reader, value)
    except (ReplicaClientError, ValueError, TypeError, OverflowError, LookupError):
        return None
    if found is None or not all(_is_form_of(column, reader, value, one) for one in found):
        return None
    return found


def _encoded(column: ColumnShape, reader: ColumnReader, value: Value) -> list[bytes] | None:
    op = reader.op
    if isinstance(value, bytes):
        return {ColumnOp.BINARY: [value.rstrip(b"\0")], ColumnOp.BYTES: [value]}.get(ColumnOp(op))
    if isinstance(value, Decimal) and op in (ColumnOp.SIGNED, ColumnOp.UNSIGNED, ColumnOp.BIT):
        value = int(value)
    if op in (ColumnOp.SIGNED, ColumnOp.UNSIGNED):
        return [encode_integer(int(value), reader.size, op == ColumnOp.UNSIGNED)]
    if op == ColumnOp.BIT:
        return [encode_bit(int(value), column.length)]
    if op == ColumnOp.YEAR:
        return [encode_year(int(value))]
    if op == ColumnOp.DECIMAL:
        return [encode_decimal(Decimal(value), reader.precision, reader.digits)]
    if op in (ColumnOp.FLOAT, ColumnOp.DOUBLE):
        number = float(value)
        encode = encode_float if op == ColumnOp.FLOAT else encode_double
        return [encode(number)] if number else [encode(0.0), encode(-0.0)]
    if not isinstance(value, str):
        return None
    if op in _LIKE:
        return [_temporal(column, op, reader.digits, value)]
    if op == ColumnOp.ENUM and column.labels is not None:
        return [(column.labels.index(value) + 1).to_bytes(reader.size, "little")]
    if column.logical_type is not None:
        encode_address = _NETWORK.get(column.logical_type)
        return None if encode_address is None else [encode_address(value)]
    if op == ColumnOp.BINARY:
        return [value.encode().rstrip(b"\0")]
    if op == ColumnOp.BYTES:
        return [value.encode()]
    text_ops = (ColumnOp.UTF8, ColumnOp.UTF8_CHAR, ColumnOp.CONVERT)
    collation = column.collation_id
    if op in text_ops and reader.prefix and collation not in (None, BINARY_COLLATION):
        is_char = column.type_code == ColumnType.MYSQL_TYPE_STRING
        assert collation is not None
        return [encode_text(value.rstrip(" ") if is_char else value, collation)]
    return None


def _temporal(column: ColumnShape, op: int, digits: int, text: str) -> bytes:
    value: Any = temporal_literal(column.name, _LIKE[op], text)
    if op == ColumnOp.DATE:
        return encode_date(value)
    if op == ColumnOp.TIME:
        return encode_time2(value, digits)
    if op == ColumnOp.DATETIME:
        return encode_datetime2(value, digits)
    return encode_timestamp2(value, digits)


def _is_form_of(column: ColumnShape, reader: ColumnReader, value: Value, data: bytes) -> bool:
    """Return whether the decoder returns the wanted value for a form; else no filter is used."""
    length = len(data).to_bytes(reader.prefix, "little") if reader.prefix else b""
    if not reader.prefix and len(data) != reader.size:
        return False
    decoder = RowImageDecoder(TableShape("", "", (column,)))
    ((_, row),) = decoder.decode_rows("insert", b"\x01", None, b"\x00" + length + data)
    return is_equal(column.name, row[0], value)


@dataclass(frozen=True, slots=True)
class ColumnStep:
    """A change of one column.

    Attributes:
        column: its name.
        before: the value before the change, as a literal; None: any.
        after: the value after the change; None: any.
    """

    column: str
    before: Value | None = None
    after: Value | None = None

    def wanted(self, shape: TableShape) -> list[Wanted]:
        """Return the conditions on the images before and after the change.

        They do not check that the value changed; :meth:`takes` does.

        Raises:
            ConfigError: the table has no such column, or a value is of another kind.
        """
        if self.column not in shape.column_names:
            hint = did_you_mean(self.column, shape.column_names)
            raise ConfigError(
                f"{shape.database}.{shape.table} has no column {self.column!r}; {hint}"
            )
        column = shape.columns[shape.column_names.index(self.column)]
        return [
            (
                Comparison(
                    self.column, "=", literal_of(column, value) if isinstance(value, str) else value
                ),
                image,
            )
            for value, image in ((self.before, BEFORE), (self.after, AFTER))
            if value is not None
        ]

    def takes(self, change: Change) -> bool:
        """Return whether a change is such a step.

        Raises:
            ConfigError: the table has no such column, or a value is of another kind.
            DataLossError: the row images lack the column.
        """
        before, after = self._value(change, change.before), self._value(change, change.after)
        if change.kind == "update" and after is ABSENT:
            if before is ABSENT and self._is_computed(change.shape):
                raise self._undecided(change)
            return False  # what an after image leaves out was not changed
        if change.kind == "update" and self.before is None and before is not ABSENT:
            if _same(before, after):
                return False
        return self._is(change, before, self.before) and self._is(change, after, self.after)

    def _value(self, change: Change, row: Row | None) -> Any:
        if row is None:
            return None
        try:
            return row[self.column]
        except KeyError:
            raise ConfigError(
                f"{change.database}.{change.table} has no column {self.column!r}, only {', '.join(row.columns)}"
            ) from None

    def _is_computed(self, shape: TableShape) -> bool:
        return shape.columns[shape.column_names.index(self.column)].computed

    def _undecided(self, change: Change) -> DataLossError:
        return DataLossError(
            f"file {change.file}, position {change.offset}: the row image of {change.database}.{change.table} "
            f"left out column {self.column!r}, so that --from cannot be decided; leave it out, or set "
            "binlog_row_image=FULL on the source (MariaDB 11.8.9 leaves generated columns out even so)"
        )

    def _is(self, change: Change, value: Any, wanted: Value | None) -> bool:
        if wanted is None:
            return True
        if value is ABSENT:
            raise self._undecided(change)
        if isinstance(wanted, str):
            shape = change.shape
            wanted = literal_of(shape.columns[shape.column_names.index(self.column)], wanted)
        return is_equal(self.column, value, wanted)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
