"""Batches by the lane are those of the ordinary way: rows, positions and errors."""

import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ReplicaClientError
from replica_client.readers import file_batches
from replica_client.readers.group_lane import GroupLane
from replica_client.rows.selection import Selection

DEMO = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = sorted((Path(__file__).parents[2] / "golden").glob("*/*.binlog"))
FILES = sorted(p for p in DEMO.iterdir() if p.suffix.startswith(".0"))


class Without:
    """A lane that takes nothing."""

    def __init__(self, *arguments: Any) -> None:
        self.incomplete = False

    def forget(self) -> None:
        pass

    def hand_over(self) -> list[Any]:
        return []

    def take(self, *arguments: Any) -> int:
        return 0


class Counting:
    """A lane that counts what it takes."""

    taken = 0

    def __init__(self, *arguments: Any) -> None:
        self._lane = GroupLane(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    def take(self, *arguments: Any) -> int:
        count: int = self._lane.take(*arguments)
        Counting.taken += count
        return count


def outcome(lane: Any, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[Any, ...]:
    monkeypatch.setattr(file_batches, "GroupLane", lane)
    reader = rc.open_binlog(**arguments)
    batches = []
    error = None
    try:
        batches += [
            (batch.schema.names, batch.schema.metadata, batch.to_pylist())
            for batch in reader.batches(max_rows=7, max_seconds=1e9)
        ]
    except ReplicaClientError as raised:
        error = (type(raised), str(raised))
    return batches, error, reader.position


def assert_same(monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> None:
    expected = outcome(Without, monkeypatch, **arguments)
    assert outcome(Counting, monkeypatch, **arguments) == expected


def test_demo_goes_by_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    Counting.taken = 0
    assert_same(monkeypatch, source=DEMO)
    assert Counting.taken > 50


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_files_of_servers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    keys = {number: bytes.fromhex(key) for number, key in expected.get("keys", {}).items()}
    for policy in ("error", "deliver"):
        options = rc.AssemblyOptions(Selection(), on_statement=policy, on_rollback=policy)  # type: ignore[arg-type]
        assert_same(monkeypatch, source=path, assembly=options, keys=keys)


@pytest.mark.parametrize("server", ["mariadb-10.11.18", "mariadb-11.8.6", "mysql-9.7.4"])
def test_ordinary_transactions_go_by_the_lane(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rows", "no_checksum"):
        [path] = [p for p in GOLDEN if p.parent.name == server and p.stem == name]
        Counting.taken = 0
        assert outcome(Counting, monkeypatch, source=path)[1] is None
        assert Counting.taken >= 10


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
    monkeypatch.setattr("replica_client.readers.file_bytes.CHUNK_SIZE", 700)
    assert_same(monkeypatch, source=DEMO)


def rows_query(size: int, rng: random.Random) -> bytes:
    """A ROWS_QUERY event with a text of so many bytes, and its checksum."""
    body = bytes((min(size, 255),)) + rng.randbytes(size)
    head = bytes(4) + b"\x1d" + bytes(4) + (23 + len(body)).to_bytes(4, "little") + bytes(6)
    return head + body + zlib.crc32(head + body).to_bytes(4, "little")


@pytest.mark.skipif(not rc.compiled(), reason="Python's own CRC-32 is taken")
def test_checksum_of_events_of_all_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = FILES[0].read_bytes()
    whole = [t for t in rc.open_binlog(FILES[0]).transactions() if t.rows and not t.statements]
    one = max(whole, key=lambda t: len(t.rows))
    begin, end = one.start.offset, one.position.offset
    xid = end - 31
    assert data[xid + 4] == 16
    rng = random.Random(1)
    sizes = [*range(1500), *(rng.randrange(1500, 40_000) for _ in range(50))]
    path = tmp_path / "binlog.000001"
    texts = b"".join(rows_query(size, rng) for size in sizes)
    path.write_bytes(data[:end] + data[begin:xid] + texts + data[xid:end])
    Counting.taken = 0
    assert_same(monkeypatch, source=path)
    assert Counting.taken > len(sizes)
    # And each fault is found.
    for size in (5, 70, 300, 9000):
        event = bytearray(rows_query(size, rng))
        event[rng.randrange(19, len(event))] ^= 1 << rng.randrange(8)
        path.write_bytes(data[:end] + data[begin:xid] + event + data[xid:end])
        assert_same(monkeypatch, source=path)
        assert outcome(Counting, monkeypatch, source=path)[1] is not None
