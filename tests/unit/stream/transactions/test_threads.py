"""batches() from several threads gives what one gives, whatever the files are cut into."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.errors import ConfigError, ReplicaClientError
from replica_client.protocol.codec.event_queue import EventQueue
from replica_client.stream.files import pieces
from replica_client.stream.files.read_at import read_at
from tests.golden.test_server_files import expectation, keys_of

DATA = Path(rc.__file__).parent / "testing" / "data"
FILES = sorted(DATA.glob("shop-bin.0*"))
GOLDEN = Path(__file__).parents[3] / "golden"
GOLDENS = sorted(GOLDEN.glob("*/*.binlog"))


def read(reader: rc.BinlogFileReader) -> tuple[list[Any], str, Any]:
    """The rows with their tables, and the notices among them; the fault at the end, and where the reader is then."""
    found: list[Any] = []
    fault = ""
    try:
        for item in reader.batches(notices=True):
            if not isinstance(item, pa.RecordBatch):
                found.append(item)
                continue
            metadata = item.schema.metadata
            table = metadata[b"database"], metadata[b"table"]
            found += [(table, repr(row)) for row in item.to_pylist()]
    except ReplicaClientError as error:
        fault = repr(error)
    state = reader.state()
    return found, fault, None if fault else (reader.position, state.get("xa_prepared"))


def by_table(items: list[Any]) -> dict[Any, list[Any]]:
    """Rows by table, which batches keep in order; notices as they came."""
    found: dict[Any, list[Any]] = {}
    for item in items:
        table = item[0] if isinstance(item, tuple) else "notices"
        found.setdefault(table, []).append(item)
    return found


@pytest.mark.parametrize("piece_size", [1, 5000, 1 << 23])
@pytest.mark.parametrize(
    "path", [DATA, *GOLDENS], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_same_as_one_thread(monkeypatch: pytest.MonkeyPatch, path: Path, piece_size: int) -> None:
    """Whatever servers write: XA, payloads, savepoints, ALTERs, statements as text."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", piece_size)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    keys = keys_of(expectation(path)) if path in GOLDENS else None
    one, several = (rc.open_binlog(path, keys=keys, threads=threads) for threads in (1, 3))
    expected, fault, reached = read(one)
    found, other_fault, other_reached = read(several)
    assert by_table(found) == by_table(expected)
    assert other_fault == fault
    assert other_reached == reached
    if not fault:
        assert several.history.tables() == one.history.tables()
        for table in one.history.tables():
            assert several.history.table(table) == one.history.table(table)
        assert several.history.temporary_tables == one.history.temporary_tables
    again, *_ = read(several)
    assert again == found


def test_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """From each position that is reached, with its state: what one thread gives behind it."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", 3000)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    reader = rc.open_binlog(DATA, threads=2)
    whole = by_table(read(rc.open_binlog(DATA))[0])
    before: list[Any] = []
    reached = None
    tried = 0
    for item in reader.batches(notices=True):
        if reader.position != reached and reader.position.file:
            reached = reader.position
            tried += 1
            rest = rc.open_binlog(DATA, start=reached, schema=reader.history, threads=2)
            joined = by_table([*before, *read(rest)[0]])
            assert joined == whole
        before += read_item(item)
    assert tried > 3


def read_item(item: Any) -> list[Any]:
    if not isinstance(item, pa.RecordBatch):
        return [item]
    metadata = item.schema.metadata
    return [((metadata[b"database"], metadata[b"table"]), repr(row)) for row in item.to_pylist()]


@pytest.mark.parametrize("cut", [5, 60, 61, 500])
def test_what_stands_before_a_fault_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cut: int
) -> None:
    monkeypatch.setattr(pieces, "PIECE_SIZE", 2000)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    damaged = tmp_path / FILES[0].name
    data = bytearray(FILES[0].read_bytes())
    data[-cut] ^= 1
    damaged.write_bytes(data)
    one, several = (read(rc.open_binlog(damaged, threads=threads)) for threads in (1, 3))
    assert several[1] == one[1] != ""
    # One gives no batch that is not full when a fault comes.
    whole = by_table(read(rc.open_binlog(FILES[0]))[0])
    for table, rows in by_table(several[0]).items():
        assert rows == whole[table][: len(rows)]
    assert len(several[0]) >= len(one[0])
    assert several[0]


def test_streams_and_bytes_are_read_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_SIZE", 2000)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    data = FILES[0].read_bytes()
    for make in (bytes, io.BytesIO):
        one, several = (read(rc.open_binlog(make(data), threads=threads)) for threads in (1, 2))
        assert by_table(several[0]) == by_table(one[0])
        assert several[2] == one[2]


def test_losses_are_counted_by_one() -> None:
    reader = rc.open_binlog(DATA, record_losses="all", threads=2)
    assert by_table(read(reader)[0]) == by_table(read(rc.open_binlog(DATA))[0])


def test_an_iterator_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is decoded on, and no thread stays."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", 1000)
    # Readers of tests before this one may be collected at any time: their threads end on their own.
    before = set(threading.enumerate())
    batches = rc.open_binlog(DATA, threads=2).batches()
    next(batches)
    batches.close()
    assert not {one for one in threading.enumerate() if "decoding" in one.name} - before


def test_how_many_threads() -> None:
    with pytest.raises(ConfigError, match="threads=0: give a whole number, at least 1"):
        rc.open_binlog(DATA, threads=0)


def test_pieces_are_read_into_memory_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads its next piece into the memory of one before."""
    made: list[EventQueue] = []

    def make() -> EventQueue:
        made.append(EventQueue())
        return made[-1]

    monkeypatch.setattr(pieces, "PIECE_SIZE", 1000)
    monkeypatch.setattr("replica_client.stream.files.pieces.EventQueue", make)
    for threads in (1, 2):
        made.clear()
        tables = rc.scan_binlog(DATA, threads=threads)
        rows = sum(batch.num_rows for batch in tables["shop.orders"].reader())
        assert rows == tables["shop.orders"].reader().read_all().num_rows
        # Two readings of the table, each with queues of its own.
        assert 2 <= len(made) <= 2 * threads


@pytest.mark.parametrize("threads", [1, 2])
def test_a_piece_is_read_once(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """Each piece reads its own bytes, and the format description of its file, not what stands around them."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", 1000)
    tables = rc.scan_binlog(DATA, threads=threads)
    assert "shop.orders" in tables  # looks through the files
    sizes: list[int] = []

    def noted(descriptor: int, room: memoryview, offset: int, turn: Any) -> int:
        count: int = read_at(descriptor, room, offset, turn)
        sizes.append(count)
        return count

    monkeypatch.setattr("replica_client.stream.files.file_bytes.read_at", noted)
    assert tables["shop.orders"].reader().read_all().num_rows
    size = sum(path.stat().st_size for path in FILES)
    assert len(sizes) > 2
    assert sum(sizes) < size + 200 * len(sizes)
