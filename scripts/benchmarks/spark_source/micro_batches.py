"""What the source adds to a micro-batch, against a Python source that has nothing to do."""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from benchmarks.spark_source.sessions import in_session

_ROWS = 5


class _EmptyReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self._begun = time.time()

    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        time.sleep(0.05)
        return {"n": start["n"] + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(start["n"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(partition.value,)] * _ROWS)


class Empty(DataSource):
    """Yields a few numbers, and does nothing else."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "empty"

    def schema(self) -> str:
        """One number."""
        return "n bigint"

    def streamReader(self, schema: Any) -> _EmptyReader:
        """Of numbers."""
        return _EmptyReader()


def _phases(spark: Any, count: int, frame: Any) -> list[dict[str, float]]:
    directory = tempfile.mkdtemp(prefix="bench-spark-")
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", directory)
        .trigger(processingTime="0 seconds")
        .start()
    )
    seen: dict[int, dict[str, float]] = {}
    deadline = time.monotonic() + 10 * count
    try:
        while len(seen) < count + 5 and time.monotonic() < deadline:
            if query.exception() is not None:
                raise query.exception()
            for report in query.recentProgress:
                if report["numInputRows"]:
                    seen[report["batchId"]] = dict(report["durationMs"])
            time.sleep(0.1)
    finally:
        query.stop()
    return [seen[batch] for batch in sorted(seen)][5 : count + 5]


def _measure(spark: Any, count: int, url: str) -> list[list[dict[str, float]]]:
    spark.dataSource.register(Empty)
    empty = spark.readStream.format("empty").load()
    ours = spark.readStream.format("mysql-binlog").option("url", url)
    ours = ours.option("startingPosition", "latest").load()
    writer = threading.Thread(target=_write, args=(url, count + 60), daemon=True)
    found = [_phases(spark, count, empty)]
    writer.start()
    found.append(_phases(spark, count, ours))
    found.append(_phases(spark, count, empty))
    return found


def _write(url: str, count: int) -> None:
    import pymysql

    from replica_client.stream.transport.connect_options import parse_url

    options = parse_url(url)
    connection = pymysql.connect(
        host=options.host, port=options.port, user=options.user, password=options.password
    )
    with connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS bench_spark")
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS bench_spark.t (id int auto_increment primary key, v int)"
        )
        while True:
            values = ",".join(f"({number})" for number in range(_ROWS))
            cursor.execute(f"INSERT INTO bench_spark.t (v) VALUES {values}")
            connection.commit()
            time.sleep(0.3)


def micro_batches(count: int, url: str | None) -> Iterator[dict[str, Any]]:
    """Median milliseconds of a micro-batch and its phases, and the difference to the empty source."""
    if url is None:
        raise SystemExit("batches needs --url of a real source, whose user may create a table")
    first, ours, second = in_session("local[2]", _measure, count, url)
    empty = [*first, *second]
    phases = ("latestOffset", "queryPlanning", "addBatch", "walCommit", "commitOffsets")
    for name, found in (("empty", empty), ("mysql-binlog", ours)):
        yield {
            "figure": "micro-batch",
            "source": name,
            "batches": len(found),
            **{phase: statistics.median(one.get(phase, 0) for one in found) for phase in phases},
        }
    yield {
        "figure": "micro-batch",
        "planning and reading over the empty source, ms": round(
            statistics.median(one["addBatch"] + one["queryPlanning"] for one in ours)
            - statistics.median(one["addBatch"] + one["queryPlanning"] for one in empty),
            1,
        ),
    }
