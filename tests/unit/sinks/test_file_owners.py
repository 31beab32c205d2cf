"""The identity of the writer in the destinations that are files."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from replica_client.protocol.position import Position
from replica_client.sinks.protocol import ReadSink
from replica_client.sinks.registry import make_sink
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.ownership import Claim, OwnedSink, Owner


def test_files_have_the_owner_of_the_last_configuration_before_the_first_commit(tmp_path) -> None:
    """Else a standby of that configuration is a stranger to them until something comes."""

    async def opened(kind: str, owner: Owner) -> list[Owner]:
        sink = make_sink(kind, {"path": str(tmp_path / kind)})
        assert isinstance(sink, OwnedSink)
        sink.claim(Claim(owner, "here"))
        if await sink.open() is None:
            await sink.commit(Checkpoint(Position("b.000001", 4)))
        await sink.close()
        assert isinstance(sink, ReadSink)
        return list(await sink.owners())

    for kind in ("file", "parquet"):
        first = Owner("1", "shop", "source", "sink", "now", "one", ("d.a",))
        assert asyncio.run(opened(kind, first)) == [first]
        changed = replace(first, fingerprint="two", tables=("d.b",))
        assert asyncio.run(opened(kind, changed)) == [changed]
        alike = replace(changed, id="2")
        assert asyncio.run(opened(kind, alike)) == [changed]
