"""What nobody read moves no position: dead readers, full disks, writes that are cut short; buffered or not."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import replica_client as rc
from replica_client.testing import BinlogSource

DATA = Path(rc.__file__).parent / "testing" / "data"
FIRST_ROWS = next(t.start for t in rc.open_binlog(DATA).transactions() if t.changes)
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
ENVIRONMENTS = [PLAIN, {**PLAIN, "PYTHONUNBUFFERED": "1"}]
FORMS = [["--json"], []]

pytestmark = [
    pytest.mark.parametrize("environment", ENVIRONMENTS, ids=["buffered", "unbuffered"]),
    pytest.mark.parametrize("form", FORMS, ids=["json", "text"]),
]


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "replica_client", *map(str, words)]


def run_into(output: int, environment: dict[str, str], *words: object) -> tuple[int, str]:
    done = subprocess.run(
        command(*words), stdout=output, stderr=subprocess.PIPE, env=environment, check=False
    )
    return done.returncode, done.stderr.decode()


def run_unread(environment: dict[str, str], *words: object) -> tuple[int, str]:
    """Run the command into a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return run_into(writing, environment, *words)
    finally:
        os.close(writing)


def test_a_reader_that_died_moves_no_position(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    position = tmp_path / "shop.position"
    rc.FilePositionStore(position).save(FIRST_ROWS)
    status, errors = run_unread(
        environment, "changes", *form, "--position-file", position, *sorted(DATA.glob("*.0*"))
    )
    assert (status, errors) == (141, "")
    assert rc.FilePositionStore(position).load() == FIRST_ROWS


async def test_a_reader_that_died_moves_no_position_of_a_live_source(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    position = tmp_path / "shop.position"
    async with BinlogSource(DATA) as source:
        words = ("changes", *form, source.url, "--start", "earliest", "--stop-at-end")
        status, errors = await asyncio.to_thread(
            run_unread, environment, *words, "--position-file", position
        )
    assert (status, errors) == (141, "")
    saved = rc.FilePositionStore(position).load()
    assert saved is not None
    assert saved <= FIRST_ROWS


def test_a_full_disk_moves_no_position(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    position = tmp_path / "shop.position"
    with Path("/dev/full").open("wb") as full:
        words = ("changes", *form, "--position-file", position, DATA)
        status, errors = run_into(full.fileno(), environment, *words)
    assert status == 1
    assert len(errors.splitlines()) == 1
    assert "standard output: No space left on device; free space, then start again" in errors
    assert not position.exists()


def test_writes_that_are_cut_short_lose_nothing(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    """A file that may not grow takes the first part of a write: no position is behind what it holds."""
    whole = subprocess.run(
        command("changes", *form, DATA), capture_output=True, env=environment, check=True
    ).stdout
    for limit in (1, 1000, 5000, len(whole) - 1):
        position, output = tmp_path / f"{limit}.position", tmp_path / f"{limit}.out"
        with output.open("wb") as stream:
            done = subprocess.run(
                command("changes", *form, "--position-file", position, DATA),
                stdout=stream,
                stderr=subprocess.PIPE,
                env=environment,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),  # noqa: B023
            )
        assert done.returncode == 1, done.stderr
        assert whole.startswith(output.read_bytes())
        assert not position.exists()


def test_events_end_without_a_word(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    assert run_unread(environment, "events", *form, DATA) == (141, "")
    assert run_unread(environment, "check", *form, DATA) == (141, "")
