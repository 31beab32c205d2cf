"""A relay's finished files go to an object store, are served from there, and outlive the relay's own disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica_client.errors import BackupMismatchError
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.wire.auth.server import stored_password
from replica_client.server.accounts import Account
from replica_client.server.relay.relay_archive import StoredFile
from replica_client.server.relay.relay_server import Relay, RelayOptions
from replica_client.server.relay.retention import Retention
from replica_client.storage.location import ObjectUrl
from replica_client.storage.object_store import ObjectStore
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from tests.source.binlogs import (
    SOURCE_UUID,
    BinlogMaker,
    events_in,
    is_artificial,
    next_position_of,
)
from tests.source.conftest import read_all
from tests.source.relay_files import relay_files, until

pytestmark = pytest.mark.usefixtures("s3_environment")
PLUGIN = "mysql_native_password"


@asynccontextmanager
async def relaying(source: BinlogSource, directory: Path, url: str) -> AsyncIterator[Relay]:
    relay = Relay(
        [parse_url(source.url)],
        directory,
        [Account("replica", PLUGIN, stored_password(PLUGIN, b"x"))],
        RelayOptions(
            port=0, upkeep_seconds=0.05, retention=Retention(size=1), archive=ObjectUrl.parse(url)
        ),
    )
    running = asyncio.create_task(relay.run())
    listening = asyncio.create_task(relay.listening.wait())
    try:
        await asyncio.wait([running, listening], return_when=asyncio.FIRST_COMPLETED, timeout=30)
        if running.done():
            running.result()
        yield relay
    finally:
        running.cancel()
        listening.cancel()
        await asyncio.gather(running, listening, return_exceptions=True)


def url_of(relay: Relay) -> str:
    assert relay.server is not None
    return f"mysql://replica:x@127.0.0.1:{relay.server.port}/?tls=disabled"


def stored(relay: Relay) -> list[str]:
    assert relay.library is not None
    return [file.name for file in relay.library.files if isinstance(file, StoredFile)]


async def dumped(relay: Relay, request: DumpRequest, number: int = 1) -> list[bytes]:
    uuid = f"6a3f6f56-0000-4000-8000-{number:012d}"
    events = await read_all(url_of(relay), request, server_id=number, replica_uuid=uuid)
    return [event for event in events if not is_artificial(event) and next_position_of(event)]


async def test_files_that_are_gone_here_are_served_from_the_archive(tmp_path, make_bucket) -> None:
    paths = relay_files(tmp_path, 4, 300_000)
    events = [event for path in paths for event in events_in(path)]
    url, directory = f"{make_bucket()}/relay", tmp_path / "relay"
    everything = DumpRequest("binlog.000001", 4, non_block=True)
    async with BinlogSource(paths) as source:
        async with relaying(source, directory, url) as relay:
            await until(lambda: stored(relay) == [path.name for path in paths[:-1]])
            await until(lambda: len(list((directory / "1").glob("binlog.*"))) == 1)
            store = ObjectStore(url)
            for path in paths[:-1]:
                assert store.get(f"1/{path.name}")[0] == path.read_bytes()
            # Several at once, each by another way.
            have = GtidSet.parse(f"{SOURCE_UUID}:1-2")
            found = await asyncio.gather(
                dumped(relay, everything),
                dumped(relay, everything, 2),
                dumped(relay, DumpRequest(gtid_set=have, non_block=True), 3),
            )
            assert found[:2] == [events] * 2
            gtid_events = [event for event in events if event[4] == 33]
            assert [event for event in found[2] if event[4] == 33] == gtid_events[2:]
            async with await SourceConnection.open(parse_url(url_of(relay))) as connection:
                rows = await connection.query("SHOW BINLOG EVENTS IN 'binlog.000002'", columns=6)
                assert len(rows) == len(events_in(paths[1]))
                assert [
                    row[0] for row in await connection.query("SHOW BINARY LOGS", columns=2)
                ] == [path.name for path in paths]
            assert relay.library is not None
            assert all(not f._users for f in relay.library.files if isinstance(f, StoredFile))
        # The relay's disk is lost.
        shutil.rmtree(directory)
        more = BinlogMaker(first=5)
        more.transaction()
        source.add_file(more.save(tmp_path / "binlog.000005"))
        events += more.events
        async with relaying(source, directory, url) as relay:
            await until(lambda: relay.library is not None and len(relay.library.files) == 5)
            await until(lambda: len(stored(relay)) >= 3)
            assert await dumped(relay, everything) == events


async def test_an_archive_is_one_relays(tmp_path, make_bucket) -> None:
    paths = relay_files(tmp_path, 2, 10)
    url = f"{make_bucket()}/relay"
    async with BinlogSource(paths) as source:
        async with relaying(source, tmp_path / "one", url) as relay:
            await until(lambda: relay.archive is not None and relay.archive.sizes)
        async with relaying(source, tmp_path / "two", f"{make_bucket()}/other"):
            pass
        with pytest.raises(BackupMismatchError, match="another relay"):
            async with relaying(source, tmp_path / "two", url):
                pass


async def test_what_the_store_refuses_stays_here_and_is_tried_again(tmp_path, make_bucket) -> None:
    paths = relay_files(tmp_path, 3, 10)
    async with BinlogSource(paths) as source:
        async with relaying(source, tmp_path / "relay", make_bucket("flaky")) as relay:
            await until(lambda: len(stored(relay)) == 2)
            found = await dumped(relay, DumpRequest("binlog.000001", 4, non_block=True))
            assert found == [event for path in paths for event in events_in(path)]
