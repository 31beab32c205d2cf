"""The pages of the documentation, and the blocks of code in them.

A comment on the line before a block says what else is to be known of it::

    <!-- block: not run: WHY -->         a Python block that cannot run here
    <!-- block: spark -->                a Python block that runs where Spark is tested
    <!-- block: needs polars duckdb -->  a Python block that runs where these packages are
    <!-- block: fragment of pipeline --> keys of a configuration that is whole elsewhere
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import replica_client

ROOT = Path(__file__).parents[3]
PACKAGE = Path(replica_client.__file__).parent
DATA = PACKAGE / "testing" / "data"
PAGES = sorted(
    path.relative_to(ROOT)
    for path in (
        *(ROOT / "docs" / "content").rglob("*.md"),
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    )
    if path.exists()
)
URL = "mysql://repl:secret@db1:3306/"
"""The source of every Python block; the testing source stands in its place."""

_BLOCK = re.compile(
    r"^(?:(?P<indent> *)<!-- block: (?P<note>[^>]*) -->\n)?"
    r"(?P<fence> *)```(?P<language>\w+)\n(?P<text>.*?)^(?P=fence)```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One block of code.

    Attributes:
        page: its page, relative to the repository.
        line: where it begins.
        language: behind the three backquotes.
        note: what the comment before it says.
        text: the code.
    """

    page: Path
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """The blocks of some languages, of all pages."""
    return [block for page in PAGES for block in _blocks_of(page) if block.language in languages]


def _blocks_of(page: Path) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("language")) + 1
        code = textwrap.dedent(match["text"])
        yield Block(page, line, match["language"], match["note"] or "", code)


def furnish(directory: Path) -> None:
    """Put the files that the blocks name into a directory."""
    for path in DATA.glob("shop-bin.*"):
        shutil.copy(path, directory)
        (directory / "binlogs").mkdir(exist_ok=True)
        shutil.copy(path, directory / "binlogs")
    shutil.copy(DATA / "shop-bin.000001", directory / "binlog.000024")


def for_source(code: str, url: str) -> str:
    """The code with a source that is there, read from its start to its end.

    Two things differ from what stands on the page: the URL, and that the stream ends.
    """
    options = "" if "start=" in code else ', start="earliest"'
    options += "" if "stop_at_end" in code else ", stop_at_end=True"
    call = re.compile(r'(rc\.(?:connect|follow)\(\s*)("' + re.escape(URL) + r'"|url)(?=[,)\s])')
    code = call.sub(lambda match: f"{match[1]}{match[2]}{options}", code)
    return code.replace(URL, url)


def run(code: str, names: dict[str, object], where: str) -> None:
    """Execute a block; await is allowed outside of functions, and tests in it are called."""
    compiled = compile(code, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    before = dict(names)
    if compiled.co_flags & inspect.CO_COROUTINE:

        async def awaited() -> None:
            await asyncio.wait_for(eval(compiled, names), 60)

        asyncio.run(awaited())
    else:
        exec(compiled, names)
    for name, value in list(names.items()):
        # A test with fixtures is run by tests/unit/testing/test_made_changes.py.
        is_test = name.startswith("test_") and before.get(name) is not value
        if is_test and not inspect.signature(value).parameters:  # type: ignore[arg-type]
            if inspect.iscoroutinefunction(value):
                asyncio.run(asyncio.wait_for(value(), 60))
            elif not inspect.signature(value).parameters:  # type: ignore[arg-type]
                value()  # type: ignore[operator]
