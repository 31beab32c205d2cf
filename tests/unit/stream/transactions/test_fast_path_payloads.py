"""Transactions inside a payload: the fast path gives what the full decoder gives."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator

import pytest

import replica_client as rc
from replica_client.protocol.binlog.events.transaction_payload import PayloadCompression
from replica_client.protocol.binlog.payload import make_payload
from replica_client.rows.selection import Selection
from replica_client.stream.fast import fast_path
from tests.unit.stream.transactions import test_row_fast_path as rows
from tests.unit.stream.transactions.relocation import relocated
from tests.unit.stream.transactions.test_fast_path import FILES, Counting, assert_same, outcome

# Some seconds in all: scripts/test quick leaves them out.
pytestmark = [pytest.mark.slow, pytest.mark.both_forms]

GTID, QUERY, XID, PAYLOAD = 33, 2, 16, 40


def events_of(data: bytes) -> Iterator[bytes]:
    at = 4
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 9)
        yield data[at : at + size]
        at += size


def wrapped(inner: list[bytes], compression: PayloadCompression) -> bytes:
    """A payload event with these events, whose checksums are taken off."""
    body = make_payload([resized(event[:-4]) for event in inner], compression).encode()
    head = bytearray(inner[-1][:19])
    head[4] = PAYLOAD
    return with_checksum(bytes(head) + body)


def resized(event: bytes) -> bytes:
    return event[:9] + len(event).to_bytes(4, "little") + event[13:]


def with_checksum(event: bytes) -> bytes:
    event = resized(event + bytes(4))[:-4]
    return event + zlib.crc32(event).to_bytes(4, "little")


def compressed(data: bytes, compression: PayloadCompression = PayloadCompression.ZSTD) -> bytes:
    """A file with every transaction that commits inside a payload."""
    out, inner = [data[:4]], []
    for event in events_of(data):
        if inner or (event[4] == QUERY and event.endswith(b"BEGIN" + event[-4:])):
            inner.append(event)
            if event[4] == XID:
                out.append(wrapped(inner, compression))
                inner = []
        else:
            out.append(event)
    return relocated(b"".join([*out, *inner]))


@pytest.fixture(params=FILES, ids=lambda path: path.name)
def plain(request: pytest.FixtureRequest) -> bytes:
    data: bytes = request.param.read_bytes()
    return data


@pytest.mark.parametrize("compression", list(PayloadCompression))
def test_same_rows_as_the_ordinary_way(
    plain: bytes, compression: PayloadCompression, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = compressed(plain, compression)
    transactions = sum(event[4] == PAYLOAD for event in events_of(data))
    Counting.taken = 0
    assert_same(monkeypatch, source=data)
    # All but those whose tables were not known yet; two events each.
    assert transactions < Counting.taken <= 2 * transactions
    assert_same(monkeypatch, source=data, tables="shop.o*")
    assert_same(monkeypatch, source=data, tables="no.such")
    assert_same(monkeypatch, source=data, columns=["id", "total"])
    assert_same(monkeypatch, source=data, full_rows=True)
    found = [(c.kind, c.table, c.before, c.after) for c in rc.open_binlog(plain).changes()]
    assert [(c.kind, c.table, c.before, c.after) for c in rc.open_binlog(data).changes()] == found


@pytest.mark.parametrize("compression", list(PayloadCompression))
def test_same_transactions_as_the_ordinary_way(
    plain: bytes, compression: PayloadCompression, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = compressed(plain, compression)
    transactions = sum(event[4] == PAYLOAD for event in events_of(data))
    rows.Counting.taken = 0
    rows.assert_same(monkeypatch, source=data)
    assert transactions < rows.Counting.taken <= 2 * transactions
    rows.assert_same(monkeypatch, source=data, tables="shop.o*")
    for size in (1, 200, 1000, 5000):
        options = rc.AssemblyOptions(Selection(), part_size=size)
        rows.assert_same(monkeypatch, source=data, assembly=options)


def test_starts_and_stops(plain: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compressed(plain)
    for transaction in list(rc.open_binlog(data).transactions())[::3]:
        assert_same(monkeypatch, source=data, start=transaction.position)
        assert_same(monkeypatch, source=data, stop=transaction.start)
        inside = rc.Position(transaction.start.file, transaction.start.offset, None, 5, 1)
        assert_same(monkeypatch, source=data, start=inside)


def changed(inner: list[bytes], rng: random.Random) -> list[bytes]:
    """Events of a transaction, with something in them that is not as it should be."""
    inner = list(inner)
    at = rng.randrange(len(inner))
    match rng.randrange(6):
        case 0:
            del inner[at]
        case 1:
            inner.insert(at, rng.choice(inner))
        case 2:
            event = bytearray(inner[at])
            event[rng.randrange(len(event))] = rng.randrange(256)
            inner[at] = bytes(event)
        case 3:
            inner[at] = inner[at][: rng.randrange(19, len(inner[at]) + 1)]
        case 4:
            rng.shuffle(inner)
        case _:
            inner.append(inner[at])
    return inner


@pytest.mark.parametrize("seed", range(120))
def test_payloads_with_something_wrong_in_them(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    events = list(events_of(compressed(rng.choice(FILES).read_bytes())))
    wrong = rng.choice([i for i, event in enumerate(events) if event[4] == PAYLOAD])
    header = events[wrong][:19]
    plain = fast_path.payload_bytes(events[wrong][19:-4], rc.DecodeOptions(), 1 << 20)
    assert plain is not None
    inner = list(events_of(bytes(4) + plain))
    if rng.random() < 0.8:
        parts = changed(inner, rng)
        if not parts:
            return
        body = make_payload(
            [resized(part) if len(part) >= 19 else part.ljust(19, b"\0") for part in parts]
        ).encode()
    else:
        damaged = bytearray(events[wrong][19:-4])
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        body = bytes(damaged)
    events[wrong] = with_checksum(header + body)
    source = relocated(b"\xfebin" + b"".join(events))
    assert_same(monkeypatch, source=source)
    assert_same(monkeypatch, source=source, tables="shop.o*")
    rows.assert_same(monkeypatch, source=source)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    data = compressed(FILES[1].read_bytes())
    for size in (100, 1000, 5000):
        assert_same(monkeypatch, source=data, options=rc.DecodeOptions(max_uncompressed_size=size))
        assert_same(monkeypatch, source=data, options=rc.DecodeOptions(max_event_size=size))
    assert outcome(Counting, monkeypatch, source=data)[1] is None
    monkeypatch.setattr(fast_path, "MAX_WAITING", 600)
    assert_same(monkeypatch, source=data)


def test_damaged_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        data = bytearray(compressed(rng.choice(FILES).read_bytes()))
        data[rng.randrange(4, len(data))] = rng.randrange(256)
        if rng.random() < 0.3:
            del data[rng.randrange(5, len(data)) :]
        for verify in (True, False):
            options = rc.DecodeOptions(verify_checksum=verify)
            assert_same(monkeypatch, source=bytes(data), options=options)
