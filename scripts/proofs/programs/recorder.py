"""What stands for a Meilisearch: takes documents over its HTTP interface and keeps them."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Recorder:
    """Documents of all indexes, by index and ``id``; a server on loopback while the context lasts.

    Attributes:
        documents: by index and id.
        last: when the last request came, by the monotonic clock; 0 before the first.
    """

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.last = 0.0
        self._lock = threading.Lock()
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                pass

            def _answer(self) -> None:
                size = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(size)) if size else None
                recorder._take(self.command, self.path.partition("?")[0], body)
                task = {
                    "taskUid": 1,
                    "indexUid": "x",
                    "status": "enqueued",
                    "type": "documentAdditionOrUpdate",
                }
                data = json.dumps(task | {"enqueuedAt": "2026-01-01T00:00:00Z"}).encode()
                self.send_response(202)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_PUT = do_DELETE = _answer

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def _take(self, method: str, path: str, body: Any) -> None:
        _, _, index, _, *rest = path.split("/")
        with self._lock:
            if rest == ["delete-batch"]:
                for key in body:
                    self.documents.pop((index, str(key)), None)
            else:
                for document in body:
                    key = index, str(document["id"])
                    old = self.documents.get(key, {}) if method == "PUT" else {}
                    self.documents[key] = old | document
            self.last = time.monotonic()

    def is_idle(self, count: int) -> bool:
        """Whether so many documents are there, and nothing came for two seconds."""
        return len(self.documents) == count and time.monotonic() - self.last > 2

    def text(self) -> str:
        """All documents, one a line."""
        lines = (json.dumps([*key, found], sort_keys=True) for key, found in self.documents.items())
        return "\n".join(sorted(lines))

    def __enter__(self) -> Recorder:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._server.shutdown()
        self._server.server_close()
