"""`replica-client changes`, killed again and again while mixed statements run."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from replica_client import AssemblyOptions, ReplicaClientError, Selection, open_binlog
from replica_client.rows.json_values import change_to_json
from tests import processes
from tests.integration.mixes import (
    PATTERN,
    SIGNALS,
    Epoch,
    Fault,
    Report,
    beginning,
    casefolds,
    files_of,
)
from tests.servers.local import LocalServer

_SOURCE_IS_AWAY = ("no connection to", "closed the connection", "shutdown in progress")


class Killer(threading.Thread):
    """Starts clients that go on from a position file, and kills them.

    Attributes:
        kills: SIGKILLs that found a client at work.
        runs: the whole lines that each client wrote.
        ended: what clients said that ended by themselves.
    """

    def __init__(
        self, server: LocalServer, directory: Path, kills: int, seed: int, pattern: str = PATTERN
    ) -> None:
        super().__init__(daemon=True)
        self.pattern = pattern
        self.server, self.directory, self.wanted = server, directory, kills
        self.random = random.Random(seed)
        self.kills = 0
        self.runs: list[list[str]] = []
        self.ended: list[str] = []
        self.halt = threading.Event()
        self.error: BaseException | None = None
        self._start = server.binlog_position()
        self._fresh = threading.Event()
        self._asked = threading.Event()

    def epoch_begins(self) -> None:
        """Where a client begins after one that ended by itself."""
        if self._asked.is_set():
            self._start = self.server.binlog_position()
            self._asked.clear()
            self._fresh.set()

    def run(self) -> None:
        try:
            while not self.halt.is_set() and self.kills < self.wanted:
                self._one()
        except BaseException as error:
            self.error = error

    def finish(self) -> None:
        """Wait for the last kill; then a client reads to the end."""
        while self.is_alive() and not self._asked.is_set():
            self.join(0.1)
        self.halt.set()
        self._fresh.set()
        self.join(60)
        if self.error is not None:
            raise self.error
        if not self._asked.is_set():
            with self._output.open("wb") as stream:
                done = processes.run(
                    [*self._command(), "--stop-at-end"],
                    stdout=stream,
                    stderr=subprocess.PIPE,
                    check=False,
                    timeout=600,
                )
            self._keep()
            if done.returncode:
                self.ended.append(done.stderr.decode(errors="replace")[-1500:])

    def compare(self, truth: Sequence[str], *, whole: bool = True) -> list[str]:
        """What is wrong: each run must be a part of what the files hold, all of them together everything.

        Args:
            truth: the lines of all rows, in order.
            whole: whether they are all.
        """
        number = {_key(line): at for at, line in enumerate(truth)}
        covered, faults = [False] * len(truth), []
        for run, lines in enumerate(self.runs):
            last = -1
            for line in lines:
                at = number.get(_key(line))
                if at is None:
                    if whole:
                        faults.append(f"a row that is in no file: run {run}: {line[:300]}")
                    continue
                if line != truth[at]:
                    faults.append(f"another row: {line[:300]}, in the files {truth[at][:300]}")
                if last >= 0 and at != last + 1:
                    faults.append(f"order: run {run}: row {at} after row {last}: {line[:300]}")
                covered[at], last = True, at
        missing = [at for at, there in enumerate(covered) if not there]
        if missing and not self.ended:
            faults.append(f"lost: {len(missing)} of {len(truth)} rows: {truth[missing[0]][:300]}")
        return [*faults, *(f"ended by itself: {said}" for said in self.ended)]

    @property
    def _output(self) -> Path:
        return self.directory / "run.jsonl"

    @property
    def _position(self) -> Path:
        return self.directory / "position.json"

    def _command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "replica_client", "changes", self.server.url(), "--json"),
            *("--tables", self.pattern, "--start", f"{self._start[0]}:{self._start[1]}"),
            *("--position-file", str(self._position)),
        ]

    def _one(self) -> None:
        with self._output.open("wb") as stream:
            client = processes.Popen(self._command(), stdout=stream, stderr=subprocess.PIPE)
            time.sleep(0.8 + self.random.random() * 2)
            ended = client.poll()
            client.send_signal(signal.SIGKILL)
            said = client.communicate()[1].decode(errors="replace")
        self._keep()
        if ended is None:
            self.kills += 1
            return
        if any(words in said for words in _SOURCE_IS_AWAY):
            return  # one that only begins does not wait for it
        self.ended.append(said[-1500:])
        self._position.unlink(missing_ok=True)
        self._fresh.clear()
        self._asked.set()
        self._fresh.wait()

    def _keep(self) -> None:
        lines = self._output.read_text(encoding="utf-8", errors="replace").split("\n")
        lines.pop()  # empty, or cut off in the middle
        self.runs.append([line for line in lines if f'"database": "{SIGNALS}"' not in line])


def check_runs(
    server: LocalServer, killer: Killer, epochs: Sequence[Epoch], report: Report
) -> None:
    """Compare what killed clients wrote with the files."""
    truth: list[str] = []
    whole = True
    for epoch in epochs:
        reader = open_binlog(
            files_of(server, epoch.start, epoch.end),
            start=f"{epoch.start[0]}:{epoch.start[1]}",
            stop=f"{epoch.end[0]}:{epoch.end[1]}",
            schema=beginning(casefolds(server)),
            assembly=AssemblyOptions(Selection(PATTERN), on_unknown_table="error"),
        )
        try:
            truth.extend(change_to_json(change) for change in reader.changes())
        except ReplicaClientError:
            whole = False  # told where the files were read
    for fault in killer.compare(truth, whole=whole):
        kind, _, text = fault.partition(": ")
        found = Fault("kills", epochs[0].seed, 0, kind, text)
        if kind == "ended by itself":
            report.stop(found)
        else:
            report.differences.append(found)


def _key(line: str) -> tuple[str, int, int, int]:
    row = json.loads(line)
    return row["file"], row["position"], row["event_index"], row["row_index"]
