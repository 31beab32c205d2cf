"""The sink that a page shows stands the test that the page shows."""

import asyncio
from typing import Any

from tests.unit.documents.pages import blocks, run

_names: dict[str, Any] = {"asyncio": asyncio}
for _block in blocks("python"):
    if _block.page.name == "sinks.md":
        run(_block.text, _names, str(_block))

# Collected here with all that it inherits.
TestTheSinkOfThePage = type("TestTheSinkOfThePage", (_names["TestLineSink"],), {})
