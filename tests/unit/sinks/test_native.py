"""The native shape is that of `changes --json`, as sinks write it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import replica_client
from replica_client.rows.json_values import change_to_json
from replica_client.rows.selection import Selection
from replica_client.sinks.formats.message import KeyChoice
from replica_client.sinks.formats.native import NativeFormat
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.transactions.assembler import AssemblyOptions

DATA = Path(replica_client.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(
    path
    for path in GOLDEN.glob("*/*.binlog")
    if "encrypted" not in path.name and "values" not in path.name
)


@pytest.mark.parametrize("path", [DATA, *FILES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_lines_are_those_of_changes(path: Path) -> None:
    line_format = NativeFormat()
    assembly = AssemblyOptions(Selection(None, None, None), on_statement="deliver")
    for transaction in open_binlog(path, assembly=assembly).transactions():
        expected = [change_to_json(change) for change in transaction.changes]
        lines = list(line_format.lines(transaction))
        got = [line for line in lines if '"before"' in line]
        assert got == expected
        assert len(lines) - len(got) == len(transaction.schema_changes)


def test_a_loss_is_a_line() -> None:
    path = GOLDEN / "mysql-9.7.4" / "load_data.binlog"
    assembly = AssemblyOptions(Selection(None, None, None), record_losses="all")
    transactions = list(open_binlog(path, assembly=assembly).transactions())
    losses = [loss for transaction in transactions for loss in transaction.losses]
    assert losses
    lines = [json.loads(line) for one in transactions for line in NativeFormat().lines(one)]
    got = [line for line in lines if line["kind"] == "loss"]
    assert [(line["loss"], line["reason"], line["position"], line["count"]) for line in got] == [
        (loss.kind, loss.reason, loss.position, loss.count) for loss in losses
    ]


def test_messages_have_keys_where_they_are_asked_for() -> None:
    transactions = list(open_binlog(DATA).transactions())
    changes = [change_to_json(change) for one in transactions for change in one.changes]
    for form, keyed in ((NativeFormat(), False), (NativeFormat(KeyChoice()), True)):
        messages = [
            message
            for transaction in transactions
            for message in form.messages(transaction)
            if message.kind == "row" and '"before"' in message.value
        ]
        assert [message.value for message in messages] == changes
        assert {message.key is not None for message in messages} == {keyed}
