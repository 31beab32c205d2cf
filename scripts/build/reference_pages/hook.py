"""MkDocs calls this for every page; docs/mkdocs.yml names it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference_pages.parts import with_parts


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the parts that the code makes."""
    return with_parts(markdown)
