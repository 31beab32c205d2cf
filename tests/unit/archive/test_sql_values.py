"""Values as SQL: exact where they are stored, and where a row is found by them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from replica_client.archive.sql_values import condition_sql, value_sql
from replica_client.protocol.binlog.values.temporal import DateTime
from replica_client.protocol.binlog.values.value_types import EnumValue, SetValue
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.schema.shape import ColumnShape

T = ColumnType


@pytest.mark.parametrize(
    ("code", "collation", "value", "stored", "compared"),
    [
        (T.MYSQL_TYPE_FLOAT, None, 0.1, "0.1", "`c` = 0.10000000149011612"),
        (T.MYSQL_TYPE_DOUBLE, None, 0.1, "0.1", "`c` = 0.1"),
        (T.MYSQL_TYPE_DOUBLE, None, -0.0, "-0e0", "`c` = -0e0"),
        (T.MYSQL_TYPE_NEWDECIMAL, None, Decimal("-1.50"), "-1.50", "`c` = -1.50"),
        (T.MYSQL_TYPE_VARCHAR, 255, b"paid", "'paid'", "CAST(`c` AS BINARY) = x'70616964'"),
        (
            T.MYSQL_TYPE_VARCHAR,
            255,
            b"it's",
            "_utf8mb4 x'69742773'",
            "CAST(`c` AS BINARY) = x'69742773'",
        ),
        (T.MYSQL_TYPE_VARCHAR, 8, b"\xe9", "_latin1 x'e9'", "CAST(`c` AS BINARY) = x'e9'"),
        (T.MYSQL_TYPE_VARCHAR, 35, b"\0a", "_ucs2 x'0061'", "CAST(`c` AS BINARY) = x'0061'"),
        (T.MYSQL_TYPE_VARCHAR, 63, b"\0", "x'00'", "`c` = x'00'"),
        (T.MYSQL_TYPE_ENUM, 255, EnumValue(2, "b"), "2", "`c` + 0 = 2"),
        (T.MYSQL_TYPE_SET, 255, SetValue(5, ("a", "c")), "5", "CAST(`c` AS UNSIGNED) = 5"),
        (T.MYSQL_TYPE_BIT, None, 5, "5", "`c` + 0 = 5"),
        (
            T.MYSQL_TYPE_DATETIME2,
            None,
            DateTime(0, 0, 0, 0, 0, 0, 0),
            "'0000-00-00 00:00:00'",
            "`c` = '0000-00-00 00:00:00'",
        ),
        (T.MYSQL_TYPE_LONG, None, None, "NULL", "`c` IS NULL"),
    ],
)
def test_values(code: int, collation: int | None, value: Any, stored: str, compared: str) -> None:
    column = ColumnShape("c", code, collation_id=collation)
    assert value_sql(column, value) == stored
    assert condition_sql(column, value, is_key=False) == compared
