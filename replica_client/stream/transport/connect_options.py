"""Connection options: one frozen object per source."""

from __future__ import annotations

import getpass
import ipaddress
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from replica_client.errors import ConfigError
from replica_client.options import check_argument, fields_of
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.auth.plugin import UnverifiedPassword

DEFAULT_PORT = 3306
MIB = 1 << 20

_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})")


class TlsMode(StrEnum):
    """TLS modes, named as in MySQL."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify-ca"
    VERIFY_IDENTITY = "verify-identity"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS options of a connection.

    Attributes:
        mode: ``disabled``; ``preferred``: TLS when the server has it; ``required``: TLS or failure;
            ``verify-ca``: also the certificate's chain; ``verify-identity``: also its host name.
            When a CA is given, ``preferred`` and ``required`` check the chain too.
        ca: file of CA certificates (PEM); None: the system's, where a mode verifies.
        cert: file of our own certificate (PEM), for accounts that require one.
        key: file of its private key (PEM); None: it is in ``cert``.
        key_password: of the private key.
        fingerprint: ``sha256:`` and 64 hexadecimal digits, optionally with colons: SHA-256 of the
            server's certificate (DER), whoever signed it. With several, separated by commas, one
            must match. The connection is then made with TLS or not at all.
    """

    mode: TlsMode = TlsMode.PREFERRED
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", TlsMode(self.mode))
        if self.fingerprint is None:
            return
        texts = [text.strip().lower() for text in self.fingerprint.split(",")]
        plain = [text[:7] + text[7:].replace(":", "") for text in texts]
        if not all(_FINGERPRINT.fullmatch(text) for text in plain):
            raise ConfigError(
                "tls_fingerprint must be sha256: and the 64 hexadecimal digits that "
                "`openssl x509 -noout -fingerprint -sha256 -in server-cert.pem` shows"
            )
        if self.mode is TlsMode.DISABLED:
            raise ConfigError("tls_fingerprint is given and tls is disabled: leave one of them out")
        object.__setattr__(self, "fingerprint", ",".join(plain))

    @property
    def is_required(self) -> bool:
        """Whether a server without TLS is refused."""
        wanted = self.mode not in (TlsMode.DISABLED, TlsMode.PREFERRED)
        return wanted or self.verifies_chain or self.fingerprint is not None

    @property
    def proof(self) -> str:
        """How an accepted certificate was proven to be the server's; empty when nothing proved it.

        A chain to one of the system's authorities proves nothing unless the name is checked, too:
        anybody can get such a certificate.
        """
        if self.fingerprint is not None:
            return "its fingerprint"
        if self.mode is TlsMode.VERIFY_IDENTITY:
            return "its chain and name"
        return "its chain" if self.ca is not None and self.verifies_chain else ""

    @property
    def verifies_chain(self) -> bool:
        """Whether the server's certificate is checked against a CA."""
        return self.mode in (TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY) or (
            self.ca is not None and self.mode is not TlsMode.DISABLED
        )


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Address, credentials and limits of a connection to a source.

    Attributes:
        host: name or address (IPv6 without brackets).
        port: TCP port.
        user: account name; empty: the operating system's user.
        password: never shown by ``repr``, logs or errors.
        password_provider: asked for the password at each login instead (tokens that expire); may
            be a coroutine function.
        database: default database, or empty.
        unix_socket: path of a Unix socket to use instead of TCP, or None.
        tls: see :class:`TlsOptions`; a Unix socket has none.
        connect_timeout: seconds until the login must be done.
        read_timeout: seconds until the answer to a statement must be there.
        max_packet_size: bytes that one packet (one event) may have.
        max_answer_size: bytes of memory that the list of all tables and columns may take, about.
        allow_public_key_retrieval: without TLS, trust the RSA key that the server sends for
            caching_sha2_password and sha256_password.
        unverified_password: which servers get the password itself inside TLS when nothing proves
            the server's certificate: ``never``, ``caching_sha2`` or ``any``.
        server_public_key: file of the server's RSA key (PEM), or None.
        compression: ``""`` none, ``zlib`` or ``zstd``: the protocol's own compression.
        program_name: program name in the server's connection attributes.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    password_provider: Callable[[], str | Awaitable[str]] | None = field(default=None, repr=False)
    database: str = ""
    unix_socket: str | None = None
    tls: TlsOptions = field(default_factory=TlsOptions)
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    max_packet_size: int = 1024 * MIB
    max_answer_size: int = 512 * MIB
    allow_public_key_retrieval: bool = False
    unverified_password: UnverifiedPassword = UnverifiedPassword.CACHING_SHA2
    server_public_key: str | None = None
    compression: str = ""
    program_name: str = "replica_client"

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigError(f"port {self.port} is not between 1 and 65535")
        for name in ("connect_timeout", "max_packet_size", "max_answer_size"):
            check_argument(name, getattr(self, name))
        check_argument("answer_timeout", self.read_timeout)
        check_argument("compression", self.compression)
        object.__setattr__(
            self, "unverified_password", UnverifiedPassword(self.unverified_password)
        )
        if not self.user:
            object.__setattr__(self, "user", _system_user())

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        if self.unix_socket or self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def address(self) -> str:
        """The address for messages: ``host:port``, ``[::1]:port`` or the socket's path."""
        if self.unix_socket:
            return self.unix_socket
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def with_options(options: ConnectOptions, values: Mapping[str, Any]) -> ConnectOptions:
    """Return the options of a connection with others in place of some.

    Args:
        options: of the connection.
        values: by the names of :data:`~replica_client.options.OPTIONS`; None is "not given".

    Raises:
        ConfigError: a value is wrong.
    """
    tls, fields = fields_of(values, "tls"), fields_of(values, "connect")
    if isinstance(whole := tls.get("mode"), TlsOptions):
        return replace(options, tls=whole, **fields)
    return replace(options, tls=replace(options.tls, **tls), **fields)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError("no user is given, and the operating system has no name for us") from None
