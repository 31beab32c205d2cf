"""The relay between real servers: replicas become equal, files are the source's byte for byte."""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pymysql
import pytest

from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.relay_answers import assert_same_answers
from tests.integration.relays import (
    RelayProcess,
    assert_same_files,
    begin_replica,
    options,
    replica_status,
    until,
    wait_until_equal,
    write_some,
)
from tests.servers.local import LocalServer, LocalServers

Fresh = Callable[[str, int], LocalServer]


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


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])  # scripts/proofs/relay: all
def test_replicas_of_a_relay(fresh: Fresh, tmp_path: Path, name: str) -> None:
    rng = random.Random(22)
    source, by_gtid = fresh(name, 11), fresh(name, 21)
    first = str(source.query("SHOW BINARY LOGS")[0][0])
    write_some(source, rng)
    with RelayProcess(tmp_path / "relay", [source.url()], plugin=plugin_of(name)) as relay:
        relay.wait()
        begin_replica(by_gtid, relay.port)
        for _ in range(6):
            write_some(source, rng)
        wait_until_equal(source, by_gtid, ["shop"])
        # By file and offset, from the beginning; the relay is killed meanwhile.
        begin_replica_again(by_gtid, relay, first)
        relay.kill()
        write_some(source, rng)
        relay.start()
        relay.wait("connected")
        for _ in range(4):
            write_some(source, rng)
        wait_until_equal(source, by_gtid, ["shop"])
        assert_same_files(relay, source)
        assert_same_answers(relay, source)
        until(
            lambda: [client["behind_bytes"] for client in relay.status()["clients"]] == [0],
            "one client that has all",
        )
        assert relay.status()["failed_logins"] == 0
        assert relay.stop() == 0


def begin_replica_again(replica: LocalServer, relay: RelayProcess, first: str) -> None:
    new = replica.flavor == "mysql" and replica.version >= (8, 4, 0)
    for statement in (
        ("STOP REPLICA", "RESET REPLICA ALL") if new else ("STOP SLAVE", "RESET SLAVE ALL")
    ):
        replica.execute(statement)
    replica.execute("DROP DATABASE shop")
    begin_replica(replica, relay.port, gtid=False, first_file=first)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_another_server_becomes_the_source(fresh: Fresh, tmp_path: Path, name: str) -> None:
    rng = random.Random(7)
    source, standby, replica = fresh(name, 11), fresh(name, 12), fresh(name, 21)
    write_some(source, rng)
    urls = [source.url(), standby.url()]
    with RelayProcess(tmp_path / "relay", urls, plugin=plugin_of(name)) as relay:
        relay.wait()
        begin_replica(standby, relay.port)
        begin_replica(replica, relay.port)
        for _ in range(3):
            write_some(source, rng)
        wait_until_equal(source, standby, ["shop"])
        wait_until_equal(source, replica, ["shop"])
        standby.execute("STOP REPLICA" if name == "mysql-9.7" else "STOP SLAVE")
        source.kill()
        standby.execute("CREATE TABLE shop.after_failover (id INT PRIMARY KEY)")
        for _ in range(3):
            write_some(standby, rng)
        wait_until_equal(standby, replica, ["shop"])
        # A replica that begins now gets everything from the files of both.
        new = fresh(name, 22)
        begin_replica(new, relay.port)
        wait_until_equal(standby, new, ["shop"])
        assert "Error" not in str(replica_status(new).get("Last_IO_Error", ""))
        names = [row[0] for row in asyncio.run(logs_of(relay))]
        assert len(names) == len(set(names))
        assert any("-2." in one for one in names), names


async def logs_of(relay: RelayProcess) -> list[tuple[str, int]]:
    async with await SourceConnection.open(parse_url(relay.url)) as connection:
        return await connection.binary_logs()


@pytest.mark.timeout(240)
def test_a_relay_of_a_relay(fresh: Fresh, tmp_path: Path) -> None:
    rng = random.Random(5)
    source, replica = fresh("mysql-9.7", 11), fresh("mysql-9.7", 21)
    write_some(source, rng)
    with RelayProcess(tmp_path / "first", [source.url()]) as first:
        first.wait()
        url = first.url.rstrip("/") + "/"
        second = RelayProcess(tmp_path / "second", [url], source='tls = "disabled"\n')
        second.config.write_text(
            second.config.read_text().replace(url, url + "?allow_public_key_retrieval=true")
        )
        with second:
            second.wait()
            begin_replica(replica, second.port)
            for _ in range(4):
                write_some(source, rng)
            wait_until_equal(source, replica, ["shop"])
            first.kill()
            write_some(source, rng)
            first.start()
            write_some(source, rng)
            wait_until_equal(source, replica, ["shop"])
            assert_same_files(second, source)


@pytest.mark.timeout(240)
def test_what_a_semi_synchronous_source_committed_is_on_the_relays_disk(
    fresh: Fresh, tmp_path: Path
) -> None:
    """The source waits for the relay; then its disk is gone, and the replica comes only afterwards."""
    source, replica = fresh("mysql-9.7", 11), fresh("mysql-9.7", 21)
    source.execute("INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'")
    source.execute("SET GLOBAL rpl_semi_sync_source_enabled = ON")
    source.execute("SET GLOBAL rpl_semi_sync_source_timeout = 60000")
    urls = [source.url()]
    with RelayProcess(tmp_path / "relay", urls, source="semi_sync = true\n") as relay:
        relay.wait("connected")
        source.execute("CREATE DATABASE shop")
        source.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        for _ in range(200):
            source.execute("INSERT INTO shop.t VALUES ()")
        assert source.query("SHOW STATUS LIKE 'Rpl_semi_sync_source_yes_tx'")[0][1] == "202"
        source.kill()
        relay.kill()
        relay.start()
        relay.wait()
        begin_replica(replica, relay.port)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if replica.query("SELECT COUNT(*), MAX(id) FROM shop.t") == [(200, 200)]:
                    return
            except pymysql.Error:
                pass
            time.sleep(0.2)
        raise AssertionError(replica_status(replica))


@pytest.mark.timeout(300)
def test_ten_accounts_take_neither_page_nor_replica_nor_memory() -> None:
    """A short scripts/proofs/relay_hostile: its exit status is 1 where a limit of the document is passed."""
    script = Path(__file__).resolve().parents[2] / "scripts" / "proofs" / "relay_hostile"
    # Compressed packets are in tests/source/test_hostile_clients.py.
    kinds = [
        "processor",
        "variables",
        "parsing",
        "theft",
        "half packets",
        "dumps",
        "names",
        "listings",
        "pings",
        "logins",
    ]
    only_accounts = ["--packets", "0", "--half-open", "0", "--flood", "0", "--accounts", "15"]
    # Other tests run beside this one: without a limit an account kept the page waiting for 5 to 19 s.
    only_accounts += ["--slack", "4"]
    found = subprocess.run(
        [sys.executable, script, *only_accounts, "--connections", "6", "--attacks", *kinds],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    attacks = re.search(r"([0-9]+) attacks", found.stdout)
    assert attacks is not None
    assert int(attacks[1]) >= 60
    for kind in kinds[:6]:
        assert f" {kind}: " in found.stdout
