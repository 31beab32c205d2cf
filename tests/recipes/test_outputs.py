"""Each output form of ``changes``, read back by those who read such files: equal values."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import struct
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.json_values import value_to_json
from replica_client.rows.special_values import ABSENT
from tests import processes

DATA = Path(rc.__file__).parent / "testing" / "data"
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*/*.0*"))
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
TABLES = [(DATA, "shop.orders"), (DATA, "shop.customers"), (DATA, "shop.products")]


def run(*words: object) -> bytes:
    command = [sys.executable, "-m", "replica_client", *map(str, words)]
    done = processes.run(command, capture_output=True, env=PLAIN, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return bytes(done.stdout)


def rows_of(source: Path, table: str) -> list[tuple[str, rc.Change, rc.Row]]:
    """Change type, change and row of each row that the outputs have."""
    found: list[tuple[str, rc.Change, rc.Row]] = []
    for change in rc.open_binlog(source, tables=table).changes():
        if change.before is not None and change.after is not None:
            found.append(("update_preimage", change, change.before))
            found.append(("update_postimage", change, change.after))
        else:
            row = change.after or change.before
            assert row is not None
            found.append((change.kind, change, row))
    assert found
    return found


def texts(row: rc.Row) -> dict[str, str | None]:
    """A row as CSV has it."""
    found: dict[str, str | None] = {}
    for name, value in zip(row.columns, row, strict=True):
        if value is None or value is ABSENT:
            found[name] = None
            continue
        text = value_to_json(value)
        is_text = text.startswith('"') and not isinstance(value, rc.JsonDocument)
        found[name] = json.loads(text) if is_text else text
    return found


def plain(value: Any) -> Any:
    """A value as what Arrow's readers give in Python; None where it is MySQL's alone."""
    if isinstance(value, (rc.Date, rc.DateTime, rc.Time, rc.Timestamp)):
        return value.to_python()
    if isinstance(value, (rc.EnumValue, rc.SetValue)):
        return str(value)
    return value.text if isinstance(value, rc.JsonDocument) else value


def like(value: Any, given: Any) -> Any:
    """A value as a reader that has no type for it gives it: FLOAT as a double, TIME as microseconds."""
    value = None if value is ABSENT else plain(value)
    if isinstance(value, float) and value != given:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if isinstance(value, timedelta) and isinstance(given, int):
        return value // timedelta(microseconds=1)
    return value


@pytest.fixture(params=TABLES, ids=lambda pair: pair[1])
def table(request: pytest.FixtureRequest) -> tuple[Path, str]:
    source, name = request.param
    return source, name


def test_jq_reads_json(table: tuple[Path, str]) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed: apt-get install jq")
    source, name = table
    out = run("changes", "--json", "--tables", name, source)
    done = subprocess.run(
        ["jq", "-c", "[.kind, .position, .before, .after]"],
        input=out,
        capture_output=True,
        check=True,
    )
    expected = [
        [change.kind, change.offset, line["before"], line["after"]]
        for change in rc.open_binlog(source, tables=name).changes()
        for line in [json.loads(change.to_json(), parse_float=float)]
    ]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


def test_pythons_csv_reads_csv(table: tuple[Path, str]) -> None:
    source, name = table
    text = run("changes", "--csv", "--tables", name, source).decode()
    read = list(csv.DictReader(io.StringIO(text, newline="")))
    expected = rows_of(source, name)
    assert len(read) == len(expected)
    for line, (kind, change, row) in zip(read, expected, strict=True):
        assert (line["_change_type"], line["_gtid"]) == (kind, change.gtid)
        assert (int(line["_offset"]), int(line["_row_index"])) == (
            change.offset,
            change.row_index,
        )
        for column, value in texts(row).items():
            assert line[column] == (value or "")


def test_pandas_reads_csv_and_parquet(table: tuple[Path, str], tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="pip install '.[recipes]'")
    source, name = table
    text = run("changes", "--csv", "--tables", name, source)
    frame = pandas.read_csv(io.BytesIO(text), dtype=str, keep_default_na=False)
    expected = rows_of(source, name)
    for column in expected[0][2].columns:
        assert list(frame[column]) == [texts(row)[column] or "" for _, _, row in expected]
    path = tmp_path / "table.parquet"
    run("changes", "--parquet", path, "--tables", name, source)
    frame = pandas.read_parquet(path)
    assert list(frame["_change_type"]) == [kind for kind, _, _ in expected]
    for column in expected[0][2].columns:
        for given, (_, _, row) in zip(frame[column], expected, strict=True):
            value = plain(row[column])
            if value is None or value is ABSENT:
                assert pandas.isna(given)
            else:
                assert given == value or pandas.Timestamp(given) == pandas.Timestamp(value)


def test_duckdb_reads_csv_parquet_and_arrow(table: tuple[Path, str], tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="pip install '.[recipes]'")
    source, name = table
    expected = rows_of(source, name)
    columns = expected[0][2].columns
    (tmp_path / "table.csv").write_bytes(run("changes", "--csv", "--tables", name, source))
    # A quoted empty cell is a text, an empty one is NULL.
    options = "header=true, all_varchar=true, nullstr='', allow_quoted_nulls=false"
    query = f"SELECT * FROM read_csv('{tmp_path}/table.csv', {options})"
    read = duckdb.sql(query).project(", ".join(f'"{one}"' for one in columns)).fetchall()
    assert read == [tuple(texts(row).values()) for _, _, row in expected]

    run("changes", "--parquet", tmp_path / "table.parquet", "--tables", name, source)
    listed = ", ".join(f'"{one}"' for one in columns)
    read = duckdb.sql(f"SELECT {listed} FROM '{tmp_path}/table.parquet'").fetchall()
    wanted = [row for _, _, row in expected]
    for given, row in zip(read, wanted, strict=True):
        assert given == tuple(map(like, row, given))

    pyarrow = pytest.importorskip("pyarrow")
    run("changes", "--arrow", tmp_path / "table.arrows", "--tables", name, source)
    stream = pyarrow.ipc.open_stream((tmp_path / "table.arrows").read_bytes()).read_all()
    for given, row in zip(
        duckdb.from_arrow(stream).project(listed).fetchall(), wanted, strict=True
    ):
        assert given == tuple(map(like, row, given))
    streamed = pyarrow.ipc.open_stream(
        run("changes", "--arrow", "-", "--tables", name, source)
    ).read_all()
    # A stream has as many batches as its writer had time for, with a dictionary each.
    assert streamed.to_pylist() == stream.to_pylist()
    batches = list(rc.open_binlog(source, tables=name).batches())
    assert streamed.to_pylist() == pyarrow.Table.from_batches(batches).to_pylist()


def test_polars_reads_parquet(table: tuple[Path, str], tmp_path: Path) -> None:
    polars = pytest.importorskip("polars", reason="pip install '.[recipes]'")
    source, name = table
    run("changes", "--parquet", tmp_path / "table.parquet", "--tables", name, source)
    frame = polars.read_parquet(tmp_path / "table.parquet")
    expected = rows_of(source, name)
    for column in expected[0][2].columns:
        given = frame[column].to_list()
        assert given == [
            like(row[column], one) for (_, _, row), one in zip(expected, given, strict=True)
        ]


def test_a_filtered_file_holds_what_where_takes(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    words = ("--tables", "shop.orders", "--where", "quantity >= 2 AND total < 100.5", DATA)
    out = run("changes", "--json", *words)
    taken = [json.loads(line) for line in out.splitlines()]
    whole = [c.as_dict() for c in rc.open_binlog(DATA, tables="shop.orders").changes()]
    rows = [
        c for c in whole
        if any(r and r["quantity"] >= 2 and r["total"] < Decimal("100.5") for r in (c["after"], c["before"]))
    ]  # fmt: skip
    assert 0 < len(rows) < len(whole)
    assert [(c["position"], c["row_index"]) for c in taken] == [
        (c["position"], c["row_index"]) for c in rows
    ]
    run("changes", "--parquet", tmp_path / "some.parquet", *words)
    read = pq.read_table(tmp_path / "some.parquet")
    kinds = [kind for kind in read["_change_type"].to_pylist() if kind != "update_preimage"]
    assert len(kinds) == len(taken)
