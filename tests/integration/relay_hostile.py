"""Hostile clients of a relay: changed packets, connections that say nothing, floods of wrong logins."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from replica_client.protocol.constants.client_server import Capability, Command
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.wire.auth.passwords import scramble_native
from replica_client.protocol.wire.connection_phase import (
    HandshakeResponse,
    HandshakeV10,
    SslRequest,
)
from replica_client.protocol.wire.dump_commands import (
    ComBinlogDump,
    ComBinlogDumpGtid,
    ComQuery,
    ComRegisterSlave,
    SemiSyncAck,
)
from replica_client.protocol.wire.framing import encode_packets
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.relays import PASSWORD, USER
from tests.source.binlogs import SOURCE_UUID

WRONG = b"not the password"
_PACKETS = 100
"""Commands of one connection."""

_LAST = (
    bytes((Command.COM_QUIT,)),
    bytes((Command.COM_REGISTER_SLAVE,)),
    bytes((Command.COM_BINLOG_DUMP,)),
    bytes((Command.COM_BINLOG_DUMP_GTID,)),
)
_PATIENCE = 30.0
_QUIET = 0.05
FLOOD_ADDRESS = "127.0.0.9"
"""Where floods of logins come from: another address than that of the right ones."""

CAPABILITIES = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_CONNECT_ATTRS
)
_STATEMENTS = (
    "SELECT UNIX_TIMESTAMP()",
    "SELECT @@GLOBAL.SERVER_ID",
    "SET @master_heartbeat_period = 1000000000, @source_heartbeat_period = 1000000000",
    "SET @master_binlog_checksum = @@global.binlog_checksum",
    "SELECT @source_binlog_checksum",
    "SET @slave_uuid = '8b1c0e7a-0000-11f0-8000-000000000001'",
    "SET @slave_connect_state='0-1-4711'",
    "SET @rpl_semi_sync_replica = 1",
    "SELECT BINLOG_GTID_POS('binlog.000001',4)",
    f"SELECT GTID_SUBTRACT('{SOURCE_UUID}:1-9', '{SOURCE_UUID}:2-5')",
    "SHOW BINLOG EVENTS IN 'binlog.000001' FROM 4 LIMIT 2, 3",
    "SHOW BINARY LOGS",
    "SHOW BINARY LOG STATUS",
    "SHOW REPLICAS",
    "SHOW VARIABLES LIKE 'SERVER_ID'",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'gtid_mode')",
    "/* comment */ SELECT 'it''s', \"a\\\"b\", -7, 1.5, NULL, VERSION()",
    "KILL 1",
)
_PIECES = (
    b"'",
    b'"',
    b"(",
    b")",
    b"/*",
    b"*/",
    b"\\",
    b"@@",
    b"\0",
    b"\xff\xfe",
    b"%",
    b"SELECT ",
    b"9" * 40,
)


@dataclass
class Attack:
    """What was done, and what came of it.

    Attributes:
        packets: sent that were changed.
        outcomes: how connections ended.
        findings: what must not be.
    """

    packets: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def changed(data: bytes, rng: random.Random) -> bytes:
    """A few random changes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        kind = rng.randrange(7)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + rng.choice((1, 2, 4, 9, 99))]
        elif kind == 2:
            out[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 100)))
        elif kind == 3:
            out[at : at + 4] = rng.choice(
                (b"\xff" * 4, bytes(4), b"\xfb\xfc\xfd\xfe", b"\0\0\0\x80")
            )
        elif kind == 4:
            out[at:at] = rng.choice(_PIECES) * rng.choice((1, 1, 3, 500))
        elif kind == 5:
            del out[at:]
        else:
            out += out[at:]
    return bytes(out)


def commands() -> list[bytes]:
    """What replicas and other clients send once they are in."""
    gtids = GtidSet.parse(f"{SOURCE_UUID}:1-3").encode()
    return [
        *(ComQuery(sql.encode()).encode() for sql in _STATEMENTS),
        ComRegisterSlave(77, "host", "user", 3306).encode(),
        ComBinlogDump("binlog.000001", 4, 77, 1).encode(),
        ComBinlogDumpGtid(gtids, 77, "", 4, 1).encode(),
        SemiSyncAck("binlog.000001", 500).encode(),
        bytes((Command.COM_PING,)),
        b"\x02shop",
    ]


def payloads(answer: bytes) -> list[bytes]:
    """The packets of an answer."""
    found, at = [], 0
    while at + 4 <= len(answer):
        size = int.from_bytes(answer[at : at + 3], "little")
        found.append(answer[at + 4 : at + 4 + size])
        at += 4 + size
    return found


class HostileClient:
    """Attacks one relay.

    Args:
        port: of the relay.
        tell: takes a line about progress.
    """

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        self.port = port
        self.attack = Attack()
        self._tell = tell
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        self._commands = commands()

    async def packets(self, counts: dict[str, int], seed: int, at_once: int = 12) -> None:
        """Send so many changed packets of each kind: ``login``, ``login-tls``, ``commands``, ``commands-tls``,
        ``tls`` (records of TLS itself)."""
        for kind, count in counts.items():
            begun = time.monotonic()
            numbers = iter(range(1 << 30))

            async def work(kind: str = kind, count: int = count, numbers=numbers) -> None:  # type: ignore[no-untyped-def]
                while self.attack.packets[kind] < count:
                    rng = random.Random(f"{seed} {kind} {next(numbers)}")
                    try:
                        async with asyncio.timeout(_PATIENCE):
                            await self._one(kind, rng)
                    except TimeoutError:
                        self.attack.outcomes[f"{kind}: still open after {_PATIENCE:.0f} s"] += 1
                    except (OSError, asyncio.IncompleteReadError) as error:
                        self.attack.outcomes[f"{kind}: {type(error).__name__}"] += 1

            await asyncio.gather(*(work() for _ in range(at_once)))
            took = time.monotonic() - begun
            self._tell(f"{kind}: {self.attack.packets[kind]} changed packets, {took:.0f} s")

    async def _one(self, kind: str, rng: random.Random) -> None:
        if kind == "tls":
            await self._broken_tls(rng)
            return
        tls = kind.endswith("-tls")
        async with self._greeted(tls) as (reader, writer, scramble, sequence):
            if kind.startswith("login"):
                await self._changed_login(kind, rng, reader, writer, scramble, sequence)
            else:
                await self._changed_commands(kind, rng, reader, writer, scramble, sequence)

    @asynccontextmanager
    async def _greeted(
        self, tls: bool, address: str = ""
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes, int]]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0) if address else None
        )
        try:
            size = int.from_bytes((await reader.readexactly(4))[:3], "little")
            greeting = HandshakeV10.decode(await reader.readexactly(size))
            sequence = 1
            if tls:
                request = SslRequest(CAPABILITIES | Capability.CLIENT_SSL)
                writer.write(encode_packets(request.encode(), 1))
                await writer.start_tls(self._tls)
                sequence = 2
            yield reader, writer, greeting.scramble, sequence
        finally:
            writer.transport.abort()

    def _response(self, scramble: bytes, password: bytes, tls: bool) -> bytes:
        flags = CAPABILITIES | (Capability.CLIENT_SSL if tls else Capability(0))
        return HandshakeResponse(
            flags,
            USER,
            scramble_native(password, scramble),
            "",
            "mysql_native_password",
            {"_client_name": "hostile", "_pid": "1"},
        ).encode()

    async def _changed_login(
        self,
        kind: str,
        rng: random.Random,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        scramble: bytes,
        sequence: int,
    ) -> None:
        tls = kind.endswith("-tls")
        first = changed(self._response(scramble, WRONG, tls), rng)
        data = encode_packets(first, sequence)
        if rng.random() < 0.2:
            data = changed(data, rng)
        more = rng.randrange(3)
        for number in range(more):
            data += encode_packets(changed(rng.choice(self._commands), rng), sequence + 1 + number)
        writer.write(data)
        self.attack.packets[kind] += 1 + more
        if not tls:
            writer.write_eof()
        answer = await self._until_quiet(reader, tls)
        for payload in payloads(answer):
            if payload[:1] == b"\0":
                self.attack.findings.append(f"{kind}: in without a password: {data.hex()}")
        self.attack.outcomes[f"{kind}: {_short(answer)}"] += 1

    async def _until_quiet(self, reader: asyncio.StreamReader, tls: bool) -> bytes:
        """What comes until the end; over TLS, which knows no half-closed connections, until nothing comes."""
        out = b""
        while True:
            try:
                async with asyncio.timeout(_QUIET if tls else None):
                    data = await reader.read(1 << 20)
            except TimeoutError:
                return out
            if not data:
                return out
            out += data[: 1 << 16]

    async def _changed_commands(
        self,
        kind: str,
        rng: random.Random,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        scramble: bytes,
        sequence: int,
    ) -> None:
        tls = kind.endswith("-tls")
        writer.write(encode_packets(self._response(scramble, PASSWORD.encode(), tls), sequence))
        head = await reader.readexactly(4)
        answer = await reader.readexactly(int.from_bytes(head[:3], "little"))
        if answer[:1] != b"\0":
            self.attack.findings.append(f"{kind}: the right password did not open: {answer!r}")
            return
        data = bytearray()
        for number in range(_PACKETS):
            last = number == _PACKETS - 1
            some = [one for one in self._commands if (one[:1] in _LAST) == last]
            payload = changed(rng.choice(some), rng)
            if not last and payload[:1] in _LAST:
                payload = b"\3" + payload[1:]  # what follows would not be read as commands
            packet = encode_packets(payload, 0)
            data += changed(packet, rng) if rng.random() < 0.001 else packet
        writer.write(bytes(data))
        self.attack.packets[kind] += _PACKETS
        if not tls:
            writer.write_eof()
        answer = await self._until_quiet(reader, tls)
        self.attack.outcomes[f"{kind}: {min(len(payloads(answer)), 100) // 25 * 25}+ answers"] += 1

    async def _broken_tls(self, rng: random.Random) -> None:
        """A TLS request, and then a greeting of TLS that was changed."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        with suppress(ssl.SSLWantReadError):
            self._tls.wrap_bio(incoming, outgoing).do_handshake()
        hello = changed(outgoing.read(), rng)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            await reader.read(4096)
            request = SslRequest(CAPABILITIES | Capability.CLIENT_SSL)
            writer.write(encode_packets(request.encode(), 1) + hello)
            self.attack.packets["tls"] += 1
            writer.write_eof()
            await self._until_quiet(reader, False)
            self.attack.outcomes["tls: ended"] += 1
        finally:
            writer.transport.abort()

    async def half_open(self, count: int, kept: Callable[[], int]) -> tuple[int, list[float]]:
        """Open so many connections that say nothing, and log in meanwhile.

        Returns:
            How many of them the relay still has (of ``kept``), and the seconds of the logins.
        """
        opened, took = [], []
        for number in range(count):
            opened.append(
                await asyncio.open_connection(
                    "127.0.0.1", self.port, local_addr=(f"127.0.1.{number // 500 + 1}", 0)
                )
            )
            if number % 500 == 499:
                took.append(await self.right_login())
        alive = await asyncio.to_thread(kept)
        for _, writer in opened:
            writer.transport.abort()
        return alive, took

    async def flood(self, seconds: float, at_once: int) -> tuple[int, list[float]]:
        """Log in with wrong passwords; returns how often, and the seconds of right logins meanwhile."""
        until = time.monotonic() + seconds
        count = 0

        async def work() -> None:
            nonlocal count
            while time.monotonic() < until:
                try:
                    async with self._greeted(False, FLOOD_ADDRESS) as (
                        reader,
                        writer,
                        scramble,
                        sequence,
                    ):
                        writer.write(
                            encode_packets(self._response(scramble, WRONG, False), sequence)
                        )
                        answer = await reader.read(4096)
                        if answer[4:5] == b"\0":
                            self.attack.findings.append("flood: in with a wrong password")
                        count += 1
                except (OSError, asyncio.IncompleteReadError):
                    self.attack.outcomes["flood: connection ended"] += 1

        took: list[float] = []

        async def right() -> None:
            while time.monotonic() < until:
                took.append(await self.right_login())
                await asyncio.sleep(0.2)

        await asyncio.gather(right(), *(work() for _ in range(at_once)))
        return count, took

    async def right_login(self) -> float:
        """Seconds that a login with the right password takes."""
        begun = time.monotonic()
        password = PASSWORD.replace(" ", "%20")
        url = parse_url(f"mysql://{USER}:{password}@127.0.0.1:{self.port}/?tls=disabled")
        async with await SourceConnection.open(url) as connection:
            await connection.binary_logs()
        return time.monotonic() - begun


def resident(pid: int) -> int:
    """A process's resident KiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def _short(answer: bytes) -> str:
    found = payloads(answer)
    if not found:
        return "closed without a word"
    last = found[-1]
    if last[:1] == b"\xff":
        return f"error {int.from_bytes(last[1:3], 'little')}"
    return {b"\xfe": "asked to switch", b"\x01": "asked for more"}.get(last[:1], "other")
