"""scan_binlog gives what open_binlog gives, whatever the files are cut into and however many threads decode."""

from __future__ import annotations

import re
import shutil
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import replica_client as rc
from replica_client.errors import (
    ColumnDecodeError,
    ConfigError,
    ReplicaClientError,
    TruncatedEventError,
)
from replica_client.stream.files import pieces
from tests.golden.test_server_files import expectation, keys_of

DATA = Path(rc.__file__).parent / "testing" / "data"
FILES = sorted(DATA.glob("shop-bin.0*"))
GOLDEN = Path(__file__).parents[2] / "golden"
GOLDENS = sorted(GOLDEN.glob("*/*.binlog"))


def read(table: rc.BinlogTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(table).to_pylist()
    return rows


def of_batches(reader: rc.BinlogFileReader) -> dict[tuple[bytes, bytes], list[dict[str, Any]]]:
    """The rows by table; what a definition has not is null."""
    found: dict[tuple[bytes, bytes], list[dict[str, Any]]] = defaultdict(list)
    for batch in reader.batches():
        metadata = batch.schema.metadata
        found[metadata[b"database"], metadata[b"table"]] += batch.to_pylist()
    return found


def compared(rows: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Rows that compare: without nulls, and numbers by their value."""
    return [[(k, repr(v)) for k, v in sorted(row.items()) if v is not None] for row in rows]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("piece_size", [1, 5000, 1 << 23])
def test_same_as_batches(monkeypatch: pytest.MonkeyPatch, threads: int, piece_size: int) -> None:
    monkeypatch.setattr(pieces, "PIECE_SIZE", piece_size)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    scanned = rc.scan_binlog(DATA, threads=threads)
    expected = of_batches(rc.open_binlog(DATA))
    assert list(scanned) == ["shop.customers", "shop.orders", "shop.products"]
    for name, table in scanned.items():
        rows = read(table)
        assert rows == expected[b"shop", name.partition(".")[2].encode()]
        assert rows
        assert rows == read(table), "a stream can be read again"


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_goldens(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Whatever servers write: XA, payloads, savepoints, ALTERs, statements as text."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", 1)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 512)
    keys = keys_of(expectation(path))
    try:
        expected = of_batches(rc.open_binlog(path, keys=keys))
    except ReplicaClientError as error:
        # Through Arrow's C stream an error is a text. A table that has no rows at all is none of the mapping.
        for table in rc.scan_binlog(path, keys=keys).values():
            with pytest.raises((type(error), pa.ArrowInvalid), match=re.escape(str(error)[:60])):
                read(table)
        return
    scanned = rc.scan_binlog(path, keys=keys, threads=2)
    assert len(scanned) == len(expected)
    for table in scanned.values():
        try:
            rows = read(table)
        except rc.ReplicaClientError as error:
            assert "no common type" in str(error)
            continue
        wanted = expected[table.database.encode(), table.name.encode()]
        assert len(rows) == len(wanted)
        if len({str(batch.schema) for batch in rc.open_binlog(path, keys=keys).batches()}) == len(
            scanned
        ):
            assert compared(rows) == compared(wanted)


def test_columns_come_as_they_are_asked_for() -> None:
    whole = read(rc.scan_binlog(DATA)["shop.orders"])
    names = ["total", "_change_type", "id"]
    for table in (
        rc.scan_binlog(DATA, columns=names)["shop.orders"],
        rc.scan_binlog(DATA)["shop.orders"].select(names),
    ):
        assert table.schema.names == names
        assert read(table) == [{name: row[name] for name in names} for row in whole]
    of_table = rc.scan_binlog(DATA, columns={"shop.o*": ["id"]})
    assert of_table["shop.orders"].schema.names == ["id"]
    assert len(of_table["shop.products"].schema) == 17
    only_changes = rc.scan_binlog(DATA, columns=["_change_type"])["shop.orders"]
    assert read(only_changes) == [{"_change_type": row["_change_type"]} for row in whole]
    with pytest.raises(ConfigError, match="has no column 'nothing'; it has _change_type"):
        rc.scan_binlog(DATA)["shop.orders"].select(["nothing"])


@pytest.mark.parametrize(
    "where",
    ["quantity >= 2", "state = 'paid' AND NOT (total < 50)", "note IS NOT NULL OR id IN (1, 2)"],
)
def test_where_is_that_of_changes(where: str) -> None:
    from replica_client.rows.conditions import matches
    from replica_client.rows.where import parse_where

    condition = parse_where(where)
    wanted = [
        row
        for change in rc.open_binlog(DATA, tables="shop.orders").changes()
        if matches(condition, change)
        for row in (change.before, change.after)
        if row is not None
    ]
    assert wanted
    table = rc.scan_binlog(DATA, where=where, tables="shop.orders", max_rows=7)["shop.orders"]
    assert [row["id"] for row in read(table)] == [row["id"] for row in wanted]
    projected = rc.scan_binlog(DATA)["shop.orders"].filter(where).select(["_offset"])
    assert read(projected) == [{"_offset": row["_offset"]} for row in read(table)]


def test_where_must_fit() -> None:
    with pytest.raises(ConfigError, match="where: character 5"):
        rc.scan_binlog(DATA, where="id === 1")
    with pytest.raises(ConfigError, match="shop.orders has no column 'nothing'; it has id,"):
        rc.scan_binlog(DATA)["shop.orders"].filter("nothing = 1")


def test_since_and_until_are_those_of_open_binlog() -> None:
    transactions = list(rc.open_binlog(DATA).transactions())
    whole = read(rc.scan_binlog(DATA)["shop.orders"])
    points = [one.start for one in transactions]
    for at in range(0, len(points), 7):
        for since, until in ((points[at], None), (None, points[at]), (points[at // 2], points[at])):
            expected = of_batches(rc.open_binlog(DATA, start=since, stop=until))
            scanned = rc.scan_binlog(DATA, since=since, until=until)
            rows = read(scanned["shop.orders"]) if "shop.orders" in scanned else []
            assert rows == expected.get((b"shop", b"orders"), [])
    half = transactions[len(transactions) // 2].position.gtid_set
    before = read(rc.scan_binlog(DATA, until=half)["shop.orders"])
    behind = read(rc.scan_binlog(DATA, since=half)["shop.orders"])
    assert before and behind and before + behind == whole
    with pytest.raises(ConfigError, match="no such file"):
        list(rc.scan_binlog(DATA, since="elsewhere.000001:4"))


def test_times_cut_in_two() -> None:
    whole = read(rc.scan_binlog(DATA)["shop.orders"])
    moments = sorted({one.timestamp for one in rc.open_binlog(DATA).transactions()})
    import datetime

    for moment in moments[:: max(1, len(moments) // 5)]:
        at = datetime.datetime.fromtimestamp(moment, datetime.UTC)
        parts = []
        for limits in ({"until": at}, {"since": at}):
            scanned = rc.scan_binlog(DATA, **limits)  # type: ignore[arg-type]
            parts += read(scanned["shop.orders"]) if "shop.orders" in scanned else []
        assert parts == whole


def test_sources(tmp_path: Path) -> None:
    whole = read(rc.scan_binlog(DATA)["shop.orders"])
    for path in FILES:
        shutil.copy(path, tmp_path)
    (tmp_path / "backup.json").write_text("{}")
    for source in (tmp_path, str(tmp_path / "shop-bin.*"), FILES, [str(path) for path in FILES]):
        assert read(rc.scan_binlog(source)["shop.orders"]) == whole
    with FILES[0].open("rb") as stream:
        tables = rc.scan_binlog(stream)
        first = read(tables["shop.orders"])
    assert first == whole[: len(first)] and len(first) < len(whole)
    with pytest.raises(ConfigError, match=r"no binlog file \(name.NNNNNN\) matches"):
        rc.scan_binlog(str(tmp_path / "other.*"))


def test_a_table_that_has_no_rows_is_not_there() -> None:
    scanned = rc.scan_binlog(DATA, tables=["shop.*"], exclude=["shop.orders"])
    assert "shop.orders" not in scanned
    with pytest.raises(KeyError, match=r"no such table with rows; there is shop.customers"):
        scanned["shop.orders"]


def test_a_cut_file(tmp_path: Path) -> None:
    cut = tmp_path / "shop-bin.000001"
    cut.write_bytes(FILES[0].read_bytes()[:-5])
    with pytest.raises(TruncatedEventError):
        list(rc.scan_binlog(cut))


def test_what_stands_before_a_fault_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that cannot be decoded: found when its piece is decoded, behind the pieces before it."""
    monkeypatch.setattr(pieces, "PIECE_SIZE", 1)
    monkeypatch.setattr("replica_client.stream.files.file_bytes.CHUNK_SIZE", 700)
    whole = rc.open_binlog(FILES[0], tables="shop.orders")
    positions = [change.offset for change in whole.changes()]
    data = bytearray(FILES[0].read_bytes())
    at = positions[len(positions) // 2]
    size = int.from_bytes(data[at + 9 : at + 13], "little")
    # The last value is cut short: its length says more than there is.
    data[at + size - 5 - 4 : at + size - 4] = b"\xff" * 5
    options = rc.DecodeOptions(verify_checksum=False)
    damaged = bytes(data)
    expected: list[dict[str, Any]] = []
    with pytest.raises(rc.BinlogDecodeError) as fault:
        for batch in rc.open_binlog(damaged, tables="shop.orders", options=options).batches(2):
            expected += batch.to_pylist()
    for threads in (1, 2):
        table = rc.scan_binlog(damaged, options=options, threads=threads)["shop.orders"]
        rows: list[dict[str, Any]] = []
        with pytest.raises(rc.BinlogDecodeError) as found:
            for batch in table.reader():
                rows += batch.to_pylist()
        assert str(found.value) == str(fault.value)
        assert rows[: len(expected)] == expected


def test_schema_protocol() -> None:
    table = rc.scan_binlog(DATA)["shop.orders"]
    assert pa.schema(table) == table.schema
    assert repr(table) == "<BinlogTable shop.orders>"
    stream = pa.RecordBatchReader.from_stream(table)
    stream.read_next_batch()
    stream.close()


def _with_bad_text(path: Path) -> Path:
    """Write a file whose first text in a row is not valid in its character set; its checksum is right."""
    data, at = bytearray(FILES[0].read_bytes()), 4
    while data[at + 4] != _WRITE_ROWS:
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    end = at + int.from_bytes(data[at + 9 : at + 13], "little")
    found = re.search(rb"[a-z]{5}", data[at + 40 : end])
    assert found is not None
    data[at + 40 + found.start()] = 0xFF
    data[end - 4 : end] = zlib.crc32(data[at : end - 4]).to_bytes(4, "little")
    path.write_bytes(data)
    return path


_WRITE_ROWS = 30


def test_an_error_inside_a_stream_keeps_its_type(tmp_path: Path) -> None:
    """Arrow's C stream carries a text only; the table and our own SQL have the error."""
    tables = rc.scan_binlog(_with_bad_text(tmp_path / "binlog.000001"))
    table = tables["shop.customers"]
    assert table.failure is None
    with pytest.raises(ColumnDecodeError):
        table.reader().read_all()
    with pytest.raises(pa.ArrowInvalid, match="column name"):
        pa.table(tables["shop.customers"])
    assert isinstance(table.failure, ColumnDecodeError)
    assert read(tables["shop.orders"])
    assert table.failure is None
    pytest.importorskip("duckdb", reason="pip install '.[duckdb]'")
    from replica_client.compat.duckdb_views import rows_of

    with (
        pytest.raises(ColumnDecodeError, match=r"^file binlog\.000001, position \d+"),
        rows_of("SELECT * FROM shop.customers", tables) as (_, batches),
    ):
        list(batches)
