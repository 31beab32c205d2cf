"""The testing source in a thread of its own, as servers run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import replica_client as rc
from replica_client.testing import BinlogSource
from replica_client.testing.faults import Fault

DATA = Path(rc.__file__).parent / "testing" / "data"


@contextmanager
def served(source: Path = DATA, *, faults: list[Fault] | None = None) -> Iterator[BinlogSource]:
    """A source with the package's own binlogs, or with others."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    served = BinlogSource(source, faults=faults or [])
    try:
        asyncio.run_coroutine_threadsafe(served.__aenter__(), loop).result()
        yield served
    finally:
        asyncio.run_coroutine_threadsafe(served.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
