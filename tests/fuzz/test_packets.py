"""A hostile source, in short; scripts/proofs/fuzz_packets plays a million packets."""

from __future__ import annotations

import pytest

from replica_client.errors import UnexpectedPacketError
from tests.fuzz import packet_harness as harness


async def test_recorded_sessions_go_through_unchanged() -> None:
    for talk in await harness.conversations():
        if talk.compression:
            continue  # a frame that is there before it was asked for is read too early
        made: list[harness._Transport] = []
        opener = harness._opener(b"".join(talk.packets), made)
        genuine = harness.aiomysql.connection._open_connection
        harness.aiomysql.connection._open_connection = opener
        try:
            options = harness._options("127.0.0.1", 3306, talk.compression)
            assert await harness._client(options, talk) > 20
        finally:
            harness.aiomysql.connection._open_connection = genuine


async def test_hostile_sessions() -> None:
    tally = harness.Tally()
    await harness.play(await harness.conversations(), tally, seed=7, count=1500)
    assert not tally.findings
    assert tally.resident < 256
    assert len(tally.outcomes) >= 6


async def test_hostile_packets() -> None:
    tally = harness.Tally()
    harness.play_packets(await harness.conversations(), tally, seed=7, count=15_000)
    assert not tally.findings
    assert tally.packets >= 15_000


@pytest.mark.parametrize("at", range(3, 9))
async def test_local_file_is_refused(at: int) -> None:
    talk = (await harness.conversations())[0]
    packets = list(talk.packets)
    packets[at] = b"\x0c\0\0" + packets[at][3:4] + b"\xfb/etc/passwd"
    made: list[harness._Transport] = []
    genuine = harness.aiomysql.connection._open_connection
    harness.aiomysql.connection._open_connection = harness._opener(b"".join(packets), made)
    try:
        with pytest.raises(harness.ALLOWED) as caught:
            await harness._client(harness._options("127.0.0.1", 3306), talk)
    finally:
        harness.aiomysql.connection._open_connection = genuine
    assert b"root:" not in made[0].written
    if isinstance(caught.value, UnexpectedPacketError):
        assert "local file" in str(caught.value)
