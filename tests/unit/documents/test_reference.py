"""The parts of the pages that are made from the code can be made, and every page asks for known ones."""

from __future__ import annotations

import re

import pytest

from tests.unit.documents.pages import PAGES, ROOT

pytest.importorskip("pyspark", reason="some tables are Spark's")
from reference_pages.parts import PARTS, REQUEST

ASKED = {match[1] for page in PAGES for match in REQUEST.finditer((ROOT / page).read_text("utf-8"))}


def test_every_part_is_asked_for() -> None:
    assert set(PARTS) == ASKED


@pytest.mark.parametrize("name", PARTS)
def test_a_part_has_rows_without_empty_cells(name: str) -> None:
    text = PARTS[name]()
    assert len(text) > 200
    meanings = [line.split(" | ")[-1] for line in text.splitlines() if line.startswith("|")]
    assert all(re.search(r"\w", cell) or cell.startswith("---") for cell in meanings), text
