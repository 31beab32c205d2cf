"""What an archive finds by its index is what a look at every change finds."""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.archive import binlog_archive, file_index, key_scan
from replica_client.archive.archive import Archive, open_archive
from replica_client.archive.index_format import (
    SUFFIX,
    BlockFlag,
    BlockRecord,
    blocks_with,
    read_index,
    section_of,
)
from replica_client.archive.search_conditions import literal_of, stored_forms
from replica_client.errors import DataLossError, ReplicaClientError, TruncatedEventError
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.rows.special_values import ABSENT
from replica_client.schema.model import column_length
from replica_client.schema.shape import ColumnShape

DATA = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[2] / "golden"
GOLDENS = sorted(GOLDEN.rglob("*.binlog"))

Place = tuple[str, int, int, int]


def place(change: rc.Change) -> Place:
    return change.file, change.offset, change.event_index, change.row_index


def key_texts(change: rc.Change) -> list[tuple[str, ...]]:
    """The keys before and after a change, as a user types them; none where a value has no such text."""
    found = []
    for row in (change.before, change.after):
        if row is None or not change.shape.primary_key:
            continue
        values = [row[at] for at in change.shape.primary_key]
        if row is change.after and change.before is not None:
            values = [
                change.before[at] if value is ABSENT else value
                for at, value in zip(change.shape.primary_key, values, strict=True)
            ]
        if all(isinstance(value, (int, str, rc.Date, rc.DateTime, rc.Time)) for value in values):
            found.append(tuple(map(str, values)))
    return found


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_index, "STEP", 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "path", [DATA, *GOLDENS], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_keys_are_found(tmp_path: Path, path: Path) -> None:
    try:
        changes = list(rc.open_binlog(path).changes())
    except ReplicaClientError:
        changes = []
    expected: dict[tuple[str, tuple[str, ...]], dict[Place, None]] = defaultdict(dict)
    for change in changes:
        for key in key_texts(change):
            expected[f"`{change.database}`.`{change.table}`", key][place(change)] = None
    archive = open_archive(path, index_directory=tmp_path)
    for (table, key), places in expected.items():
        found = [place(one.change) for one in archive.find(table, list(key), statements=False)]
        assert found == list(places), (table, key)
    if changes:
        assert sum(1 for _ in archive.find(statements=False)) == len(changes)
    assert path != DATA or len(expected) > 40


def column(type_code: int, metadata: int = 0, **known: Any) -> ColumnShape:
    """A column of a key."""
    length = column_length(type_code, metadata)
    return ColumnShape("k", type_code, metadata, False, **{"length": length, **known})


T = ColumnType
FORMS = [
    (column(T.MYSQL_TYPE_LONG, unsigned=False), "-2", [b"\xfe\xff\xff\xff"]),
    (column(T.MYSQL_TYPE_TINY, unsigned=True), "255", [b"\xff"]),
    (column(T.MYSQL_TYPE_TINY, unsigned=True), "256", None),
    (column(T.MYSQL_TYPE_LONG, unsigned=False), "1.5", None),
    (column(T.MYSQL_TYPE_VARCHAR, 40, collation_id=255), "tür", ["tür".encode()]),
    (column(T.MYSQL_TYPE_VARCHAR, 40, collation_id=8), "tür", [b"t\xfcr"]),
    (column(T.MYSQL_TYPE_VARCHAR, 40, collation_id=8), "日", None),
    (column(T.MYSQL_TYPE_STRING, 0xFE28, collation_id=8), "a", [b"a"]),
    (column(T.MYSQL_TYPE_STRING, 0xFE01, collation_id=63, length=1), "a", [b"a"]),
    (
        column(T.MYSQL_TYPE_NEWDECIMAL, 2 << 8 | 10, scale=2, length=10),
        "-1.50",
        [b"\x7f\xff\xff\xfe\xcd"],
    ),
    (column(T.MYSQL_TYPE_DATE), "2026-11-20", [b"\x74\xd5\x0f"]),
    (column(T.MYSQL_TYPE_YEAR), "2026", [b"\x7e"]),
    (column(T.MYSQL_TYPE_DOUBLE), "0", [bytes(8), bytes(7) + b"\x80"]),
    (column(T.MYSQL_TYPE_FLOAT), "0.1", [b"\xcd\xcc\xcc\x3d"]),
    (column(T.MYSQL_TYPE_ENUM, 1, labels=("a", "b"), length=1), "b", [b"\x02"]),
    (column(T.MYSQL_TYPE_BIT, 0x0100, length=8), "7", [b"\x07"]),
]


@pytest.mark.parametrize(("shape", "text", "expected"), FORMS)
def test_stored_forms(shape: ColumnShape, text: str, expected: list[bytes] | None) -> None:
    """What filters are asked for is what row images have; what no value has is not asked for."""
    assert stored_forms(shape, literal_of(shape, text)) == expected


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def ids(archive: Archive) -> list[Place]:
    return [place(one.change) for one in archive.find("shop.orders", 7)]


def test_damaged_indexes_are_made_again(shop: Path) -> None:
    expected = ids(open_archive(shop))
    indexes = sorted(shop.glob(f"*{SUFFIX}"))
    assert len(indexes) == 2
    whole = indexes[1].read_bytes()
    rng = random.Random(3)
    for at in [*range(14), *(rng.randrange(len(whole)) for _ in range(40))]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        indexes[1].write_bytes(damaged)
        assert ids(open_archive(shop)) == expected, at
    for size in range(0, len(whole), 37):
        indexes[1].write_bytes(whole[:size])
        assert ids(open_archive(shop)) == expected, size


def test_an_index_of_another_file_is_not_believed(shop: Path) -> None:
    expected = ids(open_archive(shop))
    first, second = sorted(shop.glob(f"*{SUFFIX}"))
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert ids(open_archive(shop)) == expected


def test_a_changed_file_is_indexed_again(shop: Path) -> None:
    open_archive(shop).index()
    path = shop / "shop-bin.000002"
    assert not open_archive(shop).index()[1].made
    data = path.read_bytes()
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    assert open_archive(shop).index()[1].made


def test_a_cut_file_in_the_middle_is_named(shop: Path) -> None:
    path = shop / "shop-bin.000001"
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(TruncatedEventError, match=r"shop-bin\.000001"):
        open_archive(shop).index()


def test_a_missing_file_is_named(shop: Path) -> None:
    shutil.copy(shop / "shop-bin.000002", shop / "shop-bin.000004")
    with pytest.raises(DataLossError, match=r"between shop-bin\.000002 and shop-bin\.000004"):
        open_archive(shop)


def test_since_and_until_hold_inside_a_block(shop: Path) -> None:
    """A block has many transactions: those on the other side of a position are not meant."""
    archive = open_archive(str(shop))
    transactions = [one for one in rc.open_binlog(str(shop)).transactions() if len(one.changes)]
    every = [place(change) for one in transactions for change in one.changes]
    for one in transactions[:: max(1, len(transactions) // 12)]:
        at = rc.Position(one.start.file, one.start.offset)
        later = [place(c) for t in transactions if t.start >= at for c in t.changes]
        found = [place(each.change) for each in archive.find(since=at, statements=False)]
        assert found == later
        found = [place(each.change) for each in archive.find(until=at, statements=False)]
        assert found + later == every


def test_hours_count_all_rows(shop: Path) -> None:
    for path, file in zip(
        sorted(shop.glob("shop-bin.*[0-9]")), open_archive(shop).index(), strict=True
    ):
        assert sum(one.inserted + one.updated + one.deleted for one in file.index.hours) == len(
            list(rc.open_binlog(path).changes())
        )


def test_filters_have_all_their_keys() -> None:
    rng = random.Random(1)
    for count in (1, 2, 50, 5000):
        numbers = [rng.getrandbits(64) for _ in range(count)]
        keys = bytearray(b"".join(one.to_bytes(8, "little") for one in numbers))
        words = max(1, count * 10 // 64)
        memory = bytearray(8 * words)
        key_scan.fill_filter(memory, keys, count, 7)
        section = section_of([BlockRecord(5, 0, 7, words)], [memory])
        assert all(blocks_with(section, one, 0) == [5] for one in numbers)
        others = sum(bool(blocks_with(section, rng.getrandbits(64), 0)) for _ in range(2000))
        # With 10 bits for each key 0.82 % of other numbers are believed to be there, in theory.
        assert others < 40 or count < 50


def test_zones_leave_blocks_out() -> None:
    records = [
        BlockRecord(0, BlockFlag.ZONE, low=10, high=20),
        BlockRecord(3, BlockFlag.ZONE, low=21, high=(1 << 64) - 1),
        BlockRecord(4, BlockFlag.ZONE | BlockFlag.ALWAYS, low=5, high=5),
        BlockRecord(5, BlockFlag(0)),
    ]
    section = section_of(records, [b""] * 4)
    assert blocks_with(section, 0, 9) == [4, 5]
    assert blocks_with(section, 0, 20) == [0, 4, 5]
    assert blocks_with(section, 0, (1 << 64) - 1) == [3, 4, 5]


@pytest.mark.parametrize("lead_size", [0, 1, 4, 8])
def test_zone_numbers_of_texts_are_in_the_order_of_bytes(lead_size: int) -> None:
    rng = random.Random(lead_size)
    values = [rng.randbytes(lead_size or rng.randrange(12)) for _ in range(300)]
    order = (lambda value: value[::-1]) if lead_size else (lambda value: value[:8].ljust(8, b"\0"))
    numbers = [key_scan.zone_number(one, lead_size) for one in sorted(values, key=order)]
    assert numbers == sorted(numbers)
    assert all(0 <= one < 1 << 64 for one in numbers)


@pytest.mark.usefixtures("small_blocks")
def test_a_key_outside_the_zone_opens_no_section(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = rc.open_archive(shop)
    archive.index()
    assert archive.find("shop.orders", key=1).count()

    def refuse(*_: object) -> None:
        raise AssertionError("a section was read")

    monkeypatch.setattr(binlog_archive, "read_section", refuse)
    assert not archive.find("shop.orders", key=1_000_000).count()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("blocks", [[1], [1], [1], [0, 0]]),
        ("blocks", [[1], [1], [1]]),
        ("blocks", [[-1], [1], [1], [0]]),
        ("blocks", [[1 << 64], [1], [1], [0]]),
        ("blocks", [[1.5], [1], [1], [0]]),
        ("blocks", 7),
        ("gtids", [[1 << 40], [0], [1], [2]]),
        ("gtids", [[0], [9], [1], [2]]),
        ("gtids", [[0], [0], [1], []]),
        ("origins", None),
        ("facts", []),
        ("tables", [{}]),
        ("begin", "x"),
    ],
)
def test_a_head_that_makes_no_sense_is_refused(
    shop: Path, monkeypatch: pytest.MonkeyPatch, field: str, value: object
) -> None:
    index = rc.open_archive(shop, write_indexes=False).index()[0].index
    head = index._head()
    assert head["blocks"][0]
    monkeypatch.setattr(type(index), "_head", lambda _: {**head, field: value})
    path = shop / "index"
    path.write_bytes(index.to_bytes())
    with path.open("rb") as stream, pytest.raises(ValueError):
        read_index(stream)
