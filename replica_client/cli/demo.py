"""``replica-client demo``: the main job on the embedded source."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from replica_client.cli.demonstration.killable import PipelineProcess, pipeline_process
from replica_client.cli.demonstration.proof import Proof, prove
from replica_client.cli.demonstration.served import ServedBinlog
from replica_client.cli.extras import extra_module
from replica_client.cli.failures import FaultFoundError
from replica_client.errors import ReplicaClientError

EXAMPLE = "replica-client demo"

_EXTRA = "spark"
_ROWS_BEFORE_KILL = 20
_LOOK = 0.2
_TIMEOUT = 180.0
_SHOWN = 6
_HEAD_WIDTH = 46
_CONFIG = """\
# Made by replica-client demo, whose source is gone. With your own url:
# replica-client pipeline {name}
[source]
url = "{url}"
tables = ["shop.*"]
start = "earliest"

[pipeline]
output = "lake"
trigger = "{trigger}"
interval = "300 milliseconds"
max_rows_per_trigger = 16
master = "local[2]"

[spark]
# A short run: compile quickly rather than well.
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""


def demo(
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Where the tables go; emptied first.")
    ] = Path("demo-output"),
) -> None:
    """Run the whole path in a minute: no MySQL, no Docker, no Java needed.

    The testing source serves a small binlog over the real replication protocol; the client logs in,
    registers as a replica, dumps and decodes; the Spark pipeline writes a change log. The pipeline is
    killed in the midst of its work and started again, and the result is compared with what the
    MySQL server that wrote the binlog answered to SELECT.
    """
    reader = extra_module("replica_client.spark.change_log_rows", _EXTRA)
    extra_module("replica_client.spark.pipeline", _EXTRA)
    extra_module("replica_client.spark.java", _EXTRA).java_home()
    proof = Demonstration(output, reader).run()
    if not proof.holds:
        raise FaultFoundError("the change log does not equal the source; see above")


class Demonstration:
    """The acts of the demonstration.

    Args:
        output: directory for its files.
        reader: the module that reads a change log.
    """

    def __init__(self, output: Path, reader: Any) -> None:
        self._console = Console(highlight=False)
        self._served = ServedBinlog()
        self._output = output
        self._config = output / "pipeline.toml"
        self._change_log = output / "lake" / "change_log"
        self._rows_of = reader.change_log_rows
        self._row_count = reader.change_log_row_count
        self._began = time.monotonic()

    def run(self) -> Proof:
        """Play it; returns the proof."""
        self._prepare()
        with self._served.serving():
            where = self._served.url.rpartition("@")[2].rstrip("/")
            server = self._served.expected["server"]
            self._say(f"A source speaks the replication protocol on {where},")
            self._say(f"from a binlog that {server} wrote. The pipeline follows it as a replica.")
            before = self._first_run()
            self._served.add_rest()
            self._second_run(len(before))
        log = self._rows_of(self._change_log)
        expected = self._served.expected["tables"]
        proof = prove(log, self._served.changes(), expected)
        self._show_proof(proof, log)
        return proof

    def _prepare(self) -> None:
        self._output.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self._output / "lake", ignore_errors=True)

    def _configure(self, trigger: str) -> None:
        text = _CONFIG.format(url=self._served.url, trigger=trigger, name=self._config)
        self._config.write_text(text, encoding="utf-8")
        self._config.chmod(0o600)

    def _first_run(self) -> list[dict[str, Any]]:
        self._configure("continuous")
        with pipeline_process(self._config) as process:
            self._heading("1", "The pipeline starts, and is killed in the midst of its work")
            self._wait(process, lambda: self._count() >= _ROWS_BEFORE_KILL, "Spark starts")
            process.kill()
        log: list[dict[str, Any]] = self._rows_of(self._change_log)
        self._show_changes(log)
        self._say(
            f"{len(log)} changes had arrived, up to {_reached(log)}, when it got SIGKILL: "
            "Python, Java, all."
        )
        return log

    def _second_run(self, before: int) -> None:
        more = len(self._served.changes(1))
        self._heading("2", "The source writes on, and the pipeline starts again")
        self._say(f"Another binlog file with {more} changes is there now.")
        self._configure("available-now")
        with pipeline_process(self._config) as process:
            self._wait(process, lambda: not process.running, "Spark starts again")
            result = process.result()
        log = self._rows_of(self._change_log)
        self._say(f"It went on where it was: {len(log) - before} more changes, {len(log)} in all.")
        self._say(f"Position reached: {result['position']}")

    def _count(self) -> int:
        return int(self._row_count(self._change_log))

    def _wait(self, process: PipelineProcess, done: Any, doing: str) -> None:
        deadline = time.monotonic() + _TIMEOUT
        with self._console.status(f"{doing} …") as status:
            while not done():
                if not process.running:
                    process.result()
                if time.monotonic() > deadline:
                    raise ReplicaClientError(
                        f"nothing came within {_TIMEOUT:g} s; run: replica-client pipeline "
                        f"{self._config} --verbose"
                    )
                count = self._count()
                if count:
                    status.update(f"{count} changes …")
                time.sleep(_LOOK)

    # What is shown.

    def _say(self, text: str) -> None:
        self._console.print(Text(text))

    def _heading(self, number: str, text: str) -> None:
        self._console.print()
        self._console.print(Text(f"{number}. {text}", style="bold"))

    def _show_changes(self, log: list[dict[str, Any]]) -> None:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("position", "change", "table", "row"):
            table.add_column(heading, no_wrap=True)
        half = _SHOWN // 2
        shown = log if len(log) <= _SHOWN else [*log[:half], None, *log[-half:]]
        for row in shown:
            if row is None:
                table.add_row("…", "", "", f"({len(log) - 2 * half} more)")
                continue
            head = (
                f"{row['_file']}:{row['_offset']}",
                row["operation"],
                f"{row['database']}.{row['table']}",
            )
            text = Text(_row_text(row["after"] if row["after"] is not None else row["before"]))
            text.truncate(max(20, self._console.width - _HEAD_WIDTH), overflow="ellipsis")
            table.add_row(*head, text)
        self._console.print(table)

    def _show_proof(self, proof: Proof, log: list[dict[str, Any]]) -> None:
        self._heading("3", "Is anything lost, repeated or changed?")
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("table")
        for heading in ("inserts", "updates", "deletes", "rows in the end"):
            table.add_column(heading, justify="right")
        table.add_column("equals the server's SELECT")
        for one in proof.tables:
            verdict = Text("yes", style="green")
            if one.differences:
                verdict = Text(f"NO: {one.differences[0]}", style="bold red")
            counts = (one.inserts, one.updates, one.deletes, one.rows)
            table.add_row(one.table, *map(str, counts), verdict)
        self._console.print(table)
        self._say(
            f"Of {proof.changes} changes in the binlog {proof.missing} are missing, "
            f"{proof.repeated} repeated, {proof.strange} different."
        )
        self._console.print()
        style = "bold green" if proof.holds else "bold red"
        words = "The change log equals the source." if proof.holds else "It does NOT equal it."
        self._console.print(Text(words, style=style), f"({time.monotonic() - self._began:.0f} s)")
        self._say(f"Change log (Delta table): {self._change_log}")
        self._say(f"Its configuration:        {self._config}")


def _reached(log: list[dict[str, Any]]) -> str:
    if not log:
        return "nothing"
    return f"{log[-1]['_file']}:{log[-1]['_offset']} (GTID {log[-1]['_gtid']})"


def _row_text(text: str) -> str:
    values = json.loads(text)
    return ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in values.items())
