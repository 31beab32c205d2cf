"""Archives that are cut, damaged or not whole: each command says so in one line, and prints nothing before."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from tests.unit.cli.conftest import Result

pytest.importorskip("pyarrow", reason="the extra arrow is not installed")

Run = Callable[..., Result]

DATA = Path(rc.__file__).parent / "testing" / "data"
ORDERS = ("--table", "shop.orders")
COMMANDS = {
    "find": ("find", *ORDERS, "--where", "quantity > 0", "--json"),
    "history": ("history", *ORDERS, "--key", "1", "--json"),
    "undo": ("undo", *ORDERS),
    "redo": ("redo", *ORDERS),
    "as-of": ("as-of", *ORDERS, "--at", "latest"),
    "stats": ("stats", "--json"),
    "index": ("index", "--json"),
}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, tmp_path)
    return tmp_path


def cut(archive: Path) -> str:
    path = archive / "shop-bin.000001"
    path.write_bytes(path.read_bytes()[:-30])
    return "shop-bin.000001 is cut"


def missing(archive: Path) -> str:
    (archive / "shop-bin.000002").rename(archive / "shop-bin.000003")
    return "between shop-bin.000001 and shop-bin.000003 files are missing"


def no_binlog(archive: Path) -> str:
    (archive / "shop-bin.000001").write_bytes(b"\x89PNG" + bytes(5000))
    return "shop-bin.000001"


def empty(archive: Path) -> str:
    for path in archive.iterdir():
        path.unlink()
    return "no binlog file"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("harm", [cut, missing, no_binlog, empty])
def test_an_archive_that_is_not_whole_is_one_line(
    run: Run, archive: Path, command: str, harm: Callable[[Path], str]
) -> None:
    reason = harm(archive)
    name, *rest = COMMANDS[command]
    result = run(name, str(archive), *rest)
    assert result.status in (1, 2)
    assert reason in result.err
    assert len(result.err.splitlines()) == 1
    assert "rows" not in result.out
    assert "INSERT" not in result.out


@pytest.mark.parametrize("command", ["find", "undo", "redo", "as-of"])
def test_rows_that_are_damaged_behind_the_index_are_never_given(
    run: Run, archive: Path, command: str
) -> None:
    name, *rest = COMMANDS[command]
    assert run("index", str(archive)).status == 0
    path = archive / "shop-bin.000001"
    status, data = path.stat(), bytearray(path.read_bytes())
    rows = next(
        event
        for event in rc.open_binlog(path).events()
        if "WRITE_ROWS" in event.header.event_type.name
    )
    data[rows.position + rows.header.event_size - 10] ^= 0x41
    path.write_bytes(data)
    # The index is that of this file, as far as its size and time say.
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    result = run(
        name, str(archive), *rest, *(["--table", "shop.*"] if name in ("undo", "redo") else [])
    )
    if name == "as-of":
        result = run(
            "as-of",
            str(archive),
            "--table",
            f"shop.{_table(path, rows.position)}",
            "--at",
            "latest",
        )
    if name == "find":
        result = run("find", str(archive), "--table", "shop.*", "--json")
    assert result.status == 1
    assert f"position {rows.position}" in result.err
    assert "CRC-32" in result.err
    assert len(result.err.splitlines()) == 1
    assert "INSERT" not in result.out


def _table(path: Path, position: int) -> str:
    """The table of the rows at a position."""
    whole = DATA / path.name
    return next(one.table for one in rc.open_binlog(whole).changes() if one.offset == position)
