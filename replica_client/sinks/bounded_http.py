"""HTTP requests with bounded answers.

Every sink and exporter sends its requests through this module. A receiver must not exhaust the
memory or the time of the service. Requests ask for uncompressed answers, and a compressed answer is
refused. At most ``limit`` bytes of a body are read. One deadline covers the whole request, from the
connection to the last byte, so that a receiver cannot keep a request alive by sending a byte now
and then.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from typing import Any, Final

import httpx

from replica_client.errors import ConfigError

SHORT_ANSWER: Final = 16 << 10
"""Maximum bytes read of an answer of which only the status matters."""
LONG_ANSWER: Final = 256 << 20
"""Maximum bytes of an answer that holds rows or documents."""
_IDENTITY: Final = ("", "identity")


async def exchange(
    client: httpx.AsyncClient,
    request: httpx.Request,
    *,
    seconds: float,
    limit: int = SHORT_ANSWER,
    whole: bool = False,
) -> httpx.Response:
    """Send a request and read its answer within the limits.

    Args:
        client: the client that sends the request.
        request: the request, built by the client.
        seconds: time limit of the whole request.
        limit: maximum bytes read of the answer's body.
        whole: raise an error if the body is longer; otherwise the rest stays unread.

    Raises:
        httpx.TransportError: no answer came in time, or the answer is malformed,
                compressed or too long.
    """
    request.headers["Accept-Encoding"] = "identity"
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            answer = await client.send(request, stream=True)
            try:
                if answer.headers.get("Content-Encoding", "").strip().lower() not in _IDENTITY:
                    raise httpx.RemoteProtocolError("the answer is compressed", request=request)
                async for part in answer.aiter_raw():
                    parts.append(part[: limit + 1 - size])
                    size += len(parts[-1])
                    if size > limit:
                        break
            finally:
                await answer.aclose()
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer within {seconds:g} s", request=request) from None
    if whole and size > limit:
        raise httpx.RemoteProtocolError(f"the answer has more than {limit} bytes", request=request)
    headers = [one for one in answer.headers.raw if one[0].lower() not in _OF_TRANSFER]
    return httpx.Response(
        answer.status_code,
        headers=headers,
        content=b"".join(parts)[:limit],
        request=request,
        extensions={"reason_phrase": answer.extensions.get("reason_phrase", b"")},
    )


_OF_TRANSFER: Final = (b"transfer-encoding", b"content-length", b"content-encoding")


class BoundedTransport(httpx.BaseTransport):  # type: ignore[misc]
    """A synchronous httpx transport that sends its requests from an event loop in a thread.

    Args:
        seconds: time limit of a request.
        limit: maximum bytes of an answer; None: ``LONG_ANSWER``.
        given: further arguments of :class:`httpx.AsyncClient`.
    """

    def __init__(self, *, seconds: float, limit: int | None = None, **given: Any) -> None:
        self._seconds = seconds
        self._limit = LONG_ANSWER if limit is None else limit
        self._loop = asyncio.new_event_loop()
        self._running: Future[Any] | None = None
        self._aborted = False
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="replica_client http", daemon=True
        )
        self._thread.start()
        self._client = httpx.AsyncClient(timeout=seconds, **given)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        made = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        return self._run(
            exchange(self._client, made, seconds=self._seconds, limit=self._limit, whole=True)
        )

    def abort(self) -> None:
        """Make the running request and all later ones fail; called from another thread."""
        self._aborted = True
        running = self._running
        if running is not None:
            running.cancel()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._aborted = False
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        running = self._running = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self._aborted:
            running.cancel()
        try:
            return running.result()
        except CancelledError:
            raise httpx.ReadError("the request was given up") from None
        finally:
            self._running = None


def trusting(ca: str, what: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in a file.

    Args:
        ca: path of the PEM file.
        what: name of the option, for error messages.

    Raises:
        ConfigError: the file cannot be read, or has no certificates; the message names the option.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"{what}: {ca}: {error.strerror or error}") from None
