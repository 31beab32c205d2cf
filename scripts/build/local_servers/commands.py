"""Running other programs, with the reason in one line when they fail."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from local_servers.faults import ServersError


def search_path() -> str:
    """Where programs are looked for: also where a user's PATH may leave out root's programs."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/local/sbin:/usr/sbin:/sbin"


def run(
    command: Sequence[str | Path],
    *,
    doing: str,
    timeout: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    feed: bytes | None = None,
) -> str:
    """Runs a program and returns its output; `doing` names the step in the error."""
    program = str(command[0])
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL if feed is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, "PATH": search_path(), **(env or {})},
            start_new_session=True,
        )
    except FileNotFoundError:
        raise ServersError(f"{doing}: the program {program} is not installed") from None
    with process:
        try:
            stdout, stderr = process.communicate(feed, timeout=timeout)
        except BaseException as error:
            # What the program itself started must not go on either.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise ServersError(
                    f"{doing}: {program} did not finish in {timeout:.0f} s"
                ) from None
            raise
    output = stdout.decode(errors="replace")
    if process.returncode:
        said = (stderr.decode(errors="replace").strip() or output.strip()).splitlines()
        telling = [line for line in said if "rror" in line or line.startswith("E:")] or said[-1:]
        reason = "; ".join(line.strip() for line in telling[:2]) or "it said nothing"
        raise ServersError(f"{doing}: {program} exited with status {process.returncode}: {reason}")
    return output
