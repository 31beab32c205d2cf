"""Virtual environments for the programs, and runs of which the CPU seconds are counted."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
import venv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# What replica_client needs besides PyMySQL, which each program brings in a release of its own.
OURS = ("cryptography", "zstandard")
PATIENCE = 300
GRACE = 15


@dataclass(frozen=True)
class Run:
    """How a program ended.

    Attributes:
        output: what it delivered.
        cpu: seconds of its processes, start and imports included.
        fault: the last lines of its standard error, if it failed.
        parts: CPU seconds of each of its processes, if it had to be stopped.
    """

    output: str
    cpu: float
    fault: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)


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
        variables: Mapping[str, str] | None = None,
    ) -> Run:
        """Run a program to its end, or until ``is_done`` says so; its output is its standard output.

        Args:
            command: the program.
            directory: where it runs.
            is_done: that it has done its job.
            variables: of its environment, besides ours.
        """
        variables = {
            **os.environ,
            **(variables or {}),
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
            parts = cpu_of_tree(process.pid) if stopped else {}
            if stopped:
                os.killpg(process.pid, signal.SIGTERM if is_done is not None else signal.SIGKILL)
            process.wait()
            if stopped:
                end_group(process.pid)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        # A program that was stopped did not wait for those that it had started.
        cpu = max(cpu, sum(parts.values()))
        fault = ""
        if (process.returncode and not stopped) or time.monotonic() >= deadline:
            words = (complained, said)
            texts = (path.read_text(errors="replace")[-2000:] for path in words)
            fault = "\n".join((*texts, f"status {process.returncode}"))
        return Run(said.read_text(errors="replace"), cpu, fault, parts)


def cpu_of_tree(pid: int) -> dict[str, float]:
    """CPU seconds of a process and of all that it started, by number and last word of the command line."""
    parents: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        child = int(path.parent.name)
        parents.setdefault(int(fields[1]), []).append(child)
        ticks[child] = sum(map(int, fields[11:15]))
    found, left, second = {}, [pid], os.sysconf("SC_CLK_TCK")
    while left:
        one = left.pop(0)
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{one}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
            name = words[-1].decode(errors="replace")
            found[f"{len(found)} {name}"] = ticks.get(one, 0) / second
        left += sorted(parents.get(one, []))
    return found


def end_group(group: int) -> None:
    """End what is left of a group of processes that were asked to end."""
    deadline = time.monotonic() + GRACE
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except OSError:
            return
        time.sleep(0.2)
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
