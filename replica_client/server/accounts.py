"""Accounts that may log in to a server of binlog files."""

from __future__ import annotations

import secrets
from dataclasses import field

from replica_client.codec.quick_dataclass import dataclass
from replica_client.wire.auth.stored import ClearPassword, StoredPassword


@dataclass(slots=True)
class Account:
    """One account.

    Attributes:
        user: its name.
        plugin: how it logs in; one of :data:`~replica_client.wire.auth.server.SERVER_PLUGINS`.
        password: what is known of its password.
        cached: caching_sha2_password: a client has shown the password, the fast path is open.
        exists: False for a name that nobody has: its login goes on as any other does, and fails.
    """

    user: str
    plugin: str
    password: StoredPassword = field(repr=False)
    cached: bool = True
    exists: bool = True


def nobody(user: str, plugin: str) -> Account:
    """The account for a user name that does not exist; no password is right for it."""
    return Account(user, plugin, ClearPassword(secrets.token_bytes(32)), exists=False)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for each client; None is no limit.

    Attributes:
        login_timeout: seconds until a connection must be logged in.
        idle_timeout: seconds without a command before the dump.
        write_timeout: seconds that a client may take nothing.
        connections: open at once.
        logins: connections at once that are not logged in yet.
        user_connections: open at once for one account.
    """

    login_timeout: float | None = None
    idle_timeout: float | None = None
    write_timeout: float | None = None
    connections: int | None = None
    logins: int | None = None
    user_connections: int | None = None
