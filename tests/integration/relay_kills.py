"""SIGKILLs of a relay, its source and its replica, and cut networks, at random instants: all is equal in the end."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pymysql

from tests.integration.cutting_proxy import CuttingProxy
from tests.integration.relays import (
    RelayProcess,
    assert_same_files,
    begin_replica,
    options,
    replica_status,
    wait_until_equal,
    write_some,
)
from tests.servers.local import LocalServer, LocalServers

DURABLE = ("sync-binlog=1", "innodb-flush-log-at-trx-commit=1")
CRASH_SAFE = {
    "mysql-5.6": (
        "relay-log-recovery=ON",
        "relay-log-info-repository=TABLE",
        "master-info-repository=TABLE",
    ),
    "mysql-9.7": ("relay-log-recovery=ON",),
}


def prove(
    servers: LocalServers,
    directory: Path,
    name: str,
    *,
    kills: int,
    seed: int,
    tell: Callable[[str], None] = lambda text: None,
) -> Counter[str]:
    """Kill what chance says, or cut the relay's connection to the source, while the source is written to.

    Returns:
        How often each was killed.

    Raises:
        AssertionError: a replica's tables, or the relay's files, are not the source's.
    """
    rng = random.Random(seed)
    source = servers.fresh(name, [*options(name, 11), *DURABLE])
    safe = CRASH_SAFE.get(name, ())
    replica = servers.fresh(name, [*options(name, 21), *DURABLE, *safe])
    plugin = "caching_sha2_password" if name == "mysql-9.7" else "mysql_native_password"
    killed: Counter[str] = Counter()
    proxy = CuttingProxy(source.port)
    url = source.url().replace(f":{source.port}/", f":{proxy.port}/")
    try:
        write_some(source, rng)
        with RelayProcess(directory / "relay", [url], plugin=plugin) as relay:
            relay.wait()
            begin_replica(replica, relay.port)
            for number in range(kills):
                target = rng.choices(("relay", "replica", "source", "network"), (5, 1, 1, 2))[0]
                _killed_while_writing(source, replica, relay, proxy, target, rng, tell)
                killed[target] += 1
                if number % 10 == 9:
                    relay.wait("connected")
                    wait_until_equal(source, replica, ["shop"], 120)
                    assert_same_files(relay, source)
                    tell(f"{name}: {number + 1} kills, all equal: {dict(killed)}")
            write_some(source, rng)
            relay.wait("connected")
            wait_until_equal(source, replica, ["shop"], 120)
            assert_same_files(relay, source)
            assert "Traceback" not in relay.log.read_text(), relay.log.read_text()
    finally:
        proxy.close()
        for server in (source, replica):
            servers.close_fresh(server)
    return killed


def _killed_while_writing(
    source: LocalServer,
    replica: LocalServer,
    relay: RelayProcess,
    proxy: CuttingProxy,
    target: str,
    rng: random.Random,
    tell: Callable[[str], None],
) -> None:
    pause = rng.uniform(0, 0.4)
    generator = random.Random(rng.random())

    def write() -> None:
        # The source may be what is killed.
        try:
            for _ in range(3):
                write_some(source, generator)
        except (pymysql.Error, OSError):
            pass

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(pause)
    try:
        if target == "network":
            for _ in range(rng.randrange(1, 4)):
                proxy.refuse(rng.random() < 0.5)
                proxy.cut()
                time.sleep(rng.uniform(0, 0.3))
            proxy.refuse(False)
        elif target == "relay":
            relay.kill()
            relay.start()
        else:
            server = replica if target == "replica" else source
            server.kill()
            server.restart()
            if target == "replica":
                _begin_again(server, tell)
    finally:
        writer.join()


def _begin_again(replica: LocalServer, tell: Callable[[str], None]) -> None:
    """A MariaDB or MySQL 5.6 that was killed while it wrote its relay log starts without its replication."""
    status = replica_status(replica)
    threads = (status.get("Slave_IO_Running"), status.get("Slave_SQL_Running"))
    if threads != ("No", "No") or status.get("Last_SQL_Errno"):
        return
    log = [line for line in replica.error_log.read_text().splitlines() if "ERROR" in line]
    tell(f"a killed replica came up without its threads: {log[-3:]}")
    try:
        replica.execute("START SLAVE")
    except pymysql.Error:
        replica.execute("RESET SLAVE")  # GTIDs tell where it was
        replica.execute("START SLAVE")


SEMI_SYNC = {
    "mysql-9.7": (
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'",
        "SET GLOBAL rpl_semi_sync_source_timeout = 600000",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    ),
    "mariadb-11.8": (
        "SET GLOBAL rpl_semi_sync_master_timeout = 600000",
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    ),
}
"""How a source is made to wait for its relay, by name."""


def lose_the_source(servers: LocalServers, directory: Path, name: str, *, seed: int) -> int:
    """Kill source and relay while clients commit; remove the source's disk; what was committed is in the relay.

    Returns:
        How many transactions were acknowledged to clients, each of which a new replica of the relay has.

    Raises:
        AssertionError: one is missing.
    """
    rng = random.Random(seed)
    source = servers.fresh(name, options(name, 11))
    replica = servers.fresh(name, options(name, 21))
    plugin = "caching_sha2_password" if name == "mysql-9.7" else "mysql_native_password"
    committed: list[list[int]] = [[] for _ in range(4)]
    begun = threading.Barrier(len(committed) + 1)

    def write(at: int) -> None:
        with source.connect() as connection, connection.cursor() as cursor:
            begun.wait()
            try:
                for number in range(1 << 20):
                    key = number * len(committed) + at
                    cursor.execute(
                        "INSERT INTO shop.t VALUES (%s, REPEAT('x', %s))", (key, number % 500)
                    )
                    committed[at].append(key)
            except (pymysql.Error, OSError):
                pass

    try:
        for statement in SEMI_SYNC[name]:
            source.execute(statement)
        with RelayProcess(
            directory / "relay", [source.url()], plugin=plugin, source="semi_sync = true\n"
        ) as relay:
            relay.wait("connected")
            source.execute("CREATE DATABASE shop")
            source.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, s VARCHAR(500))")
            writers = [threading.Thread(target=write, args=(at,)) for at in range(len(committed))]
            for writer in writers:
                writer.start()
            begun.wait()
            time.sleep(rng.uniform(0.2, 2.5))
            if rng.random() < 0.5:
                source.kill()
                relay.kill()
            else:
                relay.kill()
                source.kill()
            for writer in writers:
                writer.join()
            shutil.rmtree(source.datadir, ignore_errors=True)
            relay.start()
            relay.wait()
            begin_replica(replica, relay.port)
            wanted = sorted(key for keys in committed for key in keys)
            assert wanted
            _wait_for_rows(replica, set(wanted))
    finally:
        for server in (source, replica):
            servers.close_fresh(server)
    return len(wanted)


def _wait_for_rows(replica: LocalServer, wanted: set[int]) -> None:
    deadline = time.monotonic() + 120
    missing: object = None
    while time.monotonic() < deadline:
        try:
            missing = wanted - {int(row[0]) for row in replica.query("SELECT id FROM shop.t")}
        except pymysql.Error as error:
            missing = error
        if not missing:
            return
        time.sleep(0.2)
    raise AssertionError((missing, replica_status(replica)))
