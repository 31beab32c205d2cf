"""Rows per second of a typed query of files with such rows, against ready-made batches of the same."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from benchmarks.spark_source.sessions import in_session

_TABLES = {"narrow": "wa.sbtest1", "wide": "wb.orders", "small transactions": "wc.events"}


class _Ready(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["partitions"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        with pa.memory_map(self._options["file"]) as source:
            batches = list(pa.ipc.open_file(source).read_all().to_batches())
        for _ in range(int(self._options["times"])):
            yield from batches


class ReadyMade(DataSource):
    """Yields the batches of a file again and again."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ready-made"

    def schema(self) -> StructType:
        """As the query's: in JSON, as DDL does not tell whether an element may be null."""
        return StructType.fromJson(json.loads(self.options["schema"]))

    def reader(self, schema: Any) -> _Ready:
        """Of batches."""
        return _Ready(self.options)


def _load(spark: Any, path: str, table: str) -> Any:
    return spark.read.format("mysql-binlog").option("path", path).option("table", table).load()


def _rates(spark: Any, directory: str, table: str, rounds: int) -> list[tuple[float, float]]:
    import pyarrow as pa

    from replica_client.lake.source.live_plan import make_planner
    from replica_client.lake.source_options import SourceOptions
    from replica_client.lake.spark.source.data_source import typed_table
    from replica_client.lake.spark.source.shape_batches import batches

    # Of files that have such rows: how fast others are passed over is no matter of transport.
    everything = _load(spark, directory, table)
    names = [row[0] for row in everything.select("_file").distinct().collect()]
    paths = ",".join(str(Path(directory, name)) for name in sorted(names))
    options = SourceOptions.parse({"path": paths, "table": table})
    planner = make_planner(options)
    typed = typed_table(planner, options)
    parts = planner.ranges(planner.start(), planner.stop())
    found = [batch for part in parts[:4] for batch in batches(options, typed, part)]
    file = str(Path(tempfile.gettempdir(), f"bench-spark-{table}.arrow"))
    with pa.OSFile(file, "wb") as out, pa.ipc.new_file(out, found[0].schema) as writer:
        for batch in found:
            writer.write_batch(batch)
    spark.dataSource.register(ReadyMade)
    frame = _load(spark, paths, table)
    rows = frame.count()
    times = max(1, rows // sum(batch.num_rows for batch in found) // 2)
    ready = (
        spark.read.format("ready-made")
        .option("schema", frame.schema.json())
        .option("file", file)
        .option("partitions", "2")
        .option("times", str(times))
        .load()
    )
    ready_rows = ready.count()
    rates = []
    for _ in range(rounds + 1):
        seconds = []
        for one in (frame, ready):
            begun = time.perf_counter()
            one.write.format("noop").mode("overwrite").save()
            seconds.append(time.perf_counter() - begun)
        rates.append((rows / seconds[0], ready_rows / seconds[1]))
    return rates[1:]


def transport(directory: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """For narrow and wide rows, into nothing, on two cores."""
    for kind, table in _TABLES.items():
        rates = in_session("local[2]", _rates, str(directory), table, rounds)
        ours = statistics.median(one for one, _ in rates)
        limit = statistics.median(other for _, other in rates)
        yield {
            "figure": "transport",
            "rows": kind,
            "rows_per_second": round(ours),
            "ready_made_rows_per_second": round(limit),
            "percent": round(100 * statistics.median(a / b for a, b in rates), 1),
        }
