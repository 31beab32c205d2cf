"""A change-over from Debezium with an ALTER while nobody ran: names are those of each row's own time."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from replica_client.cli.app import run_words
from replica_client.errors import ConfigError
from replica_client.service.migration.debezium_history import read_history
from tests.integration.daemon_process import DaemonProcess
from tests.integration.kafka_mock import KafkaMock
from tests.integration.sink_comparison import file_lines
from tests.servers.local import LocalServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
DATABASE = "moved"


@pytest.mark.parametrize(
    ("source_name", "gtids"), [("mysql-9.7", True), ("mysql-9.7", False), ("mariadb-11.8", True)]
)
def test_names_after_an_alter_while_nobody_ran(
    source_name: str, gtids: bool, fresh_server: Any, tmp_path: Path
) -> None:
    is_mysql = source_name.startswith("mysql")
    options = ["gtid-mode=ON", "enforce-gtid-consistency=ON"] if gtids and is_mysql else []
    source: LocalServer = fresh_server(source_name, options)
    create = "CREATE TABLE t (id INT PRIMARY KEY, price INT, cost INT, kind ENUM('a','b'))"
    source.execute(f"CREATE DATABASE {DATABASE}")
    source.execute(create.replace(" t ", f" {DATABASE}.t "))

    def executed() -> dict[str, Any]:
        file, at = source.binlog_position()
        name = "@@gtid_executed" if is_mysql else "@@gtid_binlog_pos"
        found = str(source.query(f"SELECT {name}")[0][0]) if gtids else None
        return {"file": file, "pos": at, **({"gtids": found} if gtids else {})}

    records: list[dict[str, Any]] = []

    def record(position: dict[str, Any], ddl: str) -> None:
        one = {"source": {"server": "shop"}, "position": position, "databaseName": DATABASE}
        records.append({**one, "ddl": ddl, "tableChanges": []})

    snapshot = {**executed(), "snapshot": True}
    record(snapshot, "SET character_set_server=utf8mb4, collation_server=utf8mb4_bin")
    record(snapshot, f"CREATE DATABASE `{DATABASE}` CHARSET utf8mb4")
    record(snapshot, create)
    before = executed()
    seen = "ALTER TABLE t ADD COLUMN note VARCHAR(20)"
    source.execute(seen.replace(" t ", f" {DATABASE}.t "))
    record(before, seen)  # Debezium has read this one
    offset = executed()
    # From here on nobody runs. Debezium had also written down the next one, and not its offset.
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (1, 10, 20, 'b', 'x')")
    late = executed()
    swapped = (
        "ALTER TABLE t CHANGE price cost INT, CHANGE cost price INT, MODIFY kind ENUM('b','a')"
    )
    source.execute(swapped.replace(" t ", f" {DATABASE}.t "))
    record(late, swapped)
    source.execute(f"INSERT INTO {DATABASE}.t VALUES (2, 30, 40, 'b', 'y')")
    (tmp_path / "history.dat").write_text("".join(json.dumps(one) + "\n" for one in records))
    (tmp_path / "offset.json").write_text(json.dumps(offset))
    kind = "mysql.MySqlConnector" if is_mysql else "mariadb.MariaDbConnector"
    (tmp_path / "shop.json").write_text(
        json.dumps(
            {
                "connector.class": f"io.debezium.connector.{kind}",
                "topic.prefix": "shop",
                "database.hostname": "127.0.0.1",
                "database.user": "root",
                "table.include.list": f"{DATABASE}.t",
            }
        )
    )
    words = ["migrate", "debezium", str(tmp_path / "shop.json")]
    words += ["--offset", str(tmp_path / "offset.json"), "--output", str(tmp_path / "shop.toml")]
    assert run_words([*words, "--schema-history", str(tmp_path / "history.dat")]) == 0
    made = tmp_path / "shop.toml"
    assert 'schema_file = "shop.schema.json"' in made.read_text()
    migrated = tomllib.loads(made.read_text())["source"][0]
    settings = {
        "url": source.url(),
        "tables": migrated["tables"],
        "start": migrated["start"],
        "schema_file": str(tmp_path / migrated["schema_file"]),
    }
    sink = {"name": "lines", "type": "file", "path": tmp_path / "lines"}
    with DaemonProcess(tmp_path, settings, [sink]) as daemon:
        daemon.until_level()
    lines = [json.loads(line) for line in file_lines(tmp_path / "lines")]
    rows = [one["after"] for one in lines if one.get("after")]
    assert rows == [
        {"id": 1, "price": 10, "cost": 20, "kind": "b", "note": "x"},
        {"id": 2, "cost": 30, "price": 40, "kind": "b", "note": "y"},
    ]


def test_the_history_in_a_topic() -> None:
    mock = KafkaMock()
    try:
        mock.make_topic("history")
        producer = confluent_kafka.Producer({"bootstrap.servers": mock.servers})
        position = {"file": "b.000001", "pos": 4, "snapshot": True}
        one = {"source": {"server": "shop"}, "position": position, "databaseName": "shop"}
        for ddl in ("CREATE DATABASE shop", "CREATE TABLE t (id INT PRIMARY KEY, a INT)"):
            value = json.dumps({**one, "ddl": ddl})
            producer.produce("history", value=value, partition=0)
        producer.flush(20)
        broker = mock.servers.split(",")[0]
        place = f"kafka://{broker}/history"
        found = read_history(place, "shop", "b.000001:300", is_mariadb=False)
        assert found.tables() == [("shop", "t")]
        for wrong in (f"kafka://{broker}", f"kafka://{broker}/a/b"):
            with pytest.raises(ConfigError, match="HOST:PORT/TOPIC"):
                read_history(wrong, "shop", "b.000001:300", is_mariadb=False)
    finally:
        mock.close()
