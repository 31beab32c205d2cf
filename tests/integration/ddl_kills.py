"""Kill `replica-client changes` again and again while tables change, under metadata without names.

What the killed clients delivered must be what the whole binlog gives when it is read in one go, and that
must equal the SELECTs taken when the rows were written. Used by scripts/proofs/ddl --kills (long) and by
test_schema_histories.py (short).
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from replica_client import Position, open_binlog
from replica_client.rows.json_values import change_to_json
from tests import processes
from tests.integration.ddl_histories import History, Report, Writer, check
from tests.integration.kills import KillReport, keep_lines, wait_for_output
from tests.servers.local import LocalServer

TABLES = "h*.*"


@dataclass
class KilledReport:
    """What a proof saw.

    Attributes:
        kills: SIGKILLs and what came of them.
        report: the comparison with SELECT.
    """

    kills: KillReport = field(default_factory=KillReport)
    report: Report = field(default_factory=Report)

    def __str__(self) -> str:
        return (
            f"{self.kills.kills} SIGKILLs, {self.kills.resumed} resumes from a position file, "
            f"{self.kills.delivered} lines delivered, {self.kills.dropped} of them not yet acknowledged, "
            f"{self.kills.rows} row changes in the binlog; {self.report}"
        )


class Histories(threading.Thread):
    """Writes one history after another until told to stop."""

    def __init__(self, server: LocalServer, seed: int, steps: int) -> None:
        super().__init__(daemon=True)
        self.server, self.seed, self.steps = server, seed, steps
        self.done: list[History] = []
        self.halt = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.halt.is_set():
                seed = self.seed + len(self.done)
                self.done.append(Writer(self.server, seed).write(self.steps))
        except BaseException as error:
            self.error = error


def prove_killed(
    server: LocalServer, directory: Path, *, kills: int, seed: int, steps: int = 12
) -> KilledReport:
    """Write histories, kill clients that follow them, and compare every row.

    Raises:
        AssertionError: a client ended by itself, or a row was lost, repeated, reordered or wrong.
    """
    chance = random.Random(seed)
    found = KilledReport()
    start = server.binlog_position()
    position_file, output = directory / "position.json", directory / "run.jsonl"
    command = [
        *(sys.executable, "-m", "replica_client", "changes", server.url(), "--json"),
        *("--tables", TABLES, "--start", f"{start[0]}:{start[1]}"),
        *("--position-file", str(position_file)),
    ]
    kept: list[str] = []
    work = Histories(server, seed, steps)
    work.start()
    try:
        for _ in range(kills):
            found.kills.resumed += position_file.exists()
            with output.open("wb") as stream:
                client = processes.Popen(command, stdout=stream, stderr=subprocess.PIPE)
                if chance.random() < 0.9:
                    wait_for_output(client, output)
                while not position_file.exists() and client.poll() is None:
                    time.sleep(0.02)  # all but the first have something to go on from
                time.sleep(chance.random() * 0.8)
                ended = client.poll()
                client.send_signal(signal.SIGKILL)
                said = client.communicate()[1].decode(errors="replace")
            assert ended is None, f"the client ended by itself: {said[-1000:]}"
            found.kills.kills += 1
            keep_lines(output, position_file, kept, found.kills)
    finally:
        work.halt.set()
        work.join(60)
    assert work.error is None, work.error
    with output.open("wb") as stream:
        last = processes.run(
            [*command, "--stop-at-end"],
            stdout=stream,
            stderr=subprocess.PIPE,
            check=False,
            timeout=300,
        )
    assert last.returncode == 0, last.stderr.decode(errors="replace")[-1000:]
    keep_lines(output, position_file, kept, found.kills)
    files = server.binlog_files()
    paths = [server.binlog_path(name) for name in files[files.index(start[0]) :]]
    reader = open_binlog(paths, start=Position(*start), tables=TABLES)
    truth = [change_to_json(change) for change in reader.changes()]
    found.kills.rows = len(truth)
    for at, (line, row) in enumerate(zip(kept, truth, strict=False)):
        assert line == row, f"row {at}: delivered {line[:400]}, in the binlog {row[:400]}"
    assert len(kept) == len(truth), f"{len(kept)} rows delivered, {len(truth)} in the binlog"
    report = found.report
    for history in work.done:
        report.histories += 1
        for kind, count in history.done.items():
            report.kinds[kind] = report.kinds.get(kind, 0) + count
            report.statements += count
    check(paths, work.done, report, start=start, stop=work.done[-1].end)
    return found
