"""``doctor`` for several servers: a source, its replica, another server, and saved positions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replica_client.protocol.position import Position
from replica_client.stream.position.stores.object import position_file
from tests.integration.as_of_instants import url_of
from tests.integration.relays import options
from tests.integration.undo_live import command
from tests.servers.local import LocalServer, LocalServers

pytestmark = pytest.mark.integration

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


def replicate(source: LocalServer, replica: LocalServer) -> None:
    password = source.password_of("root")
    if source.flavor == "mariadb":
        replica.execute(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={source.port}, MASTER_USER='root', "
            f"MASTER_PASSWORD='{password}', MASTER_CONNECT_RETRY=1, MASTER_SSL_VERIFY_SERVER_CERT=0, "
            "MASTER_USE_GTID=slave_pos"
        )
        replica.execute("START SLAVE")
    else:
        replica.execute(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={source.port}, "
            f"SOURCE_USER='root', SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, "
            "GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1"
        )
        replica.execute("START REPLICA")


def found(done: Any) -> dict[tuple[str, str], tuple[str, str]]:
    """Severity and text by server and check."""
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {(one["server"], one["check"]): (one["severity"], one["text"]) for one in records}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_source_and_its_replica(fresh: Fresh, tmp_path: Path, name: str) -> None:
    source, replica = fresh(name, 11), fresh(name, 12)
    mysql = source.flavor == "mysql"
    source.execute("CREATE DATABASE shop")
    source.execute("CREATE TABLE shop.t (id INT PRIMARY KEY)")
    variable = "@@global.gtid_executed" if mysql else "@@global.gtid_binlog_pos"
    early = str(source.query(f"SELECT {variable}")[0][0])
    replicate(source, replica)
    source.execute("INSERT INTO shop.t VALUES (1)")
    deadline = time.monotonic() + 60
    while (
        not replica.query("SHOW DATABASES LIKE 'shop'")
        or not replica.query("SELECT 1 FROM information_schema.tables WHERE table_schema = 'shop'")
        or not replica.query("SELECT id FROM shop.t")
    ):
        assert time.monotonic() < deadline, replica.query("SHOW REPLICA STATUS")
        time.sleep(0.2)
    urls = [url_of(source), url_of(replica)]
    here, there = (f"127.0.0.1:{one.port}" for one in (source, replica))
    late = str(source.query(f"SELECT {variable}")[0][0])
    files = {}
    for label, text in (("early", early), ("late", late)):
        files[label] = str(tmp_path / f"{label}.position")
        position_file(files[label]).save(Position.parse("@" + text.replace("\n", "")))
    positions = [word for path in files.values() for word in ("--position-file", path)]

    good = command("doctor", *urls, *positions, "--json")
    answers = found(good)
    assert answers[here, "replication"] == ("ok", f"no replica; source of {there}")
    assert answers[there, "threads"][0] == answers[there, "lag"][0] == "ok"
    assert answers[there, "purged"] == ("ok", f"its source {here} has what it needs")
    assert answers[files["early"], "position"][0] == "ok"
    page = command("doctor", *urls).stdout
    assert f"\n{there}\n" in page
    assert "both threads run" in page

    replica.execute("STOP REPLICA" if mysql else "STOP SLAVE")
    source.execute("INSERT INTO shop.t VALUES (2)")
    source.rotate()
    newest = source.binlog_files()[-1]
    deadline = time.monotonic() + 60
    while len(source.binlog_files()) > 1:
        assert time.monotonic() < deadline, "the source does not purge"
        source.execute(f"PURGE BINARY LOGS TO '{newest}'")
        time.sleep(0.1)
    bad = command("doctor", *urls, *positions, "--json")
    answers = found(bad)
    assert bad.returncode == 1
    assert answers[there, "threads"][0] == "problem"
    assert "the applier is stopped" in answers[there, "threads"][1]
    severity, text = answers[there, "purged"]
    assert severity == "problem"
    assert f"its source {here} no longer has what it needs" in text
    severities = {
        (one["server"], one["text"].split()[0]): one["severity"]
        for one in map(json.loads, bad.stdout.splitlines())
        if one["check"] == "position"
    }
    assert severities[files["early"], here] == severities[files["late"], here] == "warning"
    assert severities[files["late"], there] == "ok"
    dead = command("doctor", urls[0], "mysql://root@127.0.0.1:1/", "--json")
    assert found(dead)["127.0.0.1:1", "connection"][0] == "problem"
