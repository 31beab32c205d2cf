"""Passwords and certificates on real servers, with somebody in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_client.errors import UnexpectedPacketError
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.integration.login_certificates import make_certificates
from tests.source import password_exposure as exposure
from tests.source.rogue import Between
from tests.source.rogue_certificates import RogueCertificates, rogue_certificates

PROVING = {
    "mysql_native_password": "mysql_native_password",
    "ed25519": "client_ed25519",
    "parsec": "parsec",
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> RogueCertificates:
    return rogue_certificates(tmp_path_factory.mktemp("rogue"))


def proving_server(fresh_server, options: list[str]):
    server = fresh_server(
        "mariadb-11.8", [*options, "plugin-load-add=auth_ed25519", "plugin-load-add=auth_parsec"]
    )
    for plugin in PROVING:
        server.execute(
            f"CREATE USER u_{plugin}@'%' IDENTIFIED VIA {plugin} USING PASSWORD('{exposure.PASSWORD}')"
        )
    return server


def url_of(user: str, port: int, mode: str, certificates: RogueCertificates) -> str:
    return exposure.url_of(port, mode, "", certificates).replace("//repl:", f"//{user}:")


@pytest.mark.integration
async def test_mariadb_proves_its_own_certificate(fresh_server, certificates) -> None:
    server = proving_server(fresh_server, [])
    for plugin, used in PROVING.items():
        for mode in ("preferred", "required"):
            url = url_of(f"u_{plugin}", server.port, mode, certificates)
            async with await SourceConnection.open(parse_url(url, {})) as connection:
                found = connection.server
                assert (found.auth_plugin, found.verified_by) == (used, "the account's password")
            between = Between(server.port, certificates.contexts["self-signed"])
            url = url_of(f"u_{plugin}", between.port, mode, certificates)
            outcome = await exposure.log_in(url, between)
            assert outcome == exposure.Outcome(seen=False, warned=False, error="TlsError")
            assert between.seen
        # The fingerprint is told before anything of the login is sent.
        right = f"mysql://u_{plugin}:x@127.0.0.1:{server.port}/?tls_fingerprint={found.fingerprint}"
        between = Between(server.port, certificates.contexts["self-signed"])
        outcome = await exposure.log_in(right.replace(str(server.port), str(between.port)), between)
        assert outcome.error == "TlsError"
        assert f"u_{plugin}".encode() not in between.seen


@pytest.mark.integration
async def test_what_a_certificate_is_verified_by(
    fresh_server, tmp_path: Path, certificates
) -> None:
    made = make_certificates(tmp_path)
    server = proving_server(fresh_server, made.server_options)
    url = url_of("u_parsec", server.port, "required", certificates)
    async with await SourceConnection.open(parse_url(url, {})) as connection:
        assert connection.server.verified_by == "the account's password"
        fingerprint = connection.server.fingerprint
    for option, proof in (
        (f"tls_fingerprint={fingerprint}", "its fingerprint"),
        (f"tls_fingerprint=sha256:{'00' * 32},{fingerprint.upper()}", "its fingerprint"),
        (f"tls=verify-identity&tls_ca={made.ca}", "its chain and name"),
        (f"tls=verify-ca&tls_ca={made.ca}", "its chain"),
    ):
        one = url.replace("tls=required", option)
        async with await SourceConnection.open(parse_url(one, {})) as connection:
            assert connection.server.verified_by == proof


@pytest.mark.integration
@pytest.mark.parametrize("cold", [True, False])
async def test_mysql_with_somebody_in_between(fresh_server, certificates, cold) -> None:
    server = fresh_server("mysql-9.7")
    server.execute(
        f"CREATE USER repl2@'%' IDENTIFIED WITH caching_sha2_password BY '{exposure.PASSWORD}'"
    )
    direct = url_of("repl2", server.port, "required", certificates)

    async def prepare() -> None:
        if cold:
            server.execute("FLUSH PRIVILEGES")
        else:
            await (await SourceConnection.open(parse_url(direct, {}))).close()

    await prepare()
    between = Between(server.port, certificates.contexts["self-signed"])
    outcome = await exposure.log_in(
        url_of("repl2", between.port, "preferred", certificates), between
    )
    assert outcome == exposure.Outcome(seen=cold, warned=cold, error="")

    await prepare()
    between = Between(server.port, None)
    url = url_of("repl2", between.port, "preferred", certificates)
    outcome = await exposure.log_in(url, between)
    error = UnexpectedPacketError.__name__ if cold else ""
    assert outcome == exposure.Outcome(seen=False, warned=False, error=error)
    for mode in ("required", "fingerprint", "verify-ca", "verify-identity"):
        between = Between(server.port, None)
        outcome = await exposure.log_in(url_of("repl2", between.port, mode, certificates), between)
        assert outcome == exposure.Outcome(seen=False, warned=False, error="TlsError")
        assert not between.seen
