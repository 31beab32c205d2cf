"""TLS 1.3 changes its keys during a dump: nothing is lost, and what we send still arrives."""

import asyncio

import pytest

from replica_client.server.accounts import server_context
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from replica_client.testing.faults import Drip
from tests.source.binlogs import BinlogMaker
from tests.source.conftest import read_all, start_dump
from tests.source.key_updates import KeyUpdates, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

ROUNDS = 40


@pytest.mark.parametrize("compression", ["", "zlib"])
async def test_keys_change_between_packets(tmp_path, compression) -> None:
    maker = BinlogMaker()
    path = maker.save(tmp_path / "binlog.000001")
    context = server_context()
    updates = KeyUpdates(context)
    async with BinlogSource(path, tls=context, semi_sync=True) as source:
        url = f"{source.url}?tls=required" + f"&compression={compression}" * bool(compression)
        request = DumpRequest("binlog.000001", path.stat().st_size)
        async with await start_dump(url, request, semi_sync=True, heartbeat_period=5.0) as stream:
            received: list[bytes] = list(await stream.read())
            while len(received) < 2:
                received += await stream.read()
            sent: list[bytes] = []
            async with asyncio.timeout(60):
                for number in range(ROUNDS):
                    assert updates.order(source) == 1
                    # Now and then more than a TLS record holds.
                    events = maker.transaction(100_000 if number % 5 == 0 else 50)
                    source.append(b"".join(events))
                    sent += events
                    while len(received) < 2 + len(sent):
                        received += await stream.read()
                    await stream.acknowledge_semi_sync("binlog.000001", number)
            assert received[2:] == sent
            session = source.sessions[0]
            async with asyncio.timeout(30):
                while len(session.acknowledged) < ROUNDS:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert [position for _, position in session.acknowledged] == list(range(ROUNDS))
    assert updates.sent >= ROUNDS
    assert updates.received >= ROUNDS // 2  # ours go with what we send next


async def test_keys_change_within_a_long_dump(tmp_path) -> None:
    maker = BinlogMaker()
    for _ in range(60):
        maker.transaction(100_000)
    path = maker.save(tmp_path / "binlog.000001")
    context = server_context()
    updates = KeyUpdates(context)
    async with BinlogSource(path, tls=context) as source:
        plain = await read_all(
            source.url + "?tls=disabled&allow_public_key_retrieval=true",
            DumpRequest(non_block=True),
        )
        source.faults.append(Drip(50_000, 0.001))
        async with await start_dump(
            source.url + "?tls=required", DumpRequest(non_block=True)
        ) as stream:
            received: list[bytes] = []
            while batch := await stream.read():
                received += batch
                # Not at the end: who orders new keys must send something before it closes.
                if len(received) < len(plain) // 2:
                    updates.order(source)
        assert received == plain
    assert updates.sent >= 20
