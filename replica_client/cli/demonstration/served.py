"""The processes of the demo."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from replica_client import testing
from replica_client.errors import ReplicaClientError
from replica_client.rows.row_change import Change
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.testing.source import BinlogSource

DATA = Path(testing.__file__).parent / "data"


class ServedBinlog:
    """The shipped binlog files, their first one served at first.

    Attributes:
        files: both parts, in order.
        expected: what the server that wrote them answered to SELECT in the end.
        url: of the source, with the password of a user that only this source knows.
    """

    def __init__(self) -> None:
        self.expected: dict[str, Any] = json.loads((DATA / "expected.json").read_text("utf-8"))
        self.files = [DATA / name for name in self.expected["files"]]
        self.url = ""
        self._source: BinlogSource | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def changes(self, part: int | None = None) -> list[Change]:
        """Return the row changes in a part, or in all files, read straight from them."""
        files = self.files if part is None else [self.files[part]]
        return list(open_binlog(files).changes())

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the first file on loopback while the block runs."""
        loop = self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="demo source", daemon=True)
        thread.start()
        try:
            self._source = asyncio.run_coroutine_threadsafe(self._open(), loop).result()
            self.url = self._source.url
            yield
        finally:
            if self._source is not None:
                asyncio.run_coroutine_threadsafe(self._source.close(), loop).result(5)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)

    async def _open(self) -> BinlogSource:
        # This login alone needs no package of cryptography, for which the demo would wait.
        source = BinlogSource(self.files[0], auth_plugin="mysql_native_password")
        await source.start()
        return source

    def add_rest(self) -> None:
        """Add the other files to the source."""
        assert self._source is not None
        assert self._loop is not None
        for file in self.files[1:]:
            self._loop.call_soon_threadsafe(self._source.add_file, file)


_STOP_TIMEOUT = 10


class ClientProcess:
    """A running command: Python, and Java and its workers if it has them, in a process group of their own.

    Args:
        arguments: of ``replica-client``, the subcommand first.
        output: what it prints goes to this file; without it :meth:`result` has it.
    """

    def __init__(self, arguments: Sequence[str], output: Path | None = None) -> None:
        self._name = arguments[0]
        self._said: IO[bytes] = (
            tempfile.TemporaryFile() if output is None else output.open("w+b")  # noqa: SIM115
        )
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "replica_client", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to all of it: no process of it can tidy up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_STOP_TIMEOUT)

    def wait(self) -> None:
        """Wait for its end.

        Raises:
            ReplicaClientError: it failed; with its error line.
        """
        status = self._process.wait()
        if status:
            lines = _text(self._errors).splitlines()
            said = lines[-1] if lines else f"exit status {status}"
            raise ReplicaClientError(
                f"{self._name} failed: {said.removeprefix('replica-client: ')}"
            )

    def result(self) -> dict[str, Any]:
        """Return the JSON object that it printed in the end.

        Raises:
            ReplicaClientError: it failed; with its error line.
        """
        self.wait()
        value: dict[str, Any] = json.loads(_text(self._said))
        return value


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()


@contextmanager
def client_process(arguments: Sequence[str], output: Path | None = None) -> Iterator[ClientProcess]:
    """Run a command that ends with the block."""
    process = ClientProcess(arguments, output)
    try:
        yield process
    finally:
        process.kill()
