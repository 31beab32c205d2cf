"""Index files beside binlogs are none: where a glob of ours or of a shell finds them, they are passed over."""

import pytest

from replica_client.archive.file_list import list_files
from replica_client.errors import ConfigError
from replica_client.stream.files.file_bytes import binlog_files

BINLOGS = ["binlog.000001", "binlog.000002", "other"]


@pytest.fixture
def directory(tmp_path):
    for name in BINLOGS:
        for end in ("", ".idx", ".rcindex"):
            (tmp_path / (name + end)).write_bytes(b"")
    (tmp_path / "binlog.index").write_bytes(b"")
    return tmp_path


def test_a_glob_and_a_list(directory):
    glob = [one.name for one in list_files([str(directory / "*")])]
    assert sorted(glob) == BINLOGS
    every = sorted(directory.iterdir())
    assert sorted(one.name for one in list_files(every)) == BINLOGS
    assert [one.name for one in binlog_files(every)] == BINLOGS
    assert [one.name for one in binlog_files(str(directory / "*"))] == BINLOGS[:2]


def test_one_that_is_asked_for_alone_is_taken(directory):
    (directory / "binlog.000002").unlink()
    alone = directory / "binlog.000002.idx"
    assert [one.name for one in binlog_files([alone])] == [alone.name]
    assert [one.name for one in list_files([alone])] == [alone.name]
    with pytest.raises(ConfigError):
        list_files([directory / "binlog.000002"])
