"""The rows of a snapshot as the service writes them to Kafka, for the comparison with the real Debezium engine."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.integration.daemon_process import DaemonProcess
from tests.integration.debezium_comparison import Record, our_options
from tests.integration.kafka_broker import KafkaBroker
from tests.servers.local import LocalServer

_SECONDS = 300.0
_READ = re.compile(r'"op":"r","ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}+$')


def our_snapshot(source: LocalServer, properties: Mapping[str, str]) -> list[Record]:
    """The rows of all tables of the database shop, while nothing changes there."""
    options, _ = our_options(properties)
    prefix = str(properties["topic.prefix"])
    with tempfile.TemporaryDirectory() as directory:
        broker = KafkaBroker(Path(directory))
        sink = {
            "name": "kafka",
            "type": "kafka",
            "bootstrap_servers": broker.servers,
            "topic_prefix": prefix,
            "partitions": 1,
            # The broker's rule is one for 7 days of a record's own time.
            "topic_config": {"retention.ms": "-1"},
            "format": "debezium",
            "format_options": options,
            "snapshot": True,
        }
        settings = {"url": source.url(), "tables": ["shop.*"], "heartbeat": 1.0}
        try:
            with DaemonProcess(Path(directory), settings, [sink]) as daemon:
                daemon.until(_is_done, _SECONDS)
                assert daemon.stop() == 0, daemon.tail()
            found = broker.read(f"{prefix}.shop.")
        finally:
            broker.stop()
    return [
        Record(topic, None if key is None else str(key), str(value))
        for topic, records in found.items()
        for key, value in records
    ]


def _is_done(daemon: DaemonProcess) -> bool:
    route = daemon.route("kafka")
    assert route["state"] != "failed", route["error"]
    return bool(route["snapshot_tables"] == 0)


def of_snapshot(record: Record, prefix: str) -> bool:
    """Whether the engine wrote a record in its snapshot: a row, or the definition of a table."""
    if record.value is None:
        return False
    if record.topic != prefix:
        return _READ.search(record.value) is not None
    value = json.loads(record.value)
    source = (value.get("payload") or value).get("source") or {}
    return source.get("snapshot") not in (None, "false")
