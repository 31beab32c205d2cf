"""The data source on other versions of PySpark: with what 4.1 does not have taken away, and refused on 4.0."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from tests.spark.binlogs import FILES, envelope_of

_WITHOUT_LIMITS = """
import sys
import pyspark.sql.datasource
sys.modules["pyspark.sql.streaming.datasource"] = None  # new in 4.2
from replica_client.errors import ConfigError, DataLossError
from replica_client.lake.source_options import SourceOptions
from replica_client.lake.spark.source.readers import HAS_LIMITS, BinlogStreamReader

assert not HAS_LIMITS
first, *_ = paths = sys.argv[1:]


def reader(*paths, **more):
    return BinlogStreamReader(SourceOptions.parse({"path": ",".join(paths), **more}), None)


def rows(stream, start, end):
    parts = stream.partitions(start, end)
    return sum(batch.num_rows for part in parts for batch in stream.read(part))


stream = reader(first)
begin = stream.initialOffset()
end = stream.latestOffset()  # as 4.1 calls it
print(rows(stream, begin, end))
assert stream.latestOffset() == end
stream = reader(*paths)  # after a restart Spark gives no start
last = stream.latestOffset()
print(rows(stream, end, last))
try:
    stream.partitions(last, end)
except DataLossError as error:
    print(error)
try:
    reader(first, maxRowsPerTrigger="5")
except ConfigError as error:
    print(error)
"""


def run(code, *words):
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)


def test_a_stream_without_limits_and_start():
    done = run(_WITHOUT_LIMITS, *map(str, FILES))
    assert done.returncode == 0, done.stderr
    first, second, lost, limited = done.stdout.splitlines()
    # With the statements between the changes.
    assert int(first) >= len(envelope_of(FILES[0]))
    assert int(first) + int(second) == len(envelope_of(list(FILES))) + 4
    assert "it lost changes" in lost
    assert limited.startswith("maxBytesPerTrigger and maxRowsPerTrigger need PySpark 4.2")


def test_an_old_version_is_refused_in_one_line():
    code = "import pyspark; pyspark.__version__ = '4.0.5'; import replica_client.lake.spark"
    lines = run(code).stderr.splitlines()
    assert lines[-1] == (
        "replica_client.errors.ConfigError: PySpark 4.0.5 is too old for the data source mysql-binlog, which needs "
        "4.1 or newer: pip install 'pyspark>=4.1,<5'"
    )
