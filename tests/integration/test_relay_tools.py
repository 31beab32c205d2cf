"""A relay in a DBA's hands: tools of the servers, a full disk, a source that was reset, accounts that change."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from tests.integration.relays import (
    PASSWORD,
    USER,
    RelayProcess,
    assert_same_files,
    begin_replica,
    options,
    until,
    wait_until_equal,
    write_some,
)
from tests.servers.local import SCRIPT, LocalServer, LocalServers

Fresh = Callable[[str, int], LocalServer]
ADMIN = '[[account]]\nuser = "dba"\npassword = "dba"\nadmin = true\nplugin = "{}"\n'
NAMES = ["mysql-9.7", "mariadb-11.8"]


@pytest.fixture
def fresh(local_servers: LocalServers) -> Iterator[Fresh]:
    made: list[LocalServer] = []

    def make(name: str, server_id: int) -> LocalServer:
        server = local_servers.fresh(name, options(name, server_id))
        made.append(server)
        return server

    yield make
    for server in made:
        local_servers.close_fresh(server)


def plugin_of(name: str) -> str:
    return "caching_sha2_password" if name == "mysql-9.7" else "mysql_native_password"


def tool(
    name: str, program: str, relay: RelayProcess, *arguments: str, user: str = USER
) -> subprocess.CompletedProcess[str]:
    """A server's own client program, at the relay."""
    tls = ["--ssl-mode=DISABLED", "--get-server-public-key"] if "mysql" in name else ["--skip-ssl"]
    password = PASSWORD if user == USER else user
    return subprocess.run(
        [
            *(sys.executable, str(SCRIPT), "tool", name, program, "--no-defaults"),
            *("--host=127.0.0.1", f"--port={relay.port}", f"--user={user}"),
            *(f"--password={password}", *tls, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )


def ask(relay: RelayProcess, sql: str, user: str = USER, password: str = "") -> list[tuple]:
    with (
        pymysql.connect(
            host="127.0.0.1", port=relay.port, user=user, password=password or PASSWORD
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql)
        return list(cursor.fetchall())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_tools_get_the_truth_or_an_error(fresh: Fresh, tmp_path: Path, name: str) -> None:
    source, replica = fresh(name, 11), fresh(name, 21)
    write_some(source, random.Random(1))
    source.execute("SET GLOBAL binlog_row_image = 'NOBLOB'")
    plugin = plugin_of(name)
    with RelayProcess(
        tmp_path / "relay", [source.url()], plugin=plugin, accounts=ADMIN.format(plugin)
    ) as relay:
        relay.wait()
        begin_replica(replica, relay.port)
        wait_until_equal(source, replica, ["shop"])
        prefix = "mysql" if name == "mysql-9.7" else "mariadb-"
        dump, admin, client = f"{prefix}dump", f"{prefix}admin", prefix.rstrip("-")
        for arguments in (["--all-databases"], ["shop"], ["--databases", "shop"], ["shop", "t"]):
            done = tool(name, dump, relay, *arguments)
            assert done.returncode != 0, (arguments, done.stdout)
            assert "Dump completed" not in done.stdout
            assert "no databases" in done.stderr or "nknown" in done.stderr, done.stderr
        for arguments in (
            ["ping"],
            ["status"],
            ["version"],
            ["processlist"],
            ["variables"],
            ["extended-status"],
        ):
            done = tool(name, admin, relay, *arguments)
            assert done.returncode == 0, (arguments, done.stderr)
        assert "Binlog Dump" in tool(name, admin, relay, "processlist").stdout
        for arguments in (
            *(
                ["flush-logs"],
                ["flush-privileges"],
                ["kill", "99999"],
                ["shutdown"],
                ["create", "x"],
            ),
            *(["drop", "shop", "--force"], ["refresh"]),
        ):
            assert tool(name, admin, relay, *arguments).returncode != 0, arguments
        for sql in (
            *("FLUSH TABLES", "FLUSH BINARY LOGS", "KILL 99999", "USE shop", "SHOW TABLES"),
            *("SHOW DATABASES", "SELECT * FROM shop.t", "SET GLOBAL read_only = 0", "RESET MASTER"),
            *(
                "SET @@global.max_connections = 5",
                "INSERT INTO shop.t VALUES (1)",
                "SELECT @@nosuch",
            ),
            "PURGE BINARY LOGS BEFORE '2099-01-01'",
        ):
            done = tool(name, client, relay, "-e", sql)
            assert done.returncode == 1, (sql, done.stdout)
            assert "ERROR" in done.stderr
        assert ask(relay, "SELECT @@read_only") == [(1,)]
        assert ask(relay, "SHOW VARIABLES LIKE 'read_only'") == [("read_only", "1")]
        # The source's own values are the source's.
        for variable in (
            "binlog_row_image",
            "lower_case_table_names",
            "character_set_server",
            "sql_mode",
        ):
            assert ask(relay, f"SHOW GLOBAL VARIABLES LIKE '{variable}'") == source.query(
                f"SHOW GLOBAL VARIABLES LIKE '{variable}'"
            ), variable
            assert ask(relay, f"SELECT @@global.{variable}") == source.query(
                f"SELECT @@global.{variable}"
            ), variable
        [clients] = [one for one in ask(relay, "SHOW PROCESSLIST") if "Binlog Dump" in one]
        assert clients[1] == USER
        assert clients[6].startswith("sending ")
        status = relay.status()
        assert status["lag_seconds"] is not None
        assert status["lag_seconds"] < 5
        assert [one["lag_seconds"] for one in status["clients"] if one["file"]] == [0.0]
        check_purge(relay, source)


def check_purge(relay: RelayProcess, source: LocalServer) -> None:
    """An administrator removes files; what a client is sent stays."""
    for _ in range(3):
        source.execute("FLUSH BINARY LOGS")
    newest = source.query("SHOW BINARY LOGS")[-1][0]
    until(lambda: ask(relay, "SHOW BINARY LOGS")[-1][0] == newest, "the newest file")
    until(
        lambda: {one["file"] for one in relay.status()["clients"] if one["file"]} == {newest},
        "the client",
    )
    with pytest.raises(pymysql.Error, match="Target log not found"):
        ask(relay, "PURGE BINARY LOGS TO 'nosuch.000001'", "dba", "dba")
    ask(relay, f"PURGE BINARY LOGS TO '{newest}'", "dba", "dba")
    assert [row[0] for row in ask(relay, "SHOW BINARY LOGS")] == [newest]
    assert list(relay.files()) == [newest]
    assert any(row[1] == USER for row in ask(relay, "SHOW PROCESSLIST", "dba", "dba"))


@pytest.mark.timeout(300)
def test_accounts_and_source_change_while_it_runs(fresh: Fresh, tmp_path: Path) -> None:
    source = fresh("mariadb-11.8", 11)
    write_some(source, random.Random(1))
    plugin = plugin_of("mariadb-11.8")
    with RelayProcess(tmp_path / "relay", [source.url()], plugin=plugin) as relay:
        relay.wait()
        kept = pymysql.connect(host="127.0.0.1", port=relay.port, user=USER, password=PASSWORD)
        with pytest.raises(pymysql.Error, match="Access denied"):
            ask(relay, "SELECT 1", "dba", "dba")
        text = relay.config.read_text()
        relay.config.write_text(text + ADMIN.format(plugin))
        hang_up(relay, "2 accounts")
        assert ask(relay, "SELECT @@read_only", "dba", "dba") == [(1,)]
        kept.ping(reconnect=False)
        relay.config.write_text("[relay\n")
        hang_up(relay, "was not read again")
        kept.ping(reconnect=False)
        relay.config.write_text(text.replace(USER, "other"))
        hang_up(relay, "1 accounts")
        with pytest.raises(pymysql.Error):
            kept.ping(reconnect=False)
        with pytest.raises(pymysql.Error, match="Access denied"):
            ask(relay, "SELECT 1")
        assert ask(relay, "SELECT @@read_only", "other") == [(1,)]
        log = relay.log.read_text()
        assert re.search(r"refused login of user dba from 127\.0\.0\.1:\d+: error 1045", log)


def hang_up(relay: RelayProcess, said: str) -> None:
    """SIGHUP, and wait until the relay has said that it did something about it."""
    assert relay.process is not None
    before = relay.log.read_text().count(said)
    relay.process.send_signal(signal.SIGHUP)
    until(lambda: relay.log.read_text().count(said) > before, said)


def ready(relay: RelayProcess) -> tuple[int, str]:
    """Status and error of /readyz."""
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{relay.status_port}/readyz", timeout=10
        ) as answer:
            return answer.status, json.load(answer)["error"]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB of its own."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(directory)]
    done = subprocess.run(mount, capture_output=True, text=True)
    if done.returncode:
        reason = f"no small file system: {done.stderr.strip()}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_a_state(fresh: Fresh, tmp_path: Path, small_disk: Path, name: str) -> None:
    """Filled and freed five times, with a restart while it is full: replicas get what is there, then the rest."""
    source, replica = fresh(name, 11), fresh(name, 21)
    source.execute("CREATE DATABASE shop")
    source.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, s LONGTEXT)")
    relay = RelayProcess(tmp_path / "relay", [source.url()], plugin=plugin_of(name))
    relay.config.write_text(
        relay.config.read_text().replace('directory = "files"', f'directory = "{small_disk}/files"')
    )
    filler = small_disk / "filler"
    with relay:
        relay.wait()
        begin_replica(replica, relay.port)
        for number in range(5):
            source.execute("INSERT INTO shop.t (s) VALUES (REPEAT('a', 1000))")
            wait_until_equal(source, replica, ["shop"])
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
            source.execute("INSERT INTO shop.t (s) VALUES (REPEAT('b', 100000))")
            until(lambda: ready(relay)[0] == 503, "503")
            assert "No space left on device" in ready(relay)[1]
            assert relay.process is not None
            assert relay.process.poll() is None
            if number == 2:
                relay.kill()
                relay.start()
                relay.wait()
                until(lambda: ready(relay)[0] == 503, "503")
            assert ask(relay, "SHOW BINARY LOGS")
            filler.unlink()
            wait_until_equal(source, replica, ["shop"])
            until(lambda: ready(relay)[0] == 200, "200")
        kept = {one.name: one.read_bytes() for one in (small_disk / "files" / "1").iterdir()}
        for file_name, *_ in source.query("SHOW BINARY LOGS"):
            assert kept[file_name] == source.binlog_path(file_name).read_bytes()
        assert "Traceback" not in relay.log.read_text()
        assert relay.stop() == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_source_that_was_reset_is_a_state(fresh: Fresh, tmp_path: Path, name: str) -> None:
    source = fresh(name, 11)
    write_some(source, random.Random(3))
    with RelayProcess(tmp_path / "relay", [source.url()], plugin=plugin_of(name)) as relay:
        relay.wait()
        assert_same_files(relay, source)
        before = relay.files()
        source.reset_binlog()
        source.execute("CREATE DATABASE fresh_start")
        until(lambda: ready(relay)[0] == 503, "503")
        until(lambda: "reset" in ready(relay)[1], "the reason")
        time.sleep(3)
        assert relay.process is not None
        assert relay.process.poll() is None
        assert [row[0] for row in ask(relay, "SHOW BINARY LOGS")] == list(before)
        assert relay.files() == before
        relay.kill()  # it starts again and serves what it has
        relay.start()
        relay.wait()
        until(lambda: "reset" in ready(relay)[1], "the reason")
        assert [row[0] for row in ask(relay, "SHOW BINARY LOGS")] == list(before)
