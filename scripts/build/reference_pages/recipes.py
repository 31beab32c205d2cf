"""The recipes: programs of docs/content/recipes."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

DIRECTORY = Path(__file__).parents[3] / "docs" / "content" / "recipes"


def recipes() -> str:
    """Each program under its docstring's first line, and each notebook cell by cell."""
    parts = []
    for path in sorted(DIRECTORY.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0].rstrip(".")
        if not title:
            raise ValueError(f"{path} does not say what it is")
        parts.append(
            f"## {title}\n\n`docs/content/recipes/{path.name}`\n\n```python\n{text.rstrip()}\n```\n"
        )
    parts += [_notebook(path) for path in sorted(DIRECTORY.glob("*.ipynb"))]
    return "\n".join(parts)


def _notebook(path: Path) -> str:
    """Text as it stands, headings below those of the page; code without its output."""
    out = [f"## A notebook\n\n`docs/content/recipes/{path.name}`\n"]
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"]).strip()
        if cell["cell_type"] == "code":
            out.append(f"```python\n{text}\n```\n")
        else:
            out.append(re.sub(r"^#+", "###", text, flags=re.MULTILINE) + "\n")
    return "\n".join(out)
