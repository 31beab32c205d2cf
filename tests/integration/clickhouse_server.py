"""A ClickHouse of the test's own: the engine of the package chdb behind a small front that speaks its HTTP interface.

The engine is ClickHouse itself: it does all statements, keeps the files, and outlives kills. The package has no server,
so that the front is of the tests: it takes ``query`` and the body together for the statement, does one after the other,
and answers as the server does, with the texts and codes of its exceptions. It knows nothing of users, settings in an
address, compression or queries that are killed while they run.

The program: python -m tests.integration.clickhouse_server DIRECTORY PORT
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.servers.plugin import unavailable

START_TIMEOUT = 60


class ClickhouseServer:
    """A running front with its engine.

    Args:
        directory: for the engine's files.
    """

    def __init__(self, directory: Path) -> None:
        if find_spec("chdb") is None:
            unavailable("no engine of ClickHouse is installed (the package chdb)")
        self._directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        """Start it, with the files that are there."""
        root = Path(__file__).resolve().parents[2]
        module = "tests.integration.clickhouse_server"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, str(self._directory), str(self._port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=root,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.text("SELECT 1")
                return
            except httpx.TransportError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise TimeoutError(f"ClickHouse did not start in {START_TIMEOUT} s") from None
                time.sleep(0.05)

    def text(self, sql: str) -> str:
        """What a statement gives, as the server writes it.

        Raises:
            AssertionError: it is refused.
        """
        answer = httpx.post(self.url, content=sql.encode(), timeout=120)
        assert answer.status_code == 200, answer.text
        text: str = answer.text
        return text

    def kill(self) -> None:
        """End it as a kill does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(START_TIMEOUT)

    def restart(self) -> None:
        """Start it where it was killed."""
        self.start()

    def stop(self) -> None:
        """End it."""
        self.kill()


_CODE = re.compile(r"Code: (\d+)\.")


def _serve(directory: str, port: int) -> None:
    from chdb.session import Session  # only here: the engine is large

    session = Session(f"{directory}/data")
    turn = threading.Lock()

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet: the client would wait to acknowledge the first.
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            query = parse_qs(urlsplit(self.path).query).get("query", [""])[0]
            statement = f"{query}\n{body}" if query else body
            status, headers = 200, {}
            try:
                with turn:
                    answer = session.query(statement, "TabSeparated").bytes()
            except Exception as error:
                status, answer = 500, str(error).encode()
                if (code := _CODE.search(str(error))) is not None:
                    answer = str(error)[code.start() :].encode()
                    headers["X-ClickHouse-Exception-Code"] = code[1]
                    status = 404 if code[1] == "60" else 400
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass  # a client that was killed

    Server(("127.0.0.1", port), Front).serve_forever()


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    _serve(sys.argv[1], int(sys.argv[2]))
