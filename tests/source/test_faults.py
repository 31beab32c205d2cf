"""Scripted faults: what the client sees of each."""

import asyncio

import pytest

from replica_client.errors import (
    AccessDeniedError,
    ChecksumMismatchError,
    ConnectionLostError,
    PacketSequenceError,
    ProtocolError,
    ReplicaClientError,
    ServerError,
    TransportError,
    TransportTimeoutError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.gtid import GtidSet, MariadbGtidSet
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource, faults
from tests.source.binlogs import BinlogMaker, two_files
from tests.source.conftest import read_all, read_until_error

ALL = DumpRequest(non_block=True)


@pytest.mark.parametrize("start", ["file", "gtid"])
@pytest.mark.parametrize("mariadb", [False, True])
async def test_cut_at_every_byte(tmp_path, mariadb, start) -> None:
    maker = BinlogMaker(mariadb=mariadb)
    maker.transaction()
    path = maker.save(tmp_path / "binlog.000001")
    gtid_set = {True: MariadbGtidSet(), False: GtidSet()}[mariadb] if start == "gtid" else None
    request = DumpRequest(gtid_set=gtid_set, non_block=True)
    async with BinlogSource(path) as source:
        whole = await read_all(source.url, request)
        total = sum(len(event) + 5 for event in whole) + 9
        for size in range(total):
            source.faults[:] = [faults.CutAt(size)]
            events, error = await read_until_error(source.url, request)
            assert isinstance(error, ConnectionLostError), (size, error)
            assert events == whole[: len(events)]
        source.faults[:] = [faults.CutAt(total)]
        events, error = await read_until_error(source.url, request)
        assert events == whole
        assert error is None


async def test_cut_during_login_at_every_byte(tmp_path) -> None:
    path = BinlogMaker().save(tmp_path / "binlog.000001")
    async with BinlogSource(path) as source:
        failed = 0
        for size in range(0, 400, 3):
            source.faults[:] = [faults.CutAt(size, whole_connection=True)]
            try:
                connection = await SourceConnection.open(parse_url(source.url))
                await connection.close()
            except ReplicaClientError as error:
                assert isinstance(error, TransportError | ProtocolError), error
                assert "\n" not in str(error)
                failed += 1
        assert failed > 20


async def test_reset(tmp_path) -> None:
    cut = faults.CutAt(200, reset=True)
    async with BinlogSource(two_files(tmp_path), faults=[cut]) as source:
        _, error = await read_until_error(source.url, ALL)
        assert isinstance(error, ConnectionLostError)


@pytest.mark.parametrize("piece_size", [1, 3, 100])
async def test_drip(tmp_path, piece_size) -> None:
    paths = two_files(tmp_path, transactions=2)
    async with BinlogSource(paths) as source:
        whole = await read_all(source.url, ALL)
        source.faults[:] = [faults.Drip(piece_size)]
        assert await read_all(source.url, ALL) == whole


async def test_stall_that_ends(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path)) as source:
        whole = await read_all(source.url, ALL)
        source.faults[:] = [faults.Stall(after=400, seconds=0.3)]
        started = asyncio.get_running_loop().time()
        assert await read_all(source.url, ALL) == whole
        assert asyncio.get_running_loop().time() - started >= 0.3


async def test_wrong_sequence_number(tmp_path) -> None:
    fault = faults.WrongSequence(4)
    async with BinlogSource(two_files(tmp_path), faults=[fault]) as source:
        events, error = await read_until_error(source.url, ALL)
        assert len(events) == 4
        assert isinstance(error, PacketSequenceError)


async def test_flipped_checksum(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path), faults=[faults.FlipByte(4)]) as source:
        decoder = BinlogDecoder()
        with pytest.raises(ChecksumMismatchError):
            for event in await read_all(source.url, ALL):
                decoder.decode(event, 0)


async def test_injected_event(tmp_path) -> None:
    maker = BinlogMaker()
    extra = maker.event(2, maker_query(maker))
    async with BinlogSource(two_files(tmp_path)) as source:
        whole = await read_all(source.url, ALL)
        source.faults[:] = [faults.InjectEvent(extra, before_event=3)]
        assert await read_all(source.url, ALL) == [*whole[:3], extra, *whole[3:]]


def maker_query(maker: BinlogMaker) -> object:
    from replica_client.protocol.binlog.events import QueryEvent

    return QueryEvent(1, 0, 0, b"", b"", b"extra")


async def test_refused_login(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path), faults=[faults.RefuseLogin()]) as source:
        with pytest.raises(AccessDeniedError) as caught:
            await SourceConnection.open(parse_url(source.url))
        assert caught.value.errno == 1045
        assert "secret" not in str(caught.value)


async def test_slow_handshake(tmp_path) -> None:
    async with BinlogSource(two_files(tmp_path), faults=[faults.SlowHandshake(5)]) as source:
        with pytest.raises(TransportTimeoutError, match="connect_timeout"):
            await SourceConnection.open(parse_url(source.url + "?connect_timeout=0.2"))


async def test_faults_of_one_connection(tmp_path) -> None:
    fault = faults.RefuseLogin(connection=1)
    async with BinlogSource(two_files(tmp_path), faults=[fault]) as source:
        for number in range(3):
            if number == 1:
                with pytest.raises(AccessDeniedError):
                    await SourceConnection.open(parse_url(source.url))
            else:
                await (await SourceConnection.open(parse_url(source.url))).close()


@pytest.mark.parametrize("seed", range(40))
async def test_random_bytes_in_the_stream(tmp_path, seed) -> None:
    import random

    rng = random.Random(seed)
    fault = faults.SendBytes(rng.randbytes(rng.randrange(1, 400)), after=rng.randrange(300))
    async with BinlogSource(two_files(tmp_path), faults=[fault]) as source:
        events, error = await read_until_error(source.url, ALL)
        assert isinstance(error, ProtocolError | ServerError | ConnectionLostError) or events
