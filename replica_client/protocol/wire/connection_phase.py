"""The connection phase, from the greeting to OK, without I/O.

Spec: MySQL "Protocol::HandshakeV10", "Protocol::SSLRequest", "Protocol::HandshakeResponse41";
MariaDB KB "Connecting".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from replica_client.errors import MalformedPacketError, TlsError, UnexpectedPacketError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.client_server import Capability, ServerStatus
from replica_client.protocol.wire.auth import CLIENT_PLUGINS, UNMARKED_PLUGINS, client_plugin
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials, has_proof, is_proved
from replica_client.protocol.wire.packets import (
    EOF_HEADER,
    ERR_HEADER,
    MORE_DATA_HEADER,
    OK_HEADER,
    AuthMoreData,
    AuthSwitchRequest,
    OkPacket,
    decoding,
    text,
)
from replica_client.protocol.wire.server_errors import server_error_of

PROTOCOL_VERSION = 10
UTF8MB4_GENERAL_CI = 45
SCRAMBLE_SIZE = 20

SERVER_CAPABILITIES: Final = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_FOUND_ROWS
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_CONNECT_WITH_DB
    | Capability.CLIENT_IGNORE_SPACE
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_MULTI_STATEMENTS
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_CONNECT_ATTRS
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_COMPRESS
    | Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
"""Capabilities of the servers of this package; with a certificate they offer TLS, too."""


@dataclass(frozen=True, slots=True)
class HandshakeV10:
    """The server's greeting.

    Bytes::

        size  field                meaning
        1     protocol_version     10
        NUL   server_version
        4     connection_id
        8     scramble, part 1
        1     0
        2     capabilities, low    (old servers stop here)
        1     character_set        low byte of the default collation
        2     status
        2     capabilities, high
        1     scramble size        both parts and the NUL; 0 without plugins
        10    0                    MariaDB: 6 zeros and 4 bytes of its own capabilities
        n     scramble, part 2     at least 13 bytes, NUL at its end
        NUL   auth_plugin          with CLIENT_PLUGIN_AUTH; some old servers leave the NUL out
    """

    server_version: str
    connection_id: int
    scramble: bytes
    capabilities: Capability
    character_set: int = UTF8MB4_GENERAL_CI
    status: int = ServerStatus.SERVER_STATUS_AUTOCOMMIT
    auth_plugin: str = "mysql_native_password"
    mariadb_capabilities: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> HandshakeV10:
        """Read a payload.

        Raises:
            MalformedPacketError: it is not a greeting of protocol version 10.
        """
        reader = ByteReader(payload)
        with decoding("handshake"):
            version = reader.uint(1)
            if version != PROTOCOL_VERSION:
                raise MalformedPacketError(
                    f"the server greets with protocol version {version}, not {PROTOCOL_VERSION}: "
                    "is it a MySQL or MariaDB server?"
                )
            server_version = text(reader.nul_string())
            connection_id = reader.uint(4)
            scramble = reader.take(8)
            reader.skip(1)
            capabilities = reader.uint(2)
            if not reader.remaining:
                return cls(
                    server_version, connection_id, scramble, Capability(capabilities), 0, 0, ""
                )
            character_set, status = reader.uint(1), reader.uint(2)
            capabilities |= reader.uint(2) << 16
            scramble_size = reader.uint(1)
            reader.skip(6)
            mariadb_capabilities = reader.uint(4)
            if capabilities & Capability.CLIENT_SECURE_CONNECTION:
                part = reader.take(min(max(13, scramble_size - 8), reader.remaining))
                scramble += part[:-1] if part.endswith(b"\0") else part
            plugin = ""
            if capabilities & Capability.CLIENT_PLUGIN_AUTH:
                plugin = text(reader.rest().split(b"\0", 1)[0])
            return cls(
                server_version,
                connection_id,
                scramble,
                Capability(capabilities),
                character_set,
                status,
                plugin,
                0 if capabilities & Capability.CLIENT_LONG_PASSWORD else mariadb_capabilities,
            )

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(PROTOCOL_VERSION, 1).nul_string(self.server_version.encode())
        out.uint(self.connection_id, 4).raw(self.scramble[:8]).uint(0, 1)
        out.uint(self.capabilities & 0xFFFF, 2).uint(self.character_set, 1).uint(self.status, 2)
        out.uint(self.capabilities >> 16, 2).uint(len(self.scramble) + 1, 1)
        out.raw(bytes(6)).uint(self.mariadb_capabilities, 4)
        out.raw(self.scramble[8:] + b"\0")
        if self.capabilities & Capability.CLIENT_PLUGIN_AUTH:
            out.nul_string(self.auth_plugin.encode())
        return out.done()


@dataclass(frozen=True, slots=True)
class SslRequest:
    """A request for TLS: the first 32 bytes of a handshake response; TLS begins after it."""

    capabilities: Capability
    max_packet_size: int = 0xFFFFFF
    character_set: int = UTF8MB4_GENERAL_CI

    @classmethod
    def decode(cls, payload: bytes) -> SslRequest:
        """Read a payload.

        Raises:
            MalformedPacketError: it is shorter than 32 bytes.
        """
        reader = ByteReader(payload)
        with decoding("TLS request"):
            value = cls(Capability(reader.uint(4)), reader.uint(4), reader.uint(1))
            reader.skip(23)
            return value

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter().uint(self.capabilities, 4).uint(self.max_packet_size, 4)
        return out.uint(self.character_set, 1).raw(bytes(23)).done()


@dataclass(frozen=True, slots=True)
class HandshakeResponse:
    """The client's answer to the greeting (protocol 4.1).

    Bytes::

        size      field             meaning
        4         capabilities
        4         max_packet_size
        1         character_set
        23        0                 MariaDB: the last 4 are its own capabilities
        NUL       user
        lenenc n  auth_response     1-byte length without ..._LENENC_CLIENT_DATA
        NUL       database          with CLIENT_CONNECT_WITH_DB
        NUL       auth_plugin       with CLIENT_PLUGIN_AUTH
        lenenc    attributes        with CLIENT_CONNECT_ATTRS: pairs of lenenc strings
        1         zstd_level        with CLIENT_ZSTD_COMPRESSION_ALGORITHM
    """

    capabilities: Capability
    user: str
    auth_response: bytes = field(default=b"", repr=False)
    database: str = ""
    auth_plugin: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    max_packet_size: int = 0xFFFFFF
    character_set: int = UTF8MB4_GENERAL_CI
    zstd_level: int = 3

    @classmethod
    def decode(cls, payload: bytes) -> HandshakeResponse:
        """Read a payload.

        Raises:
            MalformedPacketError: fields do not fit, or protocol 4.1 is not spoken.
        """
        reader = ByteReader(payload)
        with decoding("handshake response"):
            capabilities = Capability(reader.uint(4))
            if not capabilities & Capability.CLIENT_PROTOCOL_41:
                raise MalformedPacketError("handshake response without CLIENT_PROTOCOL_41")
            max_packet_size, character_set = reader.uint(4), reader.uint(1)
            reader.skip(23)
            user = text(reader.nul_string())
            if capabilities & Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA:
                auth_response = reader.lenenc_bytes()
            elif capabilities & Capability.CLIENT_SECURE_CONNECTION:
                auth_response = reader.take(reader.uint(1))
            else:
                auth_response = reader.nul_string()
            database = plugin = ""
            if capabilities & Capability.CLIENT_CONNECT_WITH_DB and reader.remaining:
                database = text(reader.nul_string())
            if capabilities & Capability.CLIENT_PLUGIN_AUTH and reader.remaining:
                plugin = text(reader.nul_string())
            attributes: dict[str, str] = {}
            if capabilities & Capability.CLIENT_CONNECT_ATTRS and reader.remaining:
                pairs = ByteReader(reader.lenenc_bytes())
                while pairs.remaining:
                    name = text(pairs.lenenc_bytes())
                    attributes[name] = text(pairs.lenenc_bytes())
            level = 3
            if capabilities & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM and reader.remaining:
                level = reader.uint(1)
            return cls(
                capabilities,
                user,
                auth_response,
                database,
                plugin,
                attributes,
                max_packet_size,
                character_set,
                level,
            )

    def encode(self) -> bytes:
        """Return the payload."""
        flags = self.capabilities
        out = ByteWriter().raw(SslRequest(flags, self.max_packet_size, self.character_set).encode())
        out.nul_string(self.user.encode())
        if flags & Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA:
            out.lenenc_bytes(self.auth_response)
        elif flags & Capability.CLIENT_SECURE_CONNECTION:
            out.uint(len(self.auth_response), 1).raw(self.auth_response)
        else:
            out.nul_string(self.auth_response)
        if flags & Capability.CLIENT_CONNECT_WITH_DB:
            out.nul_string(self.database.encode())
        if flags & Capability.CLIENT_PLUGIN_AUTH:
            out.nul_string(self.auth_plugin.encode())
        if flags & Capability.CLIENT_CONNECT_ATTRS:
            pairs = ByteWriter()
            for name, value in self.attributes.items():
                pairs.lenenc_bytes(name.encode()).lenenc_bytes(value.encode())
            out.lenenc_bytes(pairs.done())
        if flags & Capability.CLIENT_ZSTD_COMPRESSION_ALGORITHM:
            out.uint(self.zstd_level, 1)
        return out.done()


BASE_CAPABILITIES = (
    Capability.CLIENT_LONG_PASSWORD
    | Capability.CLIENT_LONG_FLAG
    | Capability.CLIENT_PROTOCOL_41
    | Capability.CLIENT_TRANSACTIONS
    | Capability.CLIENT_SECURE_CONNECTION
    | Capability.CLIENT_MULTI_RESULTS
    | Capability.CLIENT_PLUGIN_AUTH
    | Capability.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capability.CLIENT_CONNECT_ATTRS
)
"""Capabilities that we always request.

LOCAL INFILE is never among them: no server gets our files.
"""

NO_CAPABILITY = Capability(0)

MAX_AUTH_ROUNDS = 16
"""Packets that a server may send during authentication."""


class LoginSession:
    """The client's login: answers the server's packets until the server says OK.

    Args:
        greeting: the server's first packet.
        user: account name.
        credentials: for the plugins; ``secure`` must be right at the time of :meth:`response`.
        database: default database, or empty.
        attributes: connection attributes that the server may show.
        extra: further capabilities, e.g. compression; taken when the server has them.

    Attributes:
        plugin_name: the authentication plugin in use.
        ok: the server's final packet; None while the login is under way.
        capabilities: what both sides speak.
        proved: the server proved its certificate with the password.
    """

    def __init__(
        self,
        greeting: HandshakeV10,
        user: str,
        credentials: Credentials,
        *,
        database: str = "",
        attributes: Mapping[str, str] | None = None,
        extra: Capability = NO_CAPABILITY,
    ) -> None:
        if not greeting.capabilities & Capability.CLIENT_PROTOCOL_41:
            raise UnexpectedPacketError("the server does not speak protocol 4.1: it is too old")
        if not greeting.capabilities & Capability.CLIENT_SECURE_CONNECTION:
            raise UnexpectedPacketError(
                "the server knows only passwords of before 4.1: it is too old"
            )
        wanted = BASE_CAPABILITIES | extra
        if database:
            wanted |= Capability.CLIENT_CONNECT_WITH_DB
        # MariaDB clears CLIENT_LONG_PASSWORD to announce its own capabilities; the flag is always
        # meant.
        self.capabilities = wanted & (greeting.capabilities | Capability.CLIENT_LONG_PASSWORD)
        self.plugin_name = greeting.auth_plugin or "mysql_native_password"
        self.ok: OkPacket | None = None
        self.proved = False
        self._greeting = greeting
        self._user = user
        self._credentials = credentials
        self._database = database
        self._attributes = attributes or {}
        self._plugin: ClientPlugin | None = None
        self._rounds = 0
        self._exposed = False

    def ssl_request(self) -> bytes:
        """Return the payload after which TLS begins; the caller then passes secure credentials."""
        self.capabilities |= Capability.CLIENT_SSL
        return SslRequest(self.capabilities).encode()

    def secured(self, credentials: Credentials) -> None:
        """Use these credentials from now on, as TLS is established."""
        self._credentials = credentials

    def response(self) -> bytes:
        """Return the payload of the handshake response.

        When we lack the server's default plugin, or it would need the password itself, the response
        is made for mysql_native_password; the server then names the account's own plugin.
        """
        safe = ("mysql_native_password", "caching_sha2_password")
        if self.plugin_name not in CLIENT_PLUGINS or self.plugin_name not in safe:
            self.plugin_name = "mysql_native_password"
        self._plugin = client_plugin(self.plugin_name, self._credentials)
        return HandshakeResponse(
            self.capabilities,
            self._user,
            self._plugin.begin(self._greeting.scramble),
            self._database,
            self.plugin_name,
            self._attributes,
        ).encode()

    def receive(self, payload: bytes) -> bytes | None:
        """Take the server's next packet and return the answer.

        Returns:
            The payload to answer with, or None: wait for the next packet, or, when :attr:`ok` is
            set, the login is done.

        Raises:
            ServerError: the server refused.
            TlsError: the server's proof of its certificate is wrong.
            ProtocolError: it sent an unexpected packet, or requires what we refuse.
        """
        self._rounds += 1
        header = payload[0] if payload else -1
        if self._rounds > MAX_AUTH_ROUNDS:
            raise UnexpectedPacketError("authentication does not come to an end")
        if header == OK_HEADER:
            ok = OkPacket.decode(payload)
            self._check_proof(ok.info)
            self.ok = ok
            return None
        if header == ERR_HEADER:
            raise server_error_of(payload)
        if header == EOF_HEADER:
            switch = AuthSwitchRequest.decode(payload)
            self.plugin_name = switch.plugin
            self._exposed = self.exposed
            self._plugin = client_plugin(switch.plugin, self._credentials)
            return self._plugin.begin(switch.data)
        if header == MORE_DATA_HEADER and self._plugin is not None:
            return self._plugin.more(AuthMoreData.decode(payload).data)
        if payload and self._plugin is not None and self.plugin_name in UNMARKED_PLUGINS:
            return self._plugin.more(payload)
        raise UnexpectedPacketError(f"packet starting with 0x{header & 0xFF:02x} during login")

    @property
    def exposed(self) -> bool:
        """Whether the password itself went to an unverified server."""
        return self._exposed or (self._plugin is not None and self._plugin.exposed)

    def _check_proof(self, info: bytes) -> None:
        credentials = self._credentials
        if self._plugin is None or not credentials.certificate or credentials.verified:
            return
        known = self._plugin.password_hash()
        # Anybody who has the password can make a proof.
        if not known or self.exposed or not has_proof(info):
            return
        if not is_proved(info, known, self._greeting.scramble, credentials.certificate):
            raise TlsError(
                "the server's certificate is not the one that it proves with the password: "
                "somebody stands between us and the server, and has its login; change the password "
                "when nothing else explains it (a proxy that ends TLS wants tls_ca or tls_fingerprint)"
            )
        self.proved = True
