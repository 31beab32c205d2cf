"""A small HTTP server for pages, in an event loop or a thread.

h11 reads requests; sizes, times and the number of connections are bounded.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Final

import h11

from replica_client.errors import ConfigError
from replica_client.stream.pages.page import Action, Page, Request
from replica_client.stream.transport.connect_options import listen_address

_LOG = logging.getLogger("replica_client.stream")
_MAX_REQUEST = 16 << 10
_MAX_CONNECTIONS = 64
_REQUEST_SECONDS = 5.0
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("Connection", "close"),
)


class HttpServer:
    """Serves pages by path.

    Args:
        listen: address and port.
        pages: the function that makes each page, by path.
        key: names the setting that says where to listen, for messages.
        names: host names by which browsers and scrapers may call the server, besides those of :func:`is_private_name`.
        actions: the function that answers a POST request, by path; each checks who asks.
        tls: serve HTTPS with it; None: HTTP.

    Attributes:
        port: where it listens, once started.
    """

    def __init__(
        self,
        listen: str,
        pages: Mapping[str, Callable[[], Page]],
        key: str = "listen in [daemon]",
        names: Iterable[str] = (),
        actions: Mapping[str, Action] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.host, self.port = listen_address(listen)
        self._pages, self._actions, self._tls = pages, actions or {}, tls
        self._key = key
        self._names = frozenset(name.lower() for name in (self.host, socket.gethostname(), *names))
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    @property
    def url(self) -> str:
        """The URL of the pages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self._tls else ''}://{host}:{self.port}/"

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: the address cannot be had.
        """
        try:
            self._server = await asyncio.start_server(
                self._serve, self.host, self.port, ssl=self._tls
            )
        except OSError as error:
            raise ConfigError(
                f"listen: {self.host}:{self.port}: {error.strerror or error}; set {self._key} to another address"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and abort open connections."""
        if self._server is None:
            return
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        if self._open:
            await asyncio.wait(list(self._open), timeout=_REQUEST_SECONDS)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        if len(self._open) >= _MAX_CONNECTIONS:
            # Whoever came first and says nothing, or reads nothing, gives way.
            self._open.pop(next(iter(self._open))).transport.abort()
        self._open[task] = writer
        try:
            async with asyncio.timeout(_REQUEST_SECONDS) as limit:
                await self._answer(reader, writer, limit)
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, h11.RemoteProtocolError):
            pass  # the peer's fault, and its loss
        finally:
            writer.transport.abort()  # what is not read by now stays unread
            self._open.pop(task, None)

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: asyncio.Timeout
    ) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_REQUEST)
        try:
            event = await _next_event(connection, reader)
            if not isinstance(event, h11.Request):
                return
            path = event.target.partition(b"?")[0].decode("ascii", "replace")
            action = self._actions.get(path) if event.method == b"POST" else None
            page = self._strange_name(event)
            if page is None and action is not None:
                body = await _body(connection, reader)
                if body is None:
                    page = _plain(413, f"more than {_MAX_REQUEST} bytes")
                else:
                    limit.reschedule(None)  # the action has limits of its own
                    page = await self._act(action, event, body, writer)
                    limit.reschedule(asyncio.get_running_loop().time() + _REQUEST_SECONDS)
            elif page is None:
                page = self._page(event, path)
        except h11.RemoteProtocolError as error:
            if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
                raise
            page = _plain(error.error_status_hint, "bad request")
            event = None
        headers = [
            *_HEADERS,
            ("Content-Type", page.content_type),
            ("Content-Length", str(len(page.body))),
        ]
        data = connection.send(h11.Response(status_code=page.status, headers=headers)) or b""
        if event is None or event.method != b"HEAD":
            data += connection.send(h11.Data(data=page.body)) or b""
        writer.write(data)
        await writer.drain()

    async def _act(
        self, action: Action, event: h11.Request, body: bytes, writer: asyncio.StreamWriter
    ) -> Page:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        peer = writer.get_extra_info("peername") or ("unknown",)
        try:
            return await action(Request(headers, body, str(peer[0])))
        except Exception:  # noqa: BLE001  a fault of one request is no reason to end
            _LOG.exception("the request %r failed", event.target)
            return _plain(500, "this request failed; see the log")

    def _strange_name(self, request: h11.Request) -> Page | None:
        """Return the refusal of a request by a name that is not ours; None if it is."""
        host = next((value for name, value in request.headers if name == b"host"), b"")
        name = host_name(host.decode("ascii", "replace"))
        if name in self._names or is_private_name(name):
            return None
        # A page of a stranger, in a browser here, that calls us by a name of its own (DNS rebinding).
        return _plain(
            403, f"this server is called by another name; add it to hosts, next to {self._key}"
        )

    def _page(self, request: h11.Request, path: str) -> Page:
        if request.method not in (b"GET", b"HEAD"):
            return _plain(405, "only GET and HEAD")
        make = self._pages.get(path)
        if make is None:
            return _plain(404, "no such page")
        try:
            return make()
        except Exception:  # noqa: BLE001  a fault of one page is no reason to end
            _LOG.exception("the page %r failed", request.target)
            return _plain(500, "this page failed; see the log")


async def _next_event(connection: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := connection.next_event()) is h11.NEED_DATA:
        connection.receive_data(await reader.read(_MAX_REQUEST))
    return event


async def _body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes | None:
    """Return the body of a request; None if it is too long."""
    body = b""
    while isinstance(event := await _next_event(connection, reader), h11.Data):
        body += event.data
        if len(body) > _MAX_REQUEST:
            return None
    return body


_PRIVATE_DOMAINS = (".local", ".internal", ".localhost", ".test", ".home.arpa")


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, in lower case, without its port and without the dot of the root."""
    name = host if host.endswith("]") else host.rpartition(":")[0] if ":" in host else host
    return name.removeprefix("[").removesuffix("]").removesuffix(".").lower()


def is_private_name(name: str) -> bool:
    """Return whether nobody can register a host name in the public DNS.

    An address is private in this sense, as is a name of one label (``localhost``, a container, a service of Kubernetes)
    and a name in a domain that is reserved for private networks.
    """
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(_PRIVATE_DOMAINS))
    return True


def _plain(status: int, text: str) -> Page:
    return Page(text.encode() + b"\n", "text/plain; charset=utf-8", status)


_SECONDS: Final = 30.0


@contextmanager
def served(
    listen: str, pages: Mapping[str, Callable[[], Page]], key: str, names: Iterable[str] = ()
) -> Iterator[str]:
    """Serve pages while the block runs; gives their address.

    Args:
        listen: address and port.
        pages: the function that makes each page, by path; the thread calls it.
        key: names the setting that says where to listen, for messages.
        names: host names that the pages may be called by, besides private ones.

    Raises:
        ConfigError: the address cannot be had.
    """
    started: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = HttpServer(listen, pages, key, names)
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
