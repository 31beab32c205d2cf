"""``replica-client pipeline`` as a process that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from replica_client.errors import ReplicaClientError

_STOP_TIMEOUT = 10


class PipelineProcess:
    """A running pipeline: Python, Java and its workers, in a process group of their own."""

    def __init__(self, config: Path) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "replica_client", "pipeline", "--json", str(config)],
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

    def result(self) -> dict[str, Any]:
        """What it printed in the end.

        Raises:
            ReplicaClientError: it failed; with its error line.
        """
        status = self._process.wait()
        if status:
            lines = _text(self._errors).splitlines()
            said = lines[-1] if lines else f"exit status {status}"
            raise ReplicaClientError(
                f"the pipeline failed: {said.removeprefix('replica-client: ')}"
            )
        value: dict[str, Any] = json.loads(_text(self._said))
        return value


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()


@contextmanager
def pipeline_process(config: Path) -> Iterator[PipelineProcess]:
    """A pipeline that does not outlive the block."""
    process = PipelineProcess(config)
    try:
        yield process
    finally:
        process.kill()
