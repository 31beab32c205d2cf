"""The change log's commits, without Spark's Java."""

import pytest

pa = pytest.importorskip("pyarrow")
deltalake = pytest.importorskip("deltalake")

from deltalake import CommitProperties, DeltaTable, Transaction  # noqa: E402
from deltalake.exceptions import CommitFailedError  # noqa: E402
from deltalake.transaction import AddAction  # noqa: E402

from replica_client.errors import SinkError  # noqa: E402
from replica_client.lake.change_files import ChangeFileWriter  # noqa: E402
from replica_client.lake.change_log_files import (  # noqa: E402
    CHANGE_LOG_SCHEMA,
    change_log_row_count,
    change_log_rows,
    commit_files,
    open_change_log,
    remove_uncommitted,
)
from replica_client.lake.source.envelope import BatchColumns  # noqa: E402


def written(log, first, count):
    """The files that a task wrote."""
    writer = ChangeFileWriter(log, 0)
    if count:
        writer.add_others(envelope(first, count))
    return writer.finish()


def commit(log, pipeline, number, *files):
    actions = [
        AddAction(one.path, one.size, {}, one.modified, True, one.statistics()) for one in files
    ]
    return commit_files(log, pipeline, number, actions, {"replica.position": "f:5"})


def envelope(first, count):
    columns = BatchColumns(CHANGE_LOG_SCHEMA)
    for number in range(first, first + count):
        row = (f"f:{number:05}", 1, "", "f", 4, 0, number, "d", "t", "insert", None, "{}")
        columns.add(row)
    return columns.finish()


@pytest.fixture
def log(tmp_path):
    directory = tmp_path / "log"
    open_change_log(directory, CHANGE_LOG_SCHEMA)
    return directory


def test_a_batch_is_taken_once(log):
    for number in range(3):
        assert commit(log, "p", 0, *written(log, 0, 10)) == (number == 0)
        assert change_log_row_count(log) == 10
    assert commit(log, "p", 1, *written(log, 10, 5), *written(log, 15, 5))
    assert not commit(log, "p", 0, *written(log, 0, 10))
    assert [row["_row_index"] for row in change_log_rows(log)] == list(range(20))


def test_a_commit_says_where_it_ends(log):
    commit(log, "p", 0, *written(log, 0, 10))
    assert DeltaTable(str(log)).history(1)[0]["replica.position"] == "f:5"


def test_what_was_not_committed_is_removed(log):
    [one] = written(log, 0, 10)
    assert (log / one.path).exists()
    assert change_log_rows(log) == []
    remove_uncommitted(log, [one.path])
    assert not (log / one.path).exists()


def test_task_without_rows_leaves_no_file(log):
    assert written(log, 0, 0) == []
    commit(log, "p", 0)
    assert DeltaTable(str(log)).transaction_version("p") == 0


def test_pipelines_count_for_themselves(log):
    for pipeline in ("p", "q"):
        assert commit(log, pipeline, 0, *written(log, 0, 3))
    assert change_log_row_count(log) == 6


def test_the_loser_of_a_race_commits_nothing(log):
    """Two drivers want version 1."""
    stale = DeltaTable(str(log))
    [one] = written(log, 0, 3)
    commit(log, "p", 0, one)
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
        open_change_log(tmp_path / "file" / "log", CHANGE_LOG_SCHEMA)


def test_table_that_went_away_is_one_line(tmp_path):
    (tmp_path / "gone").mkdir()
    with pytest.raises(SinkError) as caught:
        commit(tmp_path / "gone", "p", 7, *written(tmp_path / "gone", 0, 1))
    assert "batch 7" in str(caught.value)
    assert "\n" not in str(caught.value)
