"""``replica-client recover``: an empty server and a dump come to a moment, equal to the source then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replica_client.errors import ConfigError
from replica_client.protocol.position import Position
from replica_client.server.recovery import position_of_dump
from tests.integration.as_of_instants import url_of
from tests.integration.recover_points import client, prove_points
from tests.integration.relays import checksums, options, write_some
from tests.integration.undo_live import command
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


@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_a_dump_and_an_archive(fresh: Fresh, tmp_path: Path, name: str) -> None:
    rng = random.Random(5)
    source, target = fresh(name, 11), fresh(name, 21)
    write_some(source, rng)
    mysql = source.flavor == "mysql"
    words = ["--source-data=2", "--set-gtid-purged=OFF"] if mysql else ["--master-data=2"]
    program = "mysqldump" if mysql else "mariadb-dump"
    dump = client(source, program, "--single-transaction", *words, "--databases", "shop")
    (tmp_path / "shop.sql").write_bytes(dump)
    for statement in (
        "ALTER TABLE shop.t ADD COLUMN added INT DEFAULT 7",
        "CREATE TABLE shop.keyless (a INT, b VARCHAR(20))",
        "INSERT INTO shop.keyless VALUES (1, 'x'), (1, 'x'), (2, 'y')",
        "UPDATE shop.keyless SET b = 'z' WHERE a = 1",
        "CREATE TABLE shop.lost (a INT PRIMARY KEY)",
        "INSERT INTO shop.lost VALUES (1), (2)",
    ):
        source.execute(statement)
    source.rotate()
    write_some(source, rng)
    wanted = checksums(source, ["shop"])
    source.execute("DROP TABLE shop.lost")
    source.execute("DELETE FROM shop.keyless")
    source.rotate()
    archive = tmp_path / "archive"
    source.rotate()
    copied = command("backup", url_of(source), str(archive), "--stop-at-end", "--compress")
    assert copied.returncode == 0, copied.stderr
    assert any(archive.glob("*.rcz"))
    client(target, "mysql" if mysql else "mariadb", input=dump)
    source.kill()
    asked = ["recover", str(archive), "--dump", str(tmp_path / "shop.sql"), "--to", url_of(target)]
    wrong = command(*asked, "--before-drop", "shop.nosuch")
    assert wrong.returncode == 2, wrong
    assert "no DROP of shop.nosuch" in wrong.stderr
    done = command(*asked, "--before-drop", "shop.lost")
    assert done.returncode == 0, done.stderr
    assert "its replication is removed" in done.stderr
    assert checksums(target, ["shop"]) == wanted
    assert not target.query("SHOW REPLICA STATUS" if mysql else "SHOW SLAVE STATUS")


@pytest.mark.timeout(500)
@pytest.mark.parametrize("name", ["mysql-9.7", "mariadb-11.8"])
def test_random_points(fresh: Fresh, tmp_path: Path, name: str) -> None:
    counts = prove_points(fresh(name, 12), fresh(name, 22), tmp_path, seed=7, points=4)
    assert counts == {"position": 1, "gtid": 1, "drop": 1, "time": 1}


@pytest.mark.parametrize(
    "text",
    [
        "-- CHANGE REPLICATION SOURCE TO SOURCE_LOG_FILE='b.000003', SOURCE_LOG_POS=157;\n",
        "-- dump\nCHANGE MASTER TO MASTER_LOG_FILE='b.000003', MASTER_LOG_POS=157;\n",
        "[source]\n# Channel_Name = ''\nFile = b.000003\nPosition = 157\nExecuted_Gtid_Set = \n",
        '[source]\nSOURCE_LOG_FILE = "b.000003"\nSOURCE_LOG_POS = 157\n',
        "Started dump at: 2026-11-20 21:00:00\nSHOW MASTER STATUS:\n\tLog: b.000003\n\tPos: 157\n\tGTID:\n",
        "b.000003\t157\t4587bb45-e52d-11f1-971d-02fc00000001:1-5\n",
    ],
)
def test_heads_of_dumps(tmp_path: Path, text: str) -> None:
    path = tmp_path / "dump"
    path.write_text(text)
    assert position_of_dump(path) == Position("b.000003", 157)
    path.write_text("-- no position\n")
    with pytest.raises(ConfigError, match="states no binlog position"):
        position_of_dump(path)
