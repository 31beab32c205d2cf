"""ClickHouse's engine (chdb) behind ClickHouse's HTTP interface, as far as clickhouse-connect uses it.

clickhouse_engine.py PORT DIRECTORY
"""

from __future__ import annotations

import gzip
import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from chdb import session

PORT, DIRECTORY = int(sys.argv[1]), sys.argv[2]
ENGINE = session.Session(DIRECTORY)
LOCK = threading.Lock()
_INSERT = re.compile(rb"(?is)\s*(INSERT\s+INTO\s+.*?)\s+FORMAT\s+(\w+)[ \t]*\n?")
_FORMAT = re.compile(r"(?is)\bFORMAT\s+(\w+)\s*;?\s*$")


def _inflated(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.decompress(body)
    if encoding == "zstd":
        import zstandard

        return zstandard.ZstdDecompressor().decompressobj().decompress(body)
    if encoding == "lz4":
        import lz4.frame

        inflated: bytes = lz4.frame.decompress(body)
        return inflated
    return body


def answer(query: bytes, default: str) -> bytes:
    """What a query gives, in the format that it names."""
    insert = _INSERT.match(query)
    with LOCK:
        if insert is not None:
            with tempfile.NamedTemporaryFile(suffix=".data") as file:
                file.write(query[insert.end() :])
                file.flush()
                kind = insert[2].decode()
                ENGINE.query(f"{insert[1].decode()} SELECT * FROM file('{file.name}', '{kind}')")
            return b""
        text = query.decode()
        named = _FORMAT.search(text)
        given = text[: named.start()] if named is not None else text
        found = ENGINE.query(given, named[1] if named is not None else default)
        result: bytes = found.bytes() or b""
        return result


class Handler(BaseHTTPRequestHandler):
    """One request, one query."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _serve(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(size)
        body = _inflated(body, self.headers.get("Content-Encoding", ""))
        named = dict(parse_qsl(urlsplit(self.path).query))
        query = named.get("query", "").encode()
        query = query + b"\n" + body if query and body else query or body
        try:
            found, status = answer(query, named.get("default_format", "TabSeparated")), 200
        except Exception as error:  # noqa: BLE001 - whatever the engine says is the answer
            print(query[:500], error, file=sys.stderr, flush=True)
            found, status = str(error).encode(), 500
        self.send_response(status)
        self.send_header("X-ClickHouse-Server-Display-Name", "chdb")
        if status != 200:
            code = re.search(rb"Code: (\d+)", found)
            self.send_header("X-ClickHouse-Exception-Code", code[1].decode() if code else "1")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    do_GET = do_POST = _serve


if __name__ == "__main__":
    Path(DIRECTORY).mkdir(exist_ok=True)
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
