"""Runs pip and says what it does: a line per phase with its size, and never silence.

    PYTHON scripts/pip_progress.py DIRECTORY ARGUMENT…

DIRECTORY is that of the environment whose pip is run; its arguments follow. pip's own output is shown when it fails.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# Seconds without a line before one says that it goes on.
SILENCE = 4.0
# Smaller downloads are not worth a line.
LARGE = 10.0

_DOWNLOAD = re.compile(
    r"\s*(?:Downloading|Using cached) (\S+?)(?:\.metadata)? \(([\d.]+) ([kMG]?)B\)"
)
_BUILD = re.compile(r"\s*Building (?:wheel|editable) for (\S+) \(\S+\): started")
_METADATA = re.compile(r"\s*Preparing (editable )?metadata \(\S+\): started")
_MEGABYTES = {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}


def phase(line: str) -> tuple[str, bool] | None:
    """What a line of pip's begins, and whether it is worth a line of ours."""
    if found := _DOWNLOAD.match(line):
        name, size = found[1].rpartition("/")[2], float(found[2]) * _MEGABYTES[found[3]]
        shown = f" ({size:.0f} MB)" if size >= 1 else ""
        return f"unpacking {name}{shown}", size >= LARGE
    if found := _BUILD.match(line):
        return f"building {found[1]}", True
    if found := _METADATA.match(line):
        # hatchling builds for that, too.
        return f"building {_this_package() if found[1] else 'a package'}", bool(found[1])
    if line.startswith("Collecting "):
        return f"looking for {line.split()[1]}", False
    if line.startswith("Installing collected packages: "):
        names = line.partition(": ")[2].split(", ")
        return f"installing {len(names)} packages", len(names) > 1
    return None


def _this_package() -> str:
    """What the build hook does: compiling takes most of a minute."""
    if os.environ.get("REPLICA_CLIENT_BUILD") == "python":
        return "this package as plain Python"
    return "this package, and compiling it where there is a C compiler"


def megabytes(directory: Path) -> float:
    """The size of what is in a directory now."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # it was a temporary one
    return total / 1e6


def lines_of(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """The lines of a process, and None now and then where none comes."""
    lines: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=SILENCE / 8)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


def main(directory: Path, arguments: list[str]) -> int:
    """Run pip; returns its exit status."""
    began = said = time.monotonic()
    doing = "starting pip"
    everything: list[str] = []
    # Inside the environment, so that its size tells of all that pip does.
    temporary = directory / ".pip"
    temporary.mkdir(exist_ok=True)
    command = [directory / "bin" / "python", "-m", "pip", *arguments]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(temporary.resolve()), "PIP_PROGRESS_BAR": "off"},
    )

    def say(what: str) -> None:
        nonlocal said
        said = time.monotonic()
        print(f"  {said - began:3.0f} s  {what}", file=sys.stderr, flush=True)

    try:
        for line in lines_of(process):
            everything.append(line or "")
            found = phase(line) if line else None
            if found:
                doing = found[0]
                if found[1]:
                    say(doing)
            if time.monotonic() - said >= SILENCE:
                say(f"{doing} … ({megabytes(directory):.0f} MB written)")
        status = process.wait()
    finally:
        process.kill()
        with process:  # closes its pipe
            pass
        shutil.rmtree(temporary, ignore_errors=True)
    if status:
        sys.stderr.write("".join(everything))
    else:
        say(f"done ({megabytes(directory):.0f} MB on disk)")
    return status


if __name__ == "__main__":
    try:
        raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
