"""pytest fixture ``binlog_source``: a source in a thread, for tests of any kind.

Put ``pytest_plugins = ["replica_client.testing.pytest_plugin"]`` into ``conftest.py``, then::

    def test_rows(binlog_source):
        source = binlog_source("tests/data/binlog.000001")
        ...  # connect to source.url
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from replica_client.testing.source import BinlogSource


class SourceThread:
    """Runs testing sources in an event loop of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._sources: list[BinlogSource] = []

    def start(self, *args: Any, **options: Any) -> BinlogSource:
        """Start a source; the arguments are :class:`BinlogSource`'s."""
        source = BinlogSource(*args, **options)
        asyncio.run_coroutine_threadsafe(source.start(), self._loop).result(10)
        self._sources.append(source)
        return source

    def close(self) -> None:
        """Stop all of them."""
        for source in self._sources:
            asyncio.run_coroutine_threadsafe(source.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


@pytest.fixture
def binlog_source() -> Iterator[Callable[..., BinlogSource]]:
    """``binlog_source(paths, **options)`` starts a source that ends with the test."""
    thread = SourceThread()
    try:
        yield thread.start
    finally:
        thread.close()
