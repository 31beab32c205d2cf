"""``find``, ``history``, ``stats``, ``index`` and ``undo`` on the packaged binlogs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import replica_client as rc
from tests.unit.cli.conftest import Result

Run = Callable[..., Result]

DATA = Path(rc.__file__).parent / "testing" / "data"


@pytest.fixture
def archive(tmp_path: Path) -> str:
    for path in DATA.glob("shop-bin.0*"):
        shutil.copy(path, tmp_path)
    return str(tmp_path)


def test_find_by_key(run: Run, archive: str) -> None:
    result = run("find", archive, "--table", "shop.orders", "--key", "1", "--json")
    assert result.status == 0
    found = [json.loads(line) for line in result.out.splitlines()]
    assert [one["kind"] for one in found] == ["insert"]
    assert found[0]["after"]["id"] == 1
    assert found[0]["thread_id"] == 9
    assert found[0]["commit_time"].startswith("2026-11-20T21:56:43")


def test_find_by_column(run: Run, archive: str) -> None:
    arguments = ("find", archive, "--table", "shop.orders", "--column", "state")
    assert run(*arguments, "--to", "paid", "--count").out == "20\n"
    assert (
        run(*arguments, "--from", "new", "--to", "paid", "--kind", "update", "--count").out
        == "20\n"
    )
    assert run(*arguments, "--from", "paid", "--to", "new", "--count").out == "0\n"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--key", "1"), "no column"),
        (("--table", "shop.orders", "--key", "x"), "is a number"),
        (
            ("--table", "shop.orders", "--key", "1", "--key", "2"),
            "primary key of shop.orders is (id)",
        ),
        (("--table", "shop.orders", "--key", "idd=1"), "no column 'idd'"),
        (("--from", "1"), "name the column"),
        (("--kind", "upsert"), "kind: unknown 'upsert'"),
        (("--gtid", "x:y"), "gtid"),
        (("--since", "yesterday"), "since"),
        (("--json", "--count"), "give one of"),
    ],
)
def test_wrong_questions_are_one_line(
    run: Run, archive: str, arguments: tuple[str, ...], reason: str
) -> None:
    result = run("find", archive, *arguments)
    if arguments == ("--key", "1"):
        assert result.status in (0, 1)
        return
    assert result.status in (1, 2)
    assert reason in result.err
    assert len(result.err.splitlines()) == 1


def test_history_and_pages(run: Run, archive: str, tmp_path: Path) -> None:
    result = run("history", archive, "--table", "shop.products", "--key", "KET-01", "--json")
    assert result.status == 0
    assert result.records[0]["kind"] == "insert"
    page = tmp_path / "page.html"
    assert run("find", archive, "--table", "shop.*", "--html", str(page)).status == 0
    assert "shop-bin.000002" in page.read_text()
    assert run("stats", archive, "--html", str(page)).status == 0
    assert "<svg" in page.read_text()


def test_stats(run: Run, archive: str) -> None:
    found = json.loads(run("stats", archive, "--json").out)
    assert found["files"] == 2
    assert found["tables"]["shop.orders"]["inserted"] == 40
    assert found["gaps"] == []
    assert len(found["statements"]) == 4


def test_index(run: Run, archive: str) -> None:
    first = [json.loads(line) for line in run("index", archive, "--json").out.splitlines()]
    again = [json.loads(line) for line in run("index", archive, "--json").out.splitlines()]
    assert [one["made"] for one in first] == [True, True]
    assert [one["made"] for one in again] == [False, False]
    assert all(one["unfiltered"] == [] for one in again)


def test_undo_changes_only_rows_that_are_as_they_were_left(run: Run, archive: str) -> None:
    """By key and old values: a row that somebody changed since is not written over."""
    lines = run("undo", archive, "--table", "shop.orders").out.splitlines()
    updates = [line for line in lines if line.startswith("UPDATE ")]
    deletes = [line for line in lines if line.startswith("DELETE ")]
    assert updates and deletes
    for line in updates:
        changes, _, condition = line.partition(" WHERE ")
        changed = set(re.findall(r"`(\w+)` = ", changes))
        assert changed <= set(re.findall(r"`(\w+)`", condition)) - {"id"}, line
    for line in deletes:
        assert len(set(re.findall(r"`(\w+)`", line.partition(" WHERE ")[2]))) == 9, line
