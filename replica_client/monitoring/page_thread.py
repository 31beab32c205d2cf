"""Pages served by a thread of its own, for programs that wait for other things than their event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Final

from replica_client.monitoring.http_server import HttpServer
from replica_client.monitoring.page import Page

_SECONDS: Final = 30.0


@contextmanager
def served(listen: str, pages: Mapping[str, Callable[[], Page]], key: str) -> Iterator[str]:
    """Serve pages while the block runs; gives their address.

    Args:
        listen: address and port.
        pages: the function that makes each page, by path; the thread calls it.
        key: names the setting that says where to listen, for messages.

    Raises:
        ConfigError: the address cannot be had.
    """
    started: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = HttpServer(listen, pages, key)
        await server.start()
        started.set_result((server.url, partial(loop.call_soon_threadsafe, ended.set)))
        try:
            await ended.wait()
        finally:
            await server.close()

    def run() -> None:
        try:
            asyncio.run(serve())
        except Exception as error:  # noqa: BLE001  whoever waits for the start gets it
            if not started.done():
                started.set_exception(error)

    thread = threading.Thread(target=run, name="pages", daemon=True)
    thread.start()
    url, end = started.result()
    try:
        yield url
    finally:
        end()
        thread.join(_SECONDS)
