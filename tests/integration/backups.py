"""Kill `replica-client backup` again and again under a running workload, and compare every file.

Used by scripts/proofs/backup (long) and by test_backup.py (short).
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.integration.kills import Workload
from tests.servers.local import LocalServer


@dataclass
class BackupReport:
    """What a proof run saw.

    Attributes:
        kills: SIGKILLs sent to the client.
        torn: kills after which the newest file ended inside an event.
        rotations: FLUSH BINARY LOGS by this proof, beside those of the workload.
        restarts: of the source; crashes are those by SIGKILL.
        sizes: bytes of each file, equal at the source and in the copy.
    """

    kills: int = 0
    torn: int = 0
    rotations: int = 0
    restarts: int = 0
    crashes: int = 0
    sizes: dict[str, int] = field(default_factory=dict)


def command(server: LocalServer, directory: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "replica_client", "backup", server.url(), str(directory), *more]


def run_to_end(server: LocalServer, directory: Path) -> list[dict[str, object]]:
    """A run with --stop-at-end; the lines that it printed."""
    done = subprocess.run(
        command(server, directory, "--stop-at-end", "--json"),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


_FLAGS = 4 + 17
_CREATED = 4 + 19 + 52


def _left_between(data: bytes, following: bytes) -> bool:
    """Whether a MariaDB was killed in the instant between making a file and closing the one before.

    Both then keep LOG_EVENT_BINLOG_IN_USE_F, of which a stream says nothing.
    """
    created = int.from_bytes(following[_CREATED : _CREATED + 4], "little")
    return bool(data[_FLAGS] & 1 and following[_FLAGS] & 1 and not created)


def compare(server: LocalServer, directory: Path) -> dict[str, int]:
    """Every file of the source against its copy, and the index against both.

    Raises:
        AssertionError: a byte, a hash, a size or a file differs.
    """
    names = server.binlog_files()
    entries = json.loads((directory / "backup.json").read_text())["files"]
    assert [entry["name"] for entry in entries] == names
    sizes = {}
    contents = {name: server.binlog_path(name).read_bytes() for name in names}
    for entry, following in zip(entries, [*names[1:], None], strict=True):
        name = entry["name"]
        theirs = contents[name]
        ours = (directory / name).read_bytes()
        mariadb = server.flavor == "mariadb"
        if mariadb and following and _left_between(theirs, contents[following]):
            theirs = ours[: _FLAGS + 1] + theirs[_FLAGS + 1 :]
        first = next(
            (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None
        )
        assert ours == theirs, (
            f"{name}: {len(ours)} and {len(theirs)} bytes, the first that differs at {first}"
        )
        assert entry["size"] == len(theirs)
        assert entry["finished"] == (name != names[-1])
        if entry["finished"]:
            assert entry["sha256"] == hashlib.sha256(theirs).hexdigest()
        sizes[name] = len(theirs)
    for one, following in zip(entries, entries[1:], strict=False):
        assert one["gtid_set_after"] == following["gtid_set_before"], (one, following)
    # A kill may leave temporary files of random names, which are swept an hour later.
    there = {p.name for p in directory.iterdir() if not p.name.startswith(".")}
    assert there - {f"{name}.rcindex" for name in names[:-1]} == {"backup.json", *names}
    return sizes


def copied(server: LocalServer, directory: Path, back_up: Callable[[], object]) -> dict[str, int]:
    """Back up and compare; again if the source wrote in between.

    MariaDB writes BINLOG_CHECKPOINT events when it finds the time.
    """
    while True:
        position = server.binlog_position()
        back_up()
        try:
            return compare(server, directory)
        except AssertionError:
            if server.binlog_position() == position:
                raise


def prove(
    server: LocalServer, directory: Path, *, kills: int, seed: int, restarts: bool = True
) -> BackupReport:
    """Run a workload with rotations, kill the client ``kills`` times, and compare every file.

    With ``restarts`` the source is shut down once and killed once in between.
    """
    chance = random.Random(seed)
    database = f"backed_up_{seed}"
    server.execute(f"CREATE DATABASE {database}")
    for table in ("a", "b"):
        server.execute(
            f"CREATE TABLE {database}.{table} (id INT PRIMARY KEY, n BIGINT, t VARCHAR(60)) CHARSET utf8mb4"
        )
    report = BackupReport()
    log_file = directory.parent / "client.log"
    workload = _start(server, database, seed)
    stops = {kills // 3: "restart", 2 * kills // 3: "crash"} if restarts and kills >= 3 else {}
    try:
        while report.kills < kills:
            with log_file.open("wb") as log:
                client = subprocess.Popen(command(server, directory), stdout=log, stderr=log)
                if chance.random() < 0.9:
                    _wait_for_growth(client, directory)
                time.sleep(chance.random() * 0.4)
                if report.kills in stops:
                    _stop_source(server, workload, stops.pop(report.kills), report)
                    workload = _start(server, database, seed + 1000 * (report.restarts + 1))
                    time.sleep(0.5)
                if chance.random() < 0.3:
                    server.rotate()
                    report.rotations += 1
                    time.sleep(chance.random() * 0.05)
                assert client.poll() is None, (
                    f"the client ended by itself: {client.returncode}, {log_file.read_text()[-900:]}"
                )
                client.send_signal(signal.SIGKILL)
                client.wait()
            report.kills += 1
            report.torn += _is_torn(directory)
    finally:
        workload.halt.set()
        workload.join(30)
    assert workload.error is None, workload.error
    report.sizes = copied(server, directory, lambda: run_to_end(server, directory))
    return report


def _start(server: LocalServer, database: str, seed: int) -> Workload:
    # Each workload counts its ids from 0.
    for table in ("a", "b"):
        server.execute(f"DELETE FROM {database}.{table}")
    workload = Workload(server, database, seed)
    workload.start()
    return workload


def _stop_source(server: LocalServer, workload: Workload, how: str, report: BackupReport) -> None:
    """The client stays connected, and must come back by itself."""
    if how == "restart":
        workload.halt.set()
        workload.join(30)
        assert workload.error is None, workload.error
        report.restarts += 1
    else:
        server.kill()  # in the midst of its transactions
        workload.join(30)
        report.crashes += 1
    server.restart()


def _wait_for_growth(client: subprocess.Popen[bytes], directory: Path) -> None:
    """Let the client get to work, so that kills fall into it and not into its start."""
    before = _total(directory)
    deadline = time.monotonic() + 30
    while client.poll() is None and _total(directory) <= before and time.monotonic() < deadline:
        time.sleep(0.005)


def _total(directory: Path) -> int:
    if not directory.exists():
        return 0
    return sum(p.stat().st_size for p in directory.glob("*.0*") if p.suffix[1:].isdigit())


def _is_torn(directory: Path) -> bool:
    from tests.header_scan import HeaderScan

    newest = max(directory.glob("*.0*"), default=None) if directory.exists() else None
    if newest is None:
        return False
    scan = HeaderScan(newest.read_bytes())
    for _ in scan:
        pass
    return scan.truncated
