"""Values that the kept binlogs lack: at the edges of types, and what is not valid."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from decimal import Decimal

import pytest

from replica_client.protocol.binlog.values.temporal import Time
from replica_client.protocol.binlog.values.value_types import EnumValue
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats import (
    debezium_values,
    debezium_values as debezium_times,
    maxwell as maxwell_values,
)
from replica_client.sinks.formats.canal import _object, canal_column
from replica_client.sinks.formats.debezium_connect import column_schema


@pytest.mark.parametrize(
    ("code", "value", "type_code"),
    [
        (ColumnType.MYSQL_TYPE_TINY, 127, -6),
        (ColumnType.MYSQL_TYPE_TINY, 128, 5),
        (ColumnType.MYSQL_TYPE_SHORT, 1 << 15, 4),
        (ColumnType.MYSQL_TYPE_LONG, (1 << 31) - 1, 4),
        (ColumnType.MYSQL_TYPE_LONG, 1 << 31, -5),
        (ColumnType.MYSQL_TYPE_LONGLONG, 1 << 63, 3),
    ],
)
def test_canal_tells_the_type_that_a_large_unsigned_value_needs(
    code: int, value: int, type_code: int
) -> None:
    column = canal_column(ColumnShape("n", code, unsigned=True))
    codes = {'"n"': column.null_code}
    assert _object((column,), (value,), codes) == f'{{"n":"{value}"}}'
    assert codes == {'"n"': type_code}


@pytest.mark.parametrize(
    "column",
    [
        ColumnShape("v", ColumnType.MYSQL_TYPE_VECTOR),
        ColumnShape("v", ColumnType.MYSQL_TYPE_VARCHAR, collation_id=63, logical_type="vector"),
    ],
)
def test_canal_writes_the_bytes_of_a_vector(column: ColumnShape) -> None:
    assert canal_column(column).write((1.0, -2.0)) == ("\x00\x00\x80?\x00\x00\x00\xc0", 2004)


def test_a_decimal_of_an_old_table_is_a_number() -> None:
    column, value = ColumnShape("d", ColumnType.MYSQL_TYPE_DECIMAL, length=6), Decimal("1.50")
    assert canal_column(column).write(value) == ("1.50", 3)
    assert maxwell_values.maxwell_writer(column)(value) == "1.50"
    # Its scale is not known, which Connect's decimals need.
    modes = debezium_values.ValueModes()
    assert debezium_values.debezium_writer(column, modes)(value) == '"1.50"'
    assert column_schema(column, modes)["type"] == "string"


@pytest.mark.parametrize(("length", "size"), [(2, 1), (8, 1), (9, 2), (16, 2), (57, 8), (64, 8)])
def test_debezium_bits_have_the_bytes_of_their_length(length: int, size: int) -> None:
    value = 1 << (length - 1)
    expected = b64encode(value.to_bytes(size, "little")).decode()
    assert debezium_values._bit(length)(value) == f'"{expected}"'


def test_debezium_one_bit_is_a_boolean() -> None:
    write = debezium_values._bit(1)
    assert [write(0), write(1)] == ["false", "true"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(), "0"),
        (timedelta(hours=838, minutes=59, seconds=59), "3020399000000"),
        (timedelta(microseconds=-1), "-1"),
        (Time(True, 0, 0, 1, 5, 6), "-1000005"),
    ],
)
def test_debezium_times_are_microseconds(value: object, expected: str) -> None:
    column = ColumnShape("t", ColumnType.MYSQL_TYPE_TIME2)
    write = debezium_times.clock_writer(column, "adaptive_time_microseconds")
    assert write is not None
    assert write(value) == expected


def test_maxwell_enumerations() -> None:
    values = [EnumValue(0), EnumValue(3), EnumValue(2, 'a"b')]
    assert [maxwell_values._enum(value) for value in values] == ["null", "3", '"a\\"b"']
