"""Executors in Java processes of their own."""

import pytest

from tests.spark.binlogs import DATA, FILES, envelope_of, rows_of, served
from tests.spark.test_stream import Stream

PATH = str(DATA / "shop-bin.0*")


@pytest.mark.parametrize("live", [False, True], ids=["files", "live"])
def test_batch_and_stream(cluster, tmp_path, live):
    expected = envelope_of(list(FILES))
    with served() as source:
        position = {"url": source.url} if live else {"path": PATH, "partitionSize": "8k"}
        reader = cluster.read.format("mysql-binlog")
        for name, value in position.items():
            reader = reader.option(name, value)
        assert rows_of(reader.load()) == expected
        options = {**position, "startingPosition": "earliest", "maxRowsPerTrigger": "40"}
        stream = Stream(cluster, tmp_path, **options)
        stream.finish()
        assert stream.rows() == expected
        if live:
            # A worker keeps its connection for the next range; there are two, of one core each.
            ids = [row[0] for row in source.source.replicas()]
            assert len(set(ids)) == len(ids) <= 2
