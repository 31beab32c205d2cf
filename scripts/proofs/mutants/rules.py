"""Mutations of named rules (``rules.toml``), each planted in a copy of the repository and run with the rule's tests.

Unlike the sampled ones they also change tables of facts, which no function holds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

RULES = Path(__file__).with_name("rules.toml")
_COPIED = ("replica_client", "tests", "scripts", "docs", "pyproject.toml")
_SECONDS = 300


@dataclass(frozen=True)
class RuleMutation:
    """A text of a file, and the text that says the opposite.

    Attributes:
        rule: the rule's name.
        tests: files of tests that run with it.
        path: of the file, from the repository's top.
        old: the text, which occurs once.
        new: the text that replaces it; ``""`` in the unchanged run of the rule's tests.
    """

    rule: str
    tests: tuple[str, ...]
    path: str = ""
    old: str = ""
    new: str = ""

    def __str__(self) -> str:
        old, new = (" ".join(text.split())[:70] for text in (self.old, self.new))
        return f"{self.path}: {old} -> {new or '(nothing)'}" if self.path else "nothing changed"

    def source(self, root: Path) -> str:
        """Return the file's text with the mutation.

        Raises:
            LookupError: the old text does not occur once.
        """
        text = (root / self.path).read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise LookupError(f"{self.path} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


def rule_mutations(only: str = "") -> list[RuleMutation]:
    """Return the mutations of the rules whose names contain a text."""
    rules = tomllib.loads(RULES.read_text(encoding="utf-8"))["rule"]
    return [
        RuleMutation(rule["name"], tuple(rule["tests"]), one["path"], one["old"], one["new"])
        for rule in rules
        if only in rule["name"]
        for one in rule["mutation"]
    ]


def run_rules(
    root: Path, mutations: list[RuleMutation], jobs: int
) -> Iterator[tuple[RuleMutation, str]]:
    """Run each mutation and yield how it was caught, ``""`` for a survivor; first each rule's tests unchanged.

    Raises:
        RuntimeError: tests of a rule fail without a mutation.
    """
    with tempfile.TemporaryDirectory(dir=root.parent, prefix=".rules-") as folder:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            free.put(_copy(root, Path(folder) / str(number)))

        def run(mutation: RuleMutation) -> tuple[int, str]:
            tree = free.get()
            try:
                return _run(tree, mutation)
            finally:
                free.put(tree)

        with ThreadPoolExecutor(jobs) as pool:
            plain = [
                RuleMutation(*one) for one in {(one.rule, one.tests): None for one in mutations}
            ]
            for unchanged, (status, said) in zip(plain, pool.map(run, plain), strict=True):
                if status:
                    raise RuntimeError(
                        f"tests of the rule {unchanged.rule!r} fail unchanged: {said}"
                    )
            for mutation, (status, said) in zip(mutations, pool.map(run, mutations), strict=True):
                yield mutation, said if status else ""


def _copy(root: Path, tree: Path) -> Path:
    """Make a tree of hard links, in which a file is replaced and never written."""
    tree.mkdir()
    for name in _COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(
                source, tree / name, copy_function=os.link, ignore=shutil.ignore_patterns("*.so")
            )
        else:
            os.link(source, tree / name)
    return tree


def _run(tree: Path, mutation: RuleMutation) -> tuple[int, str]:
    path, before = tree / mutation.path, b""
    if mutation.path:
        before, changed = path.read_bytes(), mutation.source(tree)
        path.unlink()
        path.write_text(changed, encoding="utf-8")
    environment = {
        **os.environ,
        "REPLICA_CLIENT_IMPL": "python",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(tree),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        *mutation.tests,
    ]
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return done.returncode, (lines or done.stdout.splitlines()[-1:] or [done.stderr[-200:]])[0][
            :160
        ]
    except subprocess.TimeoutExpired:
        return 1, f"no end within {_SECONDS} s"
    finally:
        if mutation.path:
            path.unlink()
            path.write_bytes(before)
