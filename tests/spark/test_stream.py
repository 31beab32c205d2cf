import json
import shutil
import time

import pytest
from pyspark.errors import StreamingQueryException

from replica_client.lake.pipeline.workers import PurgedRangeError, cause_of
from replica_client.lake.spark.source.readers import HAS_LIMITS
from tests.spark.binlogs import DATA, FILES, envelope_of, rows_of, served, write_half

PATH = str(DATA / "shop-bin.0*")
BUSY = "Python worker failed to connect back"


class Stream:
    """A streaming query into Parquet files, which can be started again."""

    def __init__(self, spark, directory, **options):
        if not HAS_LIMITS and any("PerTrigger" in name for name in options):
            pytest.skip("PySpark 4.1 has no limits of a micro-batch")
        self._spark = spark
        self._directory = directory
        self._options = options

    def run(self, **trigger):
        """The query, behind its first step: Spark gives a worker 10 s to start, which a busy machine may not have."""
        for _ in range(3):
            query = self._start(trigger)
            while query.isActive and query.status["message"] == "Initializing sources":
                time.sleep(0.05)
            if BUSY not in str(query.exception() or ""):
                break
        return query

    def _start(self, trigger):
        reader = self._spark.readStream.format("mysql-binlog")
        for name, value in self._options.items():
            reader = reader.option(name, value)
        writer = reader.load().writeStream.format("parquet")
        return (
            writer.option("checkpointLocation", str(self._directory / "checkpoint"))
            .option("path", str(self._directory / "out"))
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def finish(self):
        query = self.run()
        assert query.awaitTermination(120)
        return [report["numInputRows"] for report in query.recentProgress]

    def rows(self):
        return rows_of(self._spark.read.parquet(str(self._directory / "out")))


@pytest.mark.parametrize(
    ("limit", "batches"),
    [({}, 1), ({"maxBytesPerTrigger": "6k"}, 3), ({"maxRowsPerTrigger": "36"}, 3)],
    ids=["all", "bytes", "rows"],
)
@pytest.mark.parametrize("live", [False, True], ids=["files", "live"])
def test_all_changes_once_in_limited_batches(spark, tmp_path, limit, batches, live):
    with served() as source:
        position = {"url": source.url, "startingPosition": "earliest"} if live else {"path": PATH}
        stream = Stream(spark, tmp_path, **position, **limit)
        counts = stream.finish()
        assert stream.rows() == envelope_of(list(FILES))
        assert batches <= len([count for count in counts if count]) <= 2 * batches - 1
        if "maxRowsPerTrigger" in limit:
            assert max(counts) <= 36 + 4  # with the statements between the rows


@pytest.mark.parametrize("live", [False, True], ids=["files", "live"])
def test_continues_from_its_checkpoint(spark, tmp_path, live):
    directory = write_half(tmp_path / "in")
    with served(FILES[0]) as source:
        position = {"path": str(directory)}
        if live:
            position = {"url": source.url, "startingPosition": "earliest"}
        stream = Stream(spark, tmp_path, maxRowsPerTrigger="20", **position)
        stream.finish()
        assert stream.rows() == envelope_of(FILES[0])
        shutil.copy(FILES[1], directory)
        source.add_file(FILES[1])
        stream.finish()
        assert stream.rows() == envelope_of(list(FILES))


def test_continuous_query_takes_what_comes_and_is_not_restless(spark, tmp_path):
    with served(FILES[0]) as source:
        stream = Stream(spark, tmp_path, url=source.url, startingPosition="earliest")
        query = stream.run(processingTime="0 seconds")
        try:
            wait(lambda: progress_rows(query) == 36 + 4)
            asked = len(source.source.seen_statements)
            time.sleep(3)
            assert len(source.source.seen_statements) - asked < 40
            source.drop_connections()
            source.add_file(FILES[1])
            wait(lambda: progress_rows(query) == 87 + 4)
            if HAS_LIMITS:  # PySpark 4.1 does not ask for the end of the source
                newest = json.loads(query.lastProgress["sources"][0]["latestOffset"])
                assert (newest["file"], newest["offset"]) == (
                    FILES[1].name,
                    FILES[1].stat().st_size,
                )
        finally:
            query.stop()
        assert stream.rows() == envelope_of(list(FILES))


def test_failed_batch_is_read_again_byte_for_byte(spark, tmp_path):
    """A commit that is missing makes Spark read the logged range once more."""
    stream = Stream(spark, tmp_path, path=PATH, maxRowsPerTrigger="30")
    stream.finish()
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink()
    again = tmp_path / "again"
    again.mkdir()
    offsets = (tmp_path / "checkpoint" / "offsets" / commits[-1].name).read_text()
    end = json.loads(offsets.splitlines()[-1])
    stream.finish()
    assert stream.rows() == envelope_of(list(FILES))
    assert end["file"] == FILES[1].name


def test_purged_range_is_named(spark, tmp_path):
    with served(FILES[0]) as source:
        options = {"url": source.url, "startingPosition": "earliest", "maxRowsPerTrigger": "20"}
        stream = Stream(spark, tmp_path, **options)
        stream.finish()
        source.add_file(FILES[1])
        source.purge_to(FILES[1].name)
        query = stream.run()
        with pytest.raises(StreamingQueryException) as caught:
            query.awaitTermination(120)
    error = cause_of(caught.value)
    assert isinstance(error, PurgedRangeError)
    text = str(error)
    assert "has purged shop-bin.000001" in text
    assert "shop-bin.000001:10335 up to shop-bin.000002:4" in text
    assert "\n" not in text


def test_end_of_a_stream_is_refused(spark, tmp_path):
    with pytest.raises(Exception, match="endingPosition is for batches"):
        Stream(spark, tmp_path, path=PATH, endingPosition="shop-bin.000002:4").finish()


def progress_rows(query):
    if query.exception() is not None:
        raise query.exception()
    return sum({p["batchId"]: p["numInputRows"] for p in query.recentProgress}.values())


def wait(done, seconds=60):
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)
