"""A receiver of the sink ``http``: a server in this process that honours the key of each request, or does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import random
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "a shared key"
ARROW = "application/vnd.apache.arrow.stream"


class EventReceiver:
    """Takes requests at any path, and keeps the lines of each path.

    Args:
        honours: a request whose key was there is answered and not kept again.
        faults: how often a request fails, of 1: refused, without an answer before it is kept, and behind it.
        seed: of the faults.

    Attributes:
        lines: what was kept, by path.
        streams: the bodies that are Arrow streams, likewise.
        requests: how many came.
        faulty: how many failed.
        content_types: that requests had.
        going: cleared, it takes requests and answers none.
    """

    def __init__(self, *, honours: bool = True, faults: float = 0.0, seed: int = 1) -> None:
        self.lines: dict[str, list[str]] = {}
        self.streams: dict[str, list[bytes]] = {}
        self.requests = self.faulty = 0
        self.content_types: set[str] = set()
        self.going = threading.Event()
        self.going.set()
        self._keys: set[tuple[str, str]] = set()
        self._honours, self._faults = honours, faults
        self._chance = random.Random(seed)
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                receiver._take(self)

            def log_message(self, *given: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                # A sender that is killed resets its connections.
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self.going.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _take(self, handler: BaseHTTPRequestHandler) -> None:
        headers = handler.headers
        try:
            body = handler.rfile.read(int(headers["Content-Length"]))
            self.content_types.add(headers["Content-Type"])
        except OSError:
            return
        self.going.wait()
        with self._lock:
            self.requests += 1
            status, fault = 200, self._chance.random() < self._faults
            kind = self._chance.choice(("refused", "before", "behind")) if fault else ""
            self.faulty += fault
            if not _is_signed(headers, body):
                status = 401
            elif kind == "refused":
                status = self._chance.choice((429, 503))
            elif kind != "before":
                key = handler.path, headers["Idempotency-Key"]
                if not (self._honours and key in self._keys):
                    self._keys.add(key)
                    if headers["Content-Type"] == ARROW:
                        self.streams.setdefault(handler.path, []).append(body)
                    else:
                        self.lines.setdefault(handler.path, []).extend(body.decode().splitlines())
        if kind in ("before", "behind"):
            handler.close_connection = True
            return
        handler.send_response(status)
        if status != 200:
            handler.send_header("Retry-After", "0")
        handler.send_header("Content-Length", "0")
        handler.end_headers()


def _is_signed(headers: Any, body: bytes) -> bool:
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(KEY.encode(), text, hashlib.sha256).digest()
    return bool(headers["webhook-signature"] == "v1," + base64.b64encode(digest).decode())
