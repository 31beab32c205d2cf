"""A program: ``replica-client``, whose driver writes down what it is doing, and kills itself where it is told to.

Its first argument is a directory. The file ``phase`` there has the name of what is being done. A file ``deadly``
names phases, one a line; within so many seconds of the next beginning of one of them the process gets SIGKILL.
"""

import functools
import os
import random
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

IDLE = "stream"
"""What is not one of the phases: starting, and waiting for the stream."""

WITHIN = {
    "copy": 1.0,
    "copy commit": 0.05,
    "putting together": 0.3,
    "merge": 0.2,
    "rewrite": 0.05,
    "table commit": 0.03,
    "catalogue": 0.01,
}
"""The phases, and in how many seconds of each the process dies."""

COPYING = ("copy", "copy commit", "putting together")
"""Those that come only when a table is copied."""

WITHOUT_SPARK = ("putting together", "merge", "rewrite", "table commit", "catalogue")
"""Those that a driver comes to before it starts Spark, when another one left work behind."""

_SIZE = 24


def read_phase(directory: Path) -> str:
    """What a driver is doing, or did when it was killed."""
    with suppress(OSError):
        return (directory / "phase").read_text().strip() or IDLE
    return IDLE


def forget_phase(directory: Path) -> None:
    """Before a driver starts: what the one before it did."""
    (directory / "phase").unlink(missing_ok=True)


def die_in(directory: Path, *phases: str) -> None:
    """Let the driver, or one that is started later, die in its next phase of one of these kinds."""
    made = directory / "deadly.new"
    made.write_text("\n".join(phases))
    made.replace(directory / "deadly")


def live_on(directory: Path) -> None:
    """Let no driver die."""
    (directory / "deadly").unlink(missing_ok=True)


class _Observer:
    def __init__(self, directory: Path) -> None:
        self._deadly = directory / "deadly"
        self._file = os.open(directory / "phase", os.O_CREAT | os.O_WRONLY)
        self._phase = ""
        self._enter(IDLE)

    def _enter(self, phase: str) -> str:
        before, self._phase = self._phase, phase
        os.pwrite(self._file, phase.ljust(_SIZE).encode(), 0)
        return before

    def watch(self, owner: Any, name: str, phase: str) -> None:
        function = getattr(owner, name)

        @functools.wraps(function)
        def observed(*args: Any, **kwargs: Any) -> Any:
            before = self._enter(phase)
            self._look(phase)
            try:
                return function(*args, **kwargs)
            finally:
                self._enter(before)

        setattr(owner, name, observed)

    def _look(self, phase: str) -> None:
        try:
            if phase not in self._deadly.read_text().splitlines():
                return
            self._deadly.unlink()
        except OSError:
            return
        threading.Thread(target=self._die, args=(WITHIN[phase],), daemon=True).start()

    @staticmethod
    def _die(seconds: float) -> None:
        time.sleep(random.uniform(0, seconds))
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    """Observe the pipeline that the arguments start."""
    from replica_client.cli.start import main as start
    from replica_client.lake import applier, rewrite
    from replica_client.lake.lake_catalog import LakeCatalog
    from replica_client.lake.pipeline import lake_run
    from replica_client.lake.state_table import StateTable

    # Some drivers save what they took behind each statement, so that the next one begins anywhere.
    applier._SAVE_AFTER = random.choice((0.0, 0.5, applier._SAVE_AFTER))
    observer = _Observer(Path(sys.argv.pop(1)))
    for owner, name, phase in (
        (lake_run.LakeRun, "read_copies", "copy"),
        (lake_run, "commit_several", "copy commit"),
        (applier, "take_copies", "putting together"),
        (applier.Applier, "_merge_all", "merge"),
        (rewrite, "run", "rewrite"),
        (StateTable, "_commit", "table commit"),
        (LakeCatalog, "save", "catalogue"),
    ):
        observer.watch(owner, name, phase)
    return start()


if __name__ == "__main__":
    raise SystemExit(main())
