"""Positions of a server that a stream has left are saved with what belongs to that server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.protocol.position import Position
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.stream.live.source_identity import IDENTITY_KEY
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutInFile

DATA = Path(rc.__file__).parent / "testing" / "data"
FAST = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)
OTHER = "11111111-2222-3333-4444-555555555555"
FILES = sorted(DATA.glob("*.0*"))


@pytest.mark.parametrize(
    ("how", "arguments"), [("transactions", ()), ("changes", ()), ("batches", (2, 0.0))]
)
async def test_saved_with_the_server_that_it_is_of(
    how: str, arguments: tuple[Any, ...], tmp_path: Path
) -> None:
    ends = [one.position for one in rc.open_binlog(FILES).transactions()]
    middle = ends[len(ends) // 2]
    # The second server has its transactions elsewhere: in files of other numbers.
    moved = []
    for file in FILES:
        moved.append(tmp_path / f"other.{file.suffix[1:]}")
        moved[-1].write_bytes(file.read_bytes())
    names, others = [one.name for one in FILES], [one.name for one in moved]
    first = BinlogSource(FILES, faults=[CutInFile(middle.file, middle.offset)])
    async with first, BinlogSource(moved) as second:
        second.server_uuid = OTHER
        own = first.server_uuid
        given: list[tuple[Position, str]] = []
        hosts = [first.url, second.url]
        async with rc.connect(hosts, start="earliest", stop_at_end=True, reconnect=FAST) as stream:
            before = stream.position
            async for _ in getattr(stream, how)(*arguments):
                if not given:
                    await first.__aexit__(None, None, None)
                if stream.position != before:
                    before = stream.position
                    given.append((before, own if before.file in names else OTHER))
            assert {uuid for _, uuid in given} == {own, OTHER}
            for position, uuid in given:
                state = stream.state(position)
                assert state[IDENTITY_KEY]["server_uuid"] == uuid, position
                history = SchemaHistory.from_state(state[STATE_KEY])
                assert history.position.file in (names if uuid == own else ("", *others)), position
                # Tables that were made before the position, and no later one.
                positions = [one.since.file for one in history.versions(("shop", "orders"))]
                assert positions and set(positions) <= set(names if uuid == own else ("", *others))
