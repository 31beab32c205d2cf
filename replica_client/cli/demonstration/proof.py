"""The proof and the screen of the demo."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from replica_client import testing
from replica_client.errors import ReplicaClientError
from replica_client.rows.json_values import row_to_json
from replica_client.rows.row_change import Change
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.testing.source import BinlogSource

DATA = Path(testing.__file__).parent / "data"


class ServedBinlog:
    """The shipped binlog files, their first one served at first.

    Attributes:
        files: both parts, in order.
        expected: what the server that wrote them answered to SELECT in the end.
        url: of the source, with the password of a user that only this source knows.
    """

    def __init__(self) -> None:
        self.expected: dict[str, Any] = json.loads((DATA / "expected.json").read_text("utf-8"))
        self.files = [DATA / name for name in self.expected["files"]]
        self.url = ""
        self._source: BinlogSource | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def changes(self, part: int | None = None) -> list[Change]:
        """Return the row changes in a part, or in all files, read straight from them."""
        files = self.files if part is None else [self.files[part]]
        return list(open_binlog(files).changes())

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the first file on loopback while the block runs."""
        loop = self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="demo source", daemon=True)
        thread.start()
        try:
            self._source = asyncio.run_coroutine_threadsafe(self._open(), loop).result()
            self.url = self._source.url
            yield
        finally:
            if self._source is not None:
                asyncio.run_coroutine_threadsafe(self._source.close(), loop).result(5)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(5)

    async def _open(self) -> BinlogSource:
        # This login alone needs no package of cryptography, for which the demo would wait.
        source = BinlogSource(self.files[0], auth_plugin="mysql_native_password")
        await source.start()
        return source

    def add_rest(self) -> None:
        """Add the other files to the source."""
        assert self._source is not None
        assert self._loop is not None
        for file in self.files[1:]:
            self._loop.call_soon_threadsafe(self._source.add_file, file)


_STOP_TIMEOUT = 10


class ClientProcess:
    """A running command: Python, and Java and its workers if it has them, in a process group of their own.

    Args:
        arguments: of ``replica-client``, the subcommand first.
        output: what it prints goes to this file; without it :meth:`result` has it.
    """

    def __init__(self, arguments: Sequence[str], output: Path | None = None) -> None:
        self._name = arguments[0]
        self._said: IO[bytes] = (
            tempfile.TemporaryFile() if output is None else output.open("w+b")  # noqa: SIM115
        )
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "replica_client", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to all of it: no process of it can tidy up."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_STOP_TIMEOUT)

    def wait(self) -> None:
        """Wait for its end.

        Raises:
            ReplicaClientError: it failed; with its error line.
        """
        status = self._process.wait()
        if status:
            lines = _text(self._errors).splitlines()
            said = lines[-1] if lines else f"exit status {status}"
            raise ReplicaClientError(
                f"{self._name} failed: {said.removeprefix('replica-client: ')}"
            )

    def result(self) -> dict[str, Any]:
        """Return the JSON object that it printed in the end.

        Raises:
            ReplicaClientError: it failed; with its error line.
        """
        self.wait()
        value: dict[str, Any] = json.loads(_text(self._said))
        return value


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace").strip()


@contextmanager
def client_process(arguments: Sequence[str], output: Path | None = None) -> Iterator[ClientProcess]:
    """Run a command that ends with the block."""
    process = ClientProcess(arguments, output)
    try:
        yield process
    finally:
        process.kill()


Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class TableProof:
    """One table: its changes by kind, its rows in the end, and whether SELECT gave the same."""

    table: str
    inserts: int
    updates: int
    deletes: int
    rows: int
    expected_rows: int
    differences: tuple[str, ...]


@dataclass(frozen=True)
class Proof:
    """Print the verdict.

    Attributes:
        changes: in the binlog.
        missing: of them not in the change log.
        repeated: in the change log more than once.
        strange: in the change log and not in the binlog, or other than there.
        tables: by table.
    """

    changes: int
    missing: int
    repeated: int
    strange: int
    tables: tuple[TableProof, ...]

    @property
    def holds(self) -> bool:
        """Whether all is equal."""
        faults = self.missing or self.repeated or self.strange
        return not faults and not any(table.differences for table in self.tables)


def prove(log: Rows, changes: Sequence[Change], expected: Mapping[str, Rows]) -> Proof:
    """Compare a change log with the binlog's changes and the tables' rows.

    Args:
        log: of the change log.
        changes: of the binlog, decoded from its files.
        expected: rows by table as the server's SELECT printed them, first column the key.
    """
    wanted = {(c.file, c.offset, c.row_index): _content(c) for c in changes}
    found: dict[Any, Any] = {}
    repeated = strange = 0
    for row in log:
        position = (row["_file"], row["_offset"], row["_row_index"])
        if position in found:
            repeated += 1
        found[position] = (
            row["database"],
            row["table"],
            row["operation"],
            row["before"],
            row["after"],
        )
        if wanted.get(position) != found[position]:
            strange += 1
    return Proof(
        len(wanted),
        sum(position not in found for position in wanted),
        repeated,
        strange,
        tuple(_table(name, log, rows) for name, rows in expected.items()),
    )


def _content(change: Change) -> tuple[Any, ...]:
    before = None if change.before is None else row_to_json(change.before)
    after = None if change.after is None else row_to_json(change.after)
    return change.database, change.table, change.kind, before, after


def _table(name: str, log: Rows, expected: Rows) -> TableProof:
    key = next(iter(expected[0]))
    mine = [row for row in log if row["table"] == name]
    counts = {kind: sum(row["operation"] == kind for row in mine) for kind in _KINDS}
    state: dict[str, dict[str, Any]] = {}
    for row in mine:
        if row["before"] is not None:
            state.pop(str(json.loads(row["before"])[key]), None)
        if row["after"] is not None:
            after = json.loads(row["after"])
            state[str(after[key])] = after
    differences = list(_differences(name, key, state, expected))
    return TableProof(
        name,
        counts["insert"],
        counts["update"],
        counts["delete"],
        len(state),
        len(expected),
        tuple(differences),
    )


_KINDS = ("insert", "update", "delete")


def _differences(
    name: str, key: str, state: Mapping[str, dict[str, Any]], expected: Rows
) -> Iterable[str]:
    keys = {row[key] for row in expected}
    for extra in sorted(set(state) - keys):
        yield f"{name} {key}={extra} should not be there"
    for row in expected:
        mine = state.get(row[key])
        if mine is None:
            yield f"{name} {key}={row[key]} is missing"
            continue
        for column, text in row.items():
            if column not in mine or not _same(mine[column], text):
                value = json.dumps(mine.get(column), ensure_ascii=False)
                yield f"{name} {key}={row[key]}: {column} is {value}, SELECT gave {text!r}"


def _same(value: Any, text: str | None) -> bool:
    """Return whether a value of a JSON row is what SELECT printed."""
    if value is None or text is None:
        return value is None and text is None
    if isinstance(value, dict) and list(value) == ["$binary"]:
        return b64decode(value["$binary"]).hex().upper() == text
    if isinstance(value, dict | list | bool):
        return bool(json.loads(text) == value)
    return str(value) == text


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
        """Print a line of text."""
        self._console.print(Text(text))

    def heading(self, text: str) -> None:
        """Print the numbered heading of an act."""
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
                    raise ReplicaClientError(
                        f"{doing()}: nothing was received within {timeout:g} s"
                    )
                if self._console.is_terminal:
                    status.update(doing())
                elif now - said >= _SILENCE:
                    said = now
                    self.say(f"{doing()} ({now - began:.0f} s)")
                time.sleep(_LOOK)

    def changes(self, log: Rows) -> None:
        """Print the first and the last changes of a change log."""
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
        """Print the verdict.

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
