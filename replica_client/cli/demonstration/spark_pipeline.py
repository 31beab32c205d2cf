"""The second part: ``replica-client pipeline`` with Spark, killed and started again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replica_client.cli.demonstration.proof import (
    ClientProcess,
    Proof,
    Rows,
    Screen,
    ServedBinlog,
    client_process,
    prove,
    reached,
)
from replica_client.errors import ReplicaClientError

_ROWS_BEFORE_KILL = 20
_TIMEOUT = 180.0
_CONFIG = """\
# Made by replica-client demo, whose source is gone. With your own url:
# replica-client pipeline {name}
[source]
url = "{url}"
tables = ["shop.*"]
start = "earliest"

[pipeline]
engine = "spark"
output = "lake"
trigger = "{trigger}"
interval = "300 milliseconds"
max_rows_per_trigger = 16
master = "local[2]"

[spark]
# A short run: compile quickly rather than well.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


class SparkPipeline:
    """The acts with Spark.

    Args:
        screen: to show them on.
        output: directory for its files.
        reader: the module that reads a change log.
    """

    def __init__(self, screen: Screen, output: Path, reader: Any) -> None:
        self._screen = screen
        self._served = ServedBinlog()
        self._lake = output / "lake"
        self._config = output / "pipeline.toml"
        self._change_log = self._lake / "change_log"
        self._rows_of: Callable[[Path], Rows] = reader.change_log_rows
        self._row_count: Callable[[Path], int] = reader.change_log_row_count

    def run(self) -> Proof:
        """Play them; returns the proof."""
        shutil.rmtree(self._lake, ignore_errors=True)
        with self._served.serving():
            where = self._served.url.rpartition("@")[2].rstrip("/")
            self._screen.say(f"A source on {where} again, and Spark's pipeline follows it.")
            before = self._first_run()
            self._served.add_rest()
            self._second_run(len(before))
        log = self._rows_of(self._change_log)
        proof = prove(log, self._served.changes(), self._served.expected["tables"])
        self._screen.proof(proof, "The change log")
        self._screen.say(f"Change log (Delta table): {self._change_log}")
        self._screen.say(f"Its configuration:        {self._config}")
        return proof

    def _configure(self, trigger: str) -> None:
        text = _CONFIG.format(url=self._served.url, trigger=trigger, name=self._config)
        self._config.write_text(text, encoding="utf-8")
        self._config.chmod(0o600)

    def _process(self) -> Any:
        return client_process(["pipeline", "--json", str(self._config)])

    def _first_run(self) -> Rows:
        self._configure("continuous")
        self._screen.heading("The pipeline starts, and is killed in the midst of its work")
        with self._process() as process:
            self._wait(process, lambda: self._count() >= _ROWS_BEFORE_KILL, "Spark starts")
            process.kill()
        log = self._rows_of(self._change_log)
        self._screen.changes(log)
        self._screen.say(
            f"{len(log)} changes had arrived, up to {reached(log)}, when it got SIGKILL: "
            "Python, Java, all."
        )
        return log

    def _second_run(self, before: int) -> None:
        more = len(self._served.changes(1))
        self._screen.heading("The source writes on, and the pipeline starts again")
        self._screen.say(f"Another binlog file with {more} changes is there now.")
        self._configure("available-now")
        with self._process() as process:
            self._wait(process, lambda: not process.running, "Spark starts again")
            result = process.result()
        log = self._rows_of(self._change_log)
        self._screen.say(
            f"It went on where it was: {len(log) - before} more changes, {len(log)} in all."
        )
        self._screen.say(f"Position reached: {result['position']}")

    def _count(self) -> int:
        return int(self._row_count(self._change_log))

    def _wait(self, process: ClientProcess, done: Callable[[], bool], doing: str) -> None:
        def words() -> str:
            count = self._count()
            return f"{doing}: {count} changes so far …" if count else f"{doing} …"

        try:
            self._screen.wait(process, done, words, _TIMEOUT)
        except ReplicaClientError as error:
            if not process.running:
                raise
            raise ReplicaClientError(
                f"{error}; run: replica-client pipeline {self._config} --verbose"
            ) from error
