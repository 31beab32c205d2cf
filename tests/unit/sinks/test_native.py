"""The native shape is that of `changes --json`, however its rows are written."""

from __future__ import annotations

from pathlib import Path

import pytest

import replica_client
from replica_client.readers.assembler import AssemblyOptions
from replica_client.readers.binlog_file import open_binlog
from replica_client.rows.json_values import change_to_json
from replica_client.rows.selection import Selection
from replica_client.sinks.formats.native import NativeFormat

DATA = Path(replica_client.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[2] / "golden"
FILES = sorted(
    path
    for path in GOLDEN.glob("*/*.binlog")
    if "encrypted" not in path.name and "values" not in path.name
)


@pytest.mark.parametrize("path", [DATA, *FILES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_lines_are_those_of_changes(path: Path) -> None:
    by_row, together = NativeFormat(1 << 40), NativeFormat(0)
    assembly = AssemblyOptions(
        Selection(None, None, None), on_statement="deliver", on_rollback="deliver"
    )
    for transaction in open_binlog(path, assembly=assembly).transactions():
        expected = [change_to_json(change) for change in transaction.changes]
        for line_format in (by_row, together):
            lines = list(line_format.lines(transaction))
            got = [line for line in lines if '"before"' in line]
            assert got == expected
            assert len(lines) - len(got) == len(transaction.schema_changes)
