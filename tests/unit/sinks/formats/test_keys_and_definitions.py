"""Keys of rows, and the definitions of columns that Maxwell's lines give."""

from __future__ import annotations

import pytest

from replica_client.constants.column_types import ColumnType as T
from replica_client.rows.absent import ABSENT
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.maxwell import _column
from replica_client.sinks.formats.message import KeyWriter

COLUMNS = [ColumnShape(name, T.MYSQL_TYPE_LONG) for name in ("a", "b", "c")]


@pytest.mark.parametrize(
    ("key", "row", "expected"),
    [
        (["a"], (1, 2, 3), '{"a":1}'),
        (["c", "a"], (1, 2, None), '{"c":null,"a":1}'),
        (["a", "b"], (1, ABSENT, 3), None),
        (["a", "d"], (1, 2, 3), None),
        ([], (1, 2, 3), None),
    ],
)
def test_keys_of_rows(key: list[str], row: tuple[object, ...], expected: str | None) -> None:
    assert KeyWriter(COLUMNS, key, lambda _: str).text(row) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (ColumnModel("x", "datetime", fraction_digits=3), '{"type":"datetime","name":"x","column-length":3}'),
        (ColumnModel("x", "datetime"), '{"type":"datetime","name":"x","column-length":0}'),
        (ColumnModel("x", "geometry", type_name="POINT"), '{"type":"point","name":"x"}'),
        (ColumnModel("x", "int", unsigned=True), '{"type":"int","name":"x","signed":false}'),
        (ColumnModel("x", "enum", labels=("a",)), '{"type":"enum","name":"x","enum-values":["a"]}'),
    ],
)  # fmt: skip
def test_columns_of_definitions(column: ColumnModel, expected: str) -> None:
    assert _column(column) == expected
