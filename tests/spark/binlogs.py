"""The binlog that is shipped with the package, what is in it, and a source that serves it."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import replica_client as rc
from replica_client import testing
from replica_client.rows.json_values import row_to_json
from replica_client.testing import BinlogSource

ROW_OPERATIONS = ("insert", "update", "delete")
DATA = Path(testing.__file__).parent / "data"
FILES = (DATA / "shop-bin.000001", DATA / "shop-bin.000002")
ENVELOPE = (
    "_file", "_offset", "_event_index", "_row_index", "_gtid", "_commit_version",
    "database", "table", "operation", "before", "after",
)  # fmt: skip
ORDER = ("_commit_version", "_event_index", "_row_index")


def envelope_of(files: Any, **options: Any) -> list[tuple[Any, ...]]:
    """What the envelope must hold, read without Spark."""
    rows = []
    for transaction in rc.open_binlog(files, **options).transactions():
        for change in transaction.changes:
            before = None if change.before is None else row_to_json(change.before)
            after = None if change.after is None else row_to_json(change.after)
            position = (change.file, change.offset, change.event_index, change.row_index)
            version = transaction.commit_version
            content = (change.database, change.table, change.kind, before, after)
            rows.append((*position, change.gtid, version, *content))
    return rows


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The row changes of an envelope in the order of the binlog."""
    frame = frame.where(frame.operation.isin(*ROW_OPERATIONS))
    return [tuple(row) for row in frame.orderBy(*ORDER).select(*ENVELOPE).collect()]


def write_half(directory: Path) -> Path:
    """A directory with the first file."""
    directory.mkdir()
    shutil.copy(FILES[0], directory)
    return directory


class Served:
    """A testing source in a thread."""

    def __init__(self, source: BinlogSource, loop: asyncio.AbstractEventLoop) -> None:
        self.source = source
        self._loop = loop

    @property
    def url(self) -> str:
        return self.source.url

    def add_file(self, path: Path) -> None:
        self._call(self.source.add_file, path)

    def purge_to(self, name: str) -> None:
        self._call(self.source.purge_to, name)

    def drop_connections(self) -> None:
        asyncio.run_coroutine_threadsafe(self.source.disconnect_all(), self._loop).result(10)

    def _call(self, function: Any, *args: Any) -> None:
        async def call() -> None:
            function(*args)

        asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)


@contextmanager
def served(files: Any = FILES, **options: Any) -> Iterator[Served]:
    """A source that serves files while the block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> BinlogSource:
        source = BinlogSource(files, **options)
        await source.start()
        return source

    source = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield Served(source, loop)
    finally:
        asyncio.run_coroutine_threadsafe(source.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def expected_tables() -> dict[str, Any]:
    """The server's SELECT of each table."""
    document: dict[str, Any] = json.loads((DATA / "expected.json").read_text("utf-8"))
    return dict(document["tables"])
