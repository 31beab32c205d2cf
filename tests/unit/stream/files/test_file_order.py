"""The one order of binlog files, and what contradicts it."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.archive.file_list import list_files
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.files.file_bytes import binlog_files
from replica_client.stream.files.file_names import in_order
from replica_client.stream.files.file_order import FileMark, check_order

DEMO = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))
SERVER = "4587bb45-e52d-11f1-971d-02fc00000001"
OTHER = "11111111-1111-1111-1111-111111111111"

ORDERS = [
    ["binlog.999999", "binlog.1000000"],
    ["binlog.000001", "binlog.000002", "binlog-2.000001", "binlog-2.000002", "binlog-10.000001"],
    ["b.000009", "b.000010", "a.000001"],
]


@pytest.mark.parametrize("names", ORDERS)
def test_files_are_ordered_by_number_however_they_are_given(
    names: list[str], tmp_path: Path
) -> None:
    for name in names:
        shutil.copy(DEMO[0], tmp_path / name)
    given = [tmp_path / name for name in names]
    for seed in range(5):
        mixed = names[:]
        random.Random(seed).shuffle(mixed)
        first = [name for name in names if name[0] == mixed[0][0]]
        wanted = first + [name for name in names if name not in first]
        assert in_order(mixed, str) == wanted
    assert [one.name for one in binlog_files(given[::-1])][-1] == names[-1] or names[
        0
    ] == "b.000009"
    alike = [name for name in names if name[0] == names[0][0]]
    for source in (given[::-1], [tmp_path], [tmp_path / "b*"]):
        for found in (
            [one.name for one in binlog_files(source)],
            [one.name for one in list_files(list(source))],
        ):
            assert [name for name in found if name in alike] == alike


def mark(number: int, **facts: object) -> FileMark:
    before = GtidSet.parse(f"{SERVER}:1-{number * 10}")
    next_file = f"binlog.{number + 1:06}"
    return replace(FileMark(f"binlog.{number:06}", 1, 1000 + number, before, next_file), **facts)


def test_what_one_server_wrote_is_taken() -> None:
    check_order([mark(1), mark(2), mark(3)])
    check_order([mark(1, next_file=""), mark(2, previous=None)])
    # The id of a server may be changed, and another server may go on: GTIDs say that nothing is between.
    check_order([mark(1), mark(2, server_id=7)])
    check_order([mark(4), mark(5, name="binlog-2.000001", server_id=7)])
    check_order([mark(1, name="a"), mark(2, name="b")])


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        ([mark(1), mark(3)], "between binlog.000001 and binlog.000003 files are missing"),
        ([mark(1), mark(1)], "given twice"),
        ([mark(1), mark(2, previous=GtidSet.parse(f"{OTHER}:1-50"))], "begins without 4587bb45"),
        ([mark(1), mark(2, previous=GtidSet.parse(f"{SERVER}:1-5"))], "begins without 4587bb45"),
        ([mark(1, next_file="mysql-bin.000002"), mark(2)], "ROTATE to mysql-bin.000002"),
        ([mark(1, next_file="binlog.000009"), mark(2)], "ROTATE to binlog.000009"),
        (
            [mark(1, previous=None), mark(2, previous=None, server_id=2)],
            r"are of two servers \(1 and 2\)",
        ),
        (
            [mark(1, previous=GtidSet.parse("")), mark(2, server_id=2)],
            "are of two servers",
        ),
        (
            [mark(1, name="a", previous=None), mark(2, name="b", previous=None, server_id=2)],
            "are of two servers",
        ),
        (
            [mark(1, previous=None, begun=90_000), mark(2, previous=None, begun=10)],
            "was begun 89990 s before",
        ),
        (
            [
                mark(1, previous=MariadbGtidSet.parse("0-1-5,1-1-7")),
                mark(2, previous=MariadbGtidSet.parse("0-1-9")),
            ],
            "begins without 1-1-7",
        ),
    ],
)
def test_what_contradicts_the_order_is_refused(marks: list[FileMark], reason: str) -> None:
    with pytest.raises((rc.ConfigError, rc.DataLossError), match=reason) as raised:
        check_order(marks)
    assert marks[0].name in str(raised.value)
    assert marks[1].name in str(raised.value)
    assert ";" in str(raised.value)


def test_mariadb_numbers_may_go_back() -> None:
    """With gtid_strict_mode=OFF."""
    check_order(
        [
            mark(1, previous=MariadbGtidSet.parse("0-1-102")),
            mark(2, previous=MariadbGtidSet.parse("0-1-101")),
        ]
    )


@pytest.mark.parametrize("reader", ["open_binlog", "open_archive", "scan_binlog"])
def test_a_gap_is_refused_by_every_reader(reader: str, tmp_path: Path) -> None:
    assert len(DEMO) > 1
    shutil.copy(DEMO[0], tmp_path / DEMO[0].name)
    shutil.copy(DEMO[1], tmp_path / "shop-bin.000003")
    files = sorted(tmp_path.iterdir())
    with pytest.raises((rc.ConfigError, rc.DataLossError), match=r"shop-bin\.000003") as raised:
        getattr(rc, reader)(files)
    assert DEMO[0].name in str(raised.value)


def test_the_order_that_a_shell_gives_does_not_matter(tmp_path: Path) -> None:
    forward = [one.position for one in rc.open_binlog(DEMO).transactions()]
    assert [one.position for one in rc.open_binlog(DEMO[::-1]).transactions()] == forward


@pytest.mark.parametrize("where", ["mysql-bin.000001:4", "shop-bin.009999:4"])
def test_a_position_of_another_file_is_refused(where: str, tmp_path: Path) -> None:
    for name in ("start", "stop"):
        with pytest.raises(rc.ConfigError, match="no such file among"):
            rc.open_binlog(DEMO, **{name: where})
    archive = rc.open_archive(DEMO, index_directory=tmp_path)
    for name in ("since", "until"):
        with pytest.raises(rc.ConfigError, match="no such file among"):
            rc.scan_binlog(DEMO, **{name: where})
        with pytest.raises(rc.ConfigError, match="no such file among"):
            list(archive.find("shop.*", **{name: where}))
