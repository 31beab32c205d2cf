"""Pages and messages use the field's verbs: a server reports, a binlog records, a page explains."""

import ast
import re
from collections.abc import Iterator

from tests.package_sources import nodes, sources
from tests.unit.documents.pages import ROOT

ODD = re.compile(
    r"\b(nothing tells|tells? of|(binlog|event|source|server|text) (does not tell|tells)|put over|told otherwise"
    r"|one of whose|(begin|begins|start|starts|set) (it )?anew|in no binlog|goes? on on)\b"
)


def messages(path: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that are not docstrings."""
    spoken = {
        id(node.value)
        for node in nodes()[path]
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in nodes()[path]:
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in spoken
        ):
            yield node.lineno, node.value


def test_pages_and_messages_have_none_of_the_odd_phrases() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs" / "content").rglob("*.md")]
    found = [
        f"{path.name}: {one[0]}"
        for path in pages
        for one in ODD.finditer(" ".join(path.read_text(encoding="utf-8").split()))
    ]
    for module, source in sources().items():
        if ODD.search(source):
            for line, text in messages(module):
                found += [f"{module}:{line}: {one[0]}" for one in ODD.finditer(text)]
    assert not found


BEGINNINGS = re.compile(
    r"(What|Whether|Let|Lets|Have|Has|Had|The same|Those|As :|Of|How|Where|Nothing)\b"
)


def test_docstrings_of_functions_begin_with_a_verb() -> None:
    """The texts of ``replica_client.cli`` are help texts, with a form of their own."""
    found = []
    for module, inside in nodes().items():
        if module.startswith("cli/"):
            continue
        for node in inside:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if any("property" in ast.unparse(one) for one in node.decorator_list):
                    continue
                text = ast.get_docstring(node) or ""
                if BEGINNINGS.match(text):
                    found.append(f"{module}:{node.lineno}: {text.splitlines()[0]}")
    assert not found
