"""What was found of mutations, kept in a file until a source or a test changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from mutants.planting import Mutation


class SavedResults:
    """How mutations were caught.

    Args:
        path: of the file.
        root: of the repository.
        tests: what runs now; a mutation that survived others is not known.
        resumed: whether what was caught stays known when sources or tests changed.
    """

    def __init__(self, path: Path, root: Path, tests: Sequence[str], resumed: bool = False) -> None:
        self._path, self._tests = path, " ".join(tests)
        sources = hashlib.sha256()
        for directory in ("replica_client", "tests"):
            for file in sorted((root / directory).rglob("*.py")):
                sources.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
        self._sources = sources.hexdigest()
        self._found: dict[str, tuple[str, int, str]] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["sources"] == self._sources:
                self._found = {name: tuple(one) for name, one in kept["found"].items()}
            elif resumed:
                self._found = {name: tuple(one) for name, one in kept["found"].items() if one[0]}

    def __contains__(self, mutation: Mutation) -> bool:
        caught, _, tests = self._found.get(_name(mutation), ("", 0, None))
        return bool(caught) or tests == self._tests

    def __getitem__(self, mutation: Mutation) -> tuple[str, int]:
        caught, able, _ = self._found[_name(mutation)]
        return caught, able

    def add(self, mutation: Mutation, caught: str, able: int) -> None:
        """Keep how a mutation was caught, ``""`` when it was not, and how many tests run its line."""
        self._found[_name(mutation)] = caught, able, self._tests
        found = {"sources": self._sources, "found": self._found}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(self._path)


def _name(mutation: Mutation) -> str:
    return f"{mutation} @{mutation.start}"
