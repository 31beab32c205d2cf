"""Virtual environments for the programs, and runs of which the CPU seconds are counted."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What replica_client needs besides PyMySQL, which each program brings in a release of its own.
OURS = ("cryptography", "zstandard")
PATIENCE = 300


@dataclass(frozen=True)
class Run:
    """How a program ended.

    Attributes:
        output: what it delivered.
        cpu: seconds of its processes, start and imports included.
        fault: the last lines of its standard error, if it failed.
    """

    output: str
    cpu: float
    fault: str = ""


class Environment:
    """A virtual environment.

    Args:
        directory: where it is, or is made.
        packages: requirements of the program.
    """

    def __init__(self, directory: Path, packages: Sequence[str]) -> None:
        self.bin = directory / "bin"
        self.python = self.bin / "python"
        if not self.python.exists():
            venv.create(directory, with_pip=True)
            command = [self.python, "-m", "pip", "install", "--quiet", *packages, *OURS]
            subprocess.run(command, check=True)

    def command(self, ours: bool, *program: str, options: Sequence[str] = ()) -> list[str]:
        """The command line of a program, with the original or with the shim.

        Args:
            ours: with the shim.
            program: a script and its arguments.
            options: of the shim.
        """
        shim = ("-m", "replica_client.compat", "run", *options) if ours else ()
        return [str(self.python), *shim, *program]

    def run(
        self,
        command: Sequence[str],
        directory: Path,
        *,
        is_done: Callable[[], bool] | None = None,
    ) -> Run:
        """Run a program to its end, or until ``is_done`` says so; its output is its standard output."""
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "0",  # the order of sets
            "PYTHONWARNINGS": "ignore",
            "REPLICA_CLIENT_IMPL": "compiled",
        }
        said, complained = directory / "stdout", directory / "stderr"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with said.open("wb") as out, complained.open("wb") as err:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=variables,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < deadline:
                if is_done is not None and is_done():
                    break
                time.sleep(0.2)
            stopped = process.poll() is None
            if stopped:
                os.killpg(process.pid, signal.SIGTERM if is_done is not None else signal.SIGKILL)
            process.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        fault = ""
        if (process.returncode and not stopped) or time.monotonic() >= deadline:
            fault = complained.read_text(errors="replace")[-2000:] or f"status {process.returncode}"
        return Run(said.read_text(errors="replace"), cpu, fault)


def interpreter() -> str:
    """The one that runs this."""
    return sys.executable
