"""What pages say of the code in words: messages, files, positions, formats."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from replica_client.protocol.position import Position
from replica_client.stream.position.stores.base import decode_checkpoint
from tests.package_sources import nodes
from tests.unit.documents.pages import PACKAGE, PAGES, ROOT, blocks

CONTENT = ROOT / "docs/content"


def page(name: str) -> str:
    return (CONTENT / name).read_text(encoding="utf-8")


def texts_of_the_code() -> str:
    """Every text in the package; what is put into one stands there as an ellipsis."""
    found: list[str] = []
    for inside in nodes().values():
        for node in inside:
            if isinstance(node, ast.JoinedStr):
                found.append(
                    "".join(
                        part.value if isinstance(part, ast.Constant) else "…"  # type: ignore[misc]
                        for part in node.values
                    )
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


MESSAGES = [
    row.split("` |")[0].removeprefix("| `")
    for row in page("how-to/troubleshooting.md").splitlines()
    if row.startswith("| `")
]


def test_every_message_of_troubleshooting_is_one_of_the_code() -> None:
    code = texts_of_the_code()
    assert len(MESSAGES) > 25
    for message in MESSAGES:
        pattern = ".*?".join(re.escape(part.strip()) for part in message.split("…"))
        assert re.search(pattern, code), message


QUESTIONS = {
    row.split(" | ")[0].removeprefix("| "): re.findall(r"`([\w/]+\.py)`", row)
    for row in page("explanation/architecture.md").splitlines()
    if row.startswith("| ") and ".py`" in row
}
MOST = {"ENUM": 5, "live `batches()`": 8, "position": 5, "lake": 6}


@pytest.mark.parametrize("question", QUESTIONS)
def test_files_that_answer_a_question_are_there(question: str) -> None:
    for name in QUESTIONS[question]:
        assert (PACKAGE / name).exists(), name


@pytest.mark.parametrize("word", MOST)
def test_a_stranger_opens_few_files(word: str) -> None:
    (question,) = [one for one in QUESTIONS if word in one]
    assert 0 < len(QUESTIONS[question]) <= MOST[word]


def test_every_module_on_the_drawing_is_there() -> None:
    drawing = (CONTENT / "images/way-of-a-byte.svg").read_text(encoding="utf-8")
    names = re.findall(r">([\w/]+\.py)<", drawing)
    assert len(names) > 12
    assert [name for name in names if not (PACKAGE / name).exists()] == []


def test_names_of_modules_stay_within_their_boxes() -> None:
    """A character of a monospace font is as wide as 0.6 of its size."""
    drawing = (CONTENT / "images/way-of-a-byte.svg").read_text(encoding="utf-8")
    box = r'<rect x="(\d+)" y="\d+" width="(\d+)" height="44".*\n.*\n'
    found = re.findall(box + r'<text x="([\d.]+)".*font-size="([\d.]+)".*>([\w/]+\.py)<', drawing)
    assert len(found) == drawing.count(".py<")
    for left, width, middle, size, name in found:
        assert float(left) + float(width) / 2 == float(middle), name
        assert len(name) * 0.6 * float(size) < float(width) - 4, name


def test_positions_as_they_are_shown_can_be_read() -> None:
    (shown,) = [
        block for block in blocks("text") if block.page.name == "files.md" and "@" in block.text
    ]
    for line in shown.text.splitlines():
        assert str(Position.parse(line)) == line


def test_a_position_file_as_it_is_shown_can_be_read() -> None:
    shown = [block for block in blocks("json") if "replica-client-position" in block.text]
    assert decode_checkpoint(shown[0].text).position == Position("binlog.000024", 1472)
    for block in blocks("json"):
        json.loads(block.text)


def test_no_drawing_or_style_fetches_anything() -> None:
    for path in [*CONTENT.rglob("*.svg"), *CONTENT.rglob("*.css"), CONTENT.parent / "mkdocs.yml"]:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|<script|<image", text), path


def test_the_figures_of_the_readme_are_those_of_the_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    speed = readme.partition("## Speed\n")[2].partition("\n## ")[0]
    rows = [line for line in speed.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert [row for row in rows if row not in page("explanation/speed.md")] == []


def test_versions_of_formats_are_those_of_the_code() -> None:
    from replica_client.archive.backup import backup_catalog as catalog
    from replica_client.stream.position.stores import base as document

    text = page("reference/files.md")
    assert f'"format": "{document._FORMAT}",\n "version": {document._VERSION}' in text
    assert f'"format": "{catalog._FORMAT}",\n "version": {catalog._VERSION}' in text


# What the glossary replaces.
OLD_WORDS = re.compile(
    r"\b(lanes?|trails?|lea(?:f|fs)|workshops?|made up|needs hands|takers?|DESIGN|INTERFACE)\b"
)


def test_pages_use_the_words_of_the_glossary() -> None:
    for name in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / name).read_text("utf-8"), flags=re.S)
        assert not (found := OLD_WORDS.search(text)), f"{name}: {found and found[0]}"


@pytest.mark.parametrize("name", [page for page in PAGES if len(page.parts) == 1], ids=str)
def test_links_of_pages_outside_the_site_lead_to_files(name: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#([\w-]+))?\)", (ROOT / name).read_text("utf-8"))
    assert links
    for path, anchor in links:
        assert (ROOT / path).exists(), path
        heads = (
            re.findall(r"^#+ (.*)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
            if anchor
            else []
        )
        assert not anchor or anchor in [
            re.sub(r"[^a-z0-9-]", "", one.lower().replace(" ", "-")) for one in heads
        ]
