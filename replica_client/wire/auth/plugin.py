"""What every authentication plugin's client side offers, and what it is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from replica_client.errors import UnexpectedPacketError


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a plugin may use.

    Attributes:
        password: UTF-8 bytes.
        secure: the connection is inside TLS or a Unix socket.
        unix_socket: it is a Unix socket.
        allow_public_key_retrieval: without TLS, trust the RSA key that the server sends.
        server_public_key: the server's RSA key in PEM, when it was given beforehand.
    """

    password: bytes = field(repr=False)
    secure: bool = False
    unix_socket: bool = False
    allow_public_key_retrieval: bool = False
    server_public_key: bytes | None = None


class ClientPlugin(Protocol):
    """The client side of an authentication plugin, for one login."""

    def __init__(self, credentials: Credentials) -> None: ...

    def begin(self, scramble: bytes) -> bytes:
        """The first answer to the server's random bytes.

        Raises:
            ProtocolError: the server's data cannot be this plugin's, or answering would give the
                password away.
        """
        ...

    def more(self, data: bytes) -> bytes | None:
        """The answer to an AuthMoreData packet; None: nothing is to be sent.

        Raises:
            ProtocolError: as :meth:`begin`.
        """
        ...


def require_secure(credentials: Credentials, plugin: str) -> None:
    """Refuse to send a clear-text password on an open connection.

    Raises:
        UnexpectedPacketError: the connection is neither TLS nor a Unix socket.
    """
    if not credentials.secure:
        raise UnexpectedPacketError(
            f"{plugin} sends the password in clear text, which is refused without TLS: "
            "use tls=required or a Unix socket"
        )


def no_more(plugin: str) -> UnexpectedPacketError:
    """The error for data that a plugin's conversation does not have."""
    return UnexpectedPacketError(f"unexpected data from the server during {plugin}")
