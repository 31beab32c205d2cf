"""What was found of mutations, kept in a file until a source or a test changes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from mutations.planting import Mutation


class SavedResults:
    """How mutations were caught.

    Args:
        path: of the file.
        root: of the repository.
    """

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        sources = hashlib.sha256()
        for directory in ("replica_client", "tests"):
            for file in sorted((root / directory).rglob("*.py")):
                sources.update(f"{file.relative_to(root)}\n".encode() + file.read_bytes())
        self._sources = sources.hexdigest()
        self._found: dict[str, tuple[str, int]] = {}
        if path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["sources"] == self._sources:
                self._found = {name: (how, able) for name, (how, able) in kept["found"].items()}

    def __contains__(self, mutation: Mutation) -> bool:
        return _name(mutation) in self._found

    def __getitem__(self, mutation: Mutation) -> tuple[str, int]:
        return self._found[_name(mutation)]

    def add(self, mutation: Mutation, caught: str, able: int) -> None:
        """Keep how a mutation was caught, ``""`` when it was not, and how many tests run its line."""
        self._found[_name(mutation)] = caught, able
        found = {"sources": self._sources, "found": self._found}
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(found), encoding="utf-8")
        new.replace(self._path)


def _name(mutation: Mutation) -> str:
    return f"{mutation} @{mutation.start}"
