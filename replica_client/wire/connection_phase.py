"""The client's side of the connection phase: greeting to OK, without I/O."""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.constants.capabilities import Capability
from replica_client.errors import TlsError, UnexpectedPacketError
from replica_client.wire.auth import CLIENT_PLUGINS, UNMARKED_PLUGINS, client_plugin
from replica_client.wire.auth.certificate_proof import has_proof, is_proved
from replica_client.wire.auth.plugin import ClientPlugin, Credentials
from replica_client.wire.handshake import HandshakeResponse, HandshakeV10, SslRequest
from replica_client.wire.packets import (
    EOF_HEADER,
    ERR_HEADER,
    MORE_DATA_HEADER,
    OK_HEADER,
    AuthMoreData,
    AuthSwitchRequest,
    OkPacket,
)
from replica_client.wire.server_errors import server_error_of

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
