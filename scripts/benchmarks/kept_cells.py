"""What was measured, kept cell by cell in a file: a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Cell = Mapping[str, str | int | float | None]


class KeptCells:
    """The cells of a table that take long to measure.

    Args:
        path: a file of JSON lines, which need not be there; None: nothing is kept.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[str, list[dict[str, Any]]] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        for line in whole.splitlines():
            kept = json.loads(line)
            self._found[_key(kept["cell"])] = kept["rows"]
        if whole != text:
            # It was stopped while it wrote the last line.
            path.write_text(whole, encoding="utf-8")

    def rows(self, cell: Cell) -> list[dict[str, Any]] | None:
        """What a cell has; None where it has to be measured."""
        return self._found.get(_key(cell))

    def add(self, cell: Cell, rows: list[dict[str, Any]]) -> None:
        """Keep what was measured."""
        self._found[_key(cell)] = rows
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"cell": dict(cell), "rows": rows}) + "\n")


def _key(cell: Cell) -> str:
    return json.dumps(dict(cell), sort_keys=True)
