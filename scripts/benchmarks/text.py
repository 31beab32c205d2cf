"""Text: our commands beside mysqlbinlog and mariadb-binlog, on the same file."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from local_servers.binaries import program_command, tool_path
from local_servers.recipes import RECIPES

from benchmarks.workloads import Workload

OURS = {
    "changes --json": ("changes", "--json"),
    "changes": ("changes",),
    "events --json": ("events", "--json"),
    "events": ("events",),
    "check": ("check",),
}
TOOLS = {
    "mysqlbinlog -v": ("mysql-9.7", "mysqlbinlog"),
    "mariadb-binlog -v": ("mariadb-11.8", "mariadb-binlog"),
}
SCALES = {"a": 0.27, "b": 0.29, "c": 1.0, "d": 1.0, "e": 0.27, "f": 0.2}
"""How much of each workload is about 40 MB."""


def text_files(
    directory: Path,
    workloads: Sequence[Workload],
    write: Callable[[Workload, float], Path],
    scale: float = 1.0,
) -> dict[str, Path]:
    """The binlog file of each workload, written where it is not there yet; a scale of 1.0 is about 40 MB."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {}
    for workload in workloads:
        number = f"{workload.name}-{scale:g}" if scale != 1.0 else workload.name
        path = directory / f"{number}.000001"
        if not path.exists():
            shutil.copy(write(workload, SCALES[workload.name] * scale), path)
        files[workload.name] = path
    return files


def measure_text(files: dict[str, Path], rounds: int, only: Sequence[str] = ()) -> None:
    """Print medians of CPU seconds and peaks, and how many times as much the tools take."""
    if files:
        _timed([sys.executable, "-m", "replica_client", "check", str(next(iter(files.values())))])
    for name, path in files.items():
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            for client, words in OURS.items():
                if not only or client in only:
                    command = [sys.executable, "-m", "replica_client", *words, str(path)]
                    runs.setdefault(client, []).append(_timed(command))
            for client, (server, tool) in TOOLS.items():
                command = [*_tool(server, tool), "--no-defaults", "-v"]
                command += ["--base64-output=DECODE-ROWS", str(path)]
                found = _timed(command)
                if found["status"] == 0:
                    runs.setdefault(client, []).append(found)
        _show(name, path, runs)


def _tool(server: str, tool: str) -> list[str]:
    """The program itself: a start through scripts/servers would be measured with it."""
    recipe = RECIPES[server]
    return program_command(recipe, tool_path(recipe, tool))


def _timed(command: list[str]) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    # As after an installation, which compiles modules to bytecode: not anew at each start.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return {
        "cpu": usage.ru_utime + usage.ru_stime,
        "wall": time.perf_counter() - begun,
        "rss_mb": usage.ru_maxrss / 1024,
        "status": status,
    }


def _show(name: str, path: Path, runs: dict[str, list[dict[str, Any]]]) -> None:
    size = path.stat().st_size / 1e6
    medians = {
        client: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for client, found in runs.items()
    }
    peers = [client for client in TOOLS if client in medians]
    print(f"\n{name}: {size:.0f} MB")
    print(f"  {'':18} {'cpu s':>7} {'wall s':>7} {'MB/cpu s':>9} {'peak MB':>8}  peers / ours")
    for client, found in medians.items():
        ratios = "  ".join(f"{medians[peer]['cpu'] / found['cpu']:5.2f}" for peer in peers)
        status = "" if found["status"] == 0 else f"  status {found['status']:.0f}"
        print(
            f"  {client:18} {found['cpu']:7.3f} {found['wall']:7.3f} {size / found['cpu']:9.0f}"
            f" {found['rss_mb']:8.0f}  {ratios}{status}",
            flush=True,
        )
