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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_client.storage.files import names_in, open_file
from replica_client.storage.location import Location
from tests import processes
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


def run_to_end(server: LocalServer, directory: Path, *options: str) -> list[dict[str, object]]:
    """A run with --stop-at-end; the lines that it printed."""
    done = processes.run(
        command(server, directory, "--stop-at-end", "--json", *options),
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


def read_copy(directory: Path, entry: dict[str, Any], store: Location | None) -> bytes:
    """A file of a backup, where it is; kept ones only in the store."""
    if entry["kept"] is None:
        return Path(directory, entry["name"]).read_bytes()
    assert store == directory or not (directory / entry["name"]).exists()
    with open_file((store or directory) / entry["kept"]) as stream:
        return bytes(stream.read())


def compare(server: LocalServer, directory: Path, store: Location | None = None) -> dict[str, int]:
    """Every file of the source against its copy, and the index against both.

    Args:
        server: the source.
        directory: of the backup.
        store: where it keeps finished files; None: it does not.

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
        ours = read_copy(directory, entry, store)
        assert (entry["kept"] is not None) == (store is not None and name not in names[-2:])
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
    here = names if store is None else names[-2:]
    kept = {entry["kept"] for entry in entries if entry["kept"]}
    if store == directory:
        here = [*here, *kept, *(f"{name}.rcindex.rce" for name in names[:-2])]
    elif store is not None:
        assert kept <= set(names_in(store))
    assert there - {f"{name}.rcindex" for name in names[:-1]} == {"backup.json", *here}
    return sizes


def copied(
    server: LocalServer,
    directory: Path,
    back_up: Callable[[], object],
    store: Location | None = None,
) -> dict[str, int]:
    """Back up and compare; again if the source wrote in between.

    MariaDB writes BINLOG_CHECKPOINT events when it finds the time.
    """
    while True:
        position = server.binlog_position()
        back_up()
        try:
            return compare(server, directory, store)
        except AssertionError:
            if server.binlog_position() == position:
                raise


def prove(
    server: LocalServer,
    directory: Path,
    *,
    kills: int,
    seed: int,
    restarts: bool = True,
    options: Sequence[str] = (),
    store: Location | None = None,
) -> BackupReport:
    """Run a workload with rotations, kill the client ``kills`` times, and compare every file.

    With ``restarts`` the source is shut down once and killed once in between. With ``options`` finished files
    are kept in ``store``.
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
                client = processes.Popen(
                    command(server, directory, *options), stdout=log, stderr=log
                )
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
    report.sizes = copied(server, directory, lambda: run_to_end(server, directory, *options), store)
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
    before = _reached(directory)
    deadline = time.monotonic() + 30
    while client.poll() is None and _reached(directory) <= before and time.monotonic() < deadline:
        time.sleep(0.005)


def _files(directory: Path) -> list[Path]:
    there = directory.glob("*.0*") if directory.exists() else ()
    return sorted(p for p in there if p.suffix[1:].isdigit())


def _reached(directory: Path) -> tuple[str, int]:
    found = _files(directory)
    return (found[-1].name, found[-1].stat().st_size) if found else ("", 0)


def _is_torn(directory: Path) -> bool:
    from tests.header_scan import HeaderScan

    found = _files(directory)
    if not found:
        return False
    scan = HeaderScan(found[-1].read_bytes())
    for _ in scan:
        pass
    return scan.truncated
