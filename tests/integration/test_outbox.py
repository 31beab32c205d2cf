"""Rows of an outbox table as messages of brokers: destination, key, id and headers, exactly what was inserted."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_process import DaemonProcess
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.nats_server import NatsServer
from tests.servers.local import LocalServer

_OUTBOX = (
    "(id CHAR(36) PRIMARY KEY, aggregatetype VARCHAR(60) NOT NULL, aggregateid VARCHAR(60) NOT NULL, "
    "type VARCHAR(60), payload JSON)"
)
TRANSFORM = {"tables": ["shop.outbox"], "outbox": {"headers": {"eventType": "type"}}}
SAID = [
    ("a-1", "order", "17", "created", '{"total": 3, "text": "ä\\nb"}'),
    ("a-2", "order", "18", None, "[1, 2]"),
    ("a-3", "customer", "17", "moved", '"a text"'),
]


def fill(source: LocalServer) -> None:
    """Messages as an application writes them: inserted, and deleted at once or later; with rows of another table."""
    source.execute("CREATE DATABASE shop")
    source.execute(f"CREATE TABLE shop.outbox {_OUTBOX}")
    source.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
    with source.connected(database="shop", autocommit=False) as connection:
        with connection.cursor() as cursor:
            for at, row in enumerate(SAID):
                cursor.execute("INSERT INTO orders VALUES (%s)", (at,))
                cursor.execute("INSERT INTO outbox VALUES (%s, %s, %s, %s, %s)", row)
                cursor.execute("DELETE FROM outbox WHERE id = %s", (row[0],))
                connection.commit()


def daemon_of(source: LocalServer, directory: Path, *sinks: dict[str, Any]) -> DaemonProcess:
    settings = {
        "url": source.url(),
        "tables": ["shop.*"],
        "start": f"{source.binlog_files()[0]}:4",
        "transform": [TRANSFORM],
    }
    return DaemonProcess(directory, settings, list(sinks))


def expected_lines() -> list[dict[str, Any]]:
    return [
        {
            "topic": f"outbox.event.{kind}",
            "key": key,
            "headers": {"id": name} if event is None else {"id": name, "eventType": event},
            "payload": json.loads(payload),
        }
        for name, kind, key, event, payload in SAID
    ]


@pytest.mark.parametrize("file_format", ["native", "debezium"])
def test_lines(fresh_server, tmp_path: Path, file_format: str):
    source = fresh_server("mysql-9.7")
    fill(source)
    sink = {"name": "file", "type": "file", "path": str(tmp_path / "out"), "format": file_format}
    with daemon_of(source, tmp_path, sink) as daemon:
        daemon.until_level()
        daemon.stop()
    text = "".join(path.read_text() for path in sorted((tmp_path / "out").glob("*.jsonl")))
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line for line in lines if "topic" in line] == expected_lines()
    assert sum('"orders"' in line for line in text.splitlines()) >= len(SAID)


def test_brokers(fresh_server, tmp_path: Path):
    source = fresh_server("mariadb-11.8", ["binlog-row-metadata=FULL"])
    fill(source)
    for name in ("kafka", "nats"):
        (tmp_path / name).mkdir()
    broker, nats = KafkaBroker(tmp_path / "kafka"), NatsServer(tmp_path / "nats")
    try:
        sinks = (
            {"name": "kafka", "type": "kafka", "bootstrap_servers": broker.servers},
            {
                "name": "nats",
                "type": "nats",
                "url": nats.url,
                "stream": "changes",
                "subject": "changes",
            },
        )
        with daemon_of(source, tmp_path, *sinks) as daemon:
            daemon.until_level()
            daemon.stop()
        topics = broker.read("outbox.", headers=True)
        messages = nats.messages("changes")
        headers = asyncio.run(_headers(nats.url))
    finally:
        broker.stop()
        nats.stop()
    assert set(topics) == {"outbox.event.order", "outbox.event.customer"}
    for topic, records in topics.items():
        assert [
            (key, json.loads(value), {name: text.decode() for name, text in heads})
            for key, value, heads in records
        ] == [
            (one["key"], one["payload"], one["headers"])
            for one in expected_lines()
            if one["topic"] == topic
        ]
    routed = [(subject, json.loads(data)) for subject, data in messages if ".outbox." in subject]
    assert sorted(map(str, routed)) == sorted(
        str((f"changes.{one['topic']}", one["payload"])) for one in expected_lines()
    )
    assert headers == [
        {**one["headers"], "Replica-Client-Key": one["key"]} for one in expected_lines()
    ]


async def _headers(url: str) -> list[dict[str, str]]:
    import nats

    client = await nats.connect(url)
    found = []
    try:
        manager = client.jetstream()
        count = (await manager.stream_info("changes")).state.messages
        reader = await manager.subscribe(">", stream="changes", ordered_consumer=True)
        for _ in range(count):
            message = await reader.next_msg(10)
            if ".outbox." in message.subject:
                heads = message.headers or {}
                found.append({k: v for k, v in heads.items() if not k.startswith("Nats-")})
    finally:
        await client.close()
    return found


def test_a_changed_row_is_no_message(fresh_server, tmp_path: Path):
    """It goes to the dead letters where the user wants that, and stops the sink else."""
    source = fresh_server("mysql-9.7")
    fill(source)
    source.execute("INSERT INTO shop.outbox VALUES ('b', 'order', '1', 'x', NULL)")
    source.execute("INSERT INTO shop.outbox VALUES ('c', 'order', '1', 'x', '{}')")
    source.execute("UPDATE shop.outbox SET type = 'y' WHERE id = 'c'")
    path = str(tmp_path / "out")
    sink = {"name": "file", "type": "file", "path": path}
    with daemon_of(source, tmp_path, {**sink, "on_poison": "dead-letter"}) as daemon:
        daemon.until_level()
        assert daemon.metric("replica_client_dead_letters_total", sink="file") == 2
        daemon.stop()
    lines = [
        json.loads(line)
        for file in sorted((tmp_path / "out").glob("*.jsonl"))
        for line in file.read_text().splitlines()
    ]
    assert [line["headers"]["id"] for line in lines if "topic" in line] == [
        "a-1",
        "a-2",
        "a-3",
        "c",
    ]


def test_rows_that_are_there_are_messages_of_a_snapshot(fresh_server, tmp_path: Path):
    """And those of two shards with the same keys are events of their own."""
    source = fresh_server("mysql-9.7")
    fill(source)
    source.execute("INSERT INTO shop.outbox VALUES ('d', 'order', '1', NULL, '{}')")
    for name in ("part_1", "part_2"):
        source.execute(f"CREATE TABLE shop.{name} (id INT PRIMARY KEY)")
        source.execute(f"INSERT INTO shop.{name} VALUES (1), (2)")
    (tmp_path / "nats").mkdir()
    nats = NatsServer(tmp_path / "nats")
    shards = {"tables": ["shop.part_*"], "route": "shop.parts", "shard": {"part": "{table}"}}
    try:
        sink = {"name": "nats", "type": "nats", "url": nats.url, "snapshot": True}
        daemon = daemon_of(source, tmp_path, {**sink, "stream": "changes", "subject": "changes"})
        del daemon.source["start"]
        daemon.source["transform"] = [TRANSFORM, shards]
        with daemon:
            daemon.until(lambda one: one.route("nats")["snapshot_tables"] == 0)
            daemon.until(lambda one: len(nats.messages("changes")) >= 8)
            daemon.stop()
        messages = nats.messages("changes")
    finally:
        nats.stop()
    assert [data for subject, data in messages if ".outbox." in subject] == [b"{}"]
    parts = [json.loads(data)["after"] for subject, data in messages if subject.endswith(".parts")]
    assert sorted((row["part"], row["id"]) for row in parts) == [
        *(("part_1", 1), ("part_1", 2)),
        *(("part_2", 1), ("part_2", 2)),
    ]
