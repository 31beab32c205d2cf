"""What the demonstration shows: headings, the first and last changes, the proof."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from replica_client.cli.demonstration.killable import ClientProcess
from replica_client.cli.demonstration.proof import Proof, Rows
from replica_client.errors import ReplicaClientError

_LOOK = 0.1
_SILENCE = 4.0
_SHOWN = 6
_HEAD_WIDTH = 46


class Screen:
    """Standard output, and the seconds since it was made."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._began = time.monotonic()
        self._headings = 0

    @property
    def seconds(self) -> float:
        """Since the demonstration began."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """A line of text."""
        self._console.print(Text(text))

    def heading(self, text: str) -> None:
        """The numbered heading of an act."""
        self._headings += 1
        self._console.print()
        self._console.print(Text(f"{self._headings}. {text}", style="bold"))

    def wait(
        self,
        process: ClientProcess,
        done: Callable[[], bool],
        doing: Callable[[], str],
        timeout: float,
    ) -> None:
        """Wait for a process to come so far, and say every few seconds what it does.

        Args:
            process: that must go on until then.
            done: whether it is so far.
            doing: what to say meanwhile.
            timeout: seconds.

        Raises:
            ReplicaClientError: the process failed, or the time is over.
        """
        began = said = time.monotonic()
        with self._console.status(doing()) as status:
            while not done():
                now = time.monotonic()
                if not process.running:
                    process.wait()
                    if done():
                        return
                    raise ReplicaClientError(f"{doing()}: it ended too early")
                if now - began > timeout:
                    raise ReplicaClientError(f"{doing()}: nothing came within {timeout:g} s")
                if self._console.is_terminal:
                    status.update(doing())
                elif now - said >= _SILENCE:
                    said = now
                    self.say(f"{doing()} ({now - began:.0f} s)")
                time.sleep(_LOOK)

    def changes(self, log: Rows) -> None:
        """The first and the last changes of a change log."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("position", "change", "table", "row"):
            table.add_column(name, no_wrap=True)
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

    def proof(self, proof: Proof, what: str) -> None:
        """The verdict.

        Args:
            proof: of it.
            what: was compared with the source.
        """
        self.heading("Is anything lost, repeated or changed?")
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("table")
        for name in ("inserts", "updates", "deletes", "rows in the end"):
            table.add_column(name, justify="right")
        table.add_column("equals SELECT")
        for one in proof.tables:
            verdict = Text("yes", style="green")
            if one.differences:
                verdict = Text(f"NO: {one.differences[0]}", style="bold red")
            counts = (one.inserts, one.updates, one.deletes, one.rows)
            table.add_row(one.table, *map(str, counts), verdict)
        self._console.print(table)
        self.say(
            f"Of {proof.changes} changes in the binlog, {proof.missing} are missing, "
            f"{proof.repeated} repeated, {proof.strange} different."
        )
        self._console.print()
        style = "bold green" if proof.holds else "bold red"
        words = "equals the source." if proof.holds else "does NOT equal the source."
        self._console.print(Text(f"{what} {words}", style=style), f"({self.seconds:.0f} s)")


def reached(log: list[dict[str, Any]]) -> str:
    """Up to where a change log goes."""
    if not log:
        return "nothing"
    return f"{log[-1]['_file']}:{log[-1]['_offset']} (GTID {log[-1]['_gtid']})"


def _row_text(text: str) -> str:
    values = json.loads(text)
    return ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in values.items())
