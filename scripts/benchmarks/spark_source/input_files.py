"""Binlogs of mixed tables: the workloads of scripts/bench on a server, copied until they are enough."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.workloads import WORKLOADS

_SERVERS = str(Path(__file__).resolve().parents[2] / "servers")
_SCALES = {"a": 0.25, "b": 0.25, "c": 0.3, "d": 0.1}


def prepare(directory: Path, size: int) -> Iterator[dict[str, Any]]:
    """Fill a directory with files ``binlog.000001`` and so on."""
    import pymysql

    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, _SERVERS, "start", "mysql-9.7", "--json"]
    command.append("--option=binlog-row-metadata=FULL")
    started = subprocess.run(command, capture_output=True, text=True, check=True)
    server = json.loads(started.stdout.strip().splitlines()[-1])
    try:
        user, password = server["root_user"], server["root_password"]
        connection = pymysql.connect(unix_socket=server["socket"], user=user, password=password)
        with connection.cursor() as cursor:
            for name, scale in _SCALES.items():
                cursor.execute(f"CREATE DATABASE w{name}")
                cursor.execute(f"USE w{name}")
                changes = WORKLOADS[name].write(connection, scale)
                cursor.execute("FLUSH BINARY LOGS")
                yield {"workload": name, "changes": changes}
            cursor.execute("SHOW BINARY LOGS")
            names = [str(row[0]) for row in cursor.fetchall()][: len(_SCALES)]
        files = [Path(server["datadir"], name) for name in names]
        total = number = 0
        for file in itertools.cycle(files):
            number += 1
            shutil.copy(file, directory / f"binlog.{number:06d}")
            total += file.stat().st_size
            if total >= size:
                break
        yield {"files": number, "bytes": total}
    finally:
        subprocess.run([sys.executable, _SERVERS, "stop", server["id"]], check=False)
