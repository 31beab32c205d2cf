"""Decoding a directory of binlogs: how it grows with cores, and whether a cluster gives the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.spark_source.sessions import in_session
from tests.spark.binlogs import envelope_of, rows_of

_CLUSTER = "local-cluster[2,1,1024]"


def _load(spark: Any, directory: str, **options: str) -> Any:
    reader = spark.read.format("mysql-binlog").option("path", directory)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def _seconds(spark: Any, directory: str, rounds: int, options: dict[str, str]) -> list[float]:
    found = []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        _load(spark, directory, **options).write.format("noop").mode("overwrite").save()
        found.append(time.perf_counter() - begun)
    return found[1:]  # the first one warms Java up


def archive(directory: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """Seconds of one task on one core, of one on two cores, and of two on two, into nothing.

    One task keeps more than one core busy: Java takes what Python decodes meanwhile.
    """
    size = sum(file.stat().st_size for file in directory.iterdir())
    median: dict[tuple[int, int], float] = {}
    for tasks, cores in ((1, 1), (1, 2), (2, 2)):
        seconds = in_session(f"local[{tasks}]", _seconds, str(directory), rounds, {}, cores=cores)
        median[tasks, cores] = statistics.median(seconds)
        yield {
            "figure": "archive",
            "tasks": tasks,
            "cores": cores,
            "seconds": [round(one, 2) for one in seconds],
            "mb_per_second": round(size / median[tasks, cores] / 1e6, 1),
        }
    yield {
        "figure": "archive",
        "two tasks on two cores over one on one": round(median[1, 1] / median[2, 2], 2),
        "two tasks over one on two cores": round(median[1, 2] / median[2, 2], 2),
    }


def _digest(spark: Any, directory: str, options: dict[str, str]) -> list[tuple[Any, ...]]:
    from pyspark.sql import functions

    frame = _load(spark, directory, **options)
    columns = [name for name in frame.columns if not name.startswith("_lossless")]
    found = frame.select("_file", functions.xxhash64(*columns).alias("hash"))
    totals = found.groupBy("_file").agg(
        functions.count("*"), functions.sum(found.hash.cast("decimal(38,0)"))
    )
    return sorted(tuple(row) for row in totals.collect())


def _rows(spark: Any, paths: str) -> list[tuple[Any, ...]]:
    return rows_of(_load(spark, paths, partitionSize="2m"))


def identical(directory: Path) -> Iterator[dict[str, Any]]:
    """Each row of a cluster of two executors: as a plain reader gives it, and as one partition does.

    The reader is slow: it reads the files that ``prepare`` made copies of.
    """
    whole = in_session("local[1]", _digest, str(directory), {"partitionSize": "100g"})
    parts = in_session(_CLUSTER, _digest, str(directory), {"partitionSize": "2m"})
    yield {
        "figure": "identical",
        "with": "one partition of all files, by a hash of each row",
        "rows": sum(row[1] for row in whole),
        "same": whole == parts,
    }
    files = sorted(directory.iterdir())[:4]
    given = in_session(_CLUSTER, _rows, ",".join(map(str, files)))
    read = envelope_of(files)
    yield {
        "figure": "identical",
        "with": f"the reader of files, {len(files)} of them, row by row",
        "rows": len(read),
        "same": given == read,
    }
