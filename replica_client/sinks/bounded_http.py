"""Requests by HTTP whose answers are bounded in bytes and time: what every sink and exporter sends goes through here.

A receiver is not trusted with the memory and the time of the service. An answer is not decompressed: none is asked for
that is, and one that is all the same is refused. No more than a limit is read of it. One deadline holds for the whole
request, from the connection to the last byte, so that a receiver cannot keep it alive with a byte now and then.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final

import httpx

SHORT_ANSWER: Final = 16 << 10
"""Bytes that are read of an answer which only matters by its status."""
LONG_ANSWER: Final = 256 << 20
"""Bytes of an answer that holds rows or documents, at most."""
_IDENTITY: Final = ("", "identity")


async def exchange(
    client: httpx.AsyncClient,
    request: httpx.Request,
    *,
    seconds: float,
    limit: int = SHORT_ANSWER,
    whole: bool = False,
) -> httpx.Response:
    """Send a request, and read its answer.

    Args:
        client: that sends it.
        request: made by the client.
        seconds: that all of it may take.
        limit: bytes of the answer's body that are read.
        whole: a body of more bytes is an error; otherwise the rest is left unread.

    Raises:
        httpx.TransportError: no answer came, not in time, or not of this form.
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
    """The transport of clients without a loop of their own: a thread has the loop that sends their requests.

    Args:
        seconds: that a request may take.
        limit: bytes of an answer, at most; None: ``LONG_ANSWER``.
        given: arguments of :class:`httpx.AsyncClient`.
    """

    def __init__(self, *, seconds: float, limit: int | None = None, **given: Any) -> None:
        self._seconds = seconds
        self._limit = LONG_ANSWER if limit is None else limit
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="replica_client http", daemon=True
        )
        self._thread.start()
        self._client = httpx.AsyncClient(timeout=seconds, **given)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See the base."""
        body = request.read()
        made = httpx.Request(request.method, request.url, headers=request.headers, content=body)
        return self._run(
            exchange(self._client, made, seconds=self._seconds, limit=self._limit, whole=True)
        )

    def close(self) -> None:
        """See the base."""
        if self._loop.is_closed():
            return
        self._run(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
