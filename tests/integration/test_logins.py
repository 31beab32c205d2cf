"""Every authentication plugin x transport x compression; scripts/proofs/logins prints the table."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives import serialization

import replica_client as rc
from replica_client.archive.backup.engine import Backup
from replica_client.errors import AccessDeniedError, ConfigError, TlsError, UnexpectedPacketError
from replica_client.server.accounts import rsa_key
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from replica_client.testing import BinlogSource
from tests.integration import logins
from tests.integration.login_certificates import (
    CLIENT_NAME,
    KEY_PASSWORD,
    Certificates,
    make_certificates,
)
from tests.servers.local import NAMES, LocalServer, ServerUnavailableError
from tests.servers.plugin import unavailable

FILE = Path(rc.__file__).parent / "testing" / "data" / "shop-bin.000001"
MODERN = ("mysql-9.7", "mariadb-10.11", "mariadb-11.8")
# Of each server at least; PAM, which only root can set up, is not among them.
PLUGINS = {
    "mysql-9.7": {"caching_sha2_password", "sha256_password"},
    "mysql-5.6": {"mysql_native_password"},
    "mariadb-10.11": {"mysql_native_password", "client_ed25519"},
    "mariadb-11.8": {"mysql_native_password", "client_ed25519", "parsec"},
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.mark.integration
@pytest.mark.parametrize("name", NAMES)
def test_real_servers(local_servers, tmp_path, certificates, name) -> None:
    tally = logins.Tally()
    try:
        with logins.real_server(local_servers, name, tmp_path, certificates) as login_server:
            asyncio.run(logins.run(login_server, tally))
    except ServerUnavailableError as error:
        unavailable(error)
    assert PLUGINS[name] <= {account.plugin for account in login_server.accounts}
    cells = len(login_server.accounts) * len(logins.TRANSPORTS) * len(logins.COMPRESSIONS)
    assert sum(tally.count().values()) == cells
    assert tally.count()["logged in"] >= cells // 3
    assert tally.wrong_passwords >= len(login_server.accounts) * 4


@pytest.mark.parametrize(("plugin", "cold"), logins.TESTING_PLUGINS)
async def test_testing_source(tmp_path, certificates, plugin, cold) -> None:
    tally = logins.Tally()
    async with logins.testing_server(FILE, tmp_path, certificates, plugin, cold) as login_server:
        await logins.run(login_server, tally)
    assert sum(tally.count().values()) == len(logins.TRANSPORTS) * len(logins.COMPRESSIONS)
    # Over TLS that nothing verified, those that show the password are refused.
    assert tally.count()["logged in"] >= (9 if plugin in logins.NEEDS_PROOF else 18)


# Client certificates.


@pytest.fixture
def certified(fresh_server: Any, certificates: Certificates) -> Iterator[Any]:
    """A server with our certificates, and an account for each clause of REQUIRE."""

    def start(name: str) -> LocalServer:
        server: LocalServer = fresh_server(name, certificates.server_options)
        for user, clause in (
            ("any", "X509"),
            ("one", f"SUBJECT '/CN={CLIENT_NAME}' AND ISSUER '/CN=ca'"),
            ("other", "SUBJECT '/CN=somebody else'"),
            ("tls", "SSL"),
        ):
            server.execute(f"CREATE USER {user}@'%' IDENTIFIED BY 'secret' REQUIRE {clause}")
            server.execute(f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}@'%'")
        return server

    yield start


async def log_in(url: str) -> None:
    async with await SourceConnection.open(parse_url(url)) as connection:
        assert await connection.binary_logs()


@pytest.mark.integration
@pytest.mark.parametrize("name", MODERN)
async def test_client_certificates(certified, certificates, name) -> None:
    server = certified(name)
    url = f"mysql://USER:secret@127.0.0.1:{server.port}/?tls=verify-ca&tls_ca={certificates.ca}"
    ours = f"{url}&tls_cert={certificates.client_cert}&tls_key={certificates.client_key}"
    for user in ("any", "one", "tls"):
        await log_in(ours.replace("USER", user))
    with pytest.raises(AccessDeniedError):
        await log_in(ours.replace("USER", "other"))
    for user in ("any", "one"):
        with pytest.raises(AccessDeniedError, match=r"client certificate \(tls_cert, tls_key\)"):
            await log_in(url.replace("USER", user))
    await log_in(url.replace("USER", "tls"))
    plain = f"mysql://tls:secret@127.0.0.1:{server.port}/?tls=disabled&allow_public_key_retrieval=1"
    with pytest.raises(AccessDeniedError, match=r"require TLS \(tls=required\)"):
        await log_in(plain)

    locked = f"{url}&tls_cert={certificates.client_cert}&tls_key={certificates.locked_key}"
    locked = locked.replace("USER", "one")
    await log_in(f"{locked}&tls_key_password={quote(KEY_PASSWORD)}")
    with pytest.raises(ConfigError, match="tls_cert") as caught:
        await log_in(f"{locked}&tls_key_password=nonsense")
    assert "nonsense" not in str(caught.value)
    with pytest.raises(TlsError, match="tls_ca"):
        await log_in(url.replace("USER", "tls").replace("/ca.pem", "/other-ca.pem"))

    # A whole stream, with everything that it looks up beside its dump.
    options = parse_url(ours.replace("USER", "one"))
    server.execute("CREATE DATABASE certified")
    server.execute("CREATE TABLE certified.t (id INT PRIMARY KEY)")
    server.execute("INSERT INTO certified.t VALUES (1), (2)")
    async with rc.connect(
        options, start="earliest", stop_at_end=True, tables="certified.t"
    ) as stream:
        assert [change.after[0] async for change in stream.changes()] == [1, 2]
    assert "secret" not in repr(options)


@pytest.mark.integration
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password"])
async def test_the_servers_public_key_beforehand(fresh_server, tmp_path, plugin) -> None:
    """Without TLS nobody can put another key in its place, and none is asked for."""
    server = fresh_server("mysql-9.7")
    clause = f"IDENTIFIED WITH {plugin} BY 'secret'"
    server.execute(f"CREATE USER keyed@'%' {clause}")
    server.execute("GRANT REPLICATION CLIENT ON *.* TO keyed@'%'")
    url = f"mysql://keyed:secret@127.0.0.1:{server.port}/?tls=disabled"
    with pytest.raises(UnexpectedPacketError, match=f"{plugin}.*server_public_key"):
        await log_in(url)
    await log_in(f"{url}&server_public_key={server.datadir / 'public_key.pem'}")
    server.execute("FLUSH PRIVILEGES")  # a cold cache
    other = tmp_path / "other.pem"
    other.write_bytes(
        rsa_key()
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(AccessDeniedError):
        await log_in(f"{url}&server_public_key={other}")


@pytest.mark.integration
async def test_credentials_that_are_not_in_the_url(fresh_server, tmp_path, monkeypatch) -> None:
    server = fresh_server("mariadb-11.8")
    server.execute("CREATE USER other@'%' IDENTIFIED BY 'it''s # \"quoted\"'")
    server.execute("GRANT REPLICATION CLIENT, BINLOG MONITOR ON *.* TO other@'%'")
    file = tmp_path / ".my.cnf"
    file.write_text(
        "[mysqld]\nuser=mysql\n[client]\nuser = other\npassword='it\\'s # \"quoted\"'\n"
        f"socket={server.socket}\n[replica_client]\nssl-mode=REQUIRED\n"
    )
    file.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    await log_in("mysql:///?option_file=~/.my.cnf")
    monkeypatch.setenv("REPLICA_CLIENT_PASSWORD", server.password)
    url = f"mysql://{server.user}@127.0.0.1:{server.port}/"
    await log_in(url)
    monkeypatch.setenv("REPLICA_CLIENT_PASSWORD", "nonsense")
    with pytest.raises(AccessDeniedError) as caught:
        await log_in(url)
    assert "nonsense" not in str(caught.value)

    asked: list[int] = []

    async def provider() -> str:
        asked.append(len(asked))
        return str(server.password)

    options = replace(parse_url(url), password_provider=provider)
    async with rc.connect(options, start="earliest", stop_at_end=True) as stream:
        async for _ in stream.events():
            pass
    assert asked
    assert server.password not in repr(options) + repr(stream)


async def test_a_source_that_wants_a_client_certificate(tmp_path, certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_cert, certificates.server_key)
    context.load_verify_locations(certificates.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    async with BinlogSource(FILE, tls=context) as source:
        options = parse_url(f"{source.url}?tls=verify-identity&tls_ca={certificates.ca}")
        tls = replace(
            options.tls, cert=str(certificates.client_cert), key=str(certificates.client_key)
        )
        async with await SourceConnection.open(replace(options, tls=tls)) as connection:
            assert connection.server.tls == "TLSv1.3"
        with pytest.raises(rc.TransportError):
            await SourceConnection.open(options)


@pytest.mark.integration
async def test_tls_of_before_2008_is_refused_with_a_remedy(fresh_server, certificates) -> None:
    # yaSSL: TLS 1.1 at best. pymysql, which the fixture uses, could not log in with TLS either.
    server = fresh_server("mysql-5.6", certificates.server_options)
    url = f"mysql://{server.user}:{server.password}@127.0.0.1:{server.port}/"
    with pytest.raises(TlsError, match=r"older than 1\.2.*tls=disabled"):
        await log_in(url)
    await log_in(f"{url}?tls=disabled")


@pytest.mark.parametrize("how", ["stream", "backup"])
async def test_another_certificate_ends_a_running_reader(fresh_server, tmp_path, how: str) -> None:
    """It is no loss of the connection that another try mends. (MariaDB makes a certificate at each start.)"""
    server = fresh_server("mariadb-11.8")
    async with await SourceConnection.open(parse_url(server.url())) as connection:
        url = f"{server.url()}?tls_fingerprint={connection.server.fingerprint}"

    async def read() -> None:
        if how == "backup":
            await Backup(url, tmp_path / "copy").run()
        async with rc.connect(url, start="latest") as stream:
            running.set()
            async for _ in stream.transactions():
                pass

    running = asyncio.Event()
    task = asyncio.ensure_future(read())
    if how == "stream":
        await running.wait()
    else:
        async with asyncio.timeout(30):
            while not list((tmp_path / "copy").glob("*.0*")):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    await asyncio.to_thread(server.restart)
    with pytest.raises(TlsError, match="not that of tls_fingerprint"):
        async with asyncio.timeout(20):
            await task
