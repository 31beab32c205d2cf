"""Cheap clients of a source or of a relay, which count bytes and note when transactions come."""

from __future__ import annotations

import os
import selectors
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from replica_client.protocol.constants.client_server import Capability, DumpFlag
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.wire.auth.passwords import scramble_sha2
from replica_client.protocol.wire.connection_phase import HandshakeResponse, HandshakeV10
from replica_client.protocol.wire.dump_commands import ComBinlogDump, ComQuery
from replica_client.protocol.wire.framing import encode_packets

_CAPABILITIES = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
)
_BUFFER_SIZE = 1 << 20
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU that a process has used, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@dataclass(frozen=True)
class Login:
    """Where clients log in; the account's caching_sha2_password cache is warm."""

    port: int
    user: str
    password: str


class RawClient:
    """A dump over a plain socket, read without looking at it."""

    def __init__(
        self, login: Login, server_id: int, file: str, position: int, *, wait: bool
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", login.port))
        self.size = 0
        self.seen: dict[int, float] = {}
        self._rest = b""
        greeting = HandshakeV10.decode(self._payload())
        response = HandshakeResponse(
            _CAPABILITIES,
            login.user,
            scramble_sha2(login.password.encode(), greeting.scramble),
            "",
            "caching_sha2_password",
        )
        self._send(response.encode(), 1)
        while (answer := self._payload())[:1] == b"\1":
            assert answer == b"\1\3", answer
        assert answer[:1] == b"\0", answer
        for sql in (
            "SET @master_binlog_checksum = @@global.binlog_checksum",
            "SET @source_binlog_checksum = @@global.binlog_checksum",
            f"SET @slave_uuid = '8b1c0e7a-0000-11f0-8000-{server_id:012d}'",
        ):
            self._send(ComQuery(sql.encode()).encode(), 0)
            assert self._payload()[:1] == b"\0"
        flags = 0 if wait else int(DumpFlag.BINLOG_DUMP_NON_BLOCK)
        self._send(ComBinlogDump(file, position, server_id, flags).encode(), 0)

    def _send(self, payload: bytes, sequence: int) -> None:
        self.socket.sendall(encode_packets(payload, sequence))

    def _payload(self) -> bytes:
        head = self._exactly(4)
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, size: int) -> bytes:
        out = b""
        while len(out) < size:
            data = self.socket.recv(size - len(out))
            assert data, "the server has gone"
            out += data
        return out

    def note(self, data: bytes, now: float) -> None:
        """Note when each transaction's XID event came."""
        data = self._rest + data
        at = 0
        while at + 4 <= len(data):
            size = int.from_bytes(data[at : at + 3], "little")
            if at + 4 + size > len(data):
                break
            if size > 20 and data[at + 9] == EventType.XID_EVENT:
                self.seen[int.from_bytes(data[at + 24 : at + 32], "little")] = now
            at += 4 + size
        self._rest = data[at:]


def read_all(clients: list[RawClient]) -> float:
    """Read all dumps to their ends; returns the seconds."""
    selector = selectors.DefaultSelector()
    for client in clients:
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ, client)
    buffer = bytearray(_BUFFER_SIZE)
    begun = time.monotonic()
    left = len(clients)
    while left:
        for key, _ in selector.select():
            client = key.data
            try:
                size = client.socket.recv_into(buffer)
            except ConnectionResetError:
                size = 0
            if size:
                client.size += size
                continue
            selector.unregister(client.socket)
            client.socket.close()
            left -= 1
    return time.monotonic() - begun


def watch(clients: list[RawClient], seconds: float) -> None:
    """Note what comes for so long."""
    selector = selectors.DefaultSelector()
    for client in clients:
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ, client)
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            data = key.data.socket.recv(_BUFFER_SIZE)
            now = time.monotonic()
            assert data, "the server has gone"
            key.data.size += len(data)
            key.data.note(data, now)


@dataclass
class Lags:
    """Differences of arrival, sorted, in milliseconds."""

    milliseconds: list[float] = field(default_factory=list)

    @classmethod
    def between(cls, direct: RawClient, relayed: list[RawClient]) -> Lags:
        found = [
            (seen - direct.seen[xid]) * 1000
            for client in relayed
            for xid, seen in client.seen.items()
            if xid in direct.seen
        ]
        return cls(sorted(found))

    def quantile(self, part: float) -> float:
        return self.milliseconds[
            min(len(self.milliseconds) - 1, int(len(self.milliseconds) * part))
        ]
