"""The source without asyncio: as a process, and as a pytest fixture."""

import signal
import subprocess
import sys

import pymysql

from tests.source.binlogs import two_files

pytest_plugins = ["replica_client.testing.pytest_plugin"]


def versions(port: int) -> list[str]:
    connection = pymysql.connect(host="127.0.0.1", port=port, user="repl", password="secret")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        return [row[0] for row in cursor.fetchall()]


def test_fixture(tmp_path, binlog_source) -> None:
    source = binlog_source(two_files(tmp_path))
    assert versions(source.port) == ["9.7.4"]
    other = binlog_source(tmp_path / "binlog.000001", users={"repl": "secret"})
    assert other.port != source.port
    assert versions(other.port) == ["9.7.4"]


def test_run_source(tmp_path) -> None:
    paths = [str(path) for path in two_files(tmp_path)]
    code = f"from replica_client.testing import run_source; run_source({paths!r})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        # A shell ignores SIGINT in what it runs in the background, and a child inherits that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("mysql://repl:secret@127.0.0.1:")
        assert versions(int(url.rpartition(":")[2].strip("/"))) == ["9.7.4"]
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()
