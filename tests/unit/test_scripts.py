"""Scripts start, say in one line what their environment lacks, and are listed on one page."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
PAGE = ROOT / "docs" / "content" / "reference" / "scripts.md"
TOP = {"bench", "check", "demo", "docs", "servers", "test"}
OURS = {"replica_client", "tests", "benchmarks", "programs", "mutants"}
FOLDERS = {"benchmarks", "build", "capture", "proofs"}


def programs() -> list[str]:
    """What can be run: files with an interpreter on the first line, and modules that run alone."""
    return sorted(
        path.relative_to(SCRIPTS).as_posix()
        for path in SCRIPTS.glob("**/*")
        if path.is_file() and "__pycache__" not in path.parts and _is_program(path)
    )


def _is_program(path: Path) -> bool:
    if len(path.relative_to(SCRIPTS).parts) > 2:
        return False
    if path.suffix == ".py":
        return path.parent.name == "build" and "__main__" in path.read_text("utf-8")
    return path.suffix == "" and path.read_bytes().startswith(b"#!")


def in_python(name: str) -> bool:
    return b"python" in (SCRIPTS / name).read_bytes().partition(b"\n")[0]


ALL = programs()
PYTHON = [name for name in ALL if in_python(name)]
NEEDY = [name for name in PYTHON if "import needs" in (SCRIPTS / name).read_text("utf-8")]
PLAIN = [
    name for name in ALL if not in_python(name) and "--help" in (SCRIPTS / name).read_text("utf-8")
]
pytestmark = pytest.mark.skipif(not ALL, reason="a package without its scripts")


def test_the_top_has_what_is_used_every_day() -> None:
    found = {path.name for path in SCRIPTS.iterdir() if path.name != "__pycache__"}
    assert found == TOP | FOLDERS


def test_the_page_lists_every_script_with_a_sentence_and_a_time() -> None:
    rows = re.findall(
        r"^\| `scripts/([^`]+)` \| (.+) \| ([^|]+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert sorted(name for name, _, _ in rows) == ALL
    assert all(len(sentence.split()) > 2 and time.strip() for _, sentence, time in rows)


@pytest.mark.parametrize("name", PYTHON)
def test_what_a_script_imports_of_the_project_is_there(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(SCRIPTS / "proofs")
    for node in ast.walk(ast.parse((SCRIPTS / name).read_text("utf-8"))):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.split(".")[0] in {
            "replica_client",
            "tests",
            "benchmarks",
            "programs",
            "mutants",
        }:
            _look_for(name, node)


def _look_for(script: str, node: ast.ImportFrom) -> None:
    try:
        module = importlib.import_module(str(node.module))
        for alias in node.names:
            if not hasattr(module, alias.name):
                importlib.import_module(f"{node.module}.{alias.name}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in OURS:
            raise
        pytest.skip(f"no package {error.name}")


@pytest.mark.parametrize("name", PLAIN)
def test_help_of_a_shell_script(name: str) -> None:
    done = subprocess.run([SCRIPTS / name, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_package_is_one_line(name: str) -> None:
    # -S: Python without installed packages.
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPTS / name), "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return  # its --help needs no package
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"{Path(name).name}: ") and "has no package" in line
    assert line.endswith(f".venv-test/bin/python scripts/{name}")


def test_each_mutation_of_a_rule_is_of_the_code_that_is_there() -> None:
    rules = tomllib.loads((SCRIPTS / "proofs/mutants/rules.toml").read_text("utf-8"))["rule"]
    mutations = [one for rule in rules for one in rule["mutation"]]
    assert len(mutations) >= 149
    for one in mutations:
        assert (SCRIPTS.parent / one["path"]).read_text("utf-8").count(one["old"]) == 1, one
    for rule in rules:
        for path in rule["tests"]:
            assert (SCRIPTS.parent / path).exists(), path
