"""A PostgreSQL of the test's own: a process on a free port of loopback, ended by its id."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.servers.plugin import unavailable

START_TIMEOUT = 30
USER = "postgres"


def _program(name: str) -> str:
    """A server's program, which Debian has in a directory of its version."""
    found = shutil.which(name)
    others = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if found is None and not others:
        unavailable("PostgreSQL is not installed (Debian's package postgresql)")
    return found or str(others[-1])


class PostgresServer:
    """A running PostgreSQL with the superuser ``postgres``, whom it trusts.

    Args:
        directory: for its files; short, as the path of a socket has no more than 107 bytes.
    """

    def __init__(self, directory: Path) -> None:
        self._data = directory / "data"
        # PostgreSQL does not run as root.
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._identity = {"user": USER, "group": USER, "extra_groups": []}
            directory.chmod(0o711)
            self._data.mkdir(mode=0o700)
            shutil.chown(self._data, USER, USER)
        initdb, postgres = _program("initdb"), _program("postgres")
        made = [initdb, "-D", str(self._data), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(made, check=True, capture_output=True, cwd="/", **self._identity)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        self.url = f"postgresql://{USER}:trusted@127.0.0.1:{port}/postgres"
        options = ["-k", str(self._data), "-p", port, "-c", "listen_addresses=127.0.0.1"]
        options += ["-c", "fsync=off"]
        self._command = [postgres, "-D", str(self._data), *options]
        self._ready = [_program("pg_isready"), "-q", "-h", str(self._data), "-p", port, "-U", USER]
        self.restart()

    def restart(self) -> None:
        """Start it; after a kill it recovers what was committed."""
        deadline = time.monotonic() + START_TIMEOUT
        self._process = self._started()
        while subprocess.run(self._ready, check=False).returncode:
            if time.monotonic() > deadline:
                raise TimeoutError(f"PostgreSQL did not start in {START_TIMEOUT} s")
            time.sleep(0.05)
            if self._process.poll() is not None:
                # Processes of one that was killed live a moment longer, and it does not start beside them.
                self._process = self._started()

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **self._identity,
        )

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it."""
        self._end(signal.SIGINT)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(START_TIMEOUT)
