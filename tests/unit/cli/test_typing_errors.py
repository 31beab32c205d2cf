"""A mistyped question to an archive is an error of one line, and not an empty answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc

DEMO = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["find", "--table", "shop.ordres"], "did you mean shop.orders"),
        (["undo", "--table", "shop.ordres"], "did you mean shop.orders"),
        (["redo", "--table", "nosuch.*"], "no table nosuch.*"),
        (["history", "--table", "shop.ordres", "--key", "1"], "did you mean shop.orders"),
        (["find", "--gtid", "4587bb45-e52d-11f1-971d-02fc00000001:999999"], "no such transaction"),
        (["undo", "--gtid", "0-1-5"], "no such transaction"),
        (["find", "--thread", "987654"], "thread 987654"),
        (["undo", "--thread", "987654"], "thread 987654"),
        (["find", "--since", "2050-01-01"], "the last transaction of the archive"),
        (["redo", "--until", "1999-01-01"], "the first transaction of the archive"),
    ],
)
def test_a_typing_error_is_one_line(
    arguments: list[str], reason: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    command, *given = arguments
    where = [*DEMO, "--index-directory", tmp_path]
    result = run(command, *where, *given)
    assert (result.status, result.out) == (2, "")
    assert reason in " ".join(result.err.split())
    assert run(command, *where, *given, "--allow-empty", *_count(command)).status == 0


def _count(command: str) -> list[str]:
    return ["--count"] if command == "find" else []


@pytest.mark.parametrize(
    "given",
    [
        ["--kind", "updat"],
        ["--since", "shop-bin.009999:4"],
        ["--column", "stat"],
        ["--where", "stat = 'x'"],
    ],
)
def test_what_cannot_be_meant_is_an_error_in_any_case(
    given: list[str], run: Callable[..., Any], tmp_path: Path
) -> None:
    where = [*DEMO, "--index-directory", tmp_path, "--table", "shop.orders", "--allow-empty"]
    assert run("find", *where, *given).status == 2


def test_the_last_come_newest_first(run: Callable[..., Any], tmp_path: Path) -> None:
    where = [*DEMO, "--index-directory", tmp_path, "--json", "--no-statement"]
    whole = run("find", *where).records
    assert run("find", *where, "--last", 3).records == whole[:-4:-1]
    assert run("find", *where, "--limit", 3).records == whole[:3]
    assert {one["statement"] for one in whole} == {None}
    assert run("find", *where, "--limit", 3, "--last", 3).status == 2
    time = whole[-1]["commit_time"]
    again = run("find", *where, "--since", time, "--until", time).records
    assert json.dumps(again[-1]) == json.dumps(whole[-1])
