"""What a server may make us hold in memory with its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from replica_client.errors import PacketTooLargeError
from replica_client.protocol.wire.resultset import encode_result
from replica_client.stream.transport.connect_options import TlsMode, TlsOptions, parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.testing import BinlogSource
from tests.source.binlogs import BinlogMaker

MIB = 1 << 20
Answer = Callable[[], Iterator[bytes]]


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((number & 255,)) + payload


class Rogue:
    """Passes a login on to a testing source, and answers the first statement behind it in its own way."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.sent = 0

    async def serve(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        try:
            down = asyncio.ensure_future(self._pass(there, writer))
            await self._commands(reader, back, writer, down)
        except (OSError, EOFError):
            pass
        finally:
            down.cancel()
            back.close()
            writer.close()

    async def _pass(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            writer.write(data)

    async def _commands(
        self,
        reader: asyncio.StreamReader,
        back: asyncio.StreamWriter,
        writer: asyncio.StreamWriter,
        down: asyncio.Future[None],
    ) -> None:
        while True:
            header = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(header[:3], "little"))
            if header[3] == 0 and b"ENDLESS" in body:
                down.cancel()
                for piece in self._answer():
                    writer.write(piece)
                    self.sent += len(piece)
                    await writer.drain()
                return
            back.write(header + body)


def many_rows() -> Iterator[bytes]:
    head = encode_result(["a"], [])
    for number, payload in enumerate(head[:-1], 1):
        yield packet(number, payload)
    row = 100
    number = len(head)
    while True:
        yield b"".join(packet(number + at, bytes((row,)) + b"x" * row) for at in range(1000))
        number += 1000


def small_values() -> Iterator[bytes]:
    head = encode_result([f"c{at}" for at in range(1000)], [])
    for number, payload in enumerate(head[:-1], 1):
        yield packet(number, payload)
    number = len(head)
    while True:
        yield packet(number, b"\x01x" * 1000)
        number += 1


def one_value() -> Iterator[bytes]:
    head = encode_result(["a"], [])
    for number, payload in enumerate(head[:-1], 1):
        yield packet(number, payload)
    number = len(head)
    piece = b"\xfe" + (1 << 40).to_bytes(8, "little")
    while True:
        yield (
            (0xFFFFFF).to_bytes(3, "little") + bytes((number & 255,)) + piece.ljust(0xFFFFFF, b"x")
        )
        number += 1
        piece = b""


def many_columns() -> Iterator[bytes]:
    column = encode_result(["a"], [])[1]
    yield packet(1, b"\xfe" + (1 << 40).to_bytes(8, "little"))
    number = 2
    while True:
        yield b"".join(packet(number + at, column) for at in range(1000))
        number += 1000


@pytest.mark.parametrize("answer", [many_rows, small_values, one_value, many_columns])
@pytest.mark.parametrize("lists_all", [False, True])
async def test_an_endless_answer_ends(answer: Answer, lists_all: bool, tmp_path: Path) -> None:
    rogue = Rogue(answer)
    async with BinlogSource(BinlogMaker().save(tmp_path / "binlog.000001")) as source:
        behind = parse_url(source.url)
        server = await asyncio.start_server(
            lambda reader, writer: rogue.serve(behind.port, reader, writer), "127.0.0.1", 0
        )
        async with server:
            port = server.sockets[0].getsockname()[1]
            tls = TlsOptions(TlsMode.DISABLED)
            options = replace(behind, port=port, max_answer_size=2 * MIB, tls=tls)
            connection = await SourceConnection.open(options)
            try:
                with pytest.raises(PacketTooLargeError, match="max_answer_size"):
                    async with asyncio.timeout(60):
                        await connection.query("SELECT 'ENDLESS'", lists_all=lists_all)
            finally:
                await connection.close()
    # What is allowed, what is in the buffers of both ends of the socket, and a packet that is being joined.
    assert rogue.sent < 32 * MIB


async def test_a_packet_before_the_login_is_small(tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", behind.port)
        header = await there.readexactly(4)
        writer.write(header + await there.readexactly(int.from_bytes(header[:3], "little")))
        await reader.readexactly(4)
        writer.write((0xFFFFFF).to_bytes(3, "little") + bytes((2,)))
        await writer.drain()
        await reader.read()
        back.close()
        writer.close()

    async with BinlogSource(BinlogMaker().save(tmp_path / "binlog.000001")) as source:
        behind = parse_url(source.url)
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            options = replace(behind, port=port, tls=TlsOptions(TlsMode.DISABLED))
            with pytest.raises(PacketTooLargeError):
                await SourceConnection.open(options)
