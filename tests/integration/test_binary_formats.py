"""Avro and Arrow through Kafka, all types, read by others: a snapshot's rows are those of the stream."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka", reason="the package confluent-kafka is not installed")
pytest.importorskip("avro", reason="the package avro is not installed")
pytest.importorskip("fastavro", reason="the package fastavro is not installed")
pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")

import fastavro
import pyarrow as pa

from tests.integration.daemon_process import DaemonProcess
from tests.integration.kafka_broker import KafkaBroker
from tests.integration.schema_registry import SchemaRegistry
from tests.integration.shown_tables import make_shown_tables
from tests.servers.local import LocalServer

pytestmark = pytest.mark.timeout(240)

Images = dict[str, list[Any]]


@pytest.mark.parametrize("source_name", ["mysql-9.7", "mariadb-11.8"])
def test_rows_of_a_snapshot_are_those_of_the_stream(source_name, fresh_server, tmp_path) -> None:
    source: LocalServer = fresh_server(source_name, ["binlog-row-metadata=FULL"])
    make_shown_tables(source, is_mariadb=source_name.startswith("mariadb"))
    tables = [row[0] for row in source.query("SHOW TABLES FROM shown")]
    # Not below the directory of the test: the broker's is removed after it.
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        registry = stack.enter_context(SchemaRegistry())
        broker = KafkaBroker(Path(directory))
        stack.callback(broker.stop)
        common = {"type": "kafka", "bootstrap_servers": broker.servers, "partitions": 1}
        common |= {"snapshot": True, "topic_config": {"retention.ms": "-1"}}
        sinks: list[dict[str, Any]] = [
            {"name": name, "topic_prefix": name, "format": name, **common}
            for name in ("avro", "arrow")
        ]
        sinks[0]["registry"] = {"url": registry.url}
        settings = {"url": source.url(), "tables": ["shown.*"], "heartbeat": 1.0}
        with DaemonProcess(tmp_path, settings, sinks) as daemon:
            daemon.until(lambda one: all(_is_done(one, name) for name in ("avro", "arrow")), 120)
            for table in tables:
                source.execute(f"UPDATE shown.{table} SET n = n + 1")
            daemon.until_level()
            source.execute("ALTER TABLE shown.types ADD COLUMN added VARCHAR(9) DEFAULT 'x'")
            source.execute("UPDATE shown.types SET n = 7 WHERE id = 1")
            daemon.until_level()
            assert daemon.stop() == 0
        found = broker.read("", binary=True)
        avro = _avro_images(found, registry)
        versions = registry.subjects["avro.shown.types-value"]
    for (copied, before), name in ((avro, "avro"), (_arrow_images(found), "arrow")):
        assert sorted(copied) == sorted(tables), name
        for table in tables:
            ours, theirs = (sorted(map(repr, one[table])) for one in (copied, before))
            assert ours == theirs, f"{name}: {table}"
        assert len(copied["types"]) == 40
    # Rows before and behind the ALTER are read by their own schemas, and it was compatible.
    assert len(versions) == 2


def _is_done(daemon: DaemonProcess, sink: str) -> bool:
    route = daemon.route(sink)
    assert route["state"] != "failed", route["error"]
    return bool(route["snapshot_tables"] == 0)


def _avro_images(found: Any, registry: SchemaRegistry) -> tuple[Images, Images]:
    copied: Images = {}
    before: Images = {}
    for topic, records in found.items():
        if not topic.startswith("avro.shown."):
            continue
        for _, data in records:
            schema = registry.schema(int.from_bytes(data[1:5], "big"))
            value = fastavro.schemaless_reader(io.BytesIO(data[5:]), schema)
            assert isinstance(value, dict)
            if value["op"] == "r":
                copied.setdefault(value["source"]["table"], []).append(value["after"])
            elif value["before"]["n"] == 0:
                before.setdefault(value["source"]["table"], []).append(value["before"])
            else:
                assert value["after"]["added"] == "x"
    return copied, before


def _arrow_images(found: Any) -> tuple[Images, Images]:
    copied: Images = {}
    before: Images = {}
    for topic, records in found.items():
        if not topic.startswith("arrow.shown."):
            continue
        for _, data in records:
            table = pa.ipc.open_stream(data).read_all()
            name = table.schema.metadata[b"table"].decode()
            for row in table.to_pylist():
                values = {
                    key: value for key, value in row.items() if key[0] != "_" or key == "_lossless"
                }
                if row["_change_type"] == "read":
                    copied.setdefault(name, []).append(values)
                elif row["_change_type"] == "update_preimage" and row["n"] == 0:
                    before.setdefault(name, []).append(values)
    return copied, before
