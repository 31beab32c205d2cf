"""Completion as a user has it: keys typed into an interactive bash and zsh."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("replica-client")
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
}
BEGIN = {
    "bash": "bind 'set enable-bracketed-paste off'",
    "zsh": "autoload -U compinit; compinit -u -D",
}
LIMIT = 30.0

pytestmark = pytest.mark.skipif(
    not COMMAND.exists(), reason="the command replica-client is not installed in this environment"
)


class Terminal:
    """A shell at a terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until a text is there that was not there before."""
        until = time.monotonic() + LIMIT
        begin = len(self.seen)
        while text not in self.seen[begin:]:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} did not come: {self.seen[begin:]!r}"
            if select.select([self._descriptor], [], [], left)[0]:
                self.seen += os.read(self._descriptor, 4096).decode(errors="replace")


@contextmanager
def terminal(shell: str, directory: Path) -> Iterator[Terminal]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    ours, theirs = pty.openpty()
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    environment = {
        "PATH": path,
        "HOME": str(directory),
        "TERM": "dumb",
        "PS1": "$ ",
        "LANG": "C.UTF-8",
    }
    process = subprocess.Popen(
        SHELLS[shell],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=directory,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        found = Terminal(ours)
        found.type(
            f"{BEGIN[shell]}; replica-client --show-completion >script; source ./script; echo READ''Y\n"
        )
        found.wait_for("READY")
        yield found
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture(params=sorted(SHELLS))
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "shop-bin.000001").touch()
    with terminal(request.param, tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("replica-client back\t", "backup "),
        ("replica-client changes --stop\t", "--stop-at-end "),
        ("replica-client changes --invalid-text rep\t", "replace "),
        ("replica-client position dif\t", "diff "),
        ("replica-client check shop-b\t", "shop-bin.000001 "),
    ],
)
def test_a_tab_completes(shell: Terminal, typed: str, completed: str) -> None:
    shell.type(typed)
    shell.wait_for(completed)
