"""Accounts of a relay that mean harm: processor, memory, names, half packets, listings, other replicas' UUIDs."""

from __future__ import annotations

import asyncio
import random
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from replica_client.protocol.constants.client_server import Capability, Command
from replica_client.protocol.gtid import GtidSet
from replica_client.protocol.wire.auth.passwords import scramble_native
from replica_client.protocol.wire.connection_phase import HandshakeResponse, HandshakeV10
from replica_client.protocol.wire.dump_commands import ComBinlogDump, ComBinlogDumpGtid, ComQuery
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import Compression, encode_frames
from tests.integration.relay_hostile import CAPABILITIES, resident
from tests.source.binlogs import SOURCE_UUID

PASSWORD = "only for this account"
_PATIENCE = 15.0
_PAUSE = 0.05

Answer = bytes
Attack = Callable[["HostileAccount", random.Random], Awaitable[None]]


def names_of(count: int) -> list[str]:
    """The names of hostile accounts."""
    return [f"hostile{number}" for number in range(count)]


def long_set(numbers: int = 4000) -> str:
    """A set of GTIDs of about 240 KB."""
    return ",".join(f"{SOURCE_UUID[:-4]}{number:04x}:1-3:5-9:11-20:30" for number in range(numbers))


class Session:
    """A connection that is logged in, and writes whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.compression: Compression | None = None

    @classmethod
    async def open(
        cls,
        port: int,
        user: str,
        password: str = PASSWORD,
        compression: Compression | None = None,
    ) -> Session:
        """Log in.

        Raises:
            OSError: the connection ended.
            PermissionError: the relay refused.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self = cls(reader, writer)
        try:
            first = (await self.packet())[1]
            if first[:1] == b"\xff":  # no place for another login now
                raise PermissionError(first[3:].decode("utf-8", "replace"))
            greeting = HandshakeV10.decode(first)
            response = HandshakeResponse(
                CAPABILITIES | (compression.capability if compression else Capability(0)),
                user,
                scramble_native(password.encode(), greeting.scramble),
                "",
                "mysql_native_password",
                {},
            )
            writer.write(encode_packets(response.encode(), 1))
            answer = (await self.packet())[1]
            if answer[:1] != b"\0":
                raise PermissionError(answer[3:].decode("utf-8", "replace"))
            self.compression = compression
        except BaseException:
            self.end()
            raise
        return self

    async def packet(self) -> tuple[int, bytes]:
        """Read a packet: its number and payload."""
        try:
            head = await self.reader.readexactly(4)
            return head[3], await self.reader.readexactly(int.from_bytes(head[:3], "little"))
        except asyncio.IncompleteReadError:
            raise ConnectionResetError from None

    def send(self, payload: bytes) -> None:
        """Write a command."""
        packets = encode_packets(payload, 0)
        if self.compression is not None:
            packets = encode_frames(packets, self.compression)[0]
        self.writer.write(packets)

    async def flood(self, data: bytes, seconds: float, size: int = 0) -> None:
        """Write bytes, and read whatever comes, for some seconds or until so many bytes came."""

        async def read() -> None:
            came = 0
            while piece := await self.reader.read(1 << 20):
                came += len(piece)
                if size and came >= size:
                    break

        async def write() -> None:
            while data:
                self.writer.write(data)
                await self.writer.drain()

        writing = asyncio.create_task(write())
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await read()
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    async def query(self, sql: str) -> bytes:
        """Run a statement; returns the first packet of the answer, and reads all of it."""
        self.send(ComQuery(sql.encode()).encode())
        first = (await self.packet())[1]
        if first[:1] not in (b"\0", b"\xff"):
            ends = 0
            while ends < 2:
                payload = (await self.packet())[1]
                if payload[:1] == b"\xff":
                    break
                ends += len(payload) < 9 and payload[:1] == b"\xfe"
        return first

    def end(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()


class HostileAccount:
    """One account, with as many connections as it gets.

    Args:
        port: of the relay.
        user: its name.
        victim: UUID of another account's replica.
        outcomes: what became of its attacks.
    """

    def __init__(self, port: int, user: str, victim: str, outcomes: Counter[str]) -> None:
        self.port, self.user, self.victim, self.outcomes = port, user, victim, outcomes

    async def session(self) -> Session:
        """Log in; see :meth:`Session.open`."""
        return await Session.open(self.port, self.user)

    async def run(self, seconds: float, seed: int, at_once: int, only: Sequence[str] = ()) -> None:
        """Attack until the time is over, with so many connections at once; ``only`` some attacks."""
        end = time.monotonic() + seconds
        kinds = [(name, attack) for name, attack in ATTACKS.items() if not only or name in only]

        async def work(number: int) -> None:
            rng = random.Random(f"{seed} {self.user} {number}")
            while time.monotonic() < end:
                name, attack = rng.choice(kinds)
                try:
                    async with asyncio.timeout(_PATIENCE):
                        await attack(self, rng)
                    self.outcomes[f"{name}: answered"] += 1
                except TimeoutError:
                    self.outcomes[f"{name}: no answer for {_PATIENCE:.0f} s"] += 1
                except PermissionError as error:
                    self.outcomes[f"login refused: {str(error)[:30]}"] += 1
                    await asyncio.sleep(0.5)
                except OSError:
                    self.outcomes[f"{name}: ended"] += 1
                await asyncio.sleep(_PAUSE)

        await asyncio.gather(*(work(number) for number in range(at_once)))


async def _processor(account: HostileAccount, rng: random.Random) -> None:
    """GTID functions on the longest sets."""
    session = await account.session()
    try:
        await session.query(f"SET @a = '{long_set()}'")
        call = rng.choice(("GTID_SUBSET(@a,@a)", "GTID_SUBTRACT(@a,@a)"))
        await session.query("SELECT " + ", ".join([call] * rng.choice((10, 4000, 50_000))))
    finally:
        session.end()


async def _parsing(account: HostileAccount, rng: random.Random) -> None:
    """Statements that are long to read."""
    session = await account.session()
    try:
        size = 1 << 20
        await session.query(
            rng.choice(
                (
                    "SELECT " + "1," * (size // 3),
                    "SELECT " + "f(" * (size // 3),
                    "SELECT '" + "\\'" * (size // 3),
                    "SET " + "@a=1," * (size // 6) + "@a=1",
                    "/*" * (size // 3),
                    "SHOW VARIABLES LIKE '" + "%a" * 2000 + "'",
                    "\n# x" * (size // 5),
                )
            )
        )
    finally:
        session.end()


async def _variables(account: HostileAccount, rng: random.Random) -> None:
    """User variables, as many and as large as may be, and held."""
    session = await account.session()
    try:
        value = "x" * (255 << 10)
        for number in range(100):
            await session.query(f"SET @v{number} = '{value}'")
        await session.query("SELECT " + ", ".join(f"@v{number % 100}" for number in range(4000)))
        await asyncio.sleep(rng.random() * 5)
    finally:
        session.end()


async def _half_packets(account: HostileAccount, rng: random.Random) -> None:
    """A packet that lacks its end."""
    session = await account.session()
    try:
        size = rng.choice((1 << 20, (1 << 24) - 2, 500_000))
        session.writer.write(size.to_bytes(3, "little") + b"\0\3" + bytes(size - 100))
        await asyncio.wait_for(session.writer.drain(), 5)
        await asyncio.sleep(rng.random() * 10)
    finally:
        session.end()


async def _names(account: HostileAccount, rng: random.Random) -> None:
    """Registers under long names, and asks for lists of them."""
    session = await account.session()
    try:
        name = b"h" * 255
        for _ in range(20):
            session.send(
                bytes((Command.COM_REGISTER_SLAVE,))
                + rng.randbytes(4)
                + (b"\xff" + name) * 3
                + bytes(10)
            )
            await session.packet()
        for sql in ("SHOW REPLICAS", "SHOW PROCESSLIST", "SHOW VARIABLES", "SHOW STATUS") * 5:
            await session.query(sql)
    finally:
        session.end()


async def _listings(account: HostileAccount, rng: random.Random) -> None:
    """Lists all events, and reads little or nothing of them."""
    session = await account.session()
    try:
        for _ in range(20):
            session.send(ComQuery(b"SHOW BINLOG EVENTS").encode())
        if rng.random() < 0.5:
            for _ in range(rng.randrange(200)):
                await session.packet()
        await asyncio.sleep(rng.random() * 3)
    finally:
        session.end()


async def _pings(account: HostileAccount, rng: random.Random) -> None:
    """The cheapest command, without end."""
    session = await account.session()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while True:
                    session.writer.write(b"\1\0\0\0\x0e" * 20_000)
                    await session.writer.drain()
    finally:
        session.end()


async def _theft(account: HostileAccount, rng: random.Random) -> None:
    """A dump in the name of another account's replica, from the oldest file."""
    session = await account.session()
    try:
        await session.query(
            f"SET @slave_uuid = '{account.victim}', @replica_uuid = '{account.victim}', "
            "@master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'"
        )
        session.send(ComBinlogDump("", 4, 21, 0).encode())
        for _ in range(rng.randrange(20)):
            await session.packet()
        await asyncio.sleep(rng.random() * 3)
    finally:
        session.end()


async def _dumps(account: HostileAccount, rng: random.Random) -> None:
    """A dump by GTIDs with a large set, of which nothing is read."""
    session = await account.session()
    try:
        await session.query("SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 1")
        have = GtidSet.parse(long_set(rng.choice((1, 100, 4000))))
        session.send(ComBinlogDumpGtid(have.encode(), rng.randrange(1 << 30), "", 4, 4).encode())
        await asyncio.sleep(rng.random() * 5)
    finally:
        session.end()


async def _large_commands(account: HostileAccount, rng: random.Random) -> None:
    """Commands of a megabyte that the relay does not have, without end: prepared statements, COM_CHANGE_USER."""
    session = await account.session()
    try:
        command = rng.choice((0x0E, 0x11, 0x16, 0x17, 0x18, 0x1C))
        await session.flood(encode_packets(bytes((command,)) + bytes((1 << 20) - 9), 0), 5)
    finally:
        session.end()


async def _frames(account: HostileAccount, rng: random.Random) -> None:
    """Compressed packets: frames of one byte, frames that become a megabyte, frames that lack their end."""
    algorithm = rng.choice(list(Compression))
    session = await Session.open(account.port, account.user, compression=algorithm)
    try:
        kind = rng.randrange(3)
        if kind == 0:
            await session.flood(b"\1\0\0\0\0\0\0\0" * 20_000, 5)
        elif kind == 1:
            ping = encode_packets(b"\x0e" + bytes((1 << 20) - 9), 0)
            await session.flood(encode_frames(ping, algorithm)[0] * 20, 5)
        else:
            size = (1 << 20) - 1
            session.writer.write(size.to_bytes(3, "little") + bytes(4) + bytes(size - 100))
            await asyncio.wait_for(session.writer.drain(), 5)
            await asyncio.sleep(rng.random() * 10)
    finally:
        session.end()


async def _compressed_dumps(account: HostileAccount, rng: random.Random) -> None:
    """A compressed dump of all files, read as fast as it comes."""
    algorithm = rng.choice(list(Compression))
    session = await Session.open(account.port, account.user, compression=algorithm)
    try:
        sql = "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'"
        session.send(ComQuery(sql.encode()).encode())
        await session.reader.read(1 << 10)
        session.send(ComBinlogDump("", 4, rng.randrange(1 << 30), 0).encode())
        await session.flood(b"", 5)
    finally:
        session.end()


async def _positions(account: HostileAccount, rng: random.Random) -> None:
    """Functions that look for positions, and for GTIDs in them."""
    session = await account.session()
    try:
        call = f"BINLOG_GTID_POS('binlog.000001', {rng.randrange(1 << 20)})"
        await session.query("SELECT " + ", ".join([call] * 4000))
        await session.query(f"SHOW BINLOG EVENTS FROM {rng.randrange(1 << 30)}")
        await session.query("SHOW BINLOG EVENTS LIMIT 99999999999, 1")
    finally:
        session.end()


async def _logins(account: HostileAccount, rng: random.Random) -> None:
    """Wrong passwords and unknown names."""
    user = rng.choice((account.user, "nobody", "x" * 60_000, "root\n\x1b[31m"))
    with suppress(PermissionError):
        await Session.open(account.port, user, "wrong")


ATTACKS: dict[str, Attack] = {
    "processor": _processor,
    "parsing": _parsing,
    "variables": _variables,
    "half packets": _half_packets,
    "names": _names,
    "listings": _listings,
    "pings": _pings,
    "theft": _theft,
    "dumps": _dumps,
    "large commands": _large_commands,
    "frames": _frames,
    "compressed dumps": _compressed_dumps,
    "positions": _positions,
    "logins": _logins,
}


class PageWatch:
    """Asks for the status page again and again, and keeps how long each answer took, and the relay's memory."""

    def __init__(self, url: str, pid: int) -> None:
        self.seconds: list[float] = []
        self.memory_kib = 0
        self._url, self._pid = url, pid

    async def run(self, until: Callable[[], bool]) -> None:
        """Watch until told otherwise."""
        while not until():
            begun = time.monotonic()
            await asyncio.to_thread(self._ask)
            self.seconds.append(time.monotonic() - begun)
            self.memory_kib = max(self.memory_kib, resident(self._pid))
            await asyncio.sleep(0.1)

    def _ask(self) -> None:
        with (
            suppress(urllib.error.URLError, TimeoutError),
            urllib.request.urlopen(self._url, timeout=30) as answer,
        ):
            answer.read()

    def percentile(self, share: float) -> float:
        """Seconds within which such a share of the answers came."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
