"""A server that closes and opens a table gives it another id: its table maps are known all the same.

Python's calls are counted, never time: about as many for tables under new ids as for those that kept theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from benchmarks.generated_log import Made

import replica_client as rc
from replica_client.archive.file_list import list_files
from replica_client.archive.index_scan import make_sidecar
from replica_client.cli.event_lines import json_line, plain_line
from replica_client.cli.event_output import EventOutput, write_file_events
from replica_client.cli.file_check import FileCheck, Findings
from replica_client.cli.row_output import RowOutput
from replica_client.compat.pymysqlreplication.binlogstream import BinLogStreamReader
from replica_client.compat.pymysqlreplication.row_event import (
    TableMapEvent as CompatTableMap,
    WriteRowsEvent,
)
from replica_client.errors import MissingTableMapError
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.protocol.binlog.events.table_map import TableMapEvent
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.protocol.constants.client_server import ServerFlavor
from replica_client.rows.selection import Selection
from replica_client.schema.history import SchemaHistory
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from replica_client.stream.transport.server_statements import ServerInfo
from tests.unit.stream.transactions.test_calls import calls_of

TABLES = 10


def _changes(path: Path, *, as_json: bool) -> None:
    output = RowOutput(json=as_json)
    for transaction in rc.open_binlog(path).transactions():
        output.write(transaction)
    output.flush()


def _check(path: Path) -> None:
    tables = SchemaTracker(SchemaHistory(), Selection(), "positional", "positional")
    findings = Findings()
    for _ in FileCheck(path, DecodeOptions(), findings, tables).run():
        pass
    assert not findings.faults


def _compat_events(path: Path, wanted: list[Any]) -> Iterator[Any]:
    reader = BinLogStreamReader({}, 1, log_file="a.000001", log_pos=4, only_events=wanted)
    reader.begin(ServerInfo(ServerFlavor.MYSQL, (9, 7, 0), "9.7.0", 1))
    queue = EventQueue()
    queue.put(path.read_bytes()[4:])
    while queue.uncut:
        queue.cut(int.from_bytes(queue.peek(9, 4), "little"))
    while len(queue):
        event = reader._screened(queue)
        if event is None and len(queue):
            event = reader._event_of(queue.take())
        if event is not None:
            yield event


WORK: dict[str, Callable[[Path], object]] = {
    "changes": lambda path: _changes(path, as_json=False),
    "changes --json": lambda path: _changes(path, as_json=True),
    "events": lambda path: write_file_events(rc.open_binlog(path), EventOutput(json=False)),
    "events --json": lambda path: write_file_events(rc.open_binlog(path), EventOutput(json=True)),
    "check": _check,
    "batches": lambda path: list(rc.open_binlog(path).batches(max_seconds=1e9)),
    "transactions": lambda path: [len(t.rows) for t in rc.open_binlog(path).transactions()],
    "events()": lambda path: [event.body for event in rc.open_binlog(path).events()],
    "index": lambda path: make_sidecar(
        list_files([str(path)])[0], DecodeOptions(), SchemaHistory()
    ),
    "compat rows": lambda path: list(_compat_events(path, [WriteRowsEvent])),
    "compat table maps": lambda path: list(_compat_events(path, [WriteRowsEvent, CompatTableMap])),
}
MOST = 8
"""Calls more for a transaction whose table has a new id: it is announced, not decoded."""


@pytest.mark.skipif(not rc.compiled(), reason="the hot modules run as Python, which calls")
@pytest.mark.parametrize("name", WORK)
def test_calls(name: str, tmp_path: Path, capfdbinary: Any) -> None:
    times = 40 * TABLES
    costs = []
    for opened_anew in (False, True):
        path = tmp_path / f"{opened_anew}.000001"
        Made(times, tables=TABLES, opened_anew=opened_anew).write(path)
        work = partial(WORK[name], path)
        work()
        costs.append(calls_of(work))
    kept, anew = costs
    assert (anew - kept) / times < MOST


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("size", [1, 50, 64])
def test_lines_of_events(size: int, as_json: bool, tmp_path: Path, capsys: Any) -> None:
    """Ids of all sizes; the text for people is cut where names are long."""
    path = tmp_path / "binlog.000001"
    ids = (1, 9, 10, 255, 1 << 24, 1 << 40, (1 << 48) - 1)
    Made(3 * len(ids), tables=3, ids=ids, name="t" * (size - 1)).write(path)
    write_file_events(rc.open_binlog(path), EventOutput(json=as_json))
    line = json_line if as_json else plain_line
    lines = [line(event) for event in rc.open_binlog(path).events()]
    assert capsys.readouterr().out.splitlines()[-len(lines) :] == lines


def test_compat_events_have_their_own_id(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    Made(30, tables=3, opened_anew=True).write(path)
    found = [
        (event.table_id, event.table, getattr(event, "table_obj", event).table_id)
        for event in _compat_events(path, [WriteRowsEvent, CompatTableMap])
    ]
    wanted = [(3 + i, f"t{i % 3}", 3 + i) for i in range(30)]
    assert found == [one for one in wanted for _ in range(2)]


@pytest.mark.parametrize("ids", [(7,), (7, 8, 9), (7, 8, 7)])
def test_a_definition_that_changes_while_the_table_map_does_not(
    ids: tuple[int, ...], tmp_path: Path, capfdbinary: Any
) -> None:
    path = tmp_path / "binlog.000001"
    swap = "ALTER TABLE made.t0 RENAME COLUMN a TO b, RENAME COLUMN b TO a"
    key = "ALTER TABLE made.t0 DROP PRIMARY KEY, ADD PRIMARY KEY (a)"
    create = "CREATE TABLE made.t0 (a INT PRIMARY KEY, b INT NOT NULL)"
    statements = ((0, create), (2, swap), (4, swap), (6, swap), (6, key))
    made = Made(8, columns=2, ids=ids, names_columns=False, nullable=False, statements=statements)
    made.write(path)
    kept, swapped = {"a": 0, "b": 1}, {"a": 1, "b": 0}
    rows = [kept, kept, swapped, swapped, kept, kept, swapped, swapped]
    assert [dict(change.after) for change in rc.open_binlog(path).changes()] == rows
    batches = rc.open_binlog(path).batches(max_seconds=1e9)
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [{name: row[name] for name in ("a", "b")} for row in found] == rows
    _changes(path, as_json=True)
    lines = capfdbinary.readouterr().out.splitlines()
    assert [json.loads(line)["after"] for line in lines] == rows
    index = make_sidecar(list_files([str(path)])[0], DecodeOptions(), SchemaHistory())
    assert [table.key for table in index.tables] == [(0,), (1,)]
    _check(path)


def _table_map(table_id: int, name: str = "t") -> TableMapEvent:
    return TableMapEvent(table_id, 1, "made", name, b"\x03", (0,), b"\x01")


def test_the_decoder_knows_the_ids_that_were_announced_last() -> None:
    """Of a statement of many tables, one whose id was announced long ago comes first."""
    decoder = BinlogDecoder()
    for table_id in range(1, 20_001):
        decoder.announce(_table_map(0, f"t{table_id}"), table_id)
        if table_id % 4_000 == 0:
            decoder.announce(_table_map(0, "t2"), 2)
    assert decoder.table_map(2) == _table_map(2, "t2")
    assert decoder.table_map(20_000) == _table_map(20_000, "t20000")
    assert decoder.table_map(16_000) is decoder.table_map(16_000)
    with pytest.raises(MissingTableMapError):
        decoder.table_map(1)
