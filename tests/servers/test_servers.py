"""The fixtures themselves: each server starts, answers, logs, and takes what tests do to it."""

import json
import threading
import time
from collections.abc import Callable

import pymysql
import pytest

from tests.servers.containers import ContainerServer
from tests.servers.local import LocalServer, LocalServers, ServerUnavailableError, run_script
from tests.servers.plugin import unavailable
from tests.servers.server import Server, parse_version

EXPECTED_VERSIONS = {
    "mysql-5.6": (5, 6),
    "mariadb-10.11": (10, 11),
    "mariadb-11.8": (11, 8),
}
NewDatabase = Callable[[Server], str]


def write_a_row(server: Server, database: str) -> None:
    server.execute(
        f"CREATE TABLE `{database}`.t (a INT PRIMARY KEY, b VARCHAR(20) CHARSET utf8mb4)"
    )
    assert server.execute(f"INSERT INTO `{database}`.t VALUES (%s, %s)", (1, "é🐬")) == 1
    assert server.query(f"SELECT * FROM `{database}`.t") == [(1, "é🐬")]


def test_local_server_logs_rows(any_server: LocalServer, new_database: NewDatabase) -> None:
    assert any_server.version[:2] == EXPECTED_VERSIONS.get(any_server.name, any_server.version[:2])
    assert any_server.query("SELECT @@log_bin, @@binlog_format") == [(1, "ROW")]
    before_file, before = any_server.binlog_position()
    write_a_row(any_server, new_database(any_server))
    file, position = any_server.binlog_position()
    assert (file, position) > (before_file, before)
    assert any_server.binlog_files()[-1] == file
    with any_server.binlog_path(file).open("rb") as binlog:
        assert binlog.read(4) == b"\xfebin"


def test_replica_has_its_rights(any_server: LocalServer) -> None:
    with any_server.connected("repl") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        assert cursor.fetchall()
        cursor.execute("SELECT COUNT(*) FROM information_schema.columns")
    scheme = "mysql" if any_server.name.startswith("mysql") else "mariadb"
    assert any_server.url() == f"{scheme}://repl:secret@127.0.0.1:{any_server.port}/"
    assert any_server.url("root") == f"{scheme}://root@127.0.0.1:{any_server.port}/"


def test_shared_server_is_one(server: Callable[[str], LocalServer]) -> None:
    assert server("mariadb-11.8") is server("mariadb-11.8")


def test_rotate_begins_a_file(any_server: LocalServer) -> None:
    files = any_server.binlog_files()
    any_server.rotate()
    assert any_server.binlog_files()[: len(files)] == files
    assert len(any_server.binlog_files()) > len(files)


@pytest.mark.parametrize("name", ["mysql-9.7", "mysql-5.6", "mariadb-10.11", "mariadb-11.8"])
def test_fresh_server_survives(
    name: str, fresh_server: Callable[..., LocalServer], new_database: NewDatabase
) -> None:
    mine = fresh_server(name, ["max-binlog-size=8192"])
    assert mine.query("SELECT @@max_binlog_size") == [(8192,)]
    database = new_database(mine)
    write_a_row(mine, database)
    port = mine.port

    mine.kill()
    with pytest.raises(pymysql.err.OperationalError):
        mine.connect()
    mine.restart()
    assert mine.port == port
    assert mine.query(f"SELECT a FROM `{database}`.t") == [(1,)]

    mine.restart(["max-binlog-size=4096"])
    assert mine.query("SELECT @@max_binlog_size") == [(4096,)]


def test_suspended_server_is_silent(fresh_server: Callable[..., LocalServer]) -> None:
    mine = fresh_server("mariadb-11.8")
    assert mine.query("SELECT 1") == [(1,)]
    mine.suspend()
    began = time.monotonic()
    timer = threading.Timer(0.5, mine.resume)
    timer.start()
    assert mine.query("SELECT 2") == [(2,)]
    timer.join()
    assert time.monotonic() - began >= 0.4


def test_closed_server_leaves_nothing(
    local_servers: LocalServers, fresh_server: Callable[..., LocalServer]
) -> None:
    mine = fresh_server("mariadb-10.11")
    directory = mine.datadir.parent
    assert directory.is_dir()
    local_servers.close_fresh(mine)
    assert not directory.exists()


def test_faults_are_one_line(server: Callable[[str], LocalServer]) -> None:
    assert server("mariadb-11.8").query("SELECT 1") == [(1,)]
    with pytest.raises(ServerUnavailableError, match=r"no server is named 'oracle-23'; there are "):
        run_script("start", "oracle-23")
    with pytest.raises(ServerUnavailableError, match=r"unknown (variable|option).*no-such-option"):
        LocalServer("mariadb-11.8", ["no-such-option=1"])


def test_container_logs_rows(any_container: ContainerServer, new_database: NewDatabase) -> None:
    assert any_container.version >= (8, 0, 0)
    assert any_container.query("SELECT @@log_bin, @@binlog_format") == [(1, "ROW")]
    write_a_row(any_container, new_database(any_container))
    assert any_container.binlog_position()[1] > 4
    with any_container.connected("repl") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        assert cursor.fetchall()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("9.7.4-2", (9, 7, 4)),
        ("5.5.5-10.11.18-MariaDB-0+deb12u1-log", (10, 11, 18)),
        ("11.8.6-MariaDB-0+deb13u1 from Debian-log", (11, 8, 6)),
        ("5.6.24-log", (5, 6, 24)),
    ],
)
def test_versions(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


def test_servers_that_are_kept_run_on_until_they_are_stopped():
    servers = LocalServers(keep=True)
    try:
        mysql = servers.shared("mysql-5.6")
    except ServerUnavailableError as error:
        unavailable(error)
    servers.close()
    status = json.loads(run_script("status", "--json"))
    (found,) = [one for one in status["instances"] if one["port"] == mysql.port]
    try:
        assert found["running"]
        assert found["owner"] is None
    finally:
        run_script("stop", found["id"])
