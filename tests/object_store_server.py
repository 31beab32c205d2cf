"""A program: moto's S3 on a free port, which it prints; ends when its standard input does.

Names of buckets choose what goes wrong: ``careless-…`` ignores conditions of writes, as some stores that speak
S3 do; ``flaky-…`` fails every third request with 503, and answers every seventh that writes only after it
wrote, with 500; ``cut-…`` cuts connections: by chance, before a request is looked
at, behind what it wrote, and in the middle of an answer; ``slow-…`` answers 20 ms later, as a store that is
reached by a network does.
"""

import contextlib
import itertools
import os
import random
import socket
import sys
import threading
import time

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

_CONDITIONS = ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH")


class Faults:
    def __init__(self, app):
        self._app = app
        self._counts = itertools.count(1)
        self._writes = itertools.count(1)
        self._chance = random.Random(1)

    def __call__(self, environ, start_response):
        bucket = environ["PATH_INFO"].split("/")[1]
        writes = (
            environ["REQUEST_METHOD"] in ("PUT", "POST") and environ["PATH_INFO"].count("/") > 1
        )
        if bucket.startswith("careless-") and writes:
            for name in _CONDITIONS:
                environ.pop(name, None)
        if bucket.startswith("flaky-") and writes and next(self._writes) % 7 == 0:
            list(self._app(environ, lambda *_: None))
            start_response("500 Internal Server Error", [])
            return [b"<Error><Code>InternalError</Code></Error>"]
        if bucket.startswith("flaky-") and next(self._counts) % 3 == 0:
            start_response("503 Slow Down", [])
            return [b"<Error><Code>SlowDown</Code></Error>"]
        if bucket.startswith("slow-"):
            time.sleep(0.02)
        if bucket.startswith("cut-"):
            return self._cut(environ, start_response, writes)
        return self._app(environ, start_response)

    def _cut(self, environ, start_response, writes):
        connection = environ["werkzeug.socket"]
        if self._chance.random() < 0.03:
            connection.shutdown(socket.SHUT_RDWR)
            start_response("500 Internal Server Error", [])
            return []
        if writes and self._chance.random() < 0.1:
            list(self._app(environ, lambda *_: None))
            connection.shutdown(socket.SHUT_RDWR)
            start_response("500 Internal Server Error", [])
            return []
        answer = self._app(environ, start_response)
        if environ["REQUEST_METHOD"] != "GET" or self._chance.random() > 0.04:
            return answer
        return self._half(b"".join(answer), connection)

    @staticmethod
    def _half(body, connection):
        yield body[: len(body) // 2]
        with contextlib.suppress(OSError):  # the other side may have gone already
            connection.shutdown(socket.SHUT_RDWR)


class Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_):
        pass


def main():
    app = Faults(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
