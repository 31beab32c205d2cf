"""Copies of the template are processes of the command as any other."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import processes

COMMAND = [sys.executable, "-m", "replica_client"]


@pytest.mark.parametrize(
    "words", [["--version"], ["run", "nowhere.toml"], ["changes", "nowhere"], ["find", "--help"]]
)
def test_a_copy_says_and_returns_what_the_command_does(words: list[str], tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "cwd": tmp_path,
        "env": {**os.environ, "HOME": str(tmp_path)},
    }
    copy = processes.run([*COMMAND, *words], check=False, **options)
    real = subprocess.run([*COMMAND, *words], check=False, **options)
    found, wanted = ((one.returncode, one.stdout, one.stderr) for one in (copy, real))
    assert found == wanted


def test_a_copy_is_a_child_that_signals_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql://u@127.0.0.1:{silent.getsockname()[1]}"
        with processes.Popen([*COMMAND, "changes", url], stderr=subprocess.PIPE) as process:
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert f"PPid:\t{os.getpid()}\n" in status
            process.send_signal(signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
    assert not Path(f"/proc/{process.pid}").exists()
