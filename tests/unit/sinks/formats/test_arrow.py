"""Row changes as Arrow streams, each read by pyarrow alone."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")

import pyarrow as pa

import replica_client
from replica_client import open_binlog
from replica_client.errors import ConfigError
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.sinks.formats.line_format import make_message_format
from replica_client.sinks.formats.message import Message, delivered_columns
from replica_client.sinks.protocol import SnapshotRows
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing.sink_conformance import SinkConformance

DATA = Path(replica_client.__file__).parent / "testing" / "data"


def transactions() -> list[Transaction]:
    """Some of them in parts."""
    return SinkConformance().transactions()


def messages(**options: object) -> list[Message]:
    line_format = make_message_format("arrow", options)
    return [message for one in transactions() for message in line_format.messages(one)]


def read(message: Message) -> Any:
    assert message.key is None
    assert message.gone is None
    return pa.ipc.open_stream(message.data).read_all()


def batches_of_file() -> dict[str, list[dict[str, Any]]]:
    """The rows of each table as ``.batches()`` gives them."""
    found = defaultdict(list)
    for batch in open_binlog(DATA).batches():
        metadata = batch.schema.metadata
        found[f"{metadata[b'database'].decode()}.{metadata[b'table'].decode()}"] += (
            batch.to_pylist()
        )
    return dict(found)


@pytest.mark.parametrize("options", [{}, {"max_rows": 2}, {"max_bytes": 2000}, {"max_bytes": 1}])
def test_the_rows_of_each_table_are_those_of_batches(options: dict[str, object]) -> None:
    found = defaultdict(list)
    for message in messages(**options):
        table = read(message)
        metadata = table.schema.metadata
        if metadata[b"table"] == b"_schema_changes":
            continue
        assert metadata[b"database"].decode() == message.database
        assert metadata[b"table"].decode() == message.table
        rows = table.to_pylist()
        assert rows[0]["_change_type"] != "update_postimage"
        assert rows[-1]["_change_type"] != "update_preimage"
        if len(rows) > 2:
            assert len(message.data) <= int(str(options.get("max_bytes", 900_000)))
            assert len(rows) <= int(str(options.get("max_rows", 16_384)))
        found[f"{message.database}.{message.table}"] += rows
    assert dict(found) == batches_of_file()
    assert sum(map(len, found.values())) > 30


def test_schema_changes_are_streams_too() -> None:
    expected = [
        (one.kind, one.database, one.table, one.statement)
        for transaction in transactions()
        for one in transaction.schema_changes
    ]
    found = []
    for message in messages():
        table = read(message)
        if table.schema.metadata[b"table"] == b"_schema_changes":
            (row,) = table.to_pylist()
            assert message.kind == ("row" if row["kind"] == "truncate_table" else "schema")
            assert (message.database, message.table) == (row["database"], row["table"])
            found.append(tuple(row[name] for name in ("kind", "database", "table", "statement")))
    assert found == expected
    assert len(found) > 3


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_streams_hold_the_same(compression: str) -> None:
    for plain, compressed in zip(messages(), messages(compression=compression), strict=True):
        assert read(plain).equals(read(compressed), check_metadata=True)


def test_a_change_that_no_message_can_hold_is_named() -> None:
    small = [one for one in messages(max_bytes=1) if one.kind == "row" and one.rows is not None]
    known = {id(rows) for one in transactions() for rows in one.rows}
    assert known
    for message in small:
        assert isinstance(message.rows, RowsOfEvent)
        assert read(message)["_row_index"].to_pylist()[0] == message.row_index
        assert read(message)["_event_index"].to_pylist()[0] == message.rows.event_index


def test_rows_of_a_snapshot_are_read_at_a_position() -> None:
    rows = next(
        rows for one in transactions() for rows in one.rows if rows.shape.table == "customers"
    )
    values = [change.after for change in rows]
    low = Position("shop-bin.000001", 1234)
    snapshot = SnapshotRows(
        rows.shape,
        delivered_columns(rows),
        values,
        range(5, 5 + len(values)),
        low,
        low,
        1_700_000_000,
    )
    for options in ({}, {"max_rows": 2}):
        made = make_message_format("arrow", options)
        found = [row for message in made.snapshot(snapshot) for row in read(message).to_pylist()]
        assert [row["_row_index"] for row in found] == list(range(5, 5 + len(values)))
        assert {row["_change_type"] for row in found} == {"read"}
        assert {(row["_file"], row["_offset"], row["_gtid"]) for row in found} == {
            ("shop-bin.000001", 1234, "")
        }
        expected = [
            row
            for one in messages()
            if one.table == "customers" and one.kind == "row"
            for row in read(one).to_pylist()
        ][: len(values)]
        for row, other in zip(found, expected, strict=True):
            assert {name: row[name] for name in row if name[0] != "_"} == {
                name: other[name] for name in other if name[0] != "_"
            }


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigError, match="compression: invalid enum value"):
        make_message_format("arrow", {"compression": "gzip"})
