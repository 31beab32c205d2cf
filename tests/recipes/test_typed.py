"""A user's program type-checks under mypy --strict and pyright, and what is wrong in one is found."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client as rc
from tests.recipes.test_recipes import FIRST

PROGRAM = Path(rc.__file__).parents[1] / "docs" / "content" / "recipes" / "typed.py"
WRONG = """
import replica_client as rc

URL = "mysql://repl@db1/"

def one() -> None:
    with rc.connect(URL) as stream: pass  # wrong

def two() -> None:
    for change in rc.connect(URL): pass  # wrong

def three() -> None:
    for change in rc.open_binlog("x").changes():
        change.kind == change.tabel  # wrong

def four() -> None:
    for change in rc.open_binlog("x").changes():
        number: int = change.database  # wrong

def five() -> None:
    for transaction in rc.open_binlog("x").transactions():
        change: str = transaction.changes[0]  # wrong

def six(row: rc.Row) -> None:
    row["id"]
    row.rename("x")  # wrong

def seven(when: rc.DateTime, document: rc.JsonDocument) -> None:
    when.to_python().year
    when.years  # wrong
    document["a"]
    document.values_of  # wrong

def nine(change: rc.AnyChange) -> None:
    change.after["id"]  # wrong
    if change.kind == "insert":
        change.after["id"]
        change.before["id"]  # wrong
    elif change.kind == "update":
        change.before["id"] == change.after["id"]
    else:
        change.before["id"]
        change.after["id"]  # wrong

async def eight() -> None:
    async with rc.follow(URL) as stream: pass  # wrong
"""
CHECKERS = ["mypy", "pyright"]
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}


def check(checker: str, directory: Path, program: str) -> tuple[int, str]:
    """The status and the words of a type checker about a program outside of this package."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed: pip install 'replica-client[recipes]'")
    path = directory / "program.py"
    path.write_text(program)
    (directory / "pyproject.toml").write_text("[tool.mypy]\nstrict = true\n")
    words = [sys.executable, "-m", checker]
    if checker == "mypy":
        words += ["--strict", "--cache-dir", str(directory / "cache")]
    else:
        words += ["--pythonpath", sys.executable]
    done = subprocess.run(
        [*words, path.name], cwd=directory, capture_output=True, text=True, check=False, env=PLAIN
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_program_has_no_fault(checker: str, tmp_path: Path) -> None:
    status, said = check(checker, tmp_path, PROGRAM.read_text())
    assert status == 0, said


@pytest.mark.timeout(300)
def test_the_first_programs_have_no_fault(tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="pip install '.[recipes]'")
    for name in FIRST:
        shutil.copy(PROGRAM.with_name(f"{name}.py"), tmp_path)
    status, said = check("mypy", tmp_path, "\n".join(f"import {name}" for name in FIRST))
    assert status == 0, said


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_is_wrong_is_found(checker: str, tmp_path: Path) -> None:
    """Names have real types: what is Any has no faults."""
    status, said = check(checker, tmp_path, WRONG)
    assert status == 1, said
    lines = WRONG.splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    found = {
        int(line.split("program.py:")[1].split(":")[0])
        for line in said.splitlines()
        if "program.py:" in line and "error" in line
    }
    assert found == wrong, said


def test_the_program_runs(tmp_path: Path) -> None:
    data = Path(rc.__file__).parent / "testing" / "data"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(data)], capture_output=True, text=True, check=True
    )
    assert "('shop', " in done.stdout.splitlines()[-1]
