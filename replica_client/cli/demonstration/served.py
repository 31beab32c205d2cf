"""The testing source in a thread of its own, serving the binlog that is shipped with the package."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replica_client import testing
from replica_client.readers.files.binlog_file import open_binlog
from replica_client.rows.row_change import Change
from replica_client.testing.source import BinlogSource

DATA = Path(testing.__file__).parent / "data"


class ServedBinlog:
    """The shipped binlog files, their first one served at first.

    Attributes:
        files: both parts, in order.
        expected: what the server that wrote them answered to SELECT in the end.
        url: of the source, with the password of a user that only this source knows.
    """

    def __init__(self) -> None:
        self.expected: dict[str, Any] = json.loads((DATA / "expected.json").read_text("utf-8"))
        self.files = [DATA / name for name in self.expected["files"]]
        self.url = ""
        self._source: BinlogSource | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def changes(self, part: int | None = None) -> list[Change]:
        """The row changes in a part, or in all files, read straight from them."""
        files = self.files if part is None else [self.files[part]]
        return list(open_binlog(files).changes())

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the first file on loopback while the block runs."""
        loop = self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="demo source", daemon=True)
        thread.start()
        try:
            self._source = asyncio.run_coroutine_threadsafe(self._open(), loop).result()
            self.url = self._source.url
            yield
        finally:
            if self._source is not None:
                asyncio.run_coroutine_threadsafe(self._source.close(), loop).result(5)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)

    async def _open(self) -> BinlogSource:
        source = BinlogSource(self.files[0])
        await source.start()
        return source

    def add_rest(self) -> None:
        """Let the source have its other files too."""
        assert self._source is not None
        assert self._loop is not None
        for file in self.files[1:]:
            self._loop.call_soon_threadsafe(self._source.add_file, file)
