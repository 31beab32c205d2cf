"""A program: writes a lake while it holds the lock of its output, or waits for it: OUTPUT STATE.

It appends one row a step to the change log and takes it into the table, with the lake's own engine: what a driver
does, without Spark. ``STATE`` gets ``standby``, and ``writes N`` with the number of rows after each step.
"""

from __future__ import annotations

import sys
import uuid
from pathlib import Path
from typing import Any

from replica_client.lake.lake_catalog import LakeCatalog
from replica_client.lake.pipeline_state import locked
from replica_client.storage.location import location
from tests.unit.lake.lakes import HandLog, applier

TABLE = "create table k (n int primary key)"


class _Log(HandLog):
    """The change log from where another process left it."""

    def go_on(self, batch: int) -> None:
        self._batch, self.offset = batch, 4 + 1000 * batch

    def _file(self, name: str) -> Any:
        return super()._file(f"{uuid.uuid4().hex}-{name}")


def main() -> None:
    """Write until killed."""
    output, state = location(sys.argv[1]), Path(sys.argv[2])
    with locked(output, stand_by=lambda _: _tell(state, "standby")):
        log = _Log(output / "change_log")
        log.opened = log.made  # as a pipeline does in a store
        catalog = LakeCatalog.load(output) or LakeCatalog(output)
        catalog.save()  # another process that thinks that the lake is its own writes no more
        engine = applier(output, log)
        rows = engine.log.latest()  # version 0 is empty, 1 makes the table
        if rows == 0:
            log.ddl(TABLE).commit()
            rows = 1
        log.go_on(rows)
        engine.run()
        while True:
            log.insert("k", n=rows).commit()
            engine.run()
            rows += 1
            _tell(state, f"writes {rows - 1}")


def _tell(state: Path, text: str) -> None:
    new = state.with_suffix(".new")
    new.write_text(text)
    new.replace(state)


if __name__ == "__main__":
    main()
