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
TAKEN = ("PATH", "HOME", "LANG", "REPLICA_CLIENT_IMPL")
PLAIN = {name: os.environ[name] for name in TAKEN if name in os.environ}
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


def whole(environment: dict[str, str], form: list[str]) -> bytes:
    """All changes."""
    done = subprocess.run(
        command("changes", *form, DATA), capture_output=True, env=environment, check=True
    )
    return done.stdout


def unread(position: Path, environment: dict[str, str], form: list[str]) -> bytes:
    """The changes behind a position, which may lie behind transactions that have none."""
    words = ("changes", *form, "--position-file", position, DATA)
    return subprocess.run(command(*words), capture_output=True, env=environment, check=True).stdout


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    assert unread(position, environment, form) == whole(environment, form)


@pytest.mark.slow
def test_writes_that_are_cut_short_lose_nothing(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    """A file that may not grow takes the first part of a write: no position is behind what it holds."""
    all_of_it = whole(environment, form)
    for limit in (1, 1000, 5000, len(all_of_it) - 1):
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
        written = output.read_bytes()
        assert all_of_it.startswith(written)
        rest = unread(position, environment, form)
        # What is saved on the way depends on how fast the machine is. Text has a heading each time.
        heading = b"" if form else all_of_it[: all_of_it.index(b"\n") + 1]
        assert rest.startswith(heading)
        rest = rest.removeprefix(heading)
        assert all_of_it.endswith(rest)
        assert len(all_of_it) - len(rest) <= max(len(written), len(heading))


def test_events_end_without_a_word(
    environment: dict[str, str], form: list[str], tmp_path: Path
) -> None:
    assert run_unread(environment, "events", *form, DATA) == (141, "")
    assert run_unread(environment, "check", *form, DATA) == (141, "")
