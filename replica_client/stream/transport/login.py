"""aiomysql's connection with our own connection phase.

This is the only module that uses aiomysql's private names. aiomysql connects, sends statements and
reads result sets. This module replaces what aiomysql lacks or does unsafely: it would send a
clear-text password to any server that asks, trusts any RSA key, has no client_ed25519, encodes
passwords as latin1, closes and reopens the socket for TLS, and reads packets of any size.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import aiomysql.connection
from pymysql.charset import charset_by_id
from pymysql.connections import MysqlPacket

from replica_client.errors import (
    ConfigError,
    ConnectionLostError,
    PacketSequenceError,
    PacketTooLargeError,
    ProtocolError,
    TlsError,
    UnexpectedPacketError,
)
from replica_client.protocol.constants.client_server import Capability
from replica_client.protocol.constants.column_types import RAW_RESULTS
from replica_client.protocol.wire.auth.plugin import Credentials, fingerprint_of
from replica_client.protocol.wire.connection_phase import NO_CAPABILITY, HandshakeV10, LoginSession
from replica_client.protocol.wire.framing import MAX_PIECE_SIZE, PacketFramer
from replica_client.protocol.wire.packets import (
    EOF_HEADER,
    ERR_HEADER,
    MAX_EOF_SIZE,
    Compression,
    FrameDecoder,
    encode_frames,
)
from replica_client.protocol.wire.server_errors import server_error_of
from replica_client.stream.transport.connect_options import ConnectOptions
from replica_client.stream.transport.tls import (
    accepted_certificate,
    client_context,
    start_tls,
    tell_exposed,
    tell_negotiated,
    tls_failure,
)

MAX_GREETING_SIZE = 4096

MAX_LOGIN_SIZE = 1 << 20
"""Bytes of one packet before the login is done: until then neither side has proven anything."""
_READ_SIZE = 1 << 16
_ROWS_READ_SIZE = 1 << 18
_VALUE_SIZE = 64

_ERR = bytes([ERR_HEADER])
_EOF = bytes([EOF_HEADER])


class LoginConnection(aiomysql.connection.Connection):  # type: ignore[misc]
    """An aiomysql connection that logs in by our ``LoginSession``.

    Args:
        options: where and as whom.
        server_public_key: contents of the file that the options name, or None.
    """

    # The driver's attributes, which have no annotations.
    _reader: Any
    _writer: Any
    _result: Any
    _next_seq_id: int

    def __init__(self, options: ConnectOptions, server_public_key: bytes | None = None) -> None:
        super().__init__(
            host=options.host,
            port=options.port,
            user=options.user,
            unix_socket=options.unix_socket,
            charset="utf8mb4",
            autocommit=None,
            local_infile=False,
            # The caller of ``open`` limits the time: the driver's wait_for loses a cancellation on
            # Python 3.11.
            connect_timeout=None,
        )
        self._options = options
        self._public_key = server_public_key
        self._greeting: HandshakeV10 | None = None
        self._frames: FrameDecoder | None = None
        self._plain = bytearray()
        self._answer_limit: int | None = None
        self._answer_size = 0
        self.compression: Compression | None = None
        self.tls_version = ""
        self.auth_plugin = ""
        self.fingerprint = ""
        self.verified_by = ""
        self._socket_transport: asyncio.WriteTransport | None = None

    async def open(self) -> None:
        """Connect and log in; the caller limits the time."""
        await self._connect()

    def abort(self) -> None:
        """Close at once, even if the peer does not answer the end of TLS."""
        self.close()
        transport, self._socket_transport = self._socket_transport, None
        if transport is not None:
            transport.abort()

    async def _get_server_information(self) -> None:
        self._socket_transport = self._writer.transport
        payload = await self.read_payload(MAX_GREETING_SIZE)
        if payload[:1] == _ERR:
            raise server_error_of(payload)
        greeting = HandshakeV10.decode(payload)
        self._greeting = greeting
        self.protocol_version = payload[0]
        self.server_version = greeting.server_version
        self.server_thread_id = (greeting.connection_id,)
        self.salt = greeting.scramble
        self.server_capabilities = int(greeting.capabilities)
        self.server_language = greeting.character_set
        try:
            self.server_charset = charset_by_id(greeting.character_set).name
        except KeyError:
            self.server_charset = None
        self.server_status = greeting.status

    async def _request_authentication(self) -> None:
        greeting = self._greeting
        if greeting is None:
            raise UnexpectedPacketError("no greeting was received")
        options = self._options
        credentials = Credentials(
            options.password.encode(),
            secure=bool(options.unix_socket),
            unix_socket=bool(options.unix_socket),
            allow_public_key_retrieval=options.allow_public_key_retrieval,
            server_public_key=self._public_key,
            verified=bool(options.unix_socket),
            unverified_password=options.unverified_password,
        )
        wanted = Compression(options.compression) if options.compression else None
        if wanted is not None and not greeting.capabilities & wanted.capability:
            raise ConfigError(
                f"{options.address} offers no {wanted} compression; use another, or none"
            )
        session = LoginSession(
            greeting,
            options.user,
            credentials,
            database=options.database,
            extra=wanted.capability if wanted is not None else NO_CAPABILITY,
            attributes={
                "_client_name": "replica_client",
                "program_name": options.program_name,
            },
        )
        context = None if options.unix_socket else client_context(options.tls)
        if context is not None:
            if greeting.capabilities & Capability.CLIENT_SSL:
                self.write_packet(session.ssl_request())
                certificate = await self._start_tls(context)
                self.verified_by = options.tls.proof
                credentials = replace(
                    credentials,
                    secure=True,
                    verified=bool(self.verified_by),
                    certificate=certificate,
                )
                session.secured(credentials)
            elif options.tls.is_required:
                raise TlsError("the server offers no TLS; use tls=disabled if that is acceptable")
        self.write_packet(session.response())
        exposed = False
        while session.ok is None:
            payload = await self.read_payload(MAX_LOGIN_SIZE)
            self.auth_plugin = session.plugin_name
            answer = session.receive(payload)
            if session.exposed and not exposed:
                exposed = True
                tell_exposed(options, session.plugin_name, self.tls_version, self.fingerprint)
            if answer is not None:
                self.write_packet(answer)
        if session.proved:
            self.verified_by = "the account's password"
        tell_negotiated(
            options, self.tls_version, self.verified_by, self.fingerprint, exposed=exposed
        )
        self.client_flag = int(session.capabilities)
        self.server_status = session.ok.status
        self.auth_plugin = session.plugin_name
        if wanted is not None:
            self.compression = wanted
            self._frames = FrameDecoder(wanted)
        self._auth_plugin_used = session.plugin_name

    async def _start_tls(self, context: ssl.SSLContext) -> bytes:
        """Begin TLS and return the server's certificate in DER."""
        if self._reader._buffer:
            raise UnexpectedPacketError(
                "the server sent data before TLS began; somebody may listen"
            )
        try:
            secure = await start_tls(self._reader, self._writer, context, self._options.host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            # A server that closes the connection says nothing about its certificate.
            raise ConnectionResetError("the server closed the connection as TLS began") from error
        except ssl.SSLError as error:
            raise TlsError(tls_failure(error, self._options.tls)) from None
        self._secure = True
        tls: ssl.SSLObject = secure.get_extra_info("ssl_object")
        self.tls_version = tls.version() or ""
        certificate = accepted_certificate(tls, self._options.tls)
        self.fingerprint = fingerprint_of(certificate)
        return certificate

    async def read_payload(self, limit: int | None = None) -> bytes:
        """Read the next payload, joined from its pieces.

        Args:
            limit: bytes that it may have; None: ``max_packet_size``.

        Raises:
            ConnectionLostError: the connection ended.
            ProtocolError: sequence number or size are wrong.
        """
        out = b""
        while True:
            header = await self._exactly(4)
            size, number = int.from_bytes(header[:3], "little"), header[3]
            # A server that shuts down or kills the session sends an ERR packet numbered 0.
            if self._frames is not None:
                self._next_seq_id = number  # with compression only the frames are numbered
            if number not in (self._next_seq_id, 0):
                self._refuse_sequence(number)
            self._check_size(len(out) + size, limit)
            piece = await self._exactly(size)
            if number != self._next_seq_id and piece[:1] != _ERR:
                self._refuse_sequence(number)
            self._next_seq_id = (number + 1) & 0xFF
            out += piece
            if size < MAX_PIECE_SIZE:
                return out

    async def _exactly(self, size: int) -> bytes:
        reader: asyncio.StreamReader = self._reader
        try:
            if self._frames is None:
                return await reader.readexactly(size)
            while len(self._plain) < size:
                data = await reader.read(_READ_SIZE)
                if not data:
                    raise asyncio.IncompleteReadError(bytes(self._plain), size)
                self._plain += self._frames.feed(data)
            out = bytes(self._plain[:size])
            del self._plain[:size]
            return out
        except asyncio.CancelledError:
            self._close_on_cancel()
            raise
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise ConnectionLostError(f"{self._options.address} closed the connection") from error

    async def row_payloads(self) -> AsyncIterator[list[bytes]]:
        """Yield the payloads of an answer's rows as they come; its columns are already read.

        Raises:
            ConnectionLostError: the connection ended.
            ServerError: the server ended the rows with an error.
            ProtocolError: a packet is not one.
        """
        # With compression only the frames are numbered.
        number = -1 if self._frames is not None else self._next_seq_id
        framer = PacketFramer(self._options.max_packet_size, sequence=number)
        while True:
            data = await self._some()
            try:
                found = framer.feed(data)
                if framer.fault is not None:
                    raise framer.fault
            except ProtocolError:
                self.close()
                raise
            if not found:
                continue
            last = found[-1]
            if last[:1] == _ERR:
                self._end_rows()
                raise server_error_of(last)
            if last[:1] == _EOF and len(last) < MAX_EOF_SIZE:
                found.pop()
                if found:
                    yield found
                self._end_rows()
                return
            yield found

    def _end_rows(self) -> None:
        result, self._result = self._result, None
        if result is not None:
            result.unbuffered_active = False

    async def _some(self) -> bytes:
        """Return received bytes, at least one."""
        reader: asyncio.StreamReader = self._reader
        try:
            if self._plain:
                data, self._plain = bytes(self._plain), bytearray()
                return data
            while True:
                data = await reader.read(_ROWS_READ_SIZE)
                if not data:
                    raise asyncio.IncompleteReadError(b"", 1)
                if self._frames is None:
                    return data
                if plain := bytes(self._frames.feed(data)):
                    return plain
        except asyncio.CancelledError:
            self._close_on_cancel()
            raise
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise ConnectionLostError(f"{self._options.address} closed the connection") from error

    def _write_bytes(self, data: bytes) -> None:
        if self.compression is not None:
            data = encode_frames(data, self.compression)[0]
        self._writer.write(data)

    def _refuse_sequence(self, number: int) -> None:
        expected = self._next_seq_id
        self.close()
        raise PacketSequenceError(
            f"packet has sequence number {number}, expected {expected}"
            + (": is it a MySQL or MariaDB server?" if self._greeting is None else "")
        )

    def _check_size(self, size: int, limit: int | None) -> None:
        allowed = self._options.max_packet_size if limit is None else limit
        if size > allowed:
            self.close()
            name = "max_packet_size" if limit is None else "what it may have here"
            raise PacketTooLargeError(
                f"a packet of at least {size} bytes is larger than {name} ({allowed})"
                + ("; raise that option if it is legitimate" if limit is None else "")
            )

    async def _read_packet(self, packet_type: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        limit = self._answer_limit
        left = None if limit is None else max(0, limit - self._answer_size)
        if left is not None and left < self._options.max_packet_size:
            payload = await self._within_answer(left)
        else:
            payload = await self.read_payload()
        if limit is not None:
            fields = 0 if self._result is None else self._result.field_count or 0
            self._answer_size += len(payload) + _VALUE_SIZE * (1 + fields)
        if payload[:1] == _ERR:
            result, self._result = self._result, None
            if result is not None:
                result.unbuffered_active = False
            raise server_error_of(payload)
        return packet_type(payload, self._encoding)

    def begin_answer(self, limit: int | None) -> None:
        """Limit the memory of the packets from here on, roughly; None: no limit."""
        self._answer_limit, self._answer_size = limit, 0

    async def _within_answer(self, left: int) -> bytes:
        try:
            return await self.read_payload(left)
        except PacketTooLargeError:
            raise PacketTooLargeError(
                f"{self._options.address} answers a statement with more than {self._answer_limit} bytes "
                "(counted as they take memory); where that is legitimate, raise max_answer_size"
            ) from None

    async def command(self, payload: bytes) -> None:
        """Send a command whose answer is a single OK."""
        self._ensure_alive()
        self._next_seq_id = 0
        self.write_packet(payload)
        await self._read_ok_packet()

    def take_over(self, protocol: asyncio.BaseProtocol) -> tuple[asyncio.StreamWriter, bytes]:
        """Hand the connection's transport to another protocol.

        Returns:
            The writer, whose transport is paused, and the bytes that were already read. Whoever
            takes it must keep the writer: it closes the transport when it goes. This object is
            closed then.
        """
        writer: asyncio.StreamWriter = self._writer
        reader = self._reader
        transport: Any = writer.transport
        transport.pause_reading()
        rest = bytes(reader._buffer)
        reader._buffer.clear()
        before = transport.get_protocol()
        transport.set_protocol(protocol)
        # Otherwise the protocol and its writer refer to each other, and the transport's memory
        # waits for a garbage collection.
        before.connection_lost(None)
        self._writer = None
        self._reader = None
        self._socket_transport = None
        self._close_reason = "The connection is used by a dump"
        return writer, rest

    @property
    def open_result(self) -> Any:
        """The driver's result whose rows are not read yet; None when there is none."""
        result = self._result
        return result if result is not None and result.unbuffered_active else None


InTime = Callable[[Awaitable[Any]], Awaitable[Any]]
"""Waits for something at most as long as the connection may be silent."""


class RowStream:
    """An answer whose columns are read and whose rows are not.

    Args:
        connection: the connection that answers.
        in_time: waits within the connection's ``read_timeout``.

    Attributes:
        ended: whether the last row was taken.
    """

    def __init__(self, connection: LoginConnection, in_time: InTime) -> None:
        self._connection = connection
        self._in_time = in_time
        self._result = connection.open_result
        self.ended = self._result is None
        if self._result is not None:
            for at, field in enumerate(self._result.fields):
                if field.type_code in RAW_RESULTS:
                    # The driver does not know the type and takes its values for text.
                    self._result.converters[at] = (None, None)

    async def payloads(self) -> AsyncIterator[list[bytes]]:
        """Yield the payloads of the packets with rows, as they come.

        Raises:
            ServerError: the server ended the rows with an error.
            TransportError: the connection failed, or ``read_timeout`` passed without rows.
            ProtocolError: a packet is not one.
        """
        if self._result is None:
            return
        found = self._connection.row_payloads()
        while (payloads := await self._in_time(anext(found, None))) is not None:
            yield payloads
        self.ended = True

    def decoded(self, payloads: list[bytes]) -> list[tuple[Any, ...]]:
        """Decode rows to the values that the driver returns.

        Raises:
            ValueError: a text is not of its character set.
        """
        read = self._result._read_row_from_packet
        return [read(MysqlPacket(payload, "utf-8")) for payload in payloads]

    def value(self, column: int, data: bytes) -> Any:
        """Decode a value that is not NULL as the driver does.

        Raises:
            ValueError: a text is not of its character set.
        """
        encoding, convert = self._result.converters[column]
        value = data if encoding is None else data.decode(encoding)
        return value if convert is None else convert(value)
