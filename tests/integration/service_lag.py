"""How far behind the source the lines of the service's file sink are.

Used by scripts/measure_service_lag. The server writes rows at a rate, with the time; the files are read as they grow.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from tests.integration.daemon_process import DaemonProcess
from tests.integration.saving_proof import Lags, Writer
from tests.servers.local import LocalServer


class LineWatch(threading.Thread):
    """Reads the lines of a file sink as they are written; keeps when each came, and what it is."""

    def __init__(self, directory: Path) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self.halt = threading.Event()
        self.chunks: list[tuple[float, bytes]] = []

    def run(self) -> None:
        file, number, checked = None, 0, 0.0
        while not self.halt.is_set():
            data = b"" if file is None else os.read(file, 1 << 20)
            if data:
                self.chunks.append((time.time(), data))
                continue
            if time.monotonic() - checked > 0.1:
                checked = time.monotonic()
                following = self._directory / f"changes-{number + 1:06d}.jsonl"
                if following.exists():
                    if file is not None:
                        os.close(file)
                    file, number = os.open(following, os.O_RDONLY), number + 1
            time.sleep(0.002)

    def lags(self) -> list[float]:
        """Seconds between the writing of a row and its line."""
        found, rest = [], b""
        for came, data in self.chunks:
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            found += [came - json.loads(line)["after"]["at"] for line in lines]
        return found


def measure(
    server: LocalServer,
    directory: Path,
    *,
    rate: int,
    seconds: float,
    batch_seconds: float | None = None,
) -> Lags:
    """Run the service with a file sink while the server writes at a rate."""
    writer = Writer(server, f"served_{rate}", rate)
    source = {"name": "shop", "url": server.url(), "tables": [f"{writer.database}.t"]}
    sinks: list[dict[str, Any]]
    sinks = [{"name": "lines", "type": "file", "path": str(directory / "changes")}]
    if batch_seconds is not None:
        sinks[0]["batch_seconds"] = batch_seconds
    service = DaemonProcess(directory, source, sinks)
    watch = LineWatch(directory / "changes")
    service.start()
    try:
        service.until(lambda one: one.route("lines")["state"] == "streaming")
        watch.start()
        writer.start()
        time.sleep(seconds)
        writer.stop()
        time.sleep(2.0)
    finally:
        watch.halt.set()
        watch.join(10)
        service.stop()
    return Lags("service, file sink", seconds, watch.lags(), 0.0)
