"""Docstrings and values as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Sequence
from types import ModuleType

_ENTRY = re.compile(r"^(?P<names>[a-z_]\w*(?:, [a-z_]\w*)*):\s+(?P<text>.*)$")
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?(\w+)`")
_BULLET = re.compile(r"^\* ``(\w+)``: (.*)$")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may not hold line breaks."""
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    lines += [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines) + "\n"


def plain(text: str) -> str:
    """A docstring's text: roles and double backquotes become code."""
    text = _ROLE.sub(r"`\1`", text)
    return text.replace("``", "`").strip()


def attributes(of: type) -> dict[str, str]:
    """The meanings that a class's docstring gives its attributes; then those of its bases."""
    if not of.__dict__.get("__doc__"):
        return {}
    found: dict[str, str] = {}
    name, indent = "", None
    _, _, section = inspect.cleandoc(of.__doc__ or "").partition("Attributes:\n")
    for line in section.splitlines():
        depth = len(line) - len(line.lstrip())
        if not line.strip() or not depth:
            break
        indent = depth if indent is None else indent
        match = _ENTRY.match(line.strip())
        if depth == indent and match is not None:
            name = match["names"]
            found[name] = match["text"]
        else:
            found[name] += " " + line.strip()
    own = {one: plain(text) for names, text in found.items() for one in names.split(", ")}
    for base in of.__bases__:
        own = {**attributes(base), **own}
    return own


def summary(of: type) -> str:
    """The first paragraph of a docstring, on one line."""
    return plain(" ".join(inspect.cleandoc(of.__doc__ or "").split("\n\n")[0].split()))


def text_after(module: ModuleType, name: str) -> str:
    """The text that stands behind the assignment of a name in a module.

    Raises:
        KeyError: there is none.
    """
    body = ast.parse(inspect.getsource(module)).body
    for statement, following in zip(body, body[1:], strict=False):
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == name for target in targets) and (
            isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            return following.value.value
    raise KeyError(f"{module.__name__}.{name} has no text behind it")


def bullets(text: str) -> dict[str, str]:
    """Names and meanings of a list ``* ``name``: meaning;``."""
    matches = [_BULLET.match(line) for line in text.splitlines()]
    return {match[1]: plain(match[2]).rstrip(";.") for match in matches if match is not None}
