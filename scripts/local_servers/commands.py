"""Running other programs, with the reason in one line when they fail."""

import os
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
        done = subprocess.run(
            [str(part) for part in command],
            input=feed,
            stdin=subprocess.DEVNULL if feed is None else None,
            capture_output=True,
            timeout=timeout,
            cwd=cwd,
            env={**os.environ, "PATH": search_path(), **(env or {})},
            check=False,
        )
    except FileNotFoundError:
        raise ServersError(f"{doing}: the program {program} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ServersError(f"{doing}: {program} did not finish in {timeout:.0f} s") from None
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        said = (done.stderr.decode(errors="replace").strip() or output.strip()).splitlines()
        telling = [line for line in said if "rror" in line or line.startswith("E:")] or said[-1:]
        reason = "; ".join(line.strip() for line in telling[:2]) or "it said nothing"
        raise ServersError(f"{doing}: {program} exited with status {done.returncode}: {reason}")
    return output
