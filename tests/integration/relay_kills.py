"""SIGKILLs of a relay, its source and its replica at random instants: everything is equal in the end."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pymysql

from tests.integration.relays import (
    RelayProcess,
    assert_same_files,
    begin_replica,
    options,
    wait_until_equal,
    write_some,
)
from tests.servers.local import LocalServer, LocalServers

DURABLE = ("sync-binlog=1", "innodb-flush-log-at-trx-commit=1")
CRASH_SAFE = {
    "mysql-5.6": ("relay-log-recovery=ON", "relay-log-info-repository=TABLE"),
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
    """Kill what chance says, while the source is written to.

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
    try:
        write_some(source, rng)
        with RelayProcess(directory / "relay", [source.url()], plugin=plugin) as relay:
            relay.wait()
            begin_replica(replica, relay.port)
            for number in range(kills):
                target = rng.choices(("relay", "replica", "source"), (6, 1, 1))[0]
                _killed_while_writing(source, replica, relay, target, rng)
                killed[target] += 1
                if number % 10 == 9:
                    relay.wait("connected")
                    wait_until_equal(source, replica, ["shop"], 120)
                    tell(f"{name}: {number + 1} kills, all equal: {dict(killed)}")
            write_some(source, rng)
            relay.wait("connected")
            wait_until_equal(source, replica, ["shop"], 120)
            assert_same_files(relay, source)
    finally:
        for server in (source, replica):
            servers.close_fresh(server)
    return killed


def _killed_while_writing(
    source: LocalServer,
    replica: LocalServer,
    relay: RelayProcess,
    target: str,
    rng: random.Random,
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
        if target == "relay":
            relay.kill()
            relay.start()
        else:
            server = replica if target == "replica" else source
            server.kill()
            server.restart()
    finally:
        writer.join()
