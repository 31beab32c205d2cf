"""The live reader against the testing source: whatever happens to the line, each change comes once."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

import replica_client as rc
from replica_client.rows.json_values import change_to_json
from replica_client.schema.ddl.statement_context import StatementContext
from replica_client.schema.history import STATE_KEY, SchemaHistory
from replica_client.schema.model import TableModel
from replica_client.stream.live.source_identity import IDENTITY_KEY, SourceIdentity
from replica_client.testing import BinlogSource
from replica_client.testing.faults import CutAt, Drip, FlipByte, SendError, Stall

DATA = Path(rc.__file__).parent / "testing" / "data"
WHOLE = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]
FAST = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0)
BEGINNINGS = ["earliest", rc.GtidSet()]


async def _changes(url: str, **options: object) -> list[str]:
    options.setdefault("start", "earliest")
    async with rc.connect(url, stop_at_end=True, reconnect=FAST, **options) as stream:
        return [change_to_json(change) async for change in stream.changes()]


async def test_stream_and_file_give_the_same_changes() -> None:
    async with BinlogSource(DATA) as source:
        assert await _changes(source.url) == WHOLE


async def test_stream_and_file_give_the_same_events() -> None:
    async with BinlogSource(DATA) as source:
        async with rc.connect(source.url, start="earliest", stop_at_end=True) as stream:
            events = [event async for event in stream.events()]
    live = [(e.file, e.position, e.body) for e in events if not _artificial(e)]
    assert live == [(e.file, e.position, e.body) for e in rc.open_binlog(DATA).events()]
    first = events[0]
    assert first.header.type_name == "ROTATE_EVENT"
    assert (first.header.timestamp, first.header.flags & 0x20) == (0, 0x20)


def _artificial(event: rc.BinlogEvent) -> bool:
    return event.header.is_artificial or event.header.timestamp == 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", BEGINNINGS, ids=["file", "gtid"])
async def test_cut_anywhere(start: str | rc.GtidSet) -> None:
    """One cut at each of many byte offsets of the dump, and more in the connections after it."""
    size = sum(path.stat().st_size for path in DATA.glob("shop-bin.0*"))
    chance = random.Random(7)
    for after in sorted({*range(0, 400, 13), *(chance.randrange(size) for _ in range(60))}):
        faults = [CutAt(after, connection=0), CutAt(chance.randrange(5000), connection=1)]
        async with BinlogSource(DATA, faults=faults) as source:
            assert await _changes(source.url, start=start) == WHOLE, f"cut at byte {after}"
            assert source.connections >= 2


async def test_dripped_stream() -> None:
    async with BinlogSource(DATA, faults=[Drip(piece_size=7)]) as source:
        assert await _changes(source.url) == WHOLE


async def test_stalled_source_is_noticed_and_left() -> None:
    async with BinlogSource(DATA, faults=[Stall(after=3000, connection=0)]) as source:
        got = await _changes(source.url, heartbeat_period=0.2)
        assert got == WHOLE
        assert source.connections == 2


async def test_flipped_byte_stops_the_stream_with_its_position() -> None:
    async with BinlogSource(DATA, faults=[FlipByte(event=9)]) as source:
        with pytest.raises(rc.BinlogDecodeError, match=r"shop-bin\.000001.*position \d+.*CRC-32"):
            await _changes(source.url)


async def test_every_acknowledged_position_resumes_exactly(tmp_path: Path) -> None:
    async with BinlogSource(DATA) as source:
        for stop_after in range(1, 18):
            store = rc.FilePositionStore(tmp_path / f"{stop_after}.json")
            got: list[str] = []
            async with rc.connect(source.url, start="earliest", position_store=store) as stream:
                count = 0
                async for transaction in stream.transactions():
                    got += [change_to_json(change) for change in transaction.changes]
                    await stream.acknowledge(transaction.position)
                    count += 1
                    if count == stop_after:
                        break
            got += await _changes(source.url, position_store=store)
            assert got == WHOLE


async def test_gives_up_when_the_policy_says_so() -> None:
    policy = rc.ReconnectPolicy(first_delay=0.0, max_delay=0.0, attempts=3)
    source = BinlogSource(DATA)
    async with source:
        async with rc.connect(source.url, start="earliest", reconnect=policy) as stream:
            changes = stream.changes()
            await anext(changes)
            await source.close()
            with pytest.raises(rc.TransportError):
                async with asyncio.timeout(20):
                    async for _ in changes:
                        pass


async def test_wrong_password_is_one_line_without_it() -> None:
    async with BinlogSource(DATA, users={"repl": "right"}) as source:
        url = source.url.replace("right", "WRONG-secret")
        with pytest.raises(rc.ServerError, match="1045") as caught:
            await _changes(url)
        assert "WRONG-secret" not in str(caught.value)
        assert "\n" not in str(caught.value)


async def test_error_packet_in_the_dump_is_typed() -> None:
    async with BinlogSource(DATA, faults=[SendError()]) as source:
        with pytest.raises(rc.ServerError):
            await _changes(source.url)


async def test_unknown_file_and_position() -> None:
    async with BinlogSource(DATA) as source:
        with pytest.raises(rc.ServerError, match="1236"):
            await _changes(source.url, start="shop-bin.000099:4")


def _rows(batches: list[Any]) -> dict[str, list[Any]]:
    rows: dict[str, list[Any]] = {}
    for batch in batches:
        rows.setdefault(batch.schema.metadata[b"table"].decode(), []).extend(batch.to_pylist())
    return rows


async def test_batches_come_once_wherever_the_line_is_cut() -> None:
    expected = _rows(list(rc.open_binlog(DATA).batches()))
    size = sum(path.stat().st_size for path in DATA.glob("shop-bin.0*"))
    chance = random.Random(8)
    for after in (0, *(chance.randrange(size) for _ in range(25))):
        faults = [CutAt(after, connection=0), CutAt(chance.randrange(5000), connection=1)]
        async with BinlogSource(DATA, faults=faults) as source:
            async with rc.connect(
                source.url, start="earliest", stop_at_end=True, reconnect=FAST
            ) as stream:
                found = [batch async for batch in stream.batches(max_rows=9)]
                last = list(rc.open_binlog(DATA).transactions())[-1]
                assert stream.position == last.position
        assert _rows(found) == expected, f"cut at byte {after}"


async def test_a_position_behind_batches_has_none_of_their_rows_after_it() -> None:
    async with BinlogSource(DATA) as source:
        async with rc.connect(source.url, start="earliest", stop_at_end=True) as stream:
            before: list[Any] = []
            position = stream.position
            async for batch in stream.batches(max_rows=5, max_seconds=0.0):
                if stream.position != position:
                    position = stream.position
                    rest = (
                        list(rc.open_binlog(DATA, start=position).batches())
                        if position.file
                        else []
                    )
                    assert sum(b.num_rows for b in [*before, *rest]) == 120
                before.append(batch)
            assert sum(b.num_rows for b in before) == 120


async def test_batches_of_a_stream() -> None:
    async with BinlogSource(DATA) as source:
        async with rc.connect(source.url, start="earliest", stop_at_end=True) as stream:
            rows = 0
            async for batch in stream.batches(max_rows=10):
                assert batch.num_rows <= 10
                rows += batch.num_rows
            assert rows == 120
            last = list(rc.open_binlog(DATA).transactions())[-1]
            assert stream.position == last.position


async def test_a_position_on_another_server_does_not_know_the_ddl_behind_it(tmp_path: Path) -> None:
    """The state of a position has what the stream read ahead; it comes again there, as on the same server."""
    history = SchemaHistory(lower_case_names=False)
    context = StatementContext("d")
    history.run("CREATE TABLE t (a INT)", context, "old-bin.000007", 100)
    history.run("ALTER TABLE t ADD b INT", context, "old-bin.000007", 900)
    identity = SourceIdentity("00000000-71ca-11e1-9e33-c80aa9429562", 77).to_state()
    store = rc.FilePositionStore(tmp_path / "p")
    first = next(iter(rc.open_binlog(DATA).transactions()))
    start = rc.Position("old-bin.000007", 500, first.position.gtid_set)
    store.save(start, {STATE_KEY: history.to_parts(), IDENTITY_KEY: identity})
    async with BinlogSource(DATA) as source:
        async with rc.connect(source.url, position_store=store, stop_at_end=True) as stream:
            table = stream.history.table(("d", "t"))
    assert isinstance(table, TableModel) and table.column_names == ("a",)


async def test_a_cut_behind_a_gap_at_the_start_is_gone_over() -> None:
    """The source purged what the start needs, and the line is cut behind it."""
    first, second = sorted(DATA.glob("shop-bin.0*"))[:2]
    start = next(iter(rc.open_binlog(first).transactions())).position.gtid_set
    expected = [change_to_json(change) for change in rc.open_binlog(DATA).changes()]
    expected = expected[len(list(rc.open_binlog(first).changes())) :]
    for cuts in ([], [CutAt(400, connection=1)]):
        async with BinlogSource(DATA, faults=cuts) as source:
            source.purge_to(second.name)
            options = {"start": start, "record_losses": ["gtid_gap"]}
            assert await _changes(source.url, **options) == expected
            assert source.connections >= 2 + len(cuts)
