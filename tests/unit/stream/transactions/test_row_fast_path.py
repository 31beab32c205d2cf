"""Transactions by the fast path are those of the full decoder: rows, places, positions and errors."""

import copy
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import BinlogDecodeError, ReplicaClientError
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.selection import Selection
from replica_client.stream.fast.row_fast_path import RowFastPath, inside_path
from replica_client.stream.files import binlog_file, file_batches
from replica_client.stream.transactions.transaction import Transaction
from tests.unit.stream.transactions.test_fast_path import DEMO, FILES, GOLDEN, Inside, Without


class Counting:
    """A fast path that counts what it takes."""

    taken = 0

    def __init__(self, *arguments: Any) -> None:
        self._fast_path = RowFastPath(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast_path, name)

    def take(self, *arguments: Any) -> int:
        count = self._fast_path.take(*arguments)
        Counting.taken += count
        return count


def seen(transaction: Transaction) -> tuple[Any, ...]:
    """All of a transaction that can be compared."""
    changes: list[Any] = []
    try:
        for change in transaction.changes:
            changes.append((change, repr(change), type(change.before), type(change.after)))
    except ReplicaClientError as error:
        changes.append((type(error), str(error)))
    rows = [
        (r.event, r.event_index, r.first_row, r.gtid, r.shape, r.decoder.column_names)
        for r in transaction.rows
    ]
    fields = [name for name in Transaction.__match_args__ if name != "rows"]
    values = [getattr(transaction, name) for name in fields]
    return (values, rows, changes, transaction.commit_version, len(list(transaction.items)))


def outcome(fast_path: Any, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[Any, ...]:
    monkeypatch.setattr(binlog_file, "RowFastPath", fast_path)
    inside = (lambda *_, **__: None) if fast_path is Without else inside_path
    monkeypatch.setattr(file_batches, "inside_path", inside)
    reader = rc.open_binlog(allow_empty=True, **arguments)
    transactions, positions = [], []
    error = None
    try:
        for transaction in reader.transactions():
            positions.append(reader.position)
            transactions.append(seen(transaction))
    except ReplicaClientError as raised:
        error = (type(raised), str(raised))
    return transactions, positions, error, reader.position


def assert_same(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> None:
    expected = outcome(Without, monkeypatch, **arguments)
    assert outcome(Counting, monkeypatch, **arguments) == expected
    assert outcome(Inside, monkeypatch, **arguments) == expected


def test_demo_goes_by_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    Counting.taken = 0
    assert_same(monkeypatch, source=DEMO)
    assert Counting.taken > 50


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_files_of_servers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    keys = {number: bytes.fromhex(key) for number, key in expected.get("keys", {}).items()}
    for policy in ("error", "deliver"):
        options = rc.AssemblyOptions(Selection(), on_statement=policy)  # type: ignore[arg-type]
        assert_same(monkeypatch, source=path, assembly=options, keys=keys)


def test_starts_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    transactions = list(rc.open_binlog(DEMO).transactions())
    for transaction in transactions[::3]:
        assert_same(monkeypatch, source=DEMO, start=transaction.position)
        assert_same(monkeypatch, source=DEMO, stop=transaction.start)
        inside = rc.Position(transaction.start.file, transaction.start.offset, None, 3, 1)
        assert_same(monkeypatch, source=DEMO, start=inside)


def test_selections(monkeypatch: pytest.MonkeyPatch) -> None:
    assert_same(monkeypatch, source=DEMO, tables="shop.o*")
    assert_same(monkeypatch, source=DEMO, tables="no.such")
    assert_same(monkeypatch, source=DEMO, columns=["id", "total"])
    assert_same(monkeypatch, source=DEMO, options=rc.DecodeOptions(verify_checksum=False))
    assert_same(monkeypatch, source=DEMO, full_rows=True)
    assert_same(monkeypatch, source=DEMO, record_losses="all")


@pytest.mark.parametrize("seed", range(60))
def test_damaged_files(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    data = bytearray(rng.choice(FILES).read_bytes())
    for _ in range(rng.randint(1, 3)):
        data[rng.randrange(4, len(data))] = rng.randrange(256)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    for verify in (True, False):
        assert_same(monkeypatch, source=path, options=rc.DecodeOptions(verify_checksum=verify))


@pytest.mark.parametrize("waiting", [0, 1, 500])
def test_transactions_that_are_larger_than_what_waits(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_batches, "MAX_WAITING", waiting)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    assert_same(monkeypatch, source=DEMO)


def test_positions_in_any_order() -> None:
    expected = [t.position for t in rc.open_binlog(DEMO).transactions()]
    assert all(position.gtid_set is not None for position in expected)
    late = list(rc.open_binlog(DEMO).transactions())
    order = list(range(len(late)))
    random.Random(1).shuffle(order)
    assert {at: late[at].position for at in order} == dict(enumerate(expected))


def test_it_is_a_transaction_like_any_other() -> None:
    taken = [t for t in rc.open_binlog(DEMO).transactions() if t.rows][-1]
    assert type(taken) is Transaction
    assert type(taken.rows[0]) is RowsOfEvent
    plain = taken.__replace__(part=7)
    assert type(plain) is Transaction
    assert plain.part == 7
    assert plain != taken
    assert plain.__replace__(part=0) == taken
    assert taken == taken.__replace__()
    assert repr(taken) == repr(taken.__replace__())
    rows = taken.rows[0].__replace__(first_row=1)
    assert list(rows) == list(taken.rows[0])[1:]
    assert list(taken.changes) == list(taken.changes) == list(plain.changes)
    for change in taken.changes:
        assert pickle.loads(pickle.dumps(change)) == change
        assert hash(copy.copy(change)) == hash(change)
        assert change.after is None or change.after.as_dict() == dict(
            zip(change.after.columns, change.after, strict=True)
        )


def test_an_iteration_ends_with_its_first_fault(tmp_path: Path) -> None:
    file = FILES[-1]
    taken = [t for t in rc.open_binlog(file).transactions() if t.rows][-1]
    data = bytearray(file.read_bytes())
    event = taken.rows[0].event
    data[event.end_position - 5] ^= 0xFF
    rows = event.position + 19 + 10
    data[rows + 4 : event.end_position - 4] = b"\xff" * (event.end_position - 8 - rows)
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    options = rc.DecodeOptions(verify_checksum=False)
    broken = [t for t in rc.open_binlog(path, options=options).transactions() if t.rows][-1]
    changes = iter(broken.changes)
    with pytest.raises(BinlogDecodeError, match="binlog.000001, position"):
        list(changes)
    assert list(changes) == []


@pytest.mark.parametrize("server", ["mariadb-11.8.6", "mysql-9.7.4"])
def test_the_connection_that_ran_a_transaction(server: str) -> None:
    [path] = [p for p in GOLDEN if p.parent.name == server and p.stem == "rows"]
    threads = [one.thread_id for one in rc.open_binlog(path).transactions() if one.rows]
    assert threads
    assert all(threads)
