"""Installs packages into an environment and says what is done: a line per phase with its size, and never silence.

    PYTHON scripts/build/install_packages.py DIRECTORY REQUIREMENT…

DIRECTORY is that of the environment. Requirements are what ``pip install`` takes, ``--editable`` and ``-r`` too.

uv does it where it can be had: it unpacks many packages at once, in a quarter of pip's time. It is given pip's
configuration, which names the index of a company, say. Where uv fails, pip does it. What failed is shown.

With REPLICA_CLIENT_LOCKED set, as in the workflows, versions and hashes are those of locked.txt, also of what builds.
Then only uv does it, and it is itself installed by its hash. ``uv pip compile`` makes that file of pyproject.toml and
of a file that names uv: --extra dev, recipes and release, --universal, --generate-hashes, --no-annotate, --no-header.
"""

from __future__ import annotations

import ast
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

# Seconds without a line before one says that it goes on.
SILENCE = 4.0
# Smaller downloads are not worth a line.
LARGE = 10.0

_UV = "uv>=0.8,<1"
LOCKED = Path(__file__).with_name("locked.txt")
_STORED = "--config-setting=--build-option=--compression=stored"
_NO_BAR = {"PIP_PROGRESS_BAR": "off"}
# Settings of pip, and the variables that tell uv the same.
_SETTINGS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "no-index": "UV_NO_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "timeout": "UV_HTTP_TIMEOUT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}

_DOWNLOAD = re.compile(
    r"\s*(?:Downloading|Using cached) (\S+?)(?:\.metadata)? \(([\d.]+) ?([kKMG]?)i?B\)"
)
_BUILD = re.compile(r"\s*Building (?:wheel|editable) for (\S+) \(\S+\): started")
_UV_BUILD = re.compile(r"\s*(Building|Built) ([\w.-]+)(?:==| @ )")
_METADATA = re.compile(r"\s*Preparing (editable )?metadata \(\S+\): started")
_PREPARED = re.compile(r"Prepared (\d+) packages? ")
_MEGABYTES = {"": 1e-6, "k": 1e-3, "K": 1e-3, "M": 1.0, "G": 1e3}


def phase(line: str) -> tuple[str, bool] | None:
    """What a line of pip's or uv's begins, and whether it is worth a line of ours."""
    if found := _DOWNLOAD.match(line):
        name, size = found[1].rpartition("/")[2], float(found[2]) * _MEGABYTES[found[3]]
        shown = f" ({size:.0f} MB)" if size >= 1 else ""
        return f"unpacking {name}{shown}", size >= LARGE
    if found := _BUILD.match(line):
        return f"building {_built(found[1])}", True
    if found := _UV_BUILD.match(line):
        return f"building {_built(found[2])}" if found[
            1
        ] == "Building" else f"built {found[2]}", True
    if found := _METADATA.match(line):
        # hatchling builds for that, too.
        return f"building {_built('replica-client') if found[1] else 'a package'}", bool(found[1])
    if line.startswith("Collecting "):
        return f"looking for {line.split()[1]}", False
    if line.startswith("Installing collected packages: "):
        names = line.partition(": ")[2].split(", ")
        return f"installing {len(names)} packages", len(names) > 1
    if found := _PREPARED.match(line):
        return f"installing {found[1]} packages", int(found[1]) > 1
    return None


def _built(package: str) -> str:
    """What the build hook does to this package: compiling takes most of a minute."""
    if package != "replica-client":
        return package
    if os.environ.get("REPLICA_CLIENT_BUILD") == "python":
        return "replica-client as plain Python"
    return "replica-client, and compiling it where there is a C compiler"


def settings_for_uv(listed: str) -> dict[str, str]:
    """Environment variables that tell uv what ``pip config list`` printed; those that are set stay."""
    # pip believes the certificates of the system, too; newer and older names of it.
    settings = {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, setting = name.rpartition(".")
        variable = _SETTINGS.get(setting)
        if variable is None or section not in ("global", "install", ":env:"):
            continue
        # pip has one of several in a line or between spaces; uv takes spaces, and commas for links.
        words = str(ast.literal_eval(value)).split()
        settings[variable] = ("," if variable == "UV_FIND_LINKS" else " ").join(words)
    if "UV_INDEX" in settings:
        # As pip: the best version of all indexes, not of the first that has the package.
        settings["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return {name: value for name, value in settings.items() if name not in os.environ}


def _pip(directory: Path) -> list[str]:
    return [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


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


class Progress:
    """Lines on stderr with the seconds since the begin."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()

    def say(self, what: str) -> None:
        """Print a line."""
        self._said = time.monotonic()
        print(f"  {self._said - self._began:3.0f} s  {what}", file=sys.stderr, flush=True)

    @property
    def is_silent(self) -> bool:
        """Whether it is time to say that the work goes on."""
        return time.monotonic() - self._said >= SILENCE


def run(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, progress: Progress
) -> tuple[int, str]:
    """Run pip or uv and say what it does; returns its status and all that it printed."""
    doing = "looking for packages"
    building: set[str] = set()
    everything: list[str] = []
    # Inside the environment, so that its size tells of all that is done.
    temporary = directory / ".unpacked"
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(temporary.resolve()), **environment},
    )
    try:
        for line in lines_of(process):
            everything.append(line or "")
            found = phase(line) if line else None
            if found:
                doing = found[0]
                if found[1]:
                    progress.say(doing)
            if line and (built := _UV_BUILD.match(line)):
                # Several at a time, beside the downloads.
                (building.add if built[1] == "Building" else building.discard)(built[2])
            if progress.is_silent:
                now = f"building {' and '.join(sorted(building))}" if building else doing
                progress.say(f"{now} … ({megabytes(directory):.0f} MB written)")
        return process.wait(), "".join(everything)
    finally:
        process.kill()
        with process:  # closes its pipe
            pass
        shutil.rmtree(temporary, ignore_errors=True)


def locked(name: str) -> str:
    """The lines of locked.txt with a package, its version and its hashes."""
    found = re.search(rf"^{re.escape(name)}==(?:.*\\\n)*.*\n", LOCKED.read_text(), re.MULTILINE)
    if found is None:
        raise LookupError(f"{LOCKED}: {name} is not there")
    return found[0]


def find_uv(directory: Path, progress: Progress) -> Path | None:
    """The uv of this machine, or one installed into the environment; None where it cannot be had."""
    if found := shutil.which("uv"):
        return Path(found)
    installed = directory / "bin" / "uv"
    if not installed.exists():
        # Not built: that would need a compiler of Rust.
        command = [*_pip(directory), "install", "--only-binary", ":all:"]
        if is_locked():
            wanted = directory / ".uv.txt"
            wanted.write_text(locked("uv"))
            command += ["--require-hashes", "-r", str(wanted)]
        else:
            command.append(_UV)
        status, _ = run(command, _NO_BAR, directory, progress)
        if status or not installed.exists():
            return None
    return installed


def is_locked() -> bool:
    """Whether versions and hashes are those of locked.txt."""
    return bool(os.environ.get("REPLICA_CLIENT_LOCKED"))


def main(directory: Path, requirements: list[str]) -> int:
    """Install; returns the exit status of what did it, or of pip where both failed."""
    progress = Progress()
    # What is imported is compiled to bytecode then; to compile everything takes longer than to install it.
    ways = [([*_pip(directory), "install", "--no-compile", *requirements], _NO_BAR)]
    uv = find_uv(directory, progress)
    if uv is not None:
        listed = subprocess.run(
            [*_pip(directory), "config", "list"], capture_output=True, text=True
        )
        python = str(directory / "bin" / "python")
        # PySpark comes as source, and is packed to be unpacked: three quarters of that time went into compression.
        command = [str(uv), "pip", "install", "--python", python, _STORED]
        if is_locked():
            command += ["--constraint", str(LOCKED), "--build-constraint", str(LOCKED)]
        ways.insert(0, ([*command, *requirements], settings_for_uv(listed.stdout)))
    if is_locked():
        if uv is None:
            progress.say("there is no uv, which verifies the hashes of locked.txt")
            return 1
        del ways[1:]
    for number, (command, environment) in enumerate(ways, 1):
        status, printed = run(command, environment, directory, progress)
        if not status:
            progress.say(f"done ({megabytes(directory):.0f} MB on disk)")
            return 0
        sys.stderr.write(printed)
        if number < len(ways):
            progress.say("uv could not; pip tries")
    return status


if __name__ == "__main__":
    try:
        raise SystemExit(main(Path(sys.argv[1]), sys.argv[2:]))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
