"""Authentication plugins, both sides; :data:`CLIENT_PLUGINS` is their list.

Spec: MySQL "Authentication Methods"; MariaDB KB "Authentication from MariaDB 10.4", "ed25519",
"parsec".
"""

from __future__ import annotations

from collections.abc import Mapping

from replica_client.errors import UnexpectedPacketError
from replica_client.protocol.wire.auth.ed25519 import Ed25519Client
from replica_client.protocol.wire.auth.parsec import ParsecClient
from replica_client.protocol.wire.auth.passwords import (
    CachingSha2Client,
    ClearPasswordClient,
    DialogClient,
    NativePasswordClient,
    Sha256Client,
)
from replica_client.protocol.wire.auth.plugin import ClientPlugin, Credentials

CLIENT_PLUGINS: Mapping[str, type[ClientPlugin]] = {
    "mysql_native_password": NativePasswordClient,
    "caching_sha2_password": CachingSha2Client,
    "sha256_password": Sha256Client,
    "mysql_clear_password": ClearPasswordClient,
    "dialog": DialogClient,
    "client_ed25519": Ed25519Client,
    "parsec": ParsecClient,
}

UNMARKED_PLUGINS = frozenset(("dialog", "parsec"))
"""MariaDB plugins whose later packets come without the AuthMoreData byte."""


def client_plugin(name: str, credentials: Credentials) -> ClientPlugin:
    """Create the client side of an authentication plugin.

    Raises:
        UnexpectedPacketError: the plugin is not supported; the message names it and those that are.
    """
    try:
        kind = CLIENT_PLUGINS[name]
    except KeyError:
        raise UnexpectedPacketError(
            f"the account uses the authentication plugin {name!r}, which is not supported; "
            f"use an account with one of {', '.join(CLIENT_PLUGINS)}"
        ) from None
    return kind(credentials)
