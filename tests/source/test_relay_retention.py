"""A relay removes old files, but none that a client which it knows has not read."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from replica_client.errors import UnknownBinlogError
from replica_client.protocol.wire.auth.server import stored_password
from replica_client.server.accounts import Account
from replica_client.server.relay import retention
from replica_client.server.relay.relay_server import Relay, RelayOptions
from replica_client.server.relay.retention import Clients, KnownClient, Retention, removable
from replica_client.server.served_library import BinlogLibrary
from replica_client.server.transactions import Transactions
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.dump import DumpRequest, DumpStream
from replica_client.testing import BinlogSource
from tests.source.binlogs import events_in, is_artificial, next_position_of
from tests.source.conftest import read_all, start_dump
from tests.source.relay_files import relay_files, until

REQUEST = DumpRequest("binlog.000001", 4)


def test_no_file_goes_that_a_client_has_not_read(tmp_path, monkeypatch) -> None:
    rng = random.Random(22)
    (tmp_path / "served").mkdir()
    paths = relay_files(tmp_path / "served", 9, 1000)
    gone = 0
    for number in range(100):
        library = BinlogLibrary(paths)
        total = sum(file.size for file in library.files)
        clients = Clients(tmp_path)
        on_the_way = rng.choice((0, 1, 1000, 5000))
        monkeypatch.setattr(retention, "ON_THE_WAY", on_the_way)
        for client in range(rng.randrange(4)):
            at = rng.randrange(len(paths))
            position = rng.randrange(4, library.files[at].size + 1)
            name = library.files[at].name
            clients.all[str(client)] = KnownClient("user", name, position, time.time())
        size = rng.choice((None, 0, 1, total // 2, total))
        seconds = rng.choice((None, -1.0, 3600.0))
        count = removable(library, Retention(size, seconds), clients)
        gone += count
        for client in clients.all.values():
            older = [f.size for f in library.files if f.name < client.file]
            before = client.position + sum(older)
            for file in library.files[:count]:
                end = sum([f.size for f in library.files if f.name <= file.name])
                assert file.name < client.file, number
                assert end <= before - on_the_way, number
        assert count < len(paths)
        if size is None and seconds is None:
            assert not count
    assert gone > 30


@asynccontextmanager
async def relaying(source: BinlogSource, directory: Path, **kept: float) -> AsyncIterator[Relay]:
    account = Account(
        "replica", "mysql_native_password", stored_password("mysql_native_password", b"x")
    )
    options = RelayOptions(port=0, upkeep_seconds=0.05, retention=Retention(size=1, **kept))
    relay = Relay([parse_url(source.url)], directory, [account], options)
    running = asyncio.create_task(relay.run())
    try:
        async with asyncio.timeout(30):
            await relay.listening.wait()
        yield relay
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def url_of(relay: Relay) -> str:
    assert relay.server is not None
    return f"mysql://replica:x@127.0.0.1:{relay.server.port}/?tls=disabled"


def kept(relay: Relay) -> list[str]:
    assert relay.library is not None
    return [file.name for file in relay.library.files]


async def take(stream: DumpStream, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            some = await stream.read()
            found += [e for e in some if not is_artificial(e) and next_position_of(e)]
    return found


@pytest.fixture(autouse=True)
def all_that_was_sent_was_read(monkeypatch) -> None:
    monkeypatch.setattr(retention, "ON_THE_WAY", 0)


async def test_a_relay_that_may_keep_one_byte(tmp_path) -> None:
    # More than the kernel takes for a client that reads nothing.
    paths = relay_files(tmp_path, 10, 2_000_000)
    async with BinlogSource(paths[0]) as source:
        async with relaying(source, tmp_path / "relay") as relay:
            slow = await start_dump(url_of(relay), REQUEST, queue_size=1 << 16, heartbeat_period=1)
            await until(lambda: relay.clients is not None and relay.clients.all)
            for path in paths[1:]:
                source.add_file(path)
            await until(lambda: kept(relay)[-1] == paths[-1].name)
            await asyncio.sleep(0.3)  # several times upkeep_seconds
            assert len(kept(relay)) > 2  # those that it has not read
            await slow.close()
            first = kept(relay)[0]
        # It was away, and so was the relay: both come back, and nothing is missing.
        async with relaying(source, tmp_path / "relay") as relay:
            assert kept(relay)[0] == first
            position = next_position_of(events_in(paths[0])[0]) if first == "binlog.000001" else 4
            wanted = [event for path in paths if path.name >= first for event in events_in(path)]
            if position != 4:
                wanted = wanted[1:]
            stream = await start_dump(
                url_of(relay), DumpRequest(first, position), heartbeat_period=1
            )
            async with stream:
                assert await take(stream, len(wanted)) == wanted
                await until(lambda: kept(relay) == [paths[-1].name])
            with pytest.raises(UnknownBinlogError):
                await read_all(url_of(relay), REQUEST)


async def test_a_client_that_is_away_for_too_long_holds_nothing(tmp_path) -> None:
    paths = relay_files(tmp_path, 3, 10)
    async with (
        BinlogSource(paths) as source,
        relaying(source, tmp_path / "relay", client_seconds=0.5) as relay,
    ):
        assert relay.clients is not None
        relay.clients.all["away"] = KnownClient("replica", "binlog.000001", 4, time.time())
        await until(lambda: len(kept(relay)) == 1)
        assert not relay.clients.all


async def test_the_relays_margin_keeps_what_may_be_on_the_way(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(retention, "ON_THE_WAY", 16 << 20)
    paths = relay_files(tmp_path, 3, 10)
    events = [event for path in paths for event in events_in(path)]
    async with BinlogSource(paths[0]) as source, relaying(source, tmp_path / "relay") as relay:
        async with await start_dump(url_of(relay), REQUEST, heartbeat_period=1) as stream:
            await until(lambda: relay.clients is not None and relay.clients.all)
            for path in paths[1:]:
                source.add_file(path)
            assert len(await take(stream, len(events))) == len(events)
            await until(lambda: {c.file for c in relay.clients.all.values()} == {"binlog.000003"})
            await asyncio.sleep(0.2)
            assert kept(relay) == [path.name for path in paths]


async def test_transactions_are_counted_by_one_thread(tmp_path, monkeypatch) -> None:
    # A status page and a thread that counted at the same time passed over transactions: replicas were refused for good.
    threads, count_some = set(), Transactions.count_some

    def counted(self: Transactions, limit: int | None = None) -> bool:
        threads.add(threading.get_ident())
        return count_some(self, limit)

    monkeypatch.setattr(Transactions, "count_some", counted)
    paths = relay_files(tmp_path, 2, 10)
    async with BinlogSource(paths) as source:
        async with relaying(source, tmp_path / "relay") as relay:
            await until(lambda: kept(relay) == ["binlog.000002"])
            assert relay.library is not None
            assert str(relay.library.executed()).endswith(":1-2")
    assert threads == {threading.get_ident()}
