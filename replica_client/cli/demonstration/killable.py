"""``replica-client`` as a process that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from replica_client.errors import ReplicaClientError

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
        """The JSON object that it printed in the end.

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
    """A command that does not outlive the block."""
    process = ClientProcess(arguments, output)
    try:
        yield process
    finally:
        process.kill()
