"""The sinks of events that snapshots are proved with, and how their lines are read."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.integration.sink_comparison import file_lines

SINKS = ("file", "redis", "kafka", "http", "nats")
_Read = Callable[[], Iterable[str]]


def snapshot_sink(
    name: str, directory: Path, stack: contextlib.ExitStack
) -> tuple[dict[str, Any], _Read]:
    """Options of a sink, and what gives the lines that it holds; its server ends with the stack."""
    if name == "file":
        path = directory / "events"
        return {"type": "file", "path": path, "rotate_bytes": 1 << 20}, lambda: file_lines(path)
    # Not below the directory: a socket's path is short.
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    if name == "redis":
        from tests.integration.redis_server import RedisServer

        redis = RedisServer(folder)
        stack.callback(redis.stop)

        def entries() -> Iterable[str]:
            with redis.client() as client:
                for _, fields in client.xrange("replica_client"):
                    yield fields[b"value"].decode()

        # Several steps for a commit of the stream, one for a chunk.
        return {"type": "redis", "url": redis.url, "chunk_entries": 100}, entries
    if name == "kafka":
        from tests.integration.kafka_broker import KafkaBroker

        broker = KafkaBroker(folder)
        stack.callback(broker.stop)
        options: dict[str, Any] = {"type": "kafka", "bootstrap_servers": broker.servers}
        options |= {"topic": "all", "schema_topic": "all", "partitions": 1}
        options |= {"tombstones_on_delete": False}
        options |= {"topic_config": {"retention.ms": "-1"}, "transaction_messages": 300}
        return options, lambda: [str(one[1]) for one in broker.read("all")["all"]]
    if name == "http":
        from tests.integration.event_receiver import KEY, EventReceiver

        receiver = EventReceiver(faults=0.02)
        stack.callback(receiver.close)
        return {"type": "http", "url": f"{receiver.url}/changes", "key": KEY}, lambda: list(
            receiver.lines.get("/changes", [])
        )
    from tests.integration.nats_server import NatsServer

    # Nothing kills it; the sink must keep up with the source.
    server = NatsServer(folder, syncs=False)
    stack.callback(server.stop)
    options = {"type": "nats", "url": server.url, "stream": "changes", "duplicate_window": 3600.0}
    return options, lambda: [data.decode() for _, data in server.messages("changes")]
