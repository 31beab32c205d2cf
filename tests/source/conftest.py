"""Fixtures of tests against the testing source."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest, DumpStream

REPLICA_UUID = "6a3f6f56-0000-4000-8000-000000000001"


async def start_dump(url: str, request: DumpRequest, **options: Any) -> DumpStream:
    connection = await SourceConnection.open(parse_url(url))
    try:
        return await connection.start_dump(
            request, **{"server_id": 4242, "replica_uuid": REPLICA_UUID, **options}
        )
    finally:
        await connection.close()


async def read_all(url: str, request: DumpRequest, **options: Any) -> list[bytes]:
    events: list[bytes] = []
    async with await start_dump(url, request, **options) as stream:
        while batch := await stream.read():
            events += batch
    return events


async def read_until_error(
    url: str, request: DumpRequest, **options: Any
) -> tuple[list[bytes], BaseException | None]:
    events: list[bytes] = []
    try:
        async with await start_dump(url, request, **options) as stream:
            while batch := await stream.read():
                events += batch
    except Exception as error:
        return events, error
    return events, None


@pytest.fixture
def dump_all() -> Callable[..., Awaitable[list[bytes]]]:
    return read_all
