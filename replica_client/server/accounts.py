"""Accounts that may log in to a server of binlog files, and the limits of what they may use."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import secrets
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.auth.server import ClearPassword, StoredPassword

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


@dataclass(slots=True)
class Account:
    """One account.

    Attributes:
        user: its name.
        plugin: how it logs in; one of :data:`~replica_client.protocol.wire.auth.server.SERVER_PLUGINS`.
        password: the stored form of its password.
        cached: caching_sha2_password: whether a client has proved the password, which allows the
            fast path.
        exists: False for an unknown name: its login proceeds like any other, and fails.
        admin: whether it may purge files, and see and end the connections of other accounts.
    """

    user: str
    plugin: str
    password: StoredPassword = field(repr=False)
    cached: bool = True
    exists: bool = True
    admin: bool = False


class Accounts:
    """All accounts, and stand-ins for unknown names.

    A stand-in has the plugin and the kind of password of some account, always the same one for a
    name: neither the packets nor the time of a login reveal which names exist.

    Args:
        accounts: who may log in.
        default_plugin: plugin of stand-ins when there are no accounts.
        key: chooses stand-ins; keep it over restarts to keep them. None: a random key.
    """

    def __init__(
        self, accounts: Iterable[Account], default_plugin: str, key: bytes | None = None
    ) -> None:
        self._default_plugin = default_plugin
        self._key = key or secrets.token_bytes(32)
        self.by_name: dict[str, Account] = {account.user: account for account in accounts}

    def of(self, user: str) -> Account:
        """Return the account of a name; for an unknown name one that no password opens."""
        known = self.by_name.get(user)
        if known is not None:
            return known
        models = list(self.by_name.values())
        if not models:
            return Account(user, self._default_plugin, ClearPassword(b"").decoy(), exists=False)
        digest = hmac.digest(self._key, user.encode("utf-8", "surrogateescape"), hashlib.sha256)
        model = models[int.from_bytes(digest[:8], "little") % len(models)]
        return Account(user, model.plugin, model.password.decoy(), model.cached, exists=False)

    def replaced(self, accounts: Iterable[Account]) -> Accounts:
        """Return these accounts with the same key; an unchanged password keeps its known state."""
        made = Accounts(accounts, self._default_plugin, self._key)
        for user, account in made.by_name.items():
            if self.is_same(made, user):
                kept = self.by_name[user]
                account.password, account.cached = kept.password, kept.cached
        return made

    def is_same(self, others: Accounts, user: str) -> bool:
        """Return whether the account ``user`` has the same login in ``others``."""
        one, other = self.by_name.get(user), others.by_name.get(user)
        if one is None or other is None:
            return False
        return one.plugin == other.plugin and one.password.is_same(other.password)

    def is_admin(self, user: str) -> bool:
        """Return whether an account may purge files and end connections of other accounts."""
        known = self.by_name.get(user)
        return known is not None and known.admin


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for clients; None is no limit.

    Attributes:
        login_timeout: seconds until a connection must be logged in.
        idle_timeout: seconds without a command, until a dump begins.
        write_timeout: seconds that a client may take nothing.
        connections: logged in at once. When it is reached, the account with the most loses its
            newest one.
        logins: connections at once that are not logged in yet.
        peer_logins: of these, from one address (IPv6: one network of 64 bits).
        user_connections: open at once for one account.
        refusal_delay: seconds after which a refused login is answered.
        command_size: bytes of a command.
        command_timeout: seconds from the first byte of a command to its last.
        statement_timeout: seconds that a statement may take.
        session_memory: bytes that a session may hold: its command, user variables, answer and dump.
        account_memory: bytes that all sessions of an account may hold together.
        account_share: share of one processor for an account's commands; bursts of two seconds are
            allowed.
        replicas: disconnected replicas of one account that are remembered and keep files.
    """

    login_timeout: float | None = None
    idle_timeout: float | None = None
    write_timeout: float | None = None
    connections: int | None = None
    logins: int | None = None
    peer_logins: int | None = None
    user_connections: int | None = None
    refusal_delay: float = 0.0
    command_size: int = 16 << 20
    command_timeout: float | None = None
    statement_timeout: float | None = None
    session_memory: int | None = None
    account_memory: int | None = None
    account_share: float | None = None
    replicas: int = 100


_NETWORK: Final = 64


def peer_of(address: str) -> str:
    """Return the unit that counts as one peer: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _NETWORK), strict=False))
    return str(found)


@cache
def rsa_key() -> RSAPrivateKey:
    """Return an RSA key, the same for all sources of a process."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def certificate_pem() -> tuple[bytes, bytes]:
    """Return a self-signed certificate for localhost and its key, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    key = rsa_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def server_context() -> ssl.SSLContext:
    """Return a TLS context for a source with the self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = certificate_pem()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "source.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + key)
        context.load_cert_chain(path)
    return context
