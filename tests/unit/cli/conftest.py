"""Runs the command in this process, and as a process of its own."""

import contextlib
import json
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import replica_client
from replica_client.cli.main import main

DATA = Path(replica_client.__file__).parent / "testing" / "data"


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


@pytest.fixture
def shop() -> list[str]:
    """The binlog files that come with the package."""
    return [str(path) for path in sorted(DATA.glob("shop-bin.*"))]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., Result]]:
    handler = signal.getsignal(signal.SIGTERM)
    loggers = list(logging.getLogger().handlers)

    def _run(*arguments: object) -> Result:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    yield _run
    signal.signal(signal.SIGTERM, handler)
    logging.getLogger().handlers[:] = loggers


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command; what still runs at the end is killed."""
    with contextlib.ExitStack() as stack:

        def _start(*arguments: object, **options: Any) -> subprocess.Popen[str]:
            options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
            command = [sys.executable, "-m", "replica_client", *map(str, arguments)]
            process = stack.enter_context(subprocess.Popen(command, **options))
            stack.callback(process.kill)
            return process

        yield _start


@pytest.fixture
def damaged(tmp_path: Path, shop: list[str]) -> Path:
    """A copy of a binlog with one byte of the event at 444 changed."""
    data = bytearray(Path(shop[0]).read_bytes())
    data[444 + 60] ^= 0x01
    path = tmp_path / "damaged.000001"
    path.write_bytes(data)
    return path
