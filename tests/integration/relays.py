"""Relays as processes, and real servers as their replicas."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pymysql

from tests import processes
from tests.servers.local import LocalServer

GTIDS = ("gtid-mode=ON", "enforce-gtid-consistency=ON")
USER, PASSWORD = "replica", "only for this relay"
_WAIT = 60.0


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def options(name: str, server_id: int) -> list[str]:
    """Of a server that is a source or a replica with GTIDs."""
    given = [f"server-id={server_id}"]
    if name.startswith("mysql"):
        given += GTIDS
    if name == "mysql-5.6" or name.startswith("mariadb"):
        given.append("log-slave-updates")
    return given


class RelayProcess:
    """``replica-client relay`` on a configuration of its own."""

    def __init__(
        self,
        directory: Path,
        urls: Sequence[str],
        *,
        plugin: str = "caching_sha2_password",
        source: str = "",
        relay: str = "",
        accounts: str = "",
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.port, self.status_port = free_port(), free_port()
        self.log = directory / "relay.log"
        self.config = directory / "relay.toml"
        hosts = ",".join(url.rstrip("/").rpartition("@")[2] for url in urls)
        url = f"{urls[0].rpartition('@')[0]}@{hosts}/"
        self.config.write_text(
            f'[relay]\ndirectory = "files"\nlisten = "127.0.0.1:{self.port}"\n'
            f'status = "127.0.0.1:{self.status_port}"\n{relay}\n'
            f'[source]\nurl = "{url}"\nheartbeat = 1.0\n{source}\n'
            f'[[account]]\nuser = "{USER}"\npassword = "{PASSWORD}"\nplugin = "{plugin}"\n'
            f"{accounts}"
        )
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{self.port}/"

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = processes.Popen(
                [sys.executable, "-m", "replica_client", "relay", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )

    def status(self) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.status_port}/status.json"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait(self, wanted: str = "port") -> dict[str, Any]:
        """Wait until a part of the status is there."""
        deadline = time.monotonic() + _WAIT
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            try:
                found = self.status()
            except OSError:
                found = {}
            if found.get(wanted):
                return found
            time.sleep(0.05)
        raise TimeoutError(f"no {wanted} after {_WAIT} s: {self.log.read_text()}")

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """SIGTERM; returns the status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def files(self, epoch: int = 1) -> dict[str, bytes]:
        path = self.directory / "files" / str(epoch)
        names = [entry for entry in sorted(path.iterdir()) if entry.suffix[1:].isdecimal()]
        return {entry.name: entry.read_bytes() for entry in names}

    def __enter__(self) -> RelayProcess:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.kill()


def begin_replica(
    replica: LocalServer,
    port: int,
    *,
    gtid: bool = True,
    first_file: str = "binlog.000001",
    start: str = "",
) -> None:
    """Make an empty server a replica of a relay; ``start`` is another statement to start it with."""
    host, user = "127.0.0.1", USER
    if replica.flavor == "mariadb":
        where = (
            "MASTER_USE_GTID=slave_pos"
            if gtid
            else f"MASTER_LOG_FILE='{first_file}', MASTER_LOG_POS=4, MASTER_USE_GTID=no"
        )
        statements = [
            "RESET MASTER",
            "SET GLOBAL gtid_slave_pos=''",
            f"CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{user}', "
            f"MASTER_PASSWORD='{PASSWORD}', MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1, "
            f"MASTER_SSL_VERIFY_SERVER_CERT=0, {where}",
            "START SLAVE",
        ]
    elif replica.version >= (8, 4, 0):
        where = (
            "SOURCE_AUTO_POSITION=1"
            if gtid
            else f"SOURCE_LOG_FILE='{first_file}', SOURCE_LOG_POS=4"
        )
        statements = [
            "RESET BINARY LOGS AND GTIDS",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, "
            f"SOURCE_USER='{user}', SOURCE_PASSWORD='{PASSWORD}', SOURCE_CONNECT_RETRY=1, "
            f"SOURCE_RETRY_COUNT=1000, SOURCE_HEARTBEAT_PERIOD=1, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1, {where}",
            "START REPLICA",
        ]
    else:
        where = (
            "MASTER_AUTO_POSITION=1"
            if gtid
            else f"MASTER_AUTO_POSITION=0, MASTER_LOG_FILE='{first_file}', MASTER_LOG_POS=4"
        )
        statements = [
            "RESET MASTER",
            f"CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{user}', "
            f"MASTER_PASSWORD='{PASSWORD}', MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1, {where}",
            "START SLAVE",
        ]
    for statement in [*statements[:-1], start or statements[-1]]:
        replica.execute(statement)


def replica_status(replica: LocalServer) -> dict[str, Any]:
    """What a replica says of itself: what is not empty."""
    new = replica.flavor == "mysql" and replica.version >= (8, 4, 0)
    with (
        pymysql.connect(
            host=replica.host,
            port=replica.port,
            user="root",
            password=replica.password_of("root"),
            cursorclass=pymysql.cursors.DictCursor,
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SHOW REPLICA STATUS" if new else "SHOW SLAVE STATUS")
        row = cursor.fetchone() or {}
    return {key: value for key, value in row.items() if value not in (None, "", "None")}


def checksums(server: LocalServer, databases: Iterable[str]) -> dict[str, Any]:
    """CHECKSUM TABLE of all tables."""
    found = {}
    for database in databases:
        rows = server.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s "
            "AND table_type = 'BASE TABLE' ORDER BY 1",
            (database,),
        )
        for (table,) in rows:
            quoted = str(table).replace("`", "``")
            sql = f"CHECKSUM TABLE `{database}`.`{quoted}` EXTENDED"
            [(name, value)] = server.query(sql)
            found[name] = value
    return found


def wait_until_equal(
    source: LocalServer, replica: LocalServer, databases: Sequence[str], seconds: float = _WAIT
) -> None:
    """A replica's tables become those of the source, or its status is told."""
    wanted = checksums(source, databases)
    assert wanted
    deadline = time.monotonic() + seconds
    found: Any = None
    while time.monotonic() < deadline:
        try:
            found = checksums(replica, databases)
        except pymysql.Error as error:
            found = error
        if found == wanted:
            return
        time.sleep(0.2)
    if isinstance(found, dict):
        names = [name for name in {*wanted, *found} if wanted.get(name) != found.get(name)]
        found = {name: (wanted.get(name), found.get(name)) for name in names}
    raise AssertionError(f"source and replica differ: {found}\n{replica_status(replica)}")


def assert_same_files(relay: RelayProcess, source: LocalServer, seconds: float = 20) -> None:
    """The relay's files are the source's, byte for byte."""
    deadline = time.monotonic() + seconds
    while True:
        kept = relay.files()
        theirs = {
            str(name): source.binlog_path(str(name)).read_bytes()
            for name, *_ in source.query("SHOW BINARY LOGS")
        }
        different = [name for name, data in theirs.items() if kept.get(name) != data]
        if not different:
            return
        assert time.monotonic() < deadline, (different, sorted(kept))
        time.sleep(0.1)


def until(condition: Callable[[], object], what: str, seconds: float = 60) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"no end of waiting for {what}"
        time.sleep(0.1)


def write_some(server: LocalServer, rng: random.Random, database: str = "shop") -> None:
    """Some transactions, statements and DDL, and now and then a rotation."""
    server.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
    server.execute(
        f"CREATE TABLE IF NOT EXISTS {database}.t (id INT PRIMARY KEY AUTO_INCREMENT, s LONGTEXT, r INT)"
    )
    with server.connected() as connection, connection.cursor() as cursor:
        for _ in range(rng.randrange(1, 20)):
            kind = rng.random()
            if kind < 0.6:
                size = rng.choice((1, 30, 2000))
                cursor.execute(
                    f"INSERT INTO {database}.t (s, r) VALUES (REPEAT('x', %s), %s), ('ü', 1)",
                    (size, rng.randrange(1000)),
                )
            elif kind < 0.8:
                cursor.execute("BEGIN")
                cursor.execute(
                    f"UPDATE {database}.t SET r = r + 1 WHERE id %% 5 = %s", (rng.randrange(5),)
                )
                cursor.execute(
                    f"DELETE FROM {database}.t WHERE id %% 11 = %s", (rng.randrange(11),)
                )
                cursor.execute("COMMIT")
            elif kind < 0.9:
                cursor.execute(
                    f"ALTER TABLE {database}.t MODIFY r BIGINT DEFAULT %s", (rng.randrange(99),)
                )
            elif kind < 0.95:
                cursor.execute(f"INSERT INTO {database}.t (s) VALUES (REPEAT('long ', 200000))")
            else:
                cursor.execute("FLUSH BINARY LOGS")
