"""Where a rogue server sees the password; scripts/proofs/passwords tries the whole table."""

from __future__ import annotations

import pytest

from replica_client.protocol.wire.auth.server import SERVER_PLUGINS
from replica_client.stream.transport import tls as secrecy_notices
from replica_client.stream.transport.connect_options import ConnectOptions, TlsMode, TlsOptions
from tests.source import password_exposure as exposure
from tests.source.rogue import RogueServer
from tests.source.rogue_certificates import RogueCertificates, rogue_certificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> RogueCertificates:
    return rogue_certificates(tmp_path_factory.mktemp("rogue"))


@pytest.mark.parametrize("plugin", SERVER_PLUGINS)
async def test_defaults(certificates, plugin) -> None:
    seen = set()
    for cell in exposure.cells():
        if cell.plugin == plugin and not cell.option:
            outcome = await exposure.try_cell(cell, certificates)
            if outcome.seen and outcome.warned:
                seen.add(cell.mode)
    wanted = {"preferred", "required"} if plugin == "caching_sha2_password" else set()
    assert seen == wanted


@pytest.mark.parametrize("option", exposure.OPTIONS[1:])
@pytest.mark.parametrize("plugin", ["caching_sha2_password", "sha256_password", "dialog"])
async def test_options(certificates, plugin, option) -> None:
    for mode in ("disabled", "preferred"):
        for certificate in ("self-signed", exposure.STRIPPED):
            cell = exposure.Cell(plugin, mode, certificate, option)
            await exposure.try_cell(cell, certificates)


@pytest.mark.parametrize("first", SERVER_PLUGINS)
async def test_one_plugin_after_another(certificates, first) -> None:
    """What one plugin refused, the next one does not give, either."""
    others = tuple(plugin for plugin in SERVER_PLUGINS if plugin != first)
    for context in (certificates.contexts["self-signed"], None):
        rogue = RogueServer(first, context, others)
        option = "unverified_password=never"
        url = exposure.url_of(rogue.port, "preferred", option, certificates)
        outcome = await exposure.log_in(url, rogue)
        assert rogue.asked >= 1
        assert not outcome.seen


def test_what_was_negotiated_is_said_once_and_only_of_other_machines(caplog) -> None:
    secrecy_notices.forget()

    def lines(host: str, mode: TlsMode, tls: str, verified_by: str = "") -> list[str]:
        caplog.clear()
        for _ in range(3):
            secrecy_notices.tell_negotiated(
                ConnectOptions(host=host, tls=TlsOptions(mode)),
                tls,
                verified_by,
                "sha256:ab" if tls else "",
                exposed=False,
            )
        return [record.getMessage() for record in caplog.records]

    for host in ("127.0.0.1", "127.9.9.9", "localhost", "::1"):
        assert lines(host, TlsMode.PREFERRED, "") == []
    [line] = lines("db1", TlsMode.PREFERRED, "")
    assert "offers no TLS" in line
    [line] = lines("127.evil.example", TlsMode.PREFERRED, "TLSv1.3")
    assert "tls_fingerprint=sha256:ab" in line
    assert lines("db2", TlsMode.PREFERRED, "TLSv1.3", "the account's password") == []
    assert lines("db2", TlsMode.REQUIRED, "TLSv1.3") == []
    assert lines("db2", TlsMode.DISABLED, "") == []
