"""A first run is pinned: what is written after it was killed comes in the next one."""

from __future__ import annotations

import asyncio
import datetime
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import replica_client as rc


def _command(url: str, position: Path, *words: str) -> list[str]:
    command = [sys.executable, "-m", "replica_client", "changes", url, "--json"]
    return [*command, "--position-file", str(position), *words]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_what_is_written_after_a_first_run_comes_in_the_next(
    any_server, new_database, tmp_path: Path, end: signal.Signals
) -> None:
    server = any_server
    database = new_database(server)
    server.execute(f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    position = tmp_path / "position.json"
    tables = ("--tables", f"{database}.*")
    with subprocess.Popen(
        _command(server.url(), position, *tables), stdout=subprocess.DEVNULL
    ) as process:
        while not position.exists():
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(end)
        process.wait()
    server.execute(f"INSERT INTO {database}.t VALUES (1), (2)")
    server.rotate()
    server.execute(f"INSERT INTO {database}.t VALUES (3)")
    done = subprocess.run(
        _command(server.url(), position, *tables, "--stop-at-end"), capture_output=True, check=True
    )
    assert len(done.stdout.splitlines()) == 3
    assert b'{"id":3}' in done.stdout.replace(b" ", b"")


@pytest.mark.parametrize("start", ["latest", "earliest", "position", "gtid", "time"])
async def test_every_start_is_saved_before_anything_is_given(
    any_server, fresh_server, new_database, start: str
) -> None:
    # The shared server's history holds what other tests wrote, such as statements logged as text.
    server = fresh_server(any_server.name) if start == "earliest" else any_server
    database = new_database(server)
    tables = f"{database}.*"
    await asyncio.to_thread(server.execute, f"CREATE TABLE {database}.t (id INT PRIMARY KEY)")
    await asyncio.to_thread(server.execute, f"INSERT INTO {database}.t VALUES (1)")
    async with rc.connect(server.url()) as stream:
        now = stream.position
    if start == "gtid" and now.gtid_set is None:
        pytest.skip("the server has no GTIDs")
    await asyncio.sleep(1.1)
    moment = datetime.datetime.now(datetime.UTC)
    starts = {"position": now, "gtid": now.gtid_set, "time": moment}
    store = rc.MemoryPositionStore()
    async with rc.connect(
        server.url(), tables=tables, start=starts.get(start, start), position_store=store
    ) as stream:
        waiting = asyncio.ensure_future(anext(stream.transactions()))
        async with asyncio.timeout(30):
            while store.load() is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.to_thread(server.execute, f"INSERT INTO {database}.t VALUES (2)")
    await asyncio.to_thread(server.execute, f"INSERT INTO {database}.t VALUES (3)")
    # The next run is told another start, which is not heard.
    async with rc.connect(
        server.url(), tables=tables, start="latest", stop_at_end=True, position_store=store
    ) as stream:
        found = [change.after[0] async for change in stream.changes()]
    assert found == ([1, 2, 3] if start == "earliest" else [2, 3])
