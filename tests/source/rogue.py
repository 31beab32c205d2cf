"""Servers that want a client's password: a rogue one, and those who stand in between.

They speak the protocol with sockets and threads of their own and keep every byte that the client
sends, as they see it behind TLS and RSA. Used by password_exposure.py.
"""

from __future__ import annotations

import asyncio
import secrets
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from cryptography.hazmat.primitives import serialization

from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.wire.auth import parsec, passwords
from replica_client.protocol.wire.auth.passwords import decrypt_password
from replica_client.protocol.wire.auth.server import DIALOG_QUESTION
from replica_client.protocol.wire.connection_phase import BASE_CAPABILITIES, HandshakeV10
from replica_client.protocol.wire.framing import encode_packets
from replica_client.protocol.wire.packets import AuthMoreData, AuthSwitchRequest, ErrPacket
from replica_client.server.accounts import rsa_key

TIMEOUT = 30.0
_SSL_REQUEST_SIZE = 32
_SCRAMBLE = bytes(range(65, 85))


class Listener:
    """Accepts clients on a loopback address and keeps what they send.

    Attributes:
        port: where it listens.
        seen: bytes of the clients, decrypted where this side can.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self._server = socket.create_server((host, 0))
        self.port: int = self._server.getsockname()[1]
        self.seen = bytearray()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept)

    def serve(self, client: socket.socket) -> None:
        """Speak with one client."""
        raise NotImplementedError

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,))
            thread.start()
            self._threads.append(thread)

    def _serve(self, client: socket.socket) -> None:
        client.settimeout(TIMEOUT)
        with client, suppress(OSError, EOFError):
            self.serve(client)

    async def __aenter__(self) -> Self:
        self._acceptor.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._acceptor.join()
        for thread in self._threads:
            thread.join()


def read_packet(peer: socket.socket) -> tuple[int, bytes]:
    """Sequence number and payload of a small packet.

    Raises:
        EOFError: the peer closed the connection.
    """

    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = peer.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data

    header = exactly(4)
    return header[3], exactly(int.from_bytes(header[:3], "little"))


class RogueServer(Listener):
    """Asks for a plugin and gets as much of the password out of it as the protocol gives.

    It knows no password, proves nothing, and denies every login in the end.

    Args:
        plugin: that it asks for.
        context: with its certificate; None: it offers no TLS.
        then: further plugins that it asks for in the same login.

    Attributes:
        greeted: how many clients it greeted.
        asked: how many times it asked for a password.
    """

    def __init__(self, plugin: str, context: ssl.SSLContext | None, then: tuple[str, ...] = ()):
        super().__init__()
        self._plugins = (plugin, *then)
        self._context = context
        self.greeted = 0
        self.asked = 0

    def serve(self, client: socket.socket) -> None:
        """Greeting, TLS where it is offered, and the conversation of each plugin."""
        capabilities = BASE_CAPABILITIES
        if self._context is not None:
            capabilities |= Capability.CLIENT_SSL
        greeting = HandshakeV10("9.7.4", 1, _SCRAMBLE, capabilities, auth_plugin=self._plugins[0])
        self.greeted += 1
        client.sendall(encode_packets(greeting.encode()))
        number, payload = read_packet(client)
        self.seen += payload
        if self._context is None or len(payload) != _SSL_REQUEST_SIZE:
            self._ask(client, number)
            return
        with self._context.wrap_socket(client, server_side=True) as secure:
            number, payload = read_packet(secure)
            self.seen += payload
            self._ask(secure, number)

    def _ask(self, client: socket.socket, number: int) -> None:
        ask = _Questions(client, number, self.seen)
        for plugin in self._plugins:
            self.asked += 1
            ask.get_password(plugin)
        ask.send(ErrPacket(1045, "Access denied", "28000").encode())


class _Questions:
    """What a server sends to learn a password."""

    def __init__(self, client: socket.socket, number: int, seen: bytearray) -> None:
        self._client = client
        self._number = number
        self._seen = seen

    def send(self, payload: bytes) -> None:
        self._client.sendall(encode_packets(payload, (self._number + 1) & 0xFF))

    def _ask(self, payload: bytes) -> bytes:
        self.send(payload)
        self._number, answer = read_packet(self._client)
        self._seen += answer
        return answer

    def get_password(self, plugin: str) -> None:
        data = _SCRAMBLE + b"\0"
        if plugin in ("client_ed25519", "parsec"):
            data = secrets.token_bytes(32)
        elif plugin == "dialog":
            data = DIALOG_QUESTION
        answer = self._ask(AuthSwitchRequest(plugin, data).encode())
        if plugin == "parsec":
            self._ask(parsec.parameters(0, bytes(parsec.SALT_SIZE)))
        elif plugin == "caching_sha2_password":
            answer = self._ask(AuthMoreData(passwords.FULL_AUTH_NEEDED).encode())
            self._open(answer, passwords.REQUEST_CACHING_KEY)
        elif plugin == "sha256_password":
            self._open(answer, passwords.REQUEST_SHA256_KEY)

    def _open(self, answer: bytes, wants_key: bytes) -> None:
        if answer != wants_key:
            return
        pem = (
            rsa_key()
            .public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        secret = decrypt_password(self._ask(AuthMoreData(pem).encode()), _SCRAMBLE, rsa_key())
        self._seen += secret or b""


class Between(Listener):
    """Stands between a client and a real server.

    Args:
        port: of the server on 127.0.0.1.
        context: with a certificate of its own, which the client gets to see; None: it takes TLS out of
            the server's greeting.
    """

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._port = port
        self._context = context

    def serve(self, client: socket.socket) -> None:
        """Pass everything on, with TLS taken away or with two TLS connections."""
        with socket.create_connection(("127.0.0.1", self._port), TIMEOUT) as server:
            number, payload = read_packet(server)
            if self._context is None:
                client.sendall(encode_packets(_without_tls(payload), number))
                self._pass(client, server)
                return
            client.sendall(encode_packets(payload, number))
            number, request = read_packet(client)
            self.seen += request
            server.sendall(encode_packets(request, number))
            if len(request) != _SSL_REQUEST_SIZE:
                self._pass(client, server)
                return
            trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            trusting.check_hostname = False
            trusting.verify_mode = ssl.CERT_NONE
            with (
                self._context.wrap_socket(client, server_side=True) as one,
                trusting.wrap_socket(server) as other,
            ):
                self._pass(one, other)

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        def keep(data: bytes) -> None:
            self.seen.extend(data)

        while True:
            pending = [one for one in (client, server) if _has_more(one)]
            ready = pending or select.select([client, server], [], [], TIMEOUT)[0]
            if not ready:
                return
            for one in ready:
                to, note = (server, keep) if one is client else (client, _ignore)
                if not _forward(one, to, note):
                    return


def _ignore(data: bytes) -> None:
    pass


def _has_more(one: socket.socket) -> bool:
    return isinstance(one, ssl.SSLSocket) and one.pending() > 0


def _forward(one: socket.socket, to: socket.socket, note: Callable[[bytes], None]) -> bool:
    # A record of TLS itself, such as a session's ticket, is readable and holds no data.
    one.setblocking(False)
    try:
        data = one.recv(1 << 16)
    except (ssl.SSLWantReadError, BlockingIOError):
        return True
    finally:
        one.settimeout(TIMEOUT)
    note(data)
    to.sendall(data)
    return bool(data)


def _without_tls(greeting: bytes) -> bytes:
    """The same greeting without CLIENT_SSL, which is in the lower two bytes of the capabilities."""
    at = greeting.index(b"\0", 1) + 1 + 4 + 8 + 1
    flags = int.from_bytes(greeting[at : at + 2], "little") & ~int(Capability.CLIENT_SSL)
    return greeting[:at] + flags.to_bytes(2, "little") + greeting[at + 2 :]
