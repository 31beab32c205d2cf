"""Lakes of the composition proof: pipelines as processes, with output on this machine or in an object store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client.errors import ReplicaClientError
from replica_client.lake.lake_tables import open_lake
from tests import processes
from tests.integration.daemon_process import free_port, toml_table
from tests.integration.lake_readers import plain
from tests.integration.mirror_source import shortest_float

_END_SECONDS = 60.0


@dataclass
class LakeProcess:
    """``replica-client pipeline`` that runs until it is ended.

    Attributes:
        directory: of its configuration and log.
        source: the URL of the source.
        output: directory or URL of the lake.
        tables: that it takes.
        environment: of the process, and of whoever reads the lake.
        name: in messages.
    """

    directory: Path
    source: str
    output: str
    tables: list[str]
    environment: Mapping[str, str]
    name: str
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        return self.directory / "pipeline.toml"

    @property
    def log(self) -> Path:
        return self.directory / "pipeline.log"

    def standby(self, directory: Path) -> LakeProcess:
        """Return another process for the same lake, which does not run yet."""
        directory.mkdir()
        return LakeProcess(
            directory, self.source, self.output, self.tables, self.environment, self.name
        )

    def start(self) -> None:
        source = {"url": self.source, "tables": self.tables, "start": "snapshot"}
        pipeline = {"output": self.output, "trigger": "continuous", "interval": "200 milliseconds"}
        pipeline |= {"engine": "local", "listen": f"127.0.0.1:{self.port}"}
        parts = {"[source]": source, "[pipeline]": pipeline, "[lake]": {"chunk_rows": 15}}
        self.config.write_text("\n".join(toml_table(*one) for one in parts.items()))
        with self.log.open("ab") as log:
            self.process = processes.Popen(
                [sys.executable, "-m", "replica_client", "pipeline", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, which must run."""
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} ended by itself: {self.tail()}"
        self.process.send_signal(number)

    def end(self) -> None:
        """End the process as an operator does."""
        self.send(signal.SIGINT)
        assert self.process is not None
        self.process.wait(_END_SECONDS)

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]

    def status(self) -> dict[str, Any] | None:
        """Return the state that the process shows; None while it shows none."""
        try:
            address = f"http://127.0.0.1:{self.port}/status.json"
            with urllib.request.urlopen(address, timeout=10) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except (OSError, ValueError, urllib.error.URLError):
            return None

    def until(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> None:
        """Wait for a state."""
        deadline = time.monotonic() + seconds
        found = None
        while found is None or not condition(found):
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended by itself: {self.tail()}"
            assert time.monotonic() < deadline, f"{self.name}: {found}: {self.tail()}"
            time.sleep(0.1)
            found = self.status()

    def until_log(self, text: str, seconds: float) -> None:
        """Wait until the log has some words."""
        deadline = time.monotonic() + seconds
        while text not in self.tail():
            assert time.monotonic() < deadline, f"{self.name}: no {text!r}: {self.tail()}"
            time.sleep(0.1)

    def compare(self, expected: Callable[[str], list[dict[str, Any]]], seconds: float) -> int:
        """Wait until each table has the rows of the source, and return the number of tables.

        Raises:
            AssertionError: a table differs after the time.
        """
        deadline, wrong = time.monotonic() + seconds, ""
        self.until(_is_ready, seconds)
        for table in self.tables:
            wanted = Counter(map(_row, expected(table)))
            while wrong := self._difference(table, wanted):
                assert self.process is not None
                assert self.process.poll() is None, f"{self.name} ended by itself: {self.tail()}"
                assert time.monotonic() < deadline, f"{self.name}: {table}: {wrong}: {self.tail()}"
                time.sleep(0.3)
        self.until(_is_ready, seconds)
        return len(self.tables)

    def _difference(self, table: str, wanted: Counter[str]) -> str:
        try:
            # Rows as deltalake reads them, not this package.
            options = {name.lower(): value for name, value in self.environment.items()}
            delta = open_lake(self.output, options).table(table).delta()
            found = Counter(map(_row, delta.to_pyarrow_table().to_pylist()))
        except (ReplicaClientError, OSError) as error:
            return str(error)
        if found == wanted:
            return ""
        return f"lacks {list(wanted - found)[:3]}, has {list(found - wanted)[:3]}"


def _is_ready(status: dict[str, Any]) -> bool:
    return bool(status["streams"]) and all(one["status"] == "current" for one in status["tables"])


def _row(row: Mapping[str, Any]) -> str:
    shown = {name: plain(value) for name, value in row.items() if not name.startswith("_")}
    return repr(
        sorted(
            (name, shortest_float(value) if isinstance(value, float) else value)
            for name, value in shown.items()
        )
    )
