"""To a point in time from a relay's files, when the source is gone with its disk."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

from tests.integration.relays import (
    RelayProcess,
    assert_same_files,
    begin_replica,
    checksums,
    options,
    replica_status,
    write_some,
)
from tests.servers.local import LocalServers

_WAIT = 300.0


def restore(servers: LocalServers, directory: Path, name: str, *, seed: int) -> str:
    """Write, remember a GTID, write more and drop a table, remove the source; come back to the GTID.

    The copy that is brought forward is an empty server: one of the source before its first transaction.

    Returns:
        The GTIDs at which the restored server equals the source.

    Raises:
        AssertionError: it does not.
    """
    rng = random.Random(seed)
    source = servers.fresh(name, options(name, 11))
    copy = servers.fresh(name, options(name, 21))
    mysql = name.startswith("mysql")
    plugin = "caching_sha2_password" if name == "mysql-9.7" else "mysql_native_password"
    try:
        with RelayProcess(directory / "relay", [source.url()], plugin=plugin) as relay:
            relay.wait()
            for _ in range(rng.randrange(1, 4)):
                write_some(source, rng)
            variable = "global.gtid_executed" if mysql else "gtid_binlog_pos"
            reached = str(source.query(f"SELECT @@{variable}")[0][0])
            wanted = checksums(source, ["shop"])
            write_some(source, rng)
            source.execute("DROP TABLE shop.t")
            assert_same_files(relay, source)
            source.kill()
            shutil.rmtree(source.datadir)
            if mysql:
                start = "START SLAVE" if name == "mysql-5.6" else "START REPLICA"
                until = f"{start} UNTIL SQL_AFTER_GTIDS = '{_last(reached)}'"
            else:
                until = f"START SLAVE UNTIL master_gtid_pos = '{reached}'"
            begin_replica(copy, relay.port, start=until)
            deadline = time.monotonic() + _WAIT
            while True:
                status = replica_status(copy)
                if "No" in (status.get("Replica_SQL_Running"), status.get("Slave_SQL_Running")):
                    break
                assert time.monotonic() < deadline, status
                time.sleep(0.2)
            found = checksums(copy, ["shop"])
            assert found == wanted, (found, wanted, status)
    finally:
        for server in (source, copy):
            servers.close_fresh(server)
    return reached


def _last(executed: str) -> str:
    """The last transaction of a set of one server's."""
    uuid, _, numbers = executed.partition(":")
    return f"{uuid}:{numbers.rpartition('-')[2]}"
