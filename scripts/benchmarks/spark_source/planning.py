"""How fast headers are scanned, and how long planning takes where indexes are cached."""

from __future__ import annotations

import shutil
import tempfile
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from replica_client import testing
from replica_client.archive.file_index import STEP, make_index
from replica_client.archive.file_list import ListedFile
from replica_client.archive.transaction_ranges import FileTransactionRanges
from replica_client.lake.source.file_catalog import IndexStore
from replica_client.lake.source.file_plan import FilePlanner
from replica_client.lake.source_options import SourceOptions
from replica_client.protocol.position import Position

_FIRST = Path(testing.__file__).parent / "data" / "shop-bin.000001"
_SECOND = _FIRST.with_name("shop-bin.000002")
_FILE_SIZE = 1 << 30


def _listed(path: Path) -> ListedFile:
    found = path.stat()
    return ListedFile(path.name, str(path), found.st_size, found.st_mtime_ns)


def scan_speed(directory: Path) -> Iterator[dict[str, Any]]:
    """Gigabytes per second of each file's headers, its bytes in memory."""
    options = SourceOptions(paths=(str(directory),))
    for path in sorted(directory.iterdir())[:4]:
        file = _listed(path)
        best = 1e9
        for _ in range(5):
            begun = time.perf_counter()
            for _ in FileTransactionRanges(Position(file.name, 4), options.decode, STEP).scan(file):
                pass
            best = min(best, time.perf_counter() - begun)
        yield {
            "figure": "scan",
            "file": path.name,
            "bytes": file.size,
            "gb_per_second": round(file.size / best / 1e9, 2),
        }


def plan_many(count: int) -> Iterator[dict[str, Any]]:
    """Seconds to plan files of 1 GiB each (sparse, with an index of 1024 cuts) in a new process."""
    directory = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        indexes = {}
        binlogs = directory / "binlogs"
        binlogs.mkdir()
        for number in range(1, count + 1):
            path = binlogs / f"binlog.{number:06d}"
            shutil.copy(_FIRST if number == 1 else _SECOND, path)
            short = make_index(_listed(path), SourceOptions().decode)
            with path.open("r+b") as file:
                file.truncate(_FILE_SIZE)
            whole = _listed(path)
            cuts = array("q")
            for end in range(STEP, _FILE_SIZE + 1, STEP):
                cuts.extend((end, 1_700_000_000 + number))
            indexes[whole.path] = replace(
                short, size=whole.size, modified=whole.modified, reached=whole.size, cuts=cuts
            )
        cache = directory / "cache"
        IndexStore(str(cache)).save(indexes)
        for size in ("1g", "256m"):
            begun = time.perf_counter()
            planner = FilePlanner(
                SourceOptions.parse(
                    {"path": str(binlogs), "indexDirectory": str(cache), "partitionSize": size}
                )
            )
            parts = planner.ranges(planner.start(), planner.stop())
            yield {
                "figure": "plan",
                "files": count,
                "partitions": len(parts),
                "seconds": round(time.perf_counter() - begun, 2),
            }
    finally:
        shutil.rmtree(directory)
