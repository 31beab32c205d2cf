"""Kill `replica-client changes` again and again under a running workload, and prove that nothing is lost.

Used by scripts/proofs/kills (long) and by test_kills.py (short).
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client import Position, open_binlog
from replica_client.rows.json_values import change_to_json
from tests import processes
from tests.servers.local import LocalServer


@dataclass
class KillReport:
    """What a proof run saw.

    Attributes:
        kills: SIGKILLs sent.
        resumed: runs that found a saved position.
        delivered: lines written by all runs together.
        dropped: lines that had been delivered after the last acknowledgement, and came again.
        rows: row changes in the source's binlog.
    """

    kills: int = 0
    resumed: int = 0
    delivered: int = 0
    dropped: int = 0
    rows: int = 0
    files: set[str] = field(default_factory=set)


class Workload(threading.Thread):
    """Random transactions on two tables until told to stop."""

    def __init__(self, server: LocalServer, database: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.server, self.database = server, database
        self.random = random.Random(seed)
        self.halt = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.server.connected() as connection, connection.cursor() as cursor:
                self._work(connection, cursor)
        except BaseException as error:
            self.error = error

    def _work(self, connection: Any, cursor: Any) -> None:
        chance, database = self.random, self.database
        next_id = 0
        while not self.halt.is_set():
            cursor.execute("BEGIN")
            for _ in range(chance.choice((1, 1, 2, 5, 30))):
                table = chance.choice(("a", "b"))
                what = chance.random()
                if what < 0.6 or next_id < 10:
                    rows = [
                        (next_id + i, chance.randrange(1 << 31), "ä" * chance.randrange(40))
                        for i in range(chance.choice((1, 1, 3, 100)))
                    ]
                    next_id += len(rows)
                    cursor.executemany(f"INSERT INTO {database}.{table} VALUES (%s,%s,%s)", rows)
                elif what < 0.9:
                    low = chance.randrange(next_id)
                    cursor.execute(
                        f"UPDATE {database}.{table} SET n=n+1 WHERE id BETWEEN %s AND %s",
                        (low, low + 20),
                    )
                else:
                    cursor.execute(
                        f"DELETE FROM {database}.{table} WHERE id=%s", (chance.randrange(next_id),)
                    )
            if chance.random() < 0.05:
                connection.rollback()
            else:
                connection.commit()
            if chance.random() < 0.02:
                cursor.execute("FLUSH BINARY LOGS")
            time.sleep(chance.random() * 0.01)


def prove(
    server: LocalServer, directory: Path, *, database: str, kills: int, seed: int
) -> KillReport:
    """Run the workload, kill the client ``kills`` times, and compare what it delivered.

    Raises:
        AssertionError: a row was lost, repeated, reordered or wrong.
    """
    chance = random.Random(seed)
    server.execute(f"CREATE DATABASE {database}")
    for table in ("a", "b"):
        server.execute(
            f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, n BIGINT, t VARCHAR(60)) CHARSET utf8mb4"
        )
    server.rotate()
    first = server.binlog_files()[-1]
    report = KillReport()
    position_file = directory / "position.json"
    kept: list[str] = []
    workload = Workload(server, database, seed)
    workload.start()
    try:
        for _ in range(kills):
            output = directory / "run.jsonl"
            report.resumed += position_file.exists()
            with output.open("wb") as stream:
                client = processes.Popen(
                    _command(server, database, first, position_file), stdout=stream
                )
                if chance.random() < 0.9:
                    wait_for_output(client, output)
                time.sleep(chance.random() * 1.5)
                assert client.poll() is None, f"the client ended by itself: {client.returncode}"
                client.send_signal(signal.SIGKILL)
                client.wait()
            report.kills += 1
            keep_lines(output, position_file, kept, report)
    finally:
        workload.halt.set()
        workload.join(30)
    assert workload.error is None, workload.error
    output = directory / "run.jsonl"
    with output.open("wb") as stream:
        processes.run(
            [*_command(server, database, first, position_file), "--stop-at-end"],
            stdout=stream,
            check=True,
            timeout=120,
        )
    keep_lines(output, position_file, kept, report)
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(first) :]]
    truth = [
        json.loads(change_to_json(change))
        for change in open_binlog(paths, tables=f"{database}.*").changes()
    ]
    report.rows = len(truth)
    report.files = {row["file"] for row in truth}
    assert len(kept) == len(truth), f"{len(kept)} rows delivered, {len(truth)} in the binlog"
    for line, row in zip(kept, truth, strict=True):
        assert json.loads(line) == row, f"delivered {line[:300]}, in the binlog {str(row)[:300]}"
    for table in ("a", "b"):
        state: dict[int, tuple[int, str]] = {}
        for row in truth:
            if row["table"] == table:
                if row["before"] is not None:
                    del state[row["before"]["id"]]
                if row["after"] is not None:
                    state[row["after"]["id"]] = (row["after"]["n"], row["after"]["t"])
        rows = server.query(f"SELECT id, n, t FROM {database}.{table}")
        assert state == {key: (n, text) for key, n, text in rows}, f"table {table} differs"
    return report


def wait_for_output(client: subprocess.Popen[bytes], output: Path) -> None:
    """Let the client get to work, so that kills fall into it and not into its start."""
    deadline = time.monotonic() + 30
    while client.poll() is None and not output.stat().st_size and time.monotonic() < deadline:
        time.sleep(0.02)


def _command(server: LocalServer, database: str, first: str, position_file: Path) -> list[str]:
    return [
        *(sys.executable, "-m", "replica_client", "changes", server.url()),
        *("--tables", f"{database}.*", "--start", f"{first}:4"),
        *("--position-file", str(position_file), "--json"),
    ]


def keep_lines(output: Path, position_file: Path, kept: list[str], report: KillReport) -> None:
    """Keep the lines of a run that its last acknowledgement covers."""
    lines = output.read_text(encoding="utf-8", errors="replace").split("\n")
    lines.pop()  # empty, or cut off in the middle
    report.delivered += len(lines)
    acknowledged = None
    if position_file.exists():
        acknowledged = Position.from_json(json.loads(position_file.read_text())["position"])
    for line in lines:
        row = json.loads(line)
        if acknowledged is not None and Position(row["file"], row["position"]) < acknowledged:
            kept.append(line)
        else:
            report.dropped += 1
