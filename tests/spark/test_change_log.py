"""The change log's commits, without Spark's Java."""

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
deltalake = pytest.importorskip("deltalake")

from deltalake import CommitProperties, DeltaTable, Transaction  # noqa: E402
from deltalake.exceptions import CommitFailedError  # noqa: E402
from deltalake.transaction import AddAction  # noqa: E402

from replica_client.errors import SinkError  # noqa: E402
from replica_client.lake.change_files import ChangeFileWriter  # noqa: E402
from replica_client.lake.change_log_files import (  # noqa: E402
    change_log_row_count,
    change_log_rows,
    open_change_log,
)
from replica_client.lake.spark.pipeline.change_log import ChangeLogWriter  # noqa: E402
from replica_client.lake.spark.source.change_file_source import described  # noqa: E402
from replica_client.lake.spark.source.shapes import ENVELOPE_SCHEMA, BatchColumns  # noqa: E402


def rows(log, first, count):
    """What a task tells of the files that it wrote."""
    writer = ChangeFileWriter(log, 0)
    if count:
        writer.add_others(envelope(first, count))
    return described(writer.finish())


def envelope(first, count):
    columns = BatchColumns(ENVELOPE_SCHEMA)
    for number in range(first, first + count):
        row = (f"f:{number:05}", 1, "", "f", 4, 0, number, "d", "t", "insert", None, "{}")
        for column, value in zip(columns.values, row, strict=True):
            column.append(value)
    return columns.finish()


@pytest.fixture
def log(tmp_path):
    directory = tmp_path / "log"
    open_change_log(directory, BatchColumns(ENVELOPE_SCHEMA).arrow_schema)
    return directory


def test_a_batch_is_taken_once(log):
    writer = ChangeLogWriter(log, "p")
    for _ in range(3):
        writer.commit([writer.write(iter([rows(log, 0, 10)])), None], 0)
        assert change_log_row_count(log) == 10
    writer.commit(
        [writer.write(iter([rows(log, 10, 5)])), writer.write(iter([rows(log, 15, 5)]))], 1
    )
    writer.commit([writer.write(iter([rows(log, 0, 10)]))], 0)
    assert [row["_row_index"] for row in change_log_rows(log)] == list(range(20))


def test_files_of_a_repeated_batch_are_removed(log):
    writer = ChangeLogWriter(log, "p")
    writer.commit([writer.write(iter([rows(log, 0, 10)]))], 0)
    before = sorted(path.name for path in log.iterdir())
    writer.commit([writer.write(iter([rows(log, 0, 10)]))], 0)
    assert sorted(path.name for path in log.iterdir()) == before


def test_what_was_not_committed_is_not_there(log):
    writer = ChangeLogWriter(log, "p")
    message = writer.write(iter([rows(log, 0, 10)]))
    [path] = [log / one.path for one in message.files]
    assert path.exists()
    assert change_log_rows(log) == []
    writer.abort([message], 0)
    assert not path.exists()


def test_task_without_rows_leaves_no_file(log):
    writer = ChangeLogWriter(log, "p")
    assert writer.write(iter([])).files == ()
    assert writer.write(iter([rows(log, 0, 0)])).files == ()
    writer.commit([writer.write(iter([]))], 0)
    assert DeltaTable(str(log)).transaction_version("p") == 0


def test_pipelines_count_for_themselves(log):
    for pipeline in ("p", "q"):
        writer = ChangeLogWriter(log, pipeline)
        writer.commit([writer.write(iter([rows(log, 0, 3)]))], 0)
    assert change_log_row_count(log) == 6


def test_the_loser_of_a_race_commits_nothing(log):
    """A driver that was killed may have a Java that still commits: both want version 1."""
    writer = ChangeLogWriter(log, "p")
    stale = DeltaTable(str(log))
    message = writer.write(iter([rows(log, 0, 3)]))
    writer.commit([message], 0)
    [one] = message.files
    add = AddAction(one.path, one.size, {}, one.modified, True, one.statistics())
    with pytest.raises(CommitFailedError):
        stale.create_write_transaction(
            [add],
            mode="append",
            schema=stale.schema(),
            commit_properties=CommitProperties(
                app_transactions=[Transaction("p", 0)], max_commit_retries=0
            ),
        )
    assert change_log_row_count(log) == 3


def test_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="file/log"):
        open_change_log(tmp_path / "file" / "log", BatchColumns(ENVELOPE_SCHEMA).arrow_schema)


def test_table_that_went_away_is_one_line(tmp_path):
    (tmp_path / "gone").mkdir()
    writer = ChangeLogWriter(tmp_path / "gone", "p")
    message = writer.write(iter([rows(tmp_path / "gone", 0, 1)]))
    with pytest.raises(SinkError) as caught:
        writer.commit([message], 7)
    assert "batch 7" in str(caught.value)
    assert "\n" not in str(caught.value)
