"""pytest plugin, which pytest loads where the package is installed: fixtures for tests of a consumer.

::

    async def test_rows(binlog_source):
        source = binlog_source()  # the sample files; or paths, or changes and statements
        ...  # connect to source.url
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:  # pytest loads this module in every run: the rest is imported by the fixtures
    from replica_client.testing.source import BinlogSource


class SourceThread:
    """Testing sources in an event loop of their own.

    Args:
        directory: gets the binlogs of changes that are given instead of files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._sources: list[BinlogSource] = []

    def start(self, files: Any = None, **options: Any) -> BinlogSource:
        """Start a source.

        Args:
            files: paths as :class:`BinlogSource` takes them, or a list of statements, changes and transactions as
                :func:`write_binlog` does; None: the sample files.
            options: those of :class:`BinlogSource`.
        """
        from replica_client.testing.made_changes import sample_binlogs, write_binlog
        from replica_client.testing.source import BinlogSource

        if files is None:
            files = sample_binlogs()
        elif isinstance(files, list) and not all(_is_path(one) for one in files):
            directory = self._directory / f"source-{len(self._sources)}"
            directory.mkdir()
            files = [write_binlog(directory, files)]
        source = BinlogSource(files, **options)
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


def _is_path(item: object) -> bool:
    return isinstance(item, Path) or (isinstance(item, str) and Path(item).exists())


@pytest.fixture
def binlog_source(tmp_path: Path) -> Iterator[Callable[..., BinlogSource]]:
    """``binlog_source(files, **options)`` starts a source that ends with the test."""
    thread = SourceThread(tmp_path)
    try:
        yield thread.start
    finally:
        thread.close()


@pytest.fixture
def sample_binlogs() -> list[Path]:
    """Return the paths of the two sample binlog files, which must not be changed."""
    from replica_client.testing import made_changes

    return made_changes.sample_binlogs()
