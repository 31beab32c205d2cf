"""What a change file says of itself: its keys' range, by which a merge leaves files alone."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.schema.shape import ColumnShape
from tests.unit.lake.written_files import written_file

UTF8MB4 = 255
LONG = ColumnShape("k", T.MYSQL_TYPE_LONG, unsigned=False, primary_key_index=0)
TEXT = ColumnShape("k", T.MYSQL_TYPE_VARCHAR, length=800, collation_id=UTF8MB4, primary_key_index=0)
DECIMAL = ColumnShape("k", T.MYSQL_TYPE_NEWDECIMAL, length=9, scale=1, primary_key_index=0)
DATE = ColumnShape("k", T.MYSQL_TYPE_NEWDATE, primary_key_index=0)


@pytest.mark.parametrize(
    ("column", "keys", "least", "greatest"),
    [
        (LONG, [7, -5, 3], -5, 7),
        (TEXT, ["b", "a", "é"], "a", "é"),
        # Long texts would make the log's entries long.
        (TEXT, ["a", "b" * 100], "a", "b" * 100),
        (TEXT, ["a", "b" * 101], None, None),
        (TEXT, ["a" * 101, "b"], None, None),
        (DECIMAL, [Decimal("3.0"), Decimal("1.0")], 1, 3),
        (DECIMAL, [Decimal("3.5"), Decimal("1.0")], None, None),
        (DATE, [datetime.date(2026, 2, 1), datetime.date(2025, 3, 4)], "2025-03-04", "2026-02-01"),
    ],
)  # fmt: skip
def test_the_range_of_keys(
    tmp_path: Path, column: ColumnShape, keys: list[Any], least: Any, greatest: Any
) -> None:
    file = written_file(tmp_path, [column], ["insert"] * len(keys), {"k": keys}, 1)
    assert (file.key, file.least, file.greatest) == (
        "k" if least is not None else "",
        least,
        greatest,
    )
    assert (file.rows, file.changes) == (len(keys), len(keys))
    assert (tmp_path / file.path).stat().st_size == file.size


def test_a_file_counts_an_update_once(tmp_path: Path) -> None:
    kinds = ["insert", "update_preimage", "update_postimage", "delete"]
    file = written_file(tmp_path, [LONG], kinds, {"k": [1, 1, 2, 2]}, 3)
    assert (file.rows, file.changes, file.part) == (4, 3, 3)
    assert (file.first, file.last, file.committed) == ("f:00003", "f:00003", 1)
