"""A hostile server: recorded conversations with changed packets, played to the real client.

Used by scripts/proofs/fuzz_packets (a million) and by test_packets.py (short). There is no socket: the
client's transport is replaced by one that holds the whole conversation, so that a session costs
milliseconds.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiomysql.connection

import replica_client as rc
from replica_client.errors import (
    BinlogDecodeError,
    ConfigError,
    ProtocolError,
    ReplicaClientError,
    ServerError,
    TransportError,
)
from replica_client.protocol.binlog.decoder import BinlogDecoder
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.auth.plugin import Credentials
from replica_client.protocol.wire.connection_phase import HandshakeV10, LoginSession
from replica_client.protocol.wire.dump_commands import DumpSession
from replica_client.protocol.wire.framing import MAX_PIECE_SIZE
from replica_client.protocol.wire.packets import Compression
from replica_client.rows.json_values import change_to_json
from replica_client.stream.transport.connect_options import MIB, ConnectOptions, TlsMode, TlsOptions
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource

ALLOWED = (ProtocolError, ServerError, TransportError, BinlogDecodeError)
PASSWORD = "Sesame-open-4711"
SECRET_FILE = Path(__file__).read_bytes()[:40]
PLUGINS = (
    b"mysql_clear_password",
    b"dialog",
    b"mysql_native_password",
    b"caching_sha2_password",
    b"sha256_password",
    b"client_ed25519",
    b"parsec",
    b"mysql_old_password",
    b"no_such_plugin",
)
SESSION_TIMEOUT = 20.0
NO_GTIDS = rc.Position("", 0, rc.GtidSet())
FILES = sorted((Path(rc.__file__).parent / "testing" / "data").glob("shop-bin.0*"))


@dataclass
class Tally:
    """What a run saw.

    Attributes:
        sessions: conversations played.
        packets: random or changed packets that were given to the client.
        outcomes: errors by name, and sessions that went through.
        findings: what must not happen, with the seed that shows it.
        resident: growth of the largest resident size, in MiB.
    """

    sessions: int = 0
    packets: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    resident: int = 0


@dataclass(frozen=True)
class Conversation:
    """A recorded session: what the server sent, packet by packet (header and payload).

    With a start it is that of a whole stream, down to the rows; else that of a dump.
    """

    name: str
    packets: tuple[bytes, ...]
    request: DumpRequest
    compression: str = ""
    semi_sync: bool = False
    start: Any = None


class _Transport(asyncio.Transport):
    """Keeps what the client writes; the conversation is in the reader already."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self._closing = False
        self._ended = False
        self._protocol: Any = None
        self._socket = socket.socket()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._socket if name == "socket" else default

    def write(self, data: Any) -> None:
        self.written += data

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        if not isinstance(self._protocol, asyncio.StreamReaderProtocol):
            self._end()  # the dump has taken what was there

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        self._socket.close()
        self._end()

    abort = close

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


def _opener(data: bytes, made: list[_Transport]) -> Any:
    async def open_connection(*_: Any, **__: Any) -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        reader = aiomysql.connection._StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = _Transport()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        reader.feed_data(data)
        reader.feed_eof()
        made.append(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    return open_connection


async def _client(options: ConnectOptions, conversation: Conversation) -> int:
    """What a stream does at its beginning, and then a whole dump; returns the events decoded."""
    count = 0
    if conversation.start is not None:
        return await _stream(options, conversation)
    connection = await SourceConnection.open(options)
    try:
        await connection.binlog_status()
        await connection.binary_logs()
        dump = await connection.start_dump(
            conversation.request,
            server_id=7,
            replica_uuid="6a3f6f56-0000-4000-8000-000000000007",
            semi_sync=conversation.semi_sync,
        )
    finally:
        await connection.close()
    decoder = BinlogDecoder()
    async with dump:
        while events := await dump.read():
            for event in events:
                decoder.decode(event, 4)
                count += 1
    return count


async def _stream(options: ConnectOptions, conversation: Conversation) -> int:
    """All rows of a stream; returns the changes."""
    count = 0
    async with rc.connect(
        options,
        start=conversation.start,
        stop_at_end=True,
        server_id=7,
        heartbeat_period=0.1,
        read_timeout=SESSION_TIMEOUT,
        reconnect=rc.ReconnectPolicy(attempts=0),
    ) as stream:
        async for change in stream.changes():
            change_to_json(change)
            count += 1
    return count


def _options(host: str, port: int, compression: str = "") -> ConnectOptions:
    return ConnectOptions(
        host,
        port,
        "repl",
        PASSWORD,
        tls=TlsOptions(TlsMode.DISABLED),
        max_packet_size=MIB,
        compression=compression,
        allow_public_key_retrieval=False,
    )


# Recording.


async def record(**options: Any) -> list[bytes]:
    """The server's packets of one session, by a proxy between the client and the testing source."""
    compression = options.pop("compression", "")
    conversation = Conversation(
        "",
        (),
        options.pop("request", DumpRequest(non_block=True)),
        compression,
        options.get("semi_sync", False),
        options.pop("start", None),
    )
    files = options.pop("files", FILES)
    received = bytearray()
    async with BinlogSource(files, users={"repl": PASSWORD}, **options) as source:

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            up_reader, up_writer = await asyncio.open_connection(source.host, source.port)

            async def pump(one: asyncio.StreamReader, to: asyncio.StreamWriter, keep: bool) -> None:
                while data := await one.read(65536):
                    if keep:
                        received.extend(data)
                    to.write(data)
                    await to.drain()
                to.close()

            await asyncio.gather(pump(reader, up_writer, False), pump(up_reader, writer, True))

        proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with proxy:
            port = proxy.sockets[0].getsockname()[1]
            await _client(_options("127.0.0.1", port, compression), conversation)
    return list(_split(bytes(received), compression))


def _split(data: bytes, compression: str) -> Iterator[bytes]:
    """Packets; behind the login of a compressed connection, frames."""
    at, head, logged_in = 0, 4, False
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        end = at + head + size
        yield data[at:end]
        if compression and not logged_in and data[at + 4 : at + 5] == b"\0" and at:
            logged_in, head = True, 7
        at = end


async def conversations() -> list[Conversation]:
    """Sessions of every kind that the client has."""
    out = []
    for plugin in ("mysql_native_password", "caching_sha2_password", "sha256_password"):
        if plugin == "sha256_password":
            continue  # it needs TLS or the server's key
        packets = await record(auth_plugin=plugin)
        out.append(Conversation(plugin, tuple(packets), DumpRequest(non_block=True)))
    for name, start in (("stream", rc.Position(FILES[0].name, 4)), ("stream by GTID", NO_GTIDS)):
        packets = await record(start=start)
        out.append(Conversation(name, tuple(packets), DumpRequest(), start=start))
    by_gtid = DumpRequest(gtid_set=rc.GtidSet(), non_block=True)
    out.append(Conversation("gtid", tuple(await record(request=by_gtid)), by_gtid))
    for plugin in ("client_ed25519", "parsec"):
        packets = await record(auth_plugin=plugin)
        out.append(Conversation(plugin, tuple(packets), DumpRequest(non_block=True)))
    for algorithm in Compression:
        packets = await record(compression=str(algorithm))
        request = DumpRequest(non_block=True)
        out.append(Conversation(str(algorithm), tuple(packets), request, str(algorithm)))
    return out


# Changing.


def mutated(packet: bytes, chance: random.Random, head: int = 4) -> bytes:
    """A packet like one, but not the same; mostly with a right length and number."""
    payload = bytearray(packet[head:])
    kind = chance.randrange(12)
    if kind <= 2 and payload:
        for _ in range(chance.choice((1, 1, 2, 8))):
            payload[chance.randrange(len(payload))] = chance.randrange(256)
    elif kind == 3:
        del payload[chance.randrange(len(payload) + 1) :]
    elif kind == 4:
        payload = bytearray(chance.randbytes(chance.choice((0, 1, 2, 5, 20, 60, 300))))
    elif kind == 5:
        payload = bytearray(bytes([chance.choice((0, 1, 0xEF, 0xFB, 0xFE, 0xFF))]) + payload[1:])
    elif kind == 6:  # LOAD DATA LOCAL INFILE
        payload = bytearray(b"\xfb" + str(Path(__file__)).encode())
    elif kind == 7:
        name = chance.choice(PLUGINS)
        payload = bytearray(b"\xfe" + name + b"\0" + chance.randbytes(20) + b"\0")
    elif kind == 8:
        payload[chance.randrange(len(payload) + 1) : 0] = chance.randbytes(chance.randrange(40))
    elif kind == 9 and payload:
        at = chance.randrange(len(payload))
        length = chance.choice(
            (b"\xfc\xff\xff", b"\xfd\xff\xff\xff", b"\xfe" + b"\xff" * 8, b"\xfb")
        )
        payload[at : at + len(length)] = length
    elif kind == 10:
        payload = bytearray(
            b"\xff" + struct.pack("<H", chance.randrange(5000)) + chance.randbytes(40)
        )
    elif kind == 11 and payload:
        at = chance.randrange(len(payload))
        payload[at:at] = payload[: chance.randrange(len(payload))]
    rest = packet[4:head]
    size, number = len(payload), packet[3]
    if chance.random() < 0.03:
        size = chance.choice((0, 1, MAX_PIECE_SIZE, chance.randrange(MAX_PIECE_SIZE)))
    if chance.random() < 0.03:
        number = chance.randrange(256)
    return size.to_bytes(3, "little") + bytes([number]) + rest + bytes(payload)


def hostile(conversation: Conversation, chance: random.Random) -> tuple[bytes, int]:
    """A conversation with changed packets in it; and how many they are."""
    packets = list(conversation.packets)
    # What lies behind the first fault is never read, so most changes come early.
    first = chance.choice((1, 3, 12, len(packets)))
    changes = chance.choice((1, 1, 2, 4))
    for _ in range(changes):
        at = chance.randrange(min(first, len(packets)))
        compressed = conversation.compression and at > 3
        changed = mutated(packets[at], chance, 7 if compressed else 4)
        if chance.random() < 0.1:
            packets.insert(at, changed)
        else:
            packets[at] = changed
    data = b"".join(packets)
    if chance.random() < 0.05:
        data = data[: chance.randrange(len(data))]
    return data, changes


# Playing.


async def play(talks: Sequence[Conversation], tally: Tally, seed: int, count: int) -> None:
    """``count`` sessions with the whole client."""
    genuine = aiomysql.connection._open_connection
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    canary = SECRET_FILE
    try:
        for number in range(count):
            chance = random.Random(f"{seed}/{number}")
            talk = chance.choice(talks)
            data, changes = hostile(talk, chance)
            made: list[_Transport] = []
            aiomysql.connection._open_connection = _opener(data, made)
            where = f"session {number} of seed {seed} ({talk.name})"
            try:
                async with asyncio.timeout(SESSION_TIMEOUT):
                    await _client(_options("127.0.0.1", 3306, talk.compression), talk)
                tally.outcomes["went through"] += 1
            except ALLOWED as error:
                tally.outcomes[type(error).__name__] += 1
                if "\n" in str(error) or PASSWORD in str(error):
                    tally.findings.append(f"{where}: the message {str(error)[:200]!r}")
            except ConfigError as error:  # the server says that it has no such option
                tally.outcomes["ConfigError"] += 1
                if "compression" not in str(error) and "flavor" not in str(error):
                    tally.findings.append(f"{where}: {error}")
            except ReplicaClientError as error:
                if talk.start is None:
                    tally.findings.append(f"{where}: {type(error).__name__}: {error!s:.200}")
                # A stream has more to say: a source that is another one, a change that is no row.
                tally.outcomes[type(error).__name__] += 1
            except Exception as error:
                tally.findings.append(f"{where}: {type(error).__name__}: {error!s:.200}")
            written = b"".join(bytes(transport.written) for transport in made)
            if PASSWORD.encode() in written:
                tally.findings.append(f"{where}: the password was sent as clear text")
            if canary in written:
                tally.findings.append(f"{where}: a file was sent")
            for transport in made:
                transport.close()
            tally.sessions += 1
            tally.packets += changes
    finally:
        aiomysql.connection._open_connection = genuine
    await asyncio.sleep(0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun
    tally.resident = max(tally.resident, grown >> 10)


def play_packets(talks: Sequence[Conversation], tally: Tally, seed: int, count: int) -> None:
    """``count`` changed packets for the parts of the client that do no I/O: greeting, login, dump."""
    plain = [talk for talk in talks if not talk.compression]
    framed = [talk for talk in talks if talk.compression]
    done, number = 0, 0
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    while done < count:
        number += 1
        chance = random.Random(f"{seed}:{number}")
        part = chance.choice((_greeting, _login, _dump, _dump, _frames))
        talk = chance.choice(framed if part is _frames else plain)
        where = f"packets {number} of seed {seed} ({talk.name})"
        try:
            done += part(talk, chance, tally, where)
            tally.outcomes["went through"] += 1
        except (*ALLOWED, ConfigError) as error:
            done += 1
            tally.outcomes[type(error).__name__] += 1
            if PASSWORD in str(error):
                tally.findings.append(f"{where}: the message holds the password")
        except ReplicaClientError as error:
            tally.findings.append(f"{where}: {type(error).__name__}: {error!s:.200}")
            done += 1
        except Exception as error:
            tally.findings.append(f"{where}: {type(error).__name__}: {error!s:.200}")
            done += 1
    tally.packets += done
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun
    tally.resident = max(tally.resident, grown >> 10)


def _login_session(payload: bytes) -> LoginSession:
    return LoginSession(
        HandshakeV10.decode(payload), "repl", Credentials(PASSWORD.encode(), secure=False)
    )


def _check_sent(sent: bytes | None, tally: Tally, where: str) -> None:
    if sent and PASSWORD.encode() in sent:
        tally.findings.append(f"{where}: the password was sent as clear text")


def _greeting(talk: Conversation, chance: random.Random, tally: Tally, where: str) -> int:
    session = _login_session(mutated(talk.packets[0], chance)[4:])
    _check_sent(session.response(), tally, where)
    return 1


def _login(talk: Conversation, chance: random.Random, tally: Tally, where: str) -> int:
    session = _login_session(talk.packets[0][4:])
    session.capabilities |= chance.choice((Capability(0), Capability.CLIENT_PLUGIN_AUTH))
    session.response()
    for count in range(1, 20):
        if session.ok is not None:
            return count
        _check_sent(session.receive(mutated(talk.packets[1], chance)[4:]), tally, where)
    return 20


def _dump(talk: Conversation, chance: random.Random, tally: Tally, where: str) -> int:
    session = DumpSession(max_packet_size=MIB, semi_sync=chance.random() < 0.2)
    decoder = BinlogDecoder()
    begin = next(at for at in range(len(talk.packets)) if _is_first_of_dump(talk.packets[at]))
    packets = list(talk.packets[begin : begin + chance.choice((3, 8, 40))])
    changes = chance.choice((1, 2, 3))
    for _ in range(changes):
        at = chance.randrange(len(packets))
        packets[at] = mutated(packets[at], chance)
    data = b"".join(packets)
    at = 0
    while at < len(data) and not session.ended:
        size = chance.choice((1, 7, 100, 5000, len(data)))
        for event in session.receive_data(data[at : at + size]):
            decoder.decode(event, 4)
        at += size
    session.receive_eof()
    if session.error is not None:
        raise session.error
    return changes


def _frames(talk: Conversation, chance: random.Random, tally: Tally, where: str) -> int:
    session = DumpSession(max_packet_size=MIB, compression=Compression(talk.compression))
    frames = list(talk.packets[-3:])
    decoder = BinlogDecoder()
    at = chance.randrange(len(frames))
    frames[at] = mutated(frames[at], chance, 7)
    for number, frame in enumerate(frames, 1):
        if chance.random() < 0.9:
            frame = frame[:3] + bytes([number]) + frame[4:]
        for event in session.receive_data(frame):
            decoder.decode(event, 4)
    session.receive_eof()
    if session.error is not None:
        raise session.error
    return 1


def _is_first_of_dump(packet: bytes) -> bool:
    """The artificial ROTATE: status byte, timestamp 0, type 4."""
    return packet[4:10] == b"\0\0\0\0\0\x04"
