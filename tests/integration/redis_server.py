"""A Redis of the test's own: a process on a socket file, ended by its id."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

from redis import Redis
from redis.exceptions import RedisError

from tests.servers.plugin import unavailable

START_TIMEOUT = 30


class RedisServer:
    """A running redis-server that writes every change to disk before it answers."""

    def __init__(self, directory: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            unavailable("redis-server is not installed (Debian's package redis-server)")
        self._program = program
        self._directory = directory
        self.socket = directory / "redis.sock"
        self.url = f"unix://{self.socket}?db=0"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start, on what the last one left."""
        options = {
            "port": "0",
            "unixsocket": str(self.socket),
            "dir": str(self._directory),
            "appendonly": "yes",
            "appendfsync": "always",
            "save": "",
        }
        given = [part for name, value in options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen(
            [self._program, *given], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                with self.client() as client:
                    client.ping()
                return
            except RedisError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def client(self) -> Redis:
        """A connection of the test's own."""
        return Redis(unix_socket_path=str(self.socket))

    def kill(self) -> None:
        """End it as a crash would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(60)

    def stop(self) -> None:
        """End it."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(60)
