"""The outputs of ``changes`` from a live source: the same as from its files, and positions that go with them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.recipes.served import DATA, served

PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def run(*words: object) -> bytes:
    command = [sys.executable, "-m", "replica_client", "changes", *map(str, words)]
    done = processes.run(command, capture_output=True, env=PLAIN, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return bytes(done.stdout)


def test_forms_are_those_of_files(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    whole = ("--start", "earliest", "--stop-at-end")
    choice = ("--tables", "shop.orders", "--where", "quantity >= 2")
    with served() as source:
        for form in ("--json", "--csv"):
            assert run(source.url, *whole, *choice, form) == run(DATA, *choice, form)
        run(source.url, *whole, *choice, "--parquet", tmp_path / "live.parquet")
        run(DATA, *choice, "--parquet", tmp_path / "files.parquet")
    live, files = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("live", "files"))
    assert live.to_pylist() == files.to_pylist()


def test_limited_runs_go_on_where_they_ended(tmp_path: Path) -> None:
    whole = run(DATA, "--json").splitlines()
    found: list[bytes] = []
    with served() as source:
        while True:
            lines = run(
                source.url, "--json", "--start", "earliest", "--stop-at-end", "--limit", 17,
                "--position-file", tmp_path / "position",
            ).splitlines()  # fmt: skip
            found += lines
            if len(lines) < 17:
                break
    assert found == whole
