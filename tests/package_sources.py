"""Texts of the package's modules and their syntax trees, read once for all tests that look at the code."""

import ast
import functools
from pathlib import Path

import replica_client

PACKAGE = Path(replica_client.__file__).parent


@functools.cache
def sources() -> dict[str, str]:
    """Return the text of each module by its path inside the package."""
    return {
        str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of each module by its path inside the package."""
    return {path: ast.parse(text) for path, text in sources().items()}


@functools.cache
def nodes() -> dict[str, tuple[ast.AST, ...]]:
    """Return all nodes of each module by its path inside the package."""
    return {path: tuple(ast.walk(tree)) for path, tree in trees().items()}
