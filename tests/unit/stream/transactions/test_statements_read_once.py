"""A statement is asked about several times, and read once."""

from __future__ import annotations

import pytest

from replica_client.protocol.binlog.event import BinlogFormat
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions import schema_tracking
from replica_client.stream.transactions.query_text import Provenance, ReadQuery, read_query
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from tests.unit.schema.test_temporary_tables import query_event

LAYOUT = BinlogFormat(server_version="9.7.0")
ALONE = Provenance(in_group=False, first_hand=True)
QUERIES = (
    b"CREATE TABLE `t` (a INT PRIMARY KEY, b VARCHAR(30))",
    b"CREATE OR REPLACE TABLE e.t (a INT) /* c */",
    b"/* c */ CREATE TABLE u AS SELECT * FROM t",
    b"CREATE TABLE u SELECT 1 AS a",
    b"CREATE VIEW v AS SELECT 1",
    b"INSERT INTO t VALUES (1)",
    b"DELETE x FROM t AS x, u",
    b"CALL p()",
)


@pytest.mark.parametrize("query", QUERIES)
def test_read_once(monkeypatch: pytest.MonkeyPatch, query: bytes) -> None:
    read: list[bytes] = []

    def reads(*arguments) -> ReadQuery:
        read.append(arguments[0].body.query)
        return read_query(*arguments)

    monkeypatch.setattr(schema_tracking, "read_query", reads)
    tracker = SchemaTracker(SchemaHistory(), Selection("*.*"))
    event = query_event(query, flagged=False)
    changed = tracker.text_changes(event, LAYOUT, ALONE)
    changes = tracker.run(event, LAYOUT, 0, ALONE)
    assert len(read) == 1
    # Whose rows it changes is what the text says, however it was found.
    tables = schema_tracking.changed_tables(
        query.decode(), read_query(event, LAYOUT, ALONE).context
    )
    assert changed == ((("", ""),) if tables is None else tables)
    # Another event, or one behind a change of what is known, is read again.
    tracker.text_changes(query_event(query, flagged=False), LAYOUT, ALONE)
    tracker.history.run("CREATE TABLE other (a INT)", read_query(event, LAYOUT, ALONE).context)
    tracker.text_changes(event, LAYOUT, ALONE)
    assert len(read) == 3
    assert [change.kind for change in changes] == (["create_table"] if b" TABLE" in query else [])
