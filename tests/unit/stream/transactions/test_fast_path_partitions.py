"""Rows of partitioned tables, whose events say the partition: the fast paths take them like others."""

from __future__ import annotations

import pytest

import replica_client as rc
from tests.unit.stream.transactions import test_fast_path as columns, test_row_fast_path as rows
from tests.unit.stream.transactions.relocation import relocated
from tests.unit.stream.transactions.test_fast_path_payloads import events_of, with_checksum

ROWS, UPDATE = (30, 31, 32), 31


def partitioned(data: bytes, extra: bytes, of_update: bytes) -> bytes:
    """The file with extra row info in every rows event."""
    out = [data[:4]]
    for event in events_of(data):
        if event[4] in ROWS:
            info = of_update if event[4] == UPDATE else extra
            body = (2 + len(info)).to_bytes(2, "little") + info + event[29:-4]
            out.append(with_checksum(event[:27] + body))
        else:
            out.append(event)
    return relocated(b"".join(out))


@pytest.mark.parametrize("path", columns.FILES, ids=lambda path: path.name)
def test_partitions(path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = path.read_bytes()
    data = partitioned(plain, b"\x01\x07\x00", b"\x01\x07\x00\x01\x00")
    expected = [(c.kind, c.table, c.before, c.after) for c in rc.open_binlog(plain).changes()]
    found = [(c.kind, c.table, c.before, c.after) for c in rc.open_binlog(data).changes()]
    assert found == expected
    for fast_path in (columns, rows):
        fast_path.Counting.taken = 0
        fast_path.assert_same(monkeypatch, source=plain)
        taken, fast_path.Counting.taken = fast_path.Counting.taken, 0
        fast_path.assert_same(monkeypatch, source=data)
        assert fast_path.Counting.taken == taken > 0


@pytest.mark.parametrize(
    ("extra", "of_update"),
    [
        (b"\x01\x07\x00\x01\x00", b"\x01\x07\x00"),  # those of the other kind
        (b"\x01\x07", b"\x01\x07\x00\x01"),
        (b"\x00\x04\x00ab", b"\x00\x04\x00ab"),  # NDB
        (b"\x09\x07\x00", b"\x09\x07\x00\x01\x00"),  # not known
        (b"\x01", b"\x01"),
    ],
)
def test_other_extra_info_is_left_to_the_ordinary_way(
    extra: bytes, of_update: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = partitioned(columns.FILES[1].read_bytes(), extra, of_update)
    for fast_path in (columns, rows):
        fast_path.assert_same(monkeypatch, source=data)


def test_extra_info_that_is_longer_than_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = columns.FILES[1].read_bytes()
    for cut in range(27, 40):
        out = [plain[:4]]
        for event in events_of(partitioned(plain, b"\x01\x07\x00", b"\x01\x07\x00\x01\x00")):
            out.append(with_checksum(event[:cut]) if event[4] in ROWS else event)
        for fast_path in (columns, rows):
            fast_path.assert_same(monkeypatch, source=relocated(b"".join(out)))
