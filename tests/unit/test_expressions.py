"""Regular expressions: none is made of a text from outside, and each takes linear time on such a text."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import replica_client

ROOT = Path(replica_client.__file__).parent
_CALLS = frozenset(
    ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
)
ALLOWED = {
    "protocol/codec/charsets/text.py": "a class of characters of the package's own tables",
    "rows/selection.py": "patterns of tables: literal pieces, escaped, and one atomic group for each *",
    "stream/transforms/declaration.py": "replace of a transform: the operator's own expression, as documented",
}
"""The files that make expressions at run time, and why they may."""


def _is_constant(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is made of literals and of constants of the module."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.JoinedStr):
        return all(_is_constant(one, names) for one in node.values)
    if isinstance(node, ast.FormattedValue):
        return _is_constant(node.value, names)
    if isinstance(node, ast.BinOp):
        return _is_constant(node.left, names) and _is_constant(node.right, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("join", "encode", "format"):
            return _is_constant(node.func.value, names) and all(
                _is_constant(one, names) for one in node.args
            )
        return node.func.attr == "escape" and _is_constant(node.args[0], names)
    if isinstance(node, ast.GeneratorExp):
        targets = {
            one.id
            for c in node.generators
            for one in ast.walk(c.target)
            if isinstance(one, ast.Name)
        }
        return all(_is_constant(c.iter, names) for c in node.generators) and _is_constant(
            node.elt, names | targets
        )
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_constant(one, names) for one in node.elts)
    return False


def _constants(tree: ast.Module) -> set[str]:
    """The names that a module assigns once, at its top, to a constant, or imports in upper case."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names |= {
                one.asname or one.name for one in node.names if one.name.lstrip("_").isupper()
            }
        if isinstance(node, ast.Assign):
            names |= {one.id for one in node.targets if isinstance(one, ast.Name)}
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


def made_at_run_time(source: str) -> list[int]:
    """The lines that make an expression of something that is no constant."""
    tree = ast.parse(source)
    names = _constants(tree)
    found = []
    for function in ast.walk(tree):
        if isinstance(function, ast.comprehension):
            continue
        if isinstance(function, ast.Call):
            call = function.func
            if (
                isinstance(call, ast.Attribute)
                and isinstance(call.value, ast.Name)
                and call.value.id in ("re", "fnmatch", "_re")
                and (call.attr in _CALLS or call.attr == "translate")
                and not (call.value.id == "re" and call.attr == "translate")
                and function.args
                and not _is_constant(function.args[0], names | _loop_names(tree, names))
            ):
                found.append(function.lineno)
    return found


def _loop_names(tree: ast.Module, names: set[str]) -> set[str]:
    """The names that comprehensions of the module's top bind to constants."""
    found: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            for node in ast.walk(statement):
                if isinstance(node, ast.comprehension) and _is_constant(node.iter, names):
                    found |= {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    return found


def test_no_text_from_outside_becomes_an_expression() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sorted(ROOT.rglob("*.py"))
        if (lines := made_at_run_time(path.read_text()))
    }
    assert found.keys() == ALLOWED.keys(), found


@pytest.mark.parametrize(
    "text",
    [
        "import re\ndef f(x): return re.compile(x)",
        "import re\ndef f(x): return re.search('a' + x, '')",
        "import re\ndef f(x): return re.sub(f'a{x}', '', '')",
        "import re\nX = 'a'\ndef f(y): return re.compile('|'.join(re.escape(one) for one in y))",
    ],
)
def test_the_search_finds_one(text: str) -> None:
    assert made_at_run_time(text) == [len(text.splitlines())]


_USED = re.compile(
    r"\b(_?[A-Z][A-Z0-9_]*)(?:\[[^\]]*\])?\.(match|fullmatch|search|sub|subn|findall|finditer|split)\("
)


def _uses() -> dict[tuple[str, str], set[str]]:
    """How each module uses the expressions that it names: by (module, name)."""
    found: dict[tuple[str, str], set[str]] = {}
    for path in ROOT.rglob("*.py"):
        module = ".".join(("replica_client", *path.relative_to(ROOT).with_suffix("").parts))
        for name, how in _USED.findall(path.read_text()):
            found.setdefault((module.removesuffix(".__init__"), name), set()).add(how)
    return found


def _expressions() -> Iterator[tuple[str, re.Pattern[Any], set[str]]]:
    """Every expression of a module, with the ways in which it is used anywhere."""
    uses = _uses()
    seen: dict[int, tuple[str, re.Pattern[Any], set[str]]] = {}
    for module in pkgutil.walk_packages([str(ROOT)], "replica_client."):
        if ".spark" in module.name or module.name.endswith("_cython_shared"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            continue
        for name, value in vars(loaded).items():
            every = value.values() if isinstance(value, dict) else [value]
            for one in every:
                if isinstance(one, re.Pattern):
                    known = seen.setdefault(id(one), (f"{module.name}.{name}", one, set()))
                    known[2].update(uses.get((module.name, name), ()))
    yield from seen.values()


SIZE = 20_000
SECONDS = 1.5


def _hostile(expression: re.Pattern[Any]) -> Iterator[str]:
    """Long texts of what an expression is made of, which nearly match."""
    source = expression.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    letters = sorted({char for char in text if char.isprintable()} | set("a1 \t\n.,:@=-'\"`\\/(*"))
    for char in letters:
        yield char * SIZE + "\0"
    words = sorted(set(re.findall(r"[A-Za-z_]{2,}", text)))[:12]
    for word in words:
        yield f"{word} " * (SIZE // (len(word) + 1))
        for char in " (`'\"":
            yield f"{word}{char * SIZE}\0"
    for pair in (
        "a.",
        "a:",
        "a@",
        "' ",
        "''",
        '""',
        "``",
        "/*",
        "*/",
        "\\'",
        "a=",
        ", ",
        "1-",
        "a b ",
        "(a",
    ):
        yield pair * (SIZE // len(pair))


def test_every_expression_takes_linear_time() -> None:
    slow = {}
    every = list(_expressions())
    assert len(every) > 100
    assert sum(bool(uses) for _, _, uses in every) > 80
    for name, expression, uses in every:
        ways = {
            expression.search if how[0] in "s" or how[:2] == "fi" else getattr(expression, how)
            for how in uses
        }
        for text in _hostile(expression):
            data = text.encode() if isinstance(expression.pattern, bytes) else text
            begun = time.process_time()
            for way in ways or {expression.match}:
                way(data)
            if (took := time.process_time() - begun) > SECONDS:
                slow[name] = (round(took, 1), sorted(uses), text[:20])
                break
    assert slow == {}
