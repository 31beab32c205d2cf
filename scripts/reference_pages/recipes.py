"""The recipes: programs of docs/recipes."""

from __future__ import annotations

import ast
from pathlib import Path

DIRECTORY = Path(__file__).parents[2] / "docs" / "recipes"


def recipes() -> str:
    """Each program under its docstring's first line."""
    parts = []
    for path in sorted(DIRECTORY.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0].rstrip(".")
        if not title:
            raise ValueError(f"{path} does not say what it is")
        parts.append(
            f"## {title}\n\n`docs/recipes/{path.name}`\n\n```python\n{text.rstrip()}\n```\n"
        )
    return "\n".join(parts)
