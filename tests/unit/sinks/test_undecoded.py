"""What the service does with ordinary rows needs no event objects: making them took half of its time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import replica_client
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.service.table_checker import RowCounter
from replica_client.sinks.registry import make_sink
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction

DATA = Path(replica_client.__file__).parent / "testing" / "data"
GOLDEN = Path(__file__).parents[2] / "golden"
FILES = [*sorted(DATA.glob("shop-bin.*")), *sorted(GOLDEN.glob("*/rows.binlog"))]


def transactions_of(path: Path) -> list[Transaction]:
    return list(open_binlog(path).transactions())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_size_of_an_event_is_that_of_its_header(path: Path) -> None:
    found = [rows for one in transactions_of(path) for rows in one.rows]
    assert found
    sizes = [rows.event_size for rows in found]
    assert sizes == [rows.event.header.event_size for rows in found]


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_sinks_and_counts_make_no_events(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = [
        one
        for path in FILES[:1]
        for one in transactions_of(path)
        if one.rows and not one.schema_changes
    ]
    assert len(ordinary) > 5

    def refuse(*arguments: Any) -> None:
        raise AssertionError("an event was decoded")

    options: dict[str, Any] = {"path": str(tmp_path / "sink")}
    if kind == "sqlite":
        options |= {"unknown_tables": "create", "missing_rows": "ignore"}

    async def write() -> None:
        sink = make_sink(kind, options)
        await sink.open()
        for one in ordinary:
            await sink.write(one)
        await sink.commit(Checkpoint(ordinary[-1].position))
        await sink.close()

    monkeypatch.setattr(BinlogDecoder, "decode", refuse)
    counter = RowCounter()
    assert sum(counter.count(rows) for one in ordinary for rows in one.rows) > len(ordinary)
    asyncio.run(write())
