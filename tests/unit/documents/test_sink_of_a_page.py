"""The sinks that a page shows stand the tests that the page shows."""

import asyncio
from typing import Any

from tests.unit.documents.pages import blocks, run

_names: dict[str, Any] = {"asyncio": asyncio}
for _block in blocks("python"):
    if _block.page.name == "write-a-sink.md":
        run(_block.text, _names, str(_block))

# Collected here with all that it inherits.
TestTheSinkOfThePage = type("TestTheSinkOfThePage", (_names["TestQueueSink"],), {"step_stride": 5})
TestTheOtherSink = type("TestTheOtherSink", (_names["TestLineSink"],), {"step_stride": 5})
