"""Arrow streams through NATS and HTTP: what pyarrow reads at the other end are the rows of ``.batches()``."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="the package pyarrow is not installed")

import pyarrow as pa

import replica_client
from replica_client import open_binlog
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.testing.sink_conformance import SinkConformance
from tests.integration.event_receiver import KEY, EventReceiver

DATA = Path(replica_client.__file__).parent / "testing" / "data"
Rows = dict[str, list[dict[str, Any]]]


async def deliver(kind: str, options: dict[str, Any]) -> None:
    """Transactions, some of them in parts, with a commit behind each."""
    sink = make_sink(kind, {"format": "arrow", **options})
    await sink.open()
    try:
        for transaction in SinkConformance().transactions():
            await sink.write(transaction)
            if transaction.complete:
                await sink.commit(Checkpoint(transaction.position))
    finally:
        await sink.close()


def rows_of(streams: Iterable[bytes]) -> Rows:
    """The rows of each table, in the order in which they came, each stream read by pyarrow alone."""
    found = defaultdict(list)
    for stream in streams:
        table = pa.ipc.open_stream(stream).read_all()
        metadata = table.schema.metadata
        name = f"{metadata[b'database'].decode()}.{metadata[b'table'].decode()}"
        if not name.endswith("._schema_changes"):
            found[name] += [row for row in table.to_pylist() if "_change_type" in row]
    return dict(found)


def rows_of_batches() -> Rows:
    found = defaultdict(list)
    for batch in open_binlog(DATA).batches():
        metadata = batch.schema.metadata
        name = f"{metadata[b'database'].decode()}.{metadata[b'table'].decode()}"
        found[name] += batch.to_pylist()
    return dict(found)


@pytest.mark.parametrize("faults", [0.0, 0.1])
async def test_by_http(faults: float) -> None:
    pytest.importorskip("httpx", reason="the package httpx is not installed")
    receiver = EventReceiver(faults=faults)
    try:
        options = {"url": f"{receiver.url}/changes", "key": KEY, "retries": 30}
        await deliver("http", options)
    finally:
        receiver.close()
    assert not receiver.lines
    assert rows_of(receiver.streams["/changes"]) == rows_of_batches()
    assert bool(receiver.faulty) == bool(faults)


@pytest.mark.parametrize("max_rows", [0, 2])
async def test_by_nats(max_rows: int) -> None:
    pytest.importorskip("nats", reason="the package nats-py is not installed")
    from tests.integration.nats_server import NatsServer

    with tempfile.TemporaryDirectory() as directory:
        server = NatsServer(Path(directory))
        try:
            options = {"url": server.url, "stream": "changes", "subject": "changes"}
            more = {"format_options": {"max_rows": max_rows}} if max_rows else {}
            await deliver("nats", {**options, **more})
            streams = [data for _, data in await server.read("changes")]
        finally:
            server.stop()
    assert rows_of(streams) == rows_of_batches()
