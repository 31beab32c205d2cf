"""Files of which events were cut out: an error at the next event, and nothing of their transaction."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.cli.file_check import FileCheck, Findings
from replica_client.errors import BinlogDecodeError, ReplicaClientError
from replica_client.stream.transactions.schema_tracking import SchemaTracker
from tests.header_scan import HeaderScan

GOLDEN = Path(__file__).parents[3] / "golden"
FILES = [
    *("mysql-5.6.24/rows", "mysql-9.7.4/rows", "mysql-9.7.4/compressed_transaction"),
    *("mysql-9.7.4/xa", "mysql-9.7.4/no_checksum", "mysql-9.7.4/anonymous_gtid"),
    *("mariadb-10.11.18/rows", "mariadb-10.11.18/compressed_events", "mariadb-11.8.6/rows"),
    *("mariadb-11.8.6/several_engines", "mariadb-11.8.6/compressed_events"),
]
FDE = 15


def _cuts(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Type code and position of each event but the format description, and the file without it."""
    for position, header in HeaderScan(data):
        if header.type_code != FDE:
            without = data[:position] + data[position + header.event_size :]
            yield header.type_code, position, without


def _open(data: bytes, **options: Any) -> Any:
    return rc.open_binlog(io.BytesIO(data), allow_empty=True, record_losses="statement", **options)


def _transactions(data: bytes) -> Iterator[Any]:
    for transaction in _open(data).transactions():
        changes = [(change.table, change.before, change.after) for change in transaction.changes]
        yield transaction.gtid, changes, transaction.statements


def _unwanted(data: bytes) -> Iterator[Any]:
    """Nothing is wanted: transactions are passed over."""
    for transaction in _open(data, tables="no.such").transactions():
        yield transaction.gtid


def _batches(data: bytes) -> Iterator[Any]:
    for batch in _open(data).batches(max_rows=2):
        for row in batch.to_pylist():
            yield list(row.values())[8:]


def _all(read: Callable[[bytes], Iterator[Any]], data: bytes) -> tuple[list[Any], Exception | None]:
    found: list[Any] = []
    items = read(data)
    while True:
        try:
            found.append(next(items))
        except StopIteration:
            return found, None
        except ReplicaClientError as error:
            return found, error


@pytest.mark.parametrize("read", [_transactions, _unwanted, _batches])
@pytest.mark.parametrize("name", FILES)
def test_an_event_is_missing(name: str, read: Callable[[bytes], Iterator[Any]]) -> None:
    data = (GOLDEN / f"{name}.binlog").read_bytes()
    whole, error = _all(read, data)
    assert error is None or "XA" in str(error)
    last = list(HeaderScan(data))[-1][0]
    checked = 0
    for code, position, without in _cuts(data):
        found, error = _all(read, without)
        # What was given stands before the cut, and is as it was.
        if read is _batches:
            assert all(row in whole for row in found)
        else:
            assert found == whole[: len(found)], (code, position)
        if position == last:
            continue
        assert isinstance(error, BinlogDecodeError), (code, position)
        assert error.position is not None
        assert error.position >= position
        checked += 1
    assert checked > 5


@pytest.mark.parametrize("name", ["mysql-9.7.4/rows", "mariadb-11.8.6/rows"])
def test_check_finds_it(name: str, tmp_path: Path) -> None:
    data = (GOLDEN / f"{name}.binlog").read_bytes()
    last = list(HeaderScan(data))[-1][0]
    for _, position, without in _cuts(data):
        path = tmp_path / "binlog.000001"
        path.write_bytes(without)
        findings = Findings()
        tables = SchemaTracker(rc.SchemaHistory(), rc.Selection(), on_mismatch="positional")
        for _size in FileCheck(path, rc.DecodeOptions(), findings, tables).run():
            pass
        assert bool(findings.faults) == (position != last)


def test_a_stop_is_no_end_of_a_transaction() -> None:
    """The events of a transaction's end are missing, and what follows fits: the file was written anew."""
    data = (GOLDEN / "mysql-5.6.24/rows.binlog").read_bytes()
    events = list(HeaderScan(data))
    rows = next(at for at, (_, header) in enumerate(events) if header.type_code in (23, 30))
    end = events[rows][0] + events[rows][1].event_size
    stop = bytearray(events[rows][1].encode())
    stop[4] = 3  # STOP_EVENT
    size = len(stop) + 4
    stop[9:13] = size.to_bytes(4, "little")
    stop[13:17] = (end + size).to_bytes(4, "little")
    faked = data[:end] + bytes(stop) + b"\0" * 4
    reader = rc.open_binlog(io.BytesIO(faked), options=rc.DecodeOptions(verify_checksum=False))
    with pytest.raises(BinlogDecodeError, match="ends in the midst of a transaction") as caught:
        list(reader.transactions())
    assert caught.value.position == end
