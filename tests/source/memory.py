"""Time and peak memory of each interface while it reads very large rows or transactions.

Used by scripts/benchmarks/memory. The testing source makes the events in a process of its own; what reads them
is another process, whose largest resident size is taken from the kernel, pyarrow and all else included.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import replica_client as rc
from tests.integration.daemon_process import DaemonProcess
from tests.source.sizes import generating_source

ITERATORS = ("events", "changes", "transactions", "batches")
COMMANDS = {"changes --json": ("changes", "--json"), "events --json": ("events", "--json")}
SERVICES: dict[str, dict[str, Any]] = {
    "service, file sink": {"type": "file"},
    "service, file sink, debezium": {"type": "file", "format": "debezium"},
    "service, sqlite sink": {"type": "sqlite", "unknown_tables": "create"},
    "service, parquet sink": {"type": "parquet"},
}
STREAMS = "streams"
KINDS = (*ITERATORS, *COMMANDS, *SERVICES)
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Peak:
    """What an interface took.

    Attributes:
        kind: of interface.
        size: bytes of the file that was read, by every stream.
        peak: bytes of the largest resident size of the process.
        seconds: of wall time, start of the program included.
        cpu: seconds of processor.
    """

    kind: str
    size: int
    peak: int
    seconds: float
    cpu: float

    def __str__(self) -> str:
        return (
            f"{self.kind}: peak {self.peak >> 20:,} MiB, {self.peak / self.size:.2f} times what was read; "
            f"{self.seconds:.1f} s, {self.cpu:.1f} s of a processor"
        )


def measure(directory: Path, kind: str, row_size: int, count: int, *, streams: int = 1) -> Peak:
    """Let an interface read a transaction of ``count`` rows of one column, and a small one.

    Args:
        directory: that is empty.
        kind: one of :data:`KINDS`, or :data:`STREAMS`.
        row_size: bytes of a value.
        count: rows.
        streams: how many streams of one process read it at the same time.
    """
    with generating_source(directory, row_size, count) as (url, size):
        begun = time.monotonic()
        if kind in SERVICES:
            peak, cpu = _serve(directory, url, count + 1, SERVICES[kind])
        else:
            if kind in COMMANDS:
                command = ("-m", "replica_client", *COMMANDS[kind], url)
                command += ("--start", "earliest", "--stop-at-end")
            else:
                command = ("-m", __name__, kind, url, str(streams))
            peak, cpu = _run(sys.executable, *command)
        return Peak(kind, size, peak, time.monotonic() - begun, cpu)


def _run(*command: str) -> tuple[int, float]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)}: status {process.returncode}")
    return usage.ru_maxrss << 10, usage.ru_utime + usage.ru_stime


def _serve(directory: Path, url: str, rows: int, service_sink: dict[str, Any]) -> tuple[int, float]:
    source = {"name": "s", "url": url, "start": "earliest"}
    sink = {"name": "sink", "path": str(directory / "sink"), **service_sink}
    with DaemonProcess(directory, source, [sink]) as service:
        service.until(lambda one: one.route("sink")["rows"] >= rows, timeout=600)
        assert service.process is not None
        status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
        peak = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
        fields = Path(f"/proc/{service.process.pid}/stat").read_text(encoding="ascii")
        times = fields.rpartition(") ")[2].split()[11:13]
        cpu = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        with suppress(subprocess.TimeoutExpired):
            service.stop(5)
    return peak << 10, cpu


async def read(kind: str, url: str) -> int:
    """Read all of a source by an iterator, and look at every value; returns their bytes."""
    assembly = rc.AssemblyOptions(rc.Selection(), on_unknown_table="positional")
    total = 0
    async with rc.connect(url, start="earliest", stop_at_end=True, assembly=assembly) as stream:
        if kind == "events":
            async for event in stream.events():
                total += event.header.event_size
        elif kind == "changes":
            async for change in stream.changes():
                total += len(change.after[0])
                del change
        elif kind == "batches":
            async for batch in stream.batches():
                total += batch.nbytes
                del batch
        else:
            async for transaction in stream.transactions():
                for change in transaction.changes:
                    total += len(change.after[0])
                    del change
    return total


async def _read_all(kind: str, url: str, streams: int) -> None:
    kind = "transactions" if kind == STREAMS else kind
    await asyncio.gather(*(read(kind, url) for _ in range(streams)))


if __name__ == "__main__":
    asyncio.run(_read_all(sys.argv[1], sys.argv[2], int(sys.argv[3])))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
