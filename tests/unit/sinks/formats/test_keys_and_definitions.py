"""Keys of rows, and the definitions of columns that Maxwell's lines give."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from replica_client import open_binlog
from replica_client.protocol.constants.column_types import ColumnType as T
from replica_client.protocol.position import Position
from replica_client.rows.special_values import ABSENT
from replica_client.schema.model import ColumnModel
from replica_client.schema.shape import ColumnShape
from replica_client.sinks.formats.debezium import DebeziumFormat, DebeziumOptions
from replica_client.sinks.formats.maxwell import _column
from replica_client.sinks.formats.message import KeyChoice, KeyWriter, Message
from tests.unit.sinks.formats.cases import LINES, SERVERS

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


def _moved(keys: KeyChoice | None) -> list[Message]:
    """What Debezium's format makes of an update that changes a primary key: a delete and an insert."""
    line_format = DebeziumFormat(DebeziumOptions(), keys)
    found: list[Message] = []
    for transaction in open_binlog(LINES / "mysql-9.7.binlog").transactions():
        messages = [one for one in line_format.messages(transaction) if one.kind == "row"]
        for first, second in pairwise(messages):
            values = [json.loads(one.value) for one in (first, second)]
            if first.table == "kinds" and [one["op"] for one in values] == ["d", "c"]:
                assert (values[0]["before"]["id"], values[1]["after"]["id"]) == (5, 6)
                found += first, second
    assert len(found) == 2
    return found


@pytest.mark.parametrize(
    ("keys", "old", "new", "gone"),
    [
        (KeyChoice(), '{"id":5}', '{"id":6}', '{"id":5}'),
        (KeyChoice({"*.kinds": ["id"]}), '{"id":5}', '{"id":6}', None),  # may not be unique
        (KeyChoice({"*.kinds": ["no such column"]}), None, None, None),
        (None, None, None, None),
    ],
)
def test_debezium_names_the_other_key_of_a_row_that_got_a_new_one(
    keys: KeyChoice | None, old: str | None, new: str | None, gone: str | None
) -> None:
    deleted, inserted = _moved(keys)
    assert (deleted.key, inserted.key) == (old, new)
    assert (deleted.gone, inserted.gone) == (gone, None)
    assert deleted.headers == ((("__debezium.newkey", new),) if new else ())
    assert inserted.headers == ((("__debezium.oldkey", old),) if old else ())


@pytest.mark.parametrize(
    ("before", "after", "key", "gone"),
    [
        (None, (1, 2, 3), '{"a":1,"b":2}', None),
        ((1, 2, 3), None, '{"a":1,"b":2}', '{"a":1,"b":2}'),
        ((1, 2, 3), (1, 2, 9), '{"a":1,"b":2}', None),
        ((1, 2, 3), (1, 5, 3), '{"a":1,"b":5}', '{"a":1,"b":2}'),
        # An after image has what it left out as the one before has it.
        ((1, 2, 3), (ABSENT, 5, ABSENT), '{"a":1,"b":5}', '{"a":1,"b":2}'),
        ((1, 2, 3), (ABSENT, ABSENT, 9), '{"a":1,"b":2}', None),
        (None, None, None, None),
    ],
)
@pytest.mark.parametrize("unique", [True, False])
def test_keys_of_changes(
    before: tuple[object, ...] | None,
    after: tuple[object, ...] | None,
    key: str | None,
    gone: str | None,
    unique: bool,
) -> None:
    writer = KeyWriter(COLUMNS, ["a", "b"], lambda _: str, unique=unique)
    assert writer.of_change(before, after) == (key, gone if unique else None)
    if before is not None and after is not None:
        assert writer.is_changed(before, after) is (gone is not None)


@pytest.mark.parametrize("server", SERVERS)
def test_a_stream_from_inside_a_file_names_the_connector_at_once(server: str) -> None:
    path = LINES / f"{server}.binlog"
    first = next(one for one in open_binlog(path).transactions() if one.rows)
    reader = open_binlog(
        path,
        start=Position(first.start.file, first.start.offset),
        on_unknown_table="positional",
    )
    made = DebeziumFormat(DebeziumOptions(topic_prefix="shop"), KeyChoice())
    rows = next(one for one in reader.transactions() if one.rows)
    assert rows.position.gtid_set is None
    connectors = {json.loads(one.value)["source"]["connector"] for one in made.messages(rows)}
    assert connectors == {server.partition("-")[0]}
