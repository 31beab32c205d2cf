"""What makes a chunk of a table worthless, and what does not."""

from __future__ import annotations

import pytest

from replica_client.protocol.position import Position
from replica_client.schema.history import LogPosition, SchemaChange
from replica_client.schema.model import TableModel
from replica_client.service.table_checker import ChangedKeys
from replica_client.stream.transactions.transaction import Transaction


def altering(offset: int, table: str, new: str = "") -> Transaction:
    after = TableModel("d", new or table, (), ())
    change = SchemaChange("alter_table", "d", table, None, after, "", "b.000002", offset, 0)
    start, end = Position("b.000002", offset), Position("b.000002", offset + 50)
    return Transaction(start, end, "", 0, None, (), (), schema_changes=(change,))


@pytest.mark.parametrize(
    ("file", "offset", "altered"),
    [
        ("b.000002", 100, True),
        ("b.000002", 101, False),
        ("b.000001", 900, True),
        ("b.000003", 4, False),
    ],
)
def test_a_statement_before_the_definition_was_read_is_in_it(file, offset, altered) -> None:
    changes = ChangedKeys(("d", "t"))
    changes.see(altering(100, "t"))
    changes.see(altering(200, "other"))
    assert changes.altered(LogPosition.of(file, offset)) is altered


def test_the_last_statement_counts_and_renames_do() -> None:
    changes = ChangedKeys(("d", "t"))
    assert not changes.altered(LogPosition.of("b.000001", 4))
    changes.see(altering(100, "t"))
    changes.see(altering(300, "other", "t"))
    assert changes.altered(LogPosition.of("b.000002", 250))
