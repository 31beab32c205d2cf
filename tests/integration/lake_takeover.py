"""Two writers of one lake in an object store: the active one is killed or frozen, the standby goes on.

Who wakes writes nothing more; each row of the change log is in the table once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from replica_client.lake.lake_tables import open_lake
from replica_client.lake.log_versions import ChangeLogVersions
from replica_client.storage.location import location
from tests.integration.takeover import MOST_SECONDS, Report
from tests.object_stores import access_to, new_bucket, object_store

_ROOT = Path(__file__).resolve().parents[2]


class _Writer:
    """A process that writes the lake, or waits."""

    def __init__(self, output: str, state: Path) -> None:
        self._output, self._state = output, state
        self.start()

    def start(self) -> None:
        self._state.unlink(missing_ok=True)
        with self._state.with_suffix(".log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.unit.lake.lake_writer"),
                    *(self._output, str(self._state)),
                ],
                cwd=_ROOT,
                stderr=log,
            )

    @property
    def state(self) -> str:
        return self._state.read_text() if self._state.exists() else ""

    def until(self, text: str) -> float:
        """Wait for a state that begins so; return the seconds."""
        begun = time.monotonic()
        while not self.state.startswith(text):
            log = self._state.with_suffix(".log").read_text()
            assert self.process.poll() is None, log[-2000:]
            assert time.monotonic() < begun + MOST_SECONDS, f"{self.state}: {log[-2000:]}"
            time.sleep(0.02)
        return time.monotonic() - begun

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def prove_lake(count: int, seed: int) -> Report:
    """Kill and freeze the active writer so many times."""
    chance, report = random.Random(seed), Report("s3-lake")
    with object_store() as endpoint, tempfile.TemporaryDirectory() as directory:
        os.environ.update(access_to(endpoint))
        output = f"{new_bucket(endpoint)}/lake"
        active = _Writer(output, Path(directory, "1"))
        active.until("writes")
        standby = _Writer(output, Path(directory, "2"))
        try:
            for _ in range(count):
                standby.until("standby")
                active.until("writes")
                time.sleep(chance.uniform(0, 1.0))
                way = chance.choice(("killed", "killed", "frozen"))
                report.kinds[way] += 1
                number = signal.SIGKILL if way == "killed" else signal.SIGSTOP
                active.process.send_signal(number)
                report.seconds.append(standby.until("writes"))
                if way == "frozen":
                    time.sleep(chance.uniform(0, 2.0))
                    before = active.state
                    active.process.send_signal(signal.SIGCONT)
                    status = active.process.wait(MOST_SECONDS)
                    assert status == 1, f"it went on: {status}"
                    assert active.state == before, f"{before}, then {active.state}"
                active.close()
                active.start()
                active, standby = standby, active
        finally:
            active.close()
            standby.close()
        where = location(output)
        # A step that was cut off is in the change log, and the next writer takes it.
        report.rows = ChangeLogVersions(where / "change_log").latest() - 1
        table = open_lake(output).table("d.k").arrow()
        found = Counter(row["n"] for row in table.to_pylist())
        last = max(found)
        report.lost = [one for one in range(1, last + 1) if not found[one]]
        report.twice = [one for one, times in found.items() if times > 1]
        assert report.rows - last <= 1, f"{report.rows} rows in the change log, {last} in the table"
    return report
