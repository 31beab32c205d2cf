"""Long statements of a live source are not read in the event loop's thread."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client import connect
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.binlog.events.queries import QueryEvent
from replica_client.schema.ddl import create, lexer, statements
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.testing import BinlogSource

SHOP = Path(statements.__file__).parents[2] / "testing" / "data" / "shop-bin.000001"


def binlog_of(query: bytes, path: Path) -> Path:
    """A file of one statement that creates a table."""
    data, decoder, at = SHOP.read_bytes(), BinlogDecoder(), 4
    out = data[:4]
    while True:
        raw = data[at : at + int.from_bytes(data[at + 9 : at + 13], "little")]
        event: BinlogEvent = decoder.decode(raw, at)
        at += len(raw)
        if event.header.type_code == 15:
            out += raw
        if isinstance(event.body, QueryEvent) and event.body.query.startswith(b"CREATE TABLE"):
            break
    event = replace(event, body=replace(event.body, query=query, schema=b"d"))
    size = len(encode_event(event, decoder.format))
    header = replace(event.header, event_size=size, next_position=len(out) + size)
    path.write_bytes(out + encode_event(replace(event, header=header), decoder.format))
    return path


@pytest.mark.parametrize(("count", "in_loop"), [(20, True), (8000, False)])
def test_long_statements_are_read_in_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, in_loop: bool
) -> None:
    columns = ", ".join(f"column_{at} INT" for at in range(count))
    path = binlog_of(f"CREATE TABLE t ({columns})".encode(), tmp_path / "long.000001")
    threads: list[int] = []

    def tokens(text: str, context: StatementContext) -> list[lexer.Token]:
        threads.append(threading.get_ident())
        return lexer.tokenize(text, context)

    for module in (create, statements):
        monkeypatch.setattr(module, "tokenize", tokens)

    async def tables() -> list[int]:
        async with (
            BinlogSource([path]) as source,
            connect(source.url, start="earliest", stop_at_end=True) as stream,
        ):
            return [
                len(change.after.columns)
                async for transaction in stream.transactions()
                for change in transaction.schema_changes
                if change.after is not None
            ]

    assert asyncio.run(tables()) == [count]
    assert threads
    assert {thread == threading.get_ident() for thread in threads} == {in_loop}
