"""``as-of`` on the packaged binlogs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from tests.unit.cli.conftest import Result

pq = pytest.importorskip("pyarrow.parquet", reason="the extra arrow is not installed")

Run = Callable[..., Result]

DATA = Path(rc.__file__).parent / "testing" / "data"


@pytest.fixture
def archive(tmp_path: Path) -> str:
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, tmp_path)
    return str(tmp_path)


def test_lines_and_files(run: Run, archive: str, tmp_path: Path) -> None:
    arguments = ("as-of", archive, "--table", "shop.orders", "--at", "latest")
    result = run(*arguments)
    assert result.status == 0
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert len(rows) == 37
    assert {"id": 1, "total": "34.90", "placed": "2026-11-20 08:00:00.000000"}.items() <= min(
        rows, key=lambda row: row["id"]
    ).items()
    parquet = tmp_path / "orders.parquet"
    assert run(*arguments, "--parquet", str(parquet)).status == 0
    assert pq.read_table(parquet).num_rows == 37
    again = run(*arguments, "--copy", str(parquet))
    assert "forward over 0 changes" in again.err
    assert sorted(again.out.splitlines()) == sorted(result.out.splitlines())
    assert run(*arguments, "--parquet", str(parquet)).status == 2
    assert run(*arguments, "--arrow", str(tmp_path / "orders.arrow")).status == 0
    assert "forward over 0" in run(*arguments, "--copy", str(tmp_path / "orders.arrow")).err


def test_duckdb(run: Run, archive: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="the extra duckdb is not installed")
    target = tmp_path / "orders.duckdb"
    arguments = ("as-of", archive, "--table", "shop.orders", "--at", "shop-bin.000002:4")
    assert run(*arguments, "--duckdb", str(target)).status == 0
    with duckdb.connect(str(target)) as database:
        assert database.execute("SELECT count(*), sum(total) > 0 FROM orders").fetchone() == (
            25,
            True,
        )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--json", "--parquet", "x"), "give one of"),
        (("--prove",), "--prove needs --live"),
        (("--copy", "nothing.parquet"), "not a readable Parquet or Arrow file"),
        (("--parquet", "-"), "only an Arrow stream"),
    ],
)
def test_wrong_use_is_one_line(
    run: Run, archive: str, arguments: tuple[str, ...], reason: str
) -> None:
    result = run("as-of", archive, "--table", "shop.orders", "--at", "latest", *arguments)
    assert result.status in (1, 2)
    assert reason in result.err
    assert len(result.err.splitlines()) == 1
