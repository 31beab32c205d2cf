"""Tables as they were: every moment of the packaged archive, forward, against a replay of its changes."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc

pa = pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

from replica_client.archive.as_of import net_images  # noqa: E402
from replica_client.archive.as_of.moments import moment_of  # noqa: E402
from replica_client.archive.as_of.reconstruction import Resources, state_forward, state_lines  # noqa: E402
from replica_client.archive.as_of.segment_images import LOSSLESS_FIELD, with_images  # noqa: E402
from replica_client.archive.as_of.table_state import POSITION, TableState, difference  # noqa: E402
from replica_client.rows.json_values import row_to_json  # noqa: E402

DATA = Path(rc.__file__).parent / "testing" / "data"
KEYS = {"shop.orders": "id", "shop.customers": "id", "shop.products": "sku"}
SERVER = "4587bb45-e52d-11f1-971d-02fc00000001"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("shop")
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, found)
    return found


def replayed(directory: Path) -> dict[str, dict[str, dict[Any, str]]]:
    """The tables behind each transaction, as JSON objects by key."""
    tables: dict[str, dict[Any, str]] = {name: {} for name in KEYS}
    found = {}
    for transaction in rc.open_binlog(str(directory)).transactions():
        for change in transaction.changes:
            name = f"{change.database}.{change.table}"
            for row, is_after in ((change.before, False), (change.after, True)):
                if row is not None and is_after:
                    tables[name][row[KEYS[name]]] = row_to_json(row)
                elif row is not None:
                    del tables[name][row[KEYS[name]]]
        position = f"{transaction.position.file}:{transaction.position.offset}"
        found[position] = {name: dict(rows) for name, rows in tables.items()}
    return found


def lines(state: TableState) -> Counter[str]:
    return Counter(state_lines(state))


@pytest.mark.parametrize("memory", [net_images.MEMORY, 1])
def test_every_moment_is_what_a_replay_gives(directory: Path, memory: int) -> None:
    archive = rc.open_archive(str(directory))
    moments = list(replayed(directory).items())
    for position, tables in moments[4 :: 3 if memory > 1 else 19]:
        for name, rows in tables.items():
            state = state_forward(archive, name, position, resources=Resources(1, memory))
            assert lines(state) == Counter(rows.values()), (position, name)


def test_forward_from_a_copy(directory: Path, tmp_path: Path) -> None:
    archive = rc.open_archive(str(directory))
    middle = archive.as_of("shop.orders", "shop-bin.000002:4")
    end = archive.as_of("shop.orders", "latest")
    again = archive.as_of("shop.orders", "latest", copy=middle)
    assert difference(end, again) == (37, [])
    assert again.changes < end.changes
    # The rows of another moment do not fit the changes.
    wrong = archive.as_of("shop.orders", "latest", copy=middle, copy_at=f"{SERVER}:6")
    with pytest.raises(rc.DataLossError, match="do not fit together"):
        wrong.read_all()
    with pytest.raises(rc.ConfigError, match="does not contain its position"):
        archive.as_of("shop.orders", "latest", copy=middle.read_all().replace_schema_metadata())
    with pytest.raises(rc.ConfigError, match="give an earlier copy"):
        archive.as_of("shop.orders", "shop-bin.000002:4", copy=end)


def test_differences_are_found(directory: Path) -> None:
    archive = rc.open_archive(str(directory))
    one, other = (archive.as_of("shop.orders", at) for at in ("latest", "shop-bin.000002:4"))
    count, found = difference(one, other)
    assert count == 37
    assert len(found) == 10


def test_moments(directory: Path) -> None:
    archive = rc.open_archive(str(directory))
    ends = {one.gtid: one.position for one in rc.open_binlog(str(directory)).transactions()}
    for number in (1, 5, 9, len(ends)):
        here = ends[f"{SERVER}:{number}"]
        expected = rc.Position(here.file, here.offset)
        for when in (f"{SERVER}:{number}", f"{SERVER}:1-{number}", f"{here.file}:{here.offset}"):
            assert moment_of(archive, when) == expected
    first = next(iter(rc.open_binlog(str(directory)).transactions()))
    assert moment_of(archive, first.commit_time) == rc.Position(first.start.file, 4)
    later = first.commit_time + timedelta(microseconds=1)
    assert moment_of(archive, later.isoformat()).offset == first.position.offset


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        (f"{SERVER}:3-9", "never had this state"),
        (f"{SERVER}:900000", "no such transaction"),
        ("11111111-1111-1111-1111-111111111111:1-5", "no such transaction"),
        ("0-1-5", "no such transaction"),
        ("shop-bin.000001:1300", "is inside a transaction"),
        ("shop-bin.000001:99999999", "the last whole transaction of shop-bin.000001 ends at"),
        ("shop-bin.000009:4", "is not among the files"),
        ("1999-01-01T00:00", "the archive begins"),
        ("2030-01-01T00:00", "later transactions are unknown"),
        ("../../etc/passwd:4", "is not understood"),
        ("..%2F..%2Fetc%2Fpasswd:4", "is not among the files"),
        ("yesterday", "is not understood"),
    ],
)
def test_what_is_no_moment_is_one_line(directory: Path, when: str, reason: str) -> None:
    with pytest.raises(rc.ConfigError, match=reason) as raised:
        rc.open_archive(str(directory)).as_of("shop.orders", when)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("table", ["shop.nothing", "`sh\nop`.`or``ders`"])
def test_a_table_that_nothing_made_is_refused(directory: Path, table: str) -> None:
    with pytest.raises(rc.DataLossError, match="no CREATE TABLE or TRUNCATE"):
        rc.open_archive(str(directory)).as_of(table, "latest")
    with pytest.raises(rc.ConfigError, match=r"DATABASE\.TABLE"):
        rc.open_archive(str(directory)).as_of("orders", "latest")


@pytest.mark.parametrize("winner", ["first", "last"])
def test_negative_zero_is_the_key_that_zero_is(winner: net_images.Winner) -> None:
    """An update from one to the other changes the row, and not which row it is."""
    schema = pa.schema([("x", pa.float64()), ("v", pa.int64()), LOSSLESS_FIELD])
    images = net_images.NetImages(schema, ["x"], winner)
    for x, v, there, weight in ((0.0, 1, True, 1), (-0.0, 2, True, 0), (0.0, 3, True, 0)):
        arrays = [pa.array([x]), pa.array([v]), pa.nulls(1, LOSSLESS_FIELD.type)]
        images.add(
            pa.RecordBatch.from_arrays(
                [*arrays, pa.array([there]), pa.array([weight])], schema=with_images(schema)
            )
        )
    (rows,) = images.rows()
    assert rows["v"].to_pylist() == [1 if winner == "first" else 3]


def test_rows_without_a_key_are_told_apart_by_their_bits() -> None:
    schema = pa.schema([("x", pa.float64()), LOSSLESS_FIELD])
    images = net_images.NetImages(schema, [], "last")
    values = pa.array([0.0, -0.0, 0.0])
    images.add(
        pa.RecordBatch.from_arrays(
            [values, pa.nulls(3, LOSSLESS_FIELD.type), pa.array([True] * 3), pa.array([1] * 3)],
            schema=with_images(schema),
        )
    )
    (rows,) = images.rows()
    assert sorted(rows["_weight"].to_pylist()) == [1, 2]


def test_columns_are_left_out(directory: Path) -> None:
    archive = rc.open_archive(str(directory))
    whole = archive.as_of("shop.orders", "latest").read_all()
    left = [name for name in whole.schema.names if name not in ("state", "_lossless")]
    state = archive.as_of("shop.orders", "latest", without=["state"])
    found = state.read_all()
    assert "state" not in found.schema.names and found.num_rows == whole.num_rows

    def rows(table: Any) -> list[str]:
        return sorted(map(repr, table.select(left).to_pylist()))

    assert rows(found) == rows(whole)
    assert all('"state"' not in line for line in state_lines(state))


@pytest.mark.parametrize(
    ("without", "reason"),
    [
        (["nothing"], "has no column 'nothing'; it has id, "),
        (["_lossless"], "has no column '_lossless'"),
        (["id"], "'id' is a column of the primary key"),
    ],
)
def test_columns_that_cannot_be_left_out(directory: Path, without: list[str], reason: str) -> None:
    with pytest.raises(rc.ConfigError, match=reason):
        rc.open_archive(str(directory)).as_of("shop.orders", "latest", without=without)


def test_a_copy_without_a_column_is_refused(directory: Path) -> None:
    archive = rc.open_archive(str(directory))
    middle = archive.as_of("shop.orders", "shop-bin.000002:4", without=["state"])
    with pytest.raises(rc.ConfigError, match="the copy lacks state"):
        archive.as_of("shop.orders", "latest", copy=middle)
    forward = archive.as_of("shop.orders", "latest", copy=middle, without=["state"])
    expected = archive.as_of("shop.orders", "latest", without=["state"])
    assert difference(forward, expected) == (37, [])


def test_files_name_their_position_as_ever() -> None:
    """Programs read the key from files that earlier releases wrote, too."""
    assert POSITION == b"replica_client.position"
