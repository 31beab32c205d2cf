"""The list of mutations that survived is of code that is there, and of tests that are there."""

from __future__ import annotations

import tomllib
from pathlib import Path

import replica_client

PACKAGE = Path(replica_client.__file__).parent
ROOT = Path(__file__).parents[2]
SURVIVORS = tomllib.loads((ROOT / "tests" / "survivors.toml").read_text(encoding="utf-8"))[
    "survivor"
]


def test_survivors_are_in_functions_that_are_there() -> None:
    for one in SURVIVORS:
        path, function, _ = one["mutation"].split(" ", 2)
        name = function.removesuffix(":").rpartition(".")[2]
        assert f"def {name}(" in (PACKAGE.parent / path).read_text(encoding="utf-8"), one


def test_each_has_one_reason_and_tests_that_are_there() -> None:
    for one in SURVIVORS:
        (kind,) = set(one) - {"mutation"}
        assert kind in ("same", "caught_by", "runs_it", "open")
        if kind in ("caught_by", "runs_it"):
            assert (ROOT / one[kind]).exists()
