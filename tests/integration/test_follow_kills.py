"""follow() with a position store, killed again and again on a real server: nothing is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

KILLS = int(os.environ.get("REPLICA_CLIENT_FOLLOW_KILLS", "10"))
ROWS = 40 * KILLS
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}

# What was done is on disk before it is acknowledged, as a consumer must do it.
# Ctrl-C is heard also where the tests run in the background of a shell, which ignores it for them.
CONSUMER = """
import os, signal, sys
import replica_client as rc

signal.signal(signal.SIGINT, signal.default_int_handler)

url, position, output = sys.argv[1:]
with rc.follow(url, tables=["kills.*"], position_store=position) as stream, open(output, "ab") as out:
    print("open", flush=True)
    for transaction in stream.transactions():
        lines = [b"%d\\n" % change.after["id"] for change in transaction.changes]
        if lines:
            out.write(b"".join(lines))
            out.flush()
            os.fsync(out.fileno())
        stream.acknowledge(transaction.position)
"""


def numbers(path: Path) -> list[int]:
    """What a consumer wrote; a line that a kill cut is none."""
    whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
    return [int(line) for line in whole.splitlines()]


@pytest.mark.timeout(max(240, 30 * KILLS))
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT], ids=["kill", "control-c"])
def test_nothing_is_lost(fresh_server, name: str, stop: signal.Signals, tmp_path: Path) -> None:
    rng = random.Random(f"{name} {stop}")
    kills = KILLS if stop is signal.SIGKILL else max(3, KILLS // 5)
    server = fresh_server(name)
    server.execute("CREATE DATABASE kills")
    server.execute("CREATE TABLE kills.rows_ (id INT PRIMARY KEY, filler VARCHAR(200))")
    position, output = tmp_path / "position", tmp_path / "output"
    command = [sys.executable, "-c", CONSUMER, server.url(), str(position), str(output)]
    written, ended = 0, threading.Event()

    def write() -> None:
        nonlocal written
        with server.connected() as connection, connection.cursor() as cursor:
            while not ended.is_set() or written < ROWS:
                for _ in range(rng.choice((1, 1, 3, 20))):
                    written += 1
                    cursor.execute(
                        "INSERT INTO kills.rows_ VALUES (%s, REPEAT('x', 150))", (written,)
                    )
                connection.commit()
                time.sleep(0.002)

    runs: list[int] = []
    writer = threading.Thread(target=write)
    try:
        for turn in range(kills + 1):
            before = len(numbers(output))
            with subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=PLAIN
            ) as process:
                assert process.stdout is not None
                assert process.stdout.readline() == b"open\n", process.stderr.read()
                if turn == 0:
                    writer.start()  # its first row is behind the position that the first run saved
                if turn < kills:
                    time.sleep(rng.uniform(0.0, 0.3))
                else:
                    ended.set()
                    writer.join()
                    until = time.monotonic() + 60
                    while written not in numbers(output)[-50:]:
                        assert time.monotonic() < until, "the last rows did not come"
                        time.sleep(0.05)
                process.send_signal(stop if turn < kills else signal.SIGINT)
                process.wait(30)
            runs.append(before)
            if output.exists():
                with output.open("r+b") as cut:  # as a consumer that begins again does it
                    cut.truncate(output.read_bytes().rfind(b"\n") + 1)
    finally:
        ended.set()
        if writer.is_alive():
            writer.join()
    found = numbers(output)
    assert sorted(set(found)) == list(range(1, written + 1)), "rows are lost"
    starts = {at for at in runs if at}
    for at, (last, now) in enumerate(zip(found, found[1:], strict=False), 1):
        # In order; only where a run began may something come again, and nothing is passed over.
        assert now == last + 1 or (at in starts and now <= last), (at, last, now)
    print(f"{name}: {kills} times, {written} rows, {len(found) - written} came again")
