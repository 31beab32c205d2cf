"""A daemon as a process of its own, with a configuration made for a test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import processes

START_TIMEOUT = 60.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return json.dumps(str(value)) if isinstance(value, Path) else json.dumps(value)


def toml_table(heading: str, values: Mapping[str, Any]) -> str:
    lines = [f"{key} = {toml_value(value)}" for key, value in values.items()]
    return "\n".join([heading, *lines, ""])


@dataclass
class DaemonProcess:
    """``replica-client run`` in a directory.

    Attributes:
        directory: of the configuration and the state.
        source: keys of ``[[source]]``.
        sinks: keys of each ``[[source.sink]]``.
        daemon: more keys of ``[daemon]``.
        store: keys of ``[store]``.
        before: a command that it is run with.
        output: where standard output goes; into the log by default.
    """

    directory: Path
    source: dict[str, Any]
    sinks: list[dict[str, Any]]
    daemon: dict[str, Any] = field(default_factory=dict)
    store: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    before: tuple[str, ...] = ()
    output: int | None = None

    @property
    def config(self) -> Path:
        return self.directory / "daemon.toml"

    @property
    def log(self) -> Path:
        return self.directory / "daemon.log"

    def write_config(self) -> None:
        daemon = {"listen": f"127.0.0.1:{self.port}", "sample_seconds": 1.0, **self.daemon}
        parts = [toml_table("[daemon]", daemon)]
        if self.store:
            parts.append(toml_table("[store]", self.store))
        parts.append(toml_table("[[source]]", {"name": "source", "poll": 0.2, **self.source}))
        parts += [toml_table("[[source.sink]]", sink) for sink in self.sinks]
        self.config.write_text("\n".join(parts))

    def start(self) -> None:
        self.write_config()
        with self.log.open("ab") as log:
            self.process = processes.Popen(
                [*self.before, sys.executable, "-m", "replica_client", "run", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log if self.output is None else self.output,
                stderr=log,
                env={**os.environ, **self.environment},
            )

    def kill(self) -> None:
        """End it as a crash would."""
        assert self.process is not None
        assert self.process.poll() is None, f"it ended by itself: {self.tail()}"
        self.process.kill()
        self.process.wait()

    def stop(self, timeout: float = 40.0) -> int:
        """SIGTERM; returns the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> DaemonProcess:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]

    def get(self, path: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}{path}", timeout=10
            ) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/status.json")[1])
        return found

    def route(self, sink: str) -> dict[str, Any]:
        return next(route for route in self.status()["routes"] if route["sink"] == sink)

    def metric(self, name: str, **labels: str) -> float:
        for line in self.get("/metrics")[1].decode().splitlines():
            if line.startswith(name + "{") and all(
                f'{key}="{value}"' in line for key, value in labels.items()
            ):
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name} {labels}")

    def until(
        self, condition: Callable[[DaemonProcess], bool], timeout: float = START_TIMEOUT
    ) -> float:
        """Wait for something; returns the seconds."""
        begun = asked = time.monotonic()
        while asked - begun < timeout:
            assert self.process is not None
            assert self.process.poll() is None, f"the daemon ended by itself: {self.tail()}"
            try:
                if condition(self):
                    return time.monotonic() - begun
            except (OSError, ValueError):
                pass  # not there yet
            # The status of many tables and sinks costs the daemon time that its sinks need.
            time.sleep(max(0.05, 4 * (time.monotonic() - asked)))
            asked = time.monotonic()
        raise AssertionError(f"not within {timeout:.0f} s: {self.tail()}")

    def until_level(self, timeout: float = START_TIMEOUT) -> float:
        """Wait until every sink has committed everything that the source has now.

        A look of the service at the source from before this call counts for nothing: where the sinks
        have not moved yet, they are level with it.
        """
        called_at: float | None = None

        def level(daemon: DaemonProcess) -> bool:
            nonlocal called_at
            status = daemon.status()
            if called_at is None:
                called_at = status["now"]  # the service's clock, which a test may set
            ends = {one["name"]: one for one in status["sources"]}
            return all(
                one["looked_at"] is not None and one["looked_at"] > called_at
                for one in ends.values()
            ) and all(
                route["state"] == "streaming"
                and route["lag_bytes"] == 0
                and route["lag_seconds"] == 0
                and _is_at(route, ends[route["source"]])
                for route in status["routes"]
            )

        return self.until(level, timeout)


def _is_at(route: dict[str, Any], end: dict[str, Any]) -> bool:
    if route["file"] is None or end["file"] is None:
        return False
    if route["gtids"] and end["gtids"]:
        return bool(route["gtids"].replace(" ", "") == end["gtids"].replace(" ", ""))
    return bool((route["file"], route["offset"]) == (end["file"], end["offset"]))
