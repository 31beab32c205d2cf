"""Every authentication plugin x transport x compression, on the servers that have them.

Used by scripts/proofs/logins, which prints the table, and by test_logins.py. A cell of the table is
one login with a statement, the session's own words on TLS and compression, and a short dump; or a
refusal that must be of the right kind.
"""

from __future__ import annotations

import contextlib
import ssl
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from replica_client.errors import (
    AccessDeniedError,
    ConfigError,
    ReplicaClientError,
    TlsError,
    UnexpectedPacketError,
)
from replica_client.protocol.wire.auth.server import SERVER_PLUGINS
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.stream.transport.dump import DumpRequest
from replica_client.testing import BinlogSource
from tests.integration.login_certificates import Certificates
from tests.integration.login_pam import pam_service, why_no_pam
from tests.servers.local import LocalServer, LocalServers

PASSWORD = "pä€ s/@:#%"
TRANSPORTS = ("disabled", "preferred", "required", "verify-ca", "verify-identity", "socket", "ipv6")
COMPRESSIONS = ("", "zlib", "zstd")
NEEDS_SECRECY = ("mysql_clear_password", "dialog")
NEEDS_PROOF = (*NEEDS_SECRECY, "sha256_password")


@dataclass(frozen=True)
class Account:
    """One way to log in.

    Attributes:
        label: of its row in the table.
        plugin: that the login must use.
        user: name.
        before: run before each login, e.g. to make a cache cold.
    """

    label: str
    plugin: str
    user: str
    before: Callable[[], object] = lambda: None


@dataclass
class LoginServer:
    """A server under test.

    Attributes:
        name: e.g. mysql-9.7.
        port: of 127.0.0.1 and localhost, and of ::1 where that has no other.
        socket: of it.
        ca: file that its certificate is proved with.
        tls: whether it offers TLS that we can speak.
        compressions: those that it offers.
        accounts: on it.
        real: whether it is a server, which tells about its sessions.
        port_by_ipv6: of ::1.
    """

    name: str
    port: int
    socket: str
    ca: Path
    tls: bool
    compressions: tuple[str, ...]
    accounts: list[Account] = field(default_factory=list)
    real: bool = True
    port_by_ipv6: int | None = None


@dataclass
class Tally:
    """What was run: outcomes by (server, account, transport, compression)."""

    cells: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    wrong_passwords: int = 0

    def count(self, **wanted: str) -> Counter[str]:
        """Outcomes of the cells that have these values."""
        names = ("server", "account", "transport", "compression")
        found: Counter[str] = Counter()
        for key, outcome in self.cells.items():
            if all(
                dict(zip(names, key, strict=True))[name] == value for name, value in wanted.items()
            ):
                found[outcome] += 1
        return found

    def table(self) -> list[str]:
        """One line for each server and account: logins and refusals by transport."""
        rows = []
        for server, account in dict.fromkeys(key[:2] for key in self.cells):
            parts = []
            for transport in TRANSPORTS:
                found = self.count(server=server, account=account, transport=transport)
                if found:
                    refused = sum(found.values()) - found["logged in"]
                    parts.append(
                        f"{transport} {found['logged in']}" + f"/-{refused}" * bool(refused)
                    )
            rows.append(f"{server}, {account}: {', '.join(parts)}")
        return rows


def expected(login_server: LoginServer, account: Account, transport: str, compression: str) -> str:
    """What a cell must give: ``logged in``, or the name of an error."""
    verified = transport in ("required", "verify-ca", "verify-identity")
    if compression and compression not in login_server.compressions:
        return ConfigError.__name__
    if verified and not login_server.tls:
        return TlsError.__name__
    secret = transport == "socket" or (transport != "disabled" and login_server.tls)
    if account.plugin in NEEDS_SECRECY and not secret:
        return UnexpectedPacketError.__name__
    unproved = transport in ("preferred", "required", "ipv6") and login_server.tls
    if account.plugin in NEEDS_PROOF and unproved:
        return UnexpectedPacketError.__name__
    return "logged in"


def _url(
    login_server: LoginServer, account: Account, transport: str, compression: str, password: str
) -> str:
    options = ["allow_public_key_retrieval=true"]
    host = "localhost" if transport == "verify-identity" else "127.0.0.1"
    if transport == "socket":
        host = ""
        options.append(f"socket={quote(login_server.socket)}")
    elif transport == "ipv6":
        host = "[::1]"
        options.append("tls=preferred")
    else:
        options.append(f"tls={transport}")
        if transport.startswith("verify"):
            options.append(f"tls_ca={quote(str(login_server.ca))}")
    if compression:
        options.append(f"compression={compression}")
    number = login_server.port_by_ipv6 if transport == "ipv6" else None
    port = f":{number or login_server.port}" if host else ""
    return f"mysql://{account.user}:{quote(password, safe='')}@{host}{port}/?{'&'.join(options)}"


async def log_in(
    login_server: LoginServer,
    account: Account,
    transport: str,
    compression: str,
    password: str = PASSWORD,
) -> str:
    """One cell: its outcome.

    Raises:
        AssertionError: the login is not what was asked for.
    """
    account.before()
    secured = transport not in ("disabled", "socket") and login_server.tls
    url = _url(login_server, account, transport, compression, password)
    try:
        async with await SourceConnection.open(parse_url(url)) as connection:
            assert connection.server.auth_plugin == account.plugin, connection.server
            assert bool(connection.server.tls) == secured, connection.server
            if login_server.real:
                status = {
                    str(name).lower(): str(value)
                    for name, value in await connection.query(
                        "SHOW SESSION STATUS WHERE Variable_name IN ('Ssl_cipher', 'Compression')"
                    )
                }
                assert bool(status["ssl_cipher"]) == secured, status
                assert status["compression"] == ("ON" if compression else "OFF"), status
            files = await connection.binary_logs()
            dump = await connection.start_dump(
                DumpRequest(files[0][0], non_block=True),
                server_id=uuid.uuid4().int % (1 << 31) + 1,
                replica_uuid=str(uuid.uuid4()),
            )
            count = 0
            async with dump:
                while events := await dump.read():
                    count += len(events)
            assert count >= 3
    except ReplicaClientError as error:
        assert password not in str(error)
        return type(error).__name__
    return "logged in"


async def run(
    login_server: LoginServer, tally: Tally, *, compressions: tuple[str, ...] = COMPRESSIONS
) -> None:
    """All cells of a server.

    Raises:
        AssertionError: one had another outcome than it must have.
    """
    for account in login_server.accounts:
        for transport in TRANSPORTS:
            for compression in compressions:
                outcome = await log_in(login_server, account, transport, compression)
                wanted = expected(login_server, account, transport, compression)
                cell = (login_server.name, account.label, transport, compression or "none")
                assert outcome == wanted, f"{cell}: {outcome} instead of {wanted}"
                tally.cells[cell] = outcome
            if expected(login_server, account, transport, "") == "logged in":
                outcome = await log_in(login_server, account, transport, "", "wrong")
                assert outcome == AccessDeniedError.__name__, f"{cell}, wrong password: {outcome}"
                tally.wrong_passwords += 1


# Places.


@asynccontextmanager
async def testing_server(
    file: Path, directory: Path, certificates: Certificates, plugin: str, cold: bool
) -> AsyncIterator[LoginServer]:
    """A testing source whose accounts have one plugin."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_cert, certificates.server_key)
    unix_socket = str(directory / "source.sock")
    users = {"repl": PASSWORD}
    source = BinlogSource(
        file,
        users=users,
        auth_plugin=plugin,
        cold_cache=cold,
        tls=context,
        unix_socket=unix_socket,
    )
    sixth = BinlogSource(
        file, host="::1", users=users, auth_plugin=plugin, cold_cache=cold, tls=context
    )

    def forget() -> None:
        # As FLUSH PRIVILEGES does with the cache of caching_sha2_password.
        for account in [*source.accounts.by_name.values(), *sixth.accounts.by_name.values()]:
            account.cached = False

    async with source, sixth:
        yield LoginServer(
            "testing source",
            source.port,
            unix_socket,
            certificates.ca,
            True,
            ("zlib", "zstd"),
            [
                Account(
                    f"{plugin}, cold cache" if cold else plugin,
                    plugin,
                    "repl",
                    forget if cold else lambda: None,
                )
            ],
            real=False,
            port_by_ipv6=sixth.port,
        )


TESTING_PLUGINS = [(plugin, False) for plugin in SERVER_PLUGINS]
TESTING_PLUGINS += [("caching_sha2_password", True)]


@contextmanager
def real_server(
    servers: LocalServers, name: str, directory: Path, certificates: Certificates
) -> Iterator[LoginServer]:
    """A server with an account for each plugin that it has."""
    options = ["bind-address=*" if name == "mysql-5.6" else "bind-address=127.0.0.1,::1"]
    # MySQL 5.6 has no TLS that today's OpenSSL speaks, nor the RSA key of its sha256_password.
    options += [] if name == "mysql-5.6" else certificates.server_options
    plugins = Path()
    if name.startswith("mariadb"):
        from_root = servers.shared(name).query("SELECT @@plugin_dir")[0][0]
        plugins = Path(str(from_root))
        options += ["plugin-load-add=auth_ed25519"] * (plugins / "auth_ed25519.so").exists()
        options += ["plugin-load-add=auth_parsec"] * (plugins / "auth_parsec.so").exists()
        options += ["plugin-load-add=auth_pam_v1"] * (why_no_pam(plugins) is None)
        options += ["pam-use-cleartext-plugin=ON"] * _asks_clearly(name, plugins)
    server = servers.fresh(name, options)
    with contextlib.ExitStack() as stack:
        stack.callback(servers.close_fresh, server)
        accounts = _accounts(server)
        if name.startswith("mariadb") and why_no_pam(plugins) is None:
            service = stack.enter_context(pam_service(plugins.parents[3], directory, PASSWORD))
            plugin = "mysql_clear_password" if _asks_clearly(name, plugins) else "dialog"
            user = _create(server, f"IDENTIFIED VIA pam USING '{service}'")
            accounts.append(Account(f"pam ({plugin})", plugin, user))
        yield LoginServer(
            name,
            server.port,
            str(server.socket),
            certificates.ca,
            name != "mysql-5.6",
            ("zlib", "zstd") if name == "mysql-9.7" else ("zlib",),
            accounts,
        )


def _asks_clearly(name: str, plugins: Path) -> bool:
    """One of the two asks by dialog, the other by mysql_clear_password."""
    return name == "mariadb-11.8" and why_no_pam(plugins) is None


def _create(server: LocalServer, clause: str) -> str:
    user = f"login_{uuid.uuid4().hex[:8]}"
    server.execute(f"CREATE USER '{user}'@'%' {clause}")
    server.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO '{user}'@'%'")
    return user


def _accounts(server: LocalServer) -> list[Account]:
    def account(label: str, clause: str, before: Callable[[], Any] = lambda: None) -> Account:
        plugin = label.partition(",")[0]
        return Account(label, plugin, _create(server, clause), before)

    text = f"'{PASSWORD}'"
    if server.name == "mysql-5.6":
        return [account("mysql_native_password", f"IDENTIFIED BY {text}")]
    if server.flavor == "mysql":
        clause = f"IDENTIFIED WITH caching_sha2_password BY {text}"

        def forget() -> None:
            server.execute("FLUSH PRIVILEGES")

        return [
            account("caching_sha2_password", clause),
            account("caching_sha2_password, cold cache", clause, forget),
            account("sha256_password", f"IDENTIFIED WITH sha256_password BY {text}"),
        ]
    names = {
        str(row[0]) for row in server.query("SELECT plugin_name FROM information_schema.plugins")
    }
    accounts = [
        account(
            "mysql_native_password", f"IDENTIFIED VIA mysql_native_password USING PASSWORD({text})"
        )
    ]
    if "ed25519" in names:
        accounts.append(account("client_ed25519", f"IDENTIFIED VIA ed25519 USING PASSWORD({text})"))
    if "parsec" in names:
        accounts.append(account("parsec", f"IDENTIFIED VIA parsec USING PASSWORD({text})"))
    return accounts
