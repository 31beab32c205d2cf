"""The public names and their signatures as text, read from the sources without running them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import replica_client

_SOURCES = Path(replica_client.__file__).parents[1]
FILE = Path(__file__).parents[3] / "tests" / "public_names.txt"
_HEAD = "# Public names and signatures; `python scripts/capture/public_names` writes this file."

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_Named = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def public_text() -> str:
    """A line for each public name, and one for each of its members."""
    lines = [_HEAD]
    homes = {name: module for module, names in replica_client._MODULES.items() for name in names}
    homes |= {"compiled": "_compiled", "__version__": "_version"}
    for name in sorted(replica_client.__all__):
        lines += _lines(name, _defined(f"replica_client.{homes[name]}", name))
    return "\n".join(lines) + "\n"


def _defined(module: str, name: str) -> ast.stmt:
    """The statement that defines a name, in a module or in the one that it takes the name from."""
    path = _SOURCES.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    body = ast.parse(path.read_text(encoding="utf-8")).body
    # Where a class has another form for type checkers, that one has the signatures.
    body += [one for part in body if isinstance(part, ast.If) for one in part.body]
    for statement in body:
        if isinstance(statement, _Named) and statement.name == name:
            return statement
        if name in _assigned(statement):
            return statement
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            for one in statement.names:
                if (one.asname or one.name) == name:
                    return _defined(statement.module, one.name)
    raise KeyError(f"{module} does not define {name}")


def _assigned(statement: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _lines(name: str, found: ast.stmt) -> Iterator[str]:
    if not isinstance(found, ast.ClassDef):
        yield _line(name, found)
        return
    bases = ", ".join(ast.unparse(base) for base in found.bases)
    yield f"class {name}({bases})" if bases else f"class {name}"
    for statement in found.body:
        if isinstance(statement, _Function):
            if statement.name == "__init__" or not statement.name.startswith("_"):
                yield f"    {_line(statement.name, statement)}"
        else:
            for member in _assigned(statement):
                if not member.startswith("_"):
                    yield f"    {_line(member, statement)}"


def _line(name: str, found: ast.stmt) -> str:
    if isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)):
        marks = "".join(
            f"@{mark} "
            for mark in map(ast.unparse, found.decorator_list)
            if mark.rpartition(".")[2]
            in ("property", "setter", "classmethod", "staticmethod", "overload")
        )
        kind = "async def" if isinstance(found, ast.AsyncFunctionDef) else "def"
        returns = "" if found.returns is None else f" -> {ast.unparse(found.returns)}"
        return f"{marks}{kind} {name}({ast.unparse(found.args)}){returns}"
    if isinstance(found, ast.AnnAssign):
        default = "" if found.value is None else f" = {ast.unparse(found.value)}"
        return f"{name}: {ast.unparse(found.annotation)}{default}"
    return name
