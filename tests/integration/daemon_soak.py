"""Many gigabytes through a daemon at full speed: memory and file descriptors stay flat.

A real server writes one binlog file; the testing source serves it again and again under the next names,
each copy ending in a rotation to the next one.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client.protocol.binlog.events import RotateEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.server.served_files import ServedFile
from replica_client.server.served_library import make_event
from replica_client.testing import BinlogSource
from tests.integration.daemon_process import DaemonProcess
from tests.servers.local import LocalServer

MIB = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")


class RepeatedFile(ServedFile):
    """A file whose bytes are shared with others, but for the rotation at its end."""

    def __init__(self, name: str, shared: bytes, following: str) -> None:
        self._shared = shared
        super().__init__(name, data=shared[: 1 << 16])
        self._extra = bytearray(
            make_event(
                EventType.ROTATE_EVENT,
                RotateEvent(4, following),
                self.format,
                server_id=self.server_id,
                timestamp=1,
            )
        )

    @property
    def size(self) -> int:
        return len(self._shared) + (len(self._extra) if hasattr(self, "format") else 0)

    def read(self, position: int, size: int) -> bytes:
        out = self._shared[position : position + size]
        if len(out) < size and hasattr(self, "format"):
            start = max(0, position - len(self._shared))
            out += bytes(self._extra[start : start + size - len(out)])
        return out


def written_by(server: LocalServer, size: int, text: int = 80) -> bytes:
    """A binlog file of about ``size`` bytes with transactions on a few tables, without its end.

    Rows have a text of up to ``text`` characters.
    """
    chance = random.Random(1)
    server.execute("CREATE DATABASE soak CHARACTER SET utf8mb4")
    for number in range(8):
        server.execute(
            f"CREATE TABLE soak.t{number} (id BIGINT PRIMARY KEY AUTO_INCREMENT, n BIGINT, d DECIMAL(12,2), "
            f"at DATETIME(6), t VARCHAR({text}), j JSON)"
        )
    server.rotate()
    name = server.binlog_files()[-1]
    with server.connected(autocommit=False) as connection, connection.cursor() as cursor:
        while server.binlog_path(name).stat().st_size < size:
            for _ in range(20):
                rows = [
                    (chance.randrange(1 << 60), chance.random() * 1e6, "x" * chance.randrange(text))
                    for _ in range(chance.choice((1, 5, 100)))
                ]
                cursor.executemany(
                    f"INSERT INTO soak.t{chance.randrange(8)} (n, d, at, t, j) VALUES "
                    '(%s, %s, NOW(6), %s, \'{"a": [1, 2, {"b": null}]}\')',
                    rows,
                )
                if chance.random() < 0.3:
                    cursor.execute(
                        f"UPDATE soak.t{chance.randrange(8)} SET n = n + 1 ORDER BY id DESC LIMIT 50"
                    )
                connection.commit()
    data = server.binlog_path(name).read_bytes()
    served = ServedFile(name, data=data)
    end = len(data)
    for position, header in served.headers():
        if header.type_code in (EventType.ROTATE_EVENT, EventType.STOP_EVENT):
            end = position
    served.close()
    return data[:end]


@dataclass
class SoakReport:
    """What a run saw; memory in MiB, each with the gigabytes that had come by then.

    Attributes:
        slope: growth of the resident memory in MiB per 10 GB, after the first tenth.
    """

    gigabytes: float = 0.0
    rows: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    slope: float = 0.0
    memory: list[tuple[float, float]] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)


def resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def slope_per_10_gb(samples: list[tuple[float, float]]) -> float:
    """Least squares over what lies behind the first tenth."""
    last = samples[-1][0]
    points = [(x, y) for x, y in samples if x >= last / 10]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    square = sum((x - middle_x) ** 2 for x, _ in points)
    return 10 * sum((x - middle_x) * (y - middle_y) for x, y in points) / square


async def soak(
    directory: Path,
    shared: bytes,
    gigabytes: float,
    sink: dict[str, Any],
    *,
    every: float = 5.0,
    minutes: float = 1e9,
    say: Any = lambda text: None,
) -> SoakReport:
    """Let the daemon follow until so many gigabytes came, or so many minutes passed."""
    count = int(gigabytes * 1e9 / len(shared)) + 2
    names = [f"soak.{number:06d}" for number in range(1, count + 2)]
    first = directory / names[0]
    first.write_bytes(shared)
    report = SoakReport()
    async with BinlogSource(first) as source:
        source.library.files[0].close()
        source.library.files[:] = [
            RepeatedFile(name, shared, following)
            for name, following in zip(names, names[1:], strict=False)
        ]
        daemon = DaemonProcess(
            directory,
            {"url": source.url, "start": f"{names[0]}:4", "poll": 5.0, "tls": "disabled"},
            [sink],
        )
        daemon.output = subprocess.DEVNULL
        try:
            daemon.start()
            await asyncio.to_thread(daemon.until, lambda one: one.status()["routes"][0]["rows"] > 0)
            assert daemon.process is not None
            pid = daemon.process.pid
            begun = time.monotonic()
            while report.gigabytes < gigabytes and report.seconds < minutes * 60:
                await asyncio.sleep(every)
                route = (await asyncio.to_thread(daemon.status))["routes"][0]
                assert route["state"] == "streaming", route
                report.gigabytes = route["received"] / 1e9
                report.rows = route["rows"]
                report.memory.append((report.gigabytes, resident_mib(pid)))
                report.descriptors.append(len(os.listdir(f"/proc/{pid}/fd")))
                report.seconds = time.monotonic() - begun
                report.cpu = cpu_seconds(pid)
                if len(report.memory) % 12 == 0:
                    say(
                        f"{report.gigabytes:.2f} GB, {report.rows} rows, {report.memory[-1][1]:.1f} MiB, "
                        f"{report.descriptors[-1]} descriptors, {report.seconds:.0f} s"
                    )
        finally:
            daemon.close()
    report.slope = slope_per_10_gb(report.memory)
    return report
