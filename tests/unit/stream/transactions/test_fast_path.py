"""Batches by the fast path are those of the full decoder: rows, positions and errors."""

import json
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.errors import ReplicaClientError
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.rows.selection import Selection
from replica_client.stream.fast.column_fast_path import ColumnFastPath
from replica_client.stream.fast.row_fast_path import inside_path
from replica_client.stream.files import file_batches
from tests.unit.stream.transactions.relocation import relocated

DEMO = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = sorted((Path(__file__).parents[3] / "golden").glob("*/*.binlog"))
FILES = sorted(p for p in DEMO.iterdir() if p.suffix.startswith(".0"))


class Without:
    """A fast path that takes nothing."""

    checks = False

    def __init__(self, *arguments: Any) -> None:
        self.incomplete = False

    def forget(self) -> None:
        pass

    def hand_over(self) -> list[Any]:
        return []

    def take(self, *arguments: Any) -> int:
        return 0


class Inside(Without):
    """A fast path that takes nothing but rows inside of transactions, as in very large ones."""


class Counting:
    """A fast path that counts what it takes."""

    taken = 0

    def __init__(self, *arguments: Any) -> None:
        self._fast_path = ColumnFastPath(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fast_path, name)

    def take(self, *arguments: Any) -> int:
        count: int = self._fast_path.take(*arguments)
        Counting.taken += count
        return count


class Deferring(Counting):
    """The same, which takes rows without the interpreter's lock where it is compiled."""

    def __init__(self, feed: Any, assembler: Any, batches: Any, *options: Any) -> None:
        self._fast_path = ColumnFastPath(feed, assembler, batches, True, defers=True)

    def take(self, *arguments: Any) -> int:
        return int(self._fast_path.take(*arguments))


def outcome(fast_path: Any, monkeypatch: pytest.MonkeyPatch, **arguments: Any) -> tuple[Any, ...]:
    monkeypatch.setattr(file_batches, "ColumnFastPath", fast_path)
    inside = (lambda *_, **__: None) if fast_path is Without else inside_path
    monkeypatch.setattr(file_batches, "inside_path", inside)
    reader = rc.open_binlog(allow_empty=True, **arguments)
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
    assert outcome(Inside, monkeypatch, **arguments) == expected
    if rc.compiled():
        assert outcome(Deferring, monkeypatch, **arguments) == expected


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
    options = rc.AssemblyOptions(Selection("no.such"), on_statement="deliver")
    assert_same(monkeypatch, source=path, assembly=options, keys=keys)


@pytest.mark.parametrize(
    "server", ["mariadb-10.11.18", "mariadb-11.8.6", "mysql-5.6.24", "mysql-9.7.4"]
)
def test_ordinary_transactions_go_by_the_fast_path(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        options = rc.DecodeOptions(verify_checksum=verify)
        assert_same(monkeypatch, source=path, options=options)
        assert_same(monkeypatch, source=path, options=options, tables="no.such")


@pytest.mark.parametrize("waiting", [0, 1, 500])
def test_transactions_that_are_larger_than_what_waits(
    waiting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_batches, "MAX_WAITING", waiting)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
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
    path.write_bytes(relocated(data[:end] + data[begin:xid] + texts + data[xid:end]))
    Counting.taken = 0
    assert_same(monkeypatch, source=path)
    assert Counting.taken > len(sizes)
    # And each fault is found.
    for size in (5, 70, 300, 9000):
        event = bytearray(rows_query(size, rng))
        event[rng.randrange(19, len(event))] ^= 1 << rng.randrange(8)
        path.write_bytes(relocated(data[:end] + data[begin:xid] + event + data[xid:end]))
        assert_same(monkeypatch, source=path)
        assert outcome(Counting, monkeypatch, source=path)[1] is not None


def sealed(event: bytes) -> bytes:
    """An event with its size and its checksum put right."""
    body = event[:9] + len(event).to_bytes(4, "little") + event[13:-4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def events_of(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        found.append(data[at : at + size])
        at += size
    return found


def file_and_transaction() -> tuple[bytes, list[bytes]]:
    """A file up to where a transaction of one table ends, and the events of that transaction."""
    data = FILES[0].read_bytes()
    for transaction in rc.open_binlog(FILES[0]).transactions():
        events = events_of(data[transaction.start.offset : transaction.position.offset])
        if [event[4] for event in events] == [33, 2, 19, 30, 16]:
            return data[: transaction.position.offset], events
    raise AssertionError("there is none")


def numbered(events: list[bytes], number: int) -> bytes:
    """The transaction with another number in its GTID."""
    first = events[0]
    return sealed(first[:36] + number.to_bytes(8, "little") + first[44:]) + b"".join(events[1:])


def fast_path_and_events() -> tuple[ColumnFastPath, list[bytes]]:
    """A fast path that knows a table, and the events of a transaction with rows of it."""
    data, events = file_and_transaction()
    found: list[ColumnFastPath] = []

    class Caught(Counting):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            found.append(self._fast_path)

    with pytest.MonkeyPatch.context() as monkeypatch:
        outcome(Caught, monkeypatch, source=data, tables="no.such")
    return found[0], events


def moved(events: list[bytes]) -> list[bytes]:
    """The events as they are when the first one is at 4."""
    return events_of(relocated(bytes(4) + b"".join(events))[4:])


def taken(fast_path: ColumnFastPath, events: list[bytes]) -> int:
    """How many are taken, whether checksums are looked at when they are cut or by the fast path."""
    found = set()
    for first in (len(events), 1, 0):
        queue = EventQueue()
        queue.put(b"".join(events))
        for event in events[:first]:
            queue.cut(len(event))
        queue.split(1 << 20, b"", True)
        found.add(fast_path.take(queue, "memory", 4))
    (count,) = found
    return count


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 9, 70])
def test_checksums_that_are_looked_at_together(count: int) -> None:
    fast_path, events = fast_path_and_events()
    rng = random.Random(count)
    sizes = range(301) if rc.compiled() else (0, 1, 40, 41, 105, 300)
    for size in sizes:
        others = [rows_query(rng.choice((0, size, 20, 90)), rng) for _ in range(count)]
        for at in {rng.randint(0, count), 0, count}:
            middle = [*others[:at], rows_query(size, rng), *others[at:]]
            whole = moved([*events[:2], *middle, *events[2:]])
            assert taken(fast_path, whole) == len(whole)
            wrong = bytearray(whole[at + 2])
            wrong[rng.randrange(19, len(wrong))] ^= 1 << rng.randrange(8)
            whole[at + 2] = bytes(wrong)
            assert taken(fast_path, whole) == 0


@pytest.mark.parametrize("size", [0, 16, 40, 41, 42, 104, 105, 106, 130, 260])
def test_every_bit_of_an_event_is_looked_at(size: int) -> None:
    fast_path, events = fast_path_and_events()
    rng = random.Random(size)
    fast_paths = range(4) if rc.compiled() else range(1)
    for position in fast_paths:
        before = [rows_query(30, rng) for _ in range(position)]
        whole = moved([*events[:2], *before, rows_query(size, rng), *events[2:]])
        assert taken(fast_path, whole) == len(whole)
        event = whole[2 + position]
        for bit in range(8 * len(event)) if rc.compiled() else range(0, 8 * len(event), 31):
            wrong = bytearray(event)
            wrong[bit >> 3] ^= 1 << (bit & 7)
            whole[2 + position] = bytes(wrong)
            assert taken(fast_path, whole) == 0


@pytest.mark.parametrize("tables", ["no.such", "*.*"])
def test_a_wrong_bit_in_any_event(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, events = file_and_transaction()
    number = int.from_bytes(events[0][36:44], "little")
    parts = [numbered(events, number + 1 + k) for k in range(25)]
    good = relocated(data + b"".join(parts))
    Counting.taken = 0
    assert_same(monkeypatch, source=good, tables=tables)
    assert Counting.taken >= 125
    rng = random.Random(1)
    for wrong in (0, 1, 11, 24):
        at = len(data) + len(b"".join(parts[:wrong]))
        for event in events:
            bad = bytearray(good)
            bad[at + rng.randrange(19, len(event))] ^= 1 << rng.randrange(8)
            assert_same(monkeypatch, source=bytes(bad), tables=tables)
            assert outcome(Counting, monkeypatch, source=bytes(bad), tables=tables)[1] is not None
            at += len(event)


def test_transactions_that_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    data, events = file_and_transaction()
    first = int.from_bytes(events[0][36:44], "little") + 1
    numbers = [*range(first, first + 9), first + 20, first + 20, first + 21, first + 3]
    parts = [numbered(events, number) for number in numbers]
    other = events[0][:20] + bytes(range(16)) + events[0][36:]
    parts += [numbered([other, *events[1:]], number) for number in (7, 8, 9)]
    anonymous = sealed(events[0][:4] + b"\x22" + events[0][5:])
    parts += [anonymous + b"".join(events[1:])] * 2
    many = [*events[:2], *(events[2:4] * 5), events[4]]
    parts += [numbered(many, first + 30 + k) for k in range(3)]
    source = relocated(data + b"".join(parts))
    Counting.taken = 0
    assert_same(monkeypatch, source=source, tables="no.such")
    assert Counting.taken >= 5 * len(numbers)
    for cut in range(len(data), len(source), 997):
        assert_same(monkeypatch, source=source[:cut], tables="no.such")
    for stop in rc.open_binlog(source).transactions():
        assert_same(monkeypatch, source=source, tables="no.such", stop=stop.start)


@pytest.mark.parametrize("tables", ["no.such", "*.*"])
def test_tables_whose_ids_end_alike(tables: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, events = file_and_transaction()
    number = int.from_bytes(events[2][19:25], "little") + 1024
    alike = [
        sealed(event[:19] + number.to_bytes(6, "little") + event[25:]) for event in events[2:4]
    ]
    both = [*events[:3], alike[0], events[3], alike[1], events[3], alike[1], events[4]]
    first = int.from_bytes(events[0][36:44], "little") + 1
    source = relocated(data + b"".join(numbered(both, first + k) for k in range(6)))
    Counting.taken = 0
    assert_same(monkeypatch, source=source, tables=tables)
    assert Counting.taken >= 5 * len(both)
