"""Where a password can be seen: plugin x TLS mode x certificate, tried on a rogue server.

Used by scripts/proofs/passwords, which prints the table, and by test_passwords.py. The rogue keeps all
that it can read of what the client sends; a cell says whether the password is in it, and whether the
client warned its user.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from replica_client.errors import ReplicaClientError
from replica_client.protocol.wire.auth.server import SERVER_PLUGINS
from replica_client.stream.transport import tls as secrecy_notices
from replica_client.stream.transport.connect_options import parse_url
from replica_client.stream.transport.connection import SourceConnection
from tests.source.rogue import Listener, RogueServer
from tests.source.rogue_certificates import CERTIFICATES, RogueCertificates

PASSWORD = "hünter2 €/@:#%"
MODES = ("disabled", "preferred", "required", "fingerprint", "verify-ca", "verify-identity")
STRIPPED = "no TLS"
"""In place of a certificate: CLIENT_SSL is not in the greeting."""

OPTIONS = (
    "",
    "unverified_password=never",
    "unverified_password=any",
    "allow_public_key_retrieval=1",
)


@dataclass(frozen=True)
class Cell:
    """One login.

    Attributes:
        plugin: that the rogue asked for.
        mode: of TLS.
        certificate: that it showed.
        option: of the URL, beside.
    """

    plugin: str
    mode: str
    certificate: str
    option: str


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        seen: the rogue has the password in clear.
        warned: the client said so.
        error: that the login ended with.
    """

    seen: bool
    warned: bool
    error: str


def cells() -> Iterator[Cell]:
    """All of the table."""
    for option in OPTIONS:
        for plugin in SERVER_PLUGINS:
            for mode in MODES:
                for certificate in (*CERTIFICATES, STRIPPED):
                    yield Cell(plugin, mode, certificate, option)


def may_be_seen(cell: Cell) -> bool:
    """Whether the rogue may get the password: the rules that README gives, in words of their own."""
    if cell.mode == "disabled" or (cell.mode == "preferred" and cell.certificate == STRIPPED):
        asked_for_key = cell.option == "allow_public_key_retrieval=1"
        return asked_for_key and cell.plugin in ("caching_sha2_password", "sha256_password")
    shows_password = cell.plugin in (
        "caching_sha2_password", "sha256_password", "mysql_clear_password", "dialog",
    )  # fmt: skip
    if cell.certificate == STRIPPED or not shows_password:
        return False
    if cell.mode in ("preferred", "required"):
        if cell.option == "unverified_password=any":
            return True
        return cell.option != "unverified_password=never" and cell.plugin == "caching_sha2_password"
    # Whoever asks for verify-ca trusts every certificate of that authority.
    return cell.mode == "verify-ca" and cell.certificate == "wrong name"


def must_warn(cell: Cell) -> bool:
    """Whether the client must say that it gave the password away."""
    return may_be_seen(cell) and cell.mode != "verify-ca"


@contextmanager
def _warnings() -> Iterator[list[str]]:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("replica_client")
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    level = logger.level
    logger.setLevel(logging.WARNING)
    secrecy_notices.forget()
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)


def url_of(port: int, mode: str, option: str, certificates: RogueCertificates) -> str:
    """The client's URL of a server on this machine."""
    if mode == "fingerprint":
        tls = f"tls_fingerprint={certificates.fingerprint}"
    else:
        tls = f"tls={mode}"
        if mode.startswith("verify"):
            tls += f"&tls_ca={quote(str(certificates.ca))}"
    credentials = f"repl:{quote(PASSWORD, safe='')}"
    return f"mysql://{credentials}@127.0.0.1:{port}/?{tls}&connect_timeout=30&{option}"


async def log_in(url: str, listener: Listener) -> Outcome:
    """Log in, and look for the password in what a listener saw once it has ended."""
    error = ""
    with _warnings() as lines:
        async with listener:
            try:
                await (await SourceConnection.open(parse_url(url, {}))).close()
            except ReplicaClientError as caught:
                error = type(caught).__name__
                lines.append(str(caught))
    assert PASSWORD not in "\n".join(lines)
    warned = any("sent the password" in line for line in lines)
    return Outcome(PASSWORD.encode() in listener.seen, warned, error)


async def try_cell(cell: Cell, certificates: RogueCertificates) -> Outcome:
    """One login at a rogue server.

    Raises:
        AssertionError: the password was seen where it may not be, or without a warning, or the rogue
            was never asked.
    """
    context = certificates.contexts.get(cell.certificate)
    rogue = RogueServer(cell.plugin, context)
    outcome = await log_in(url_of(rogue.port, cell.mode, cell.option, certificates), rogue)
    assert rogue.greeted, cell
    assert outcome.seen == may_be_seen(cell), (cell, outcome)
    assert outcome.warned == must_warn(cell), (cell, outcome)
    assert outcome.error, cell
    return outcome


def table(outcomes: dict[Cell, Outcome]) -> list[str]:
    """Lines: for each option and plugin what each mode gives away, by certificate."""
    lines = []
    for option in dict.fromkeys(cell.option for cell in outcomes):
        lines.append(f"{option or 'defaults'}:")
        for plugin in dict.fromkeys(cell.plugin for cell in outcomes):
            parts = []
            for mode in dict.fromkeys(cell.mode for cell in outcomes):
                found = {
                    cell: outcome
                    for cell, outcome in outcomes.items()
                    if (cell.option, cell.plugin, cell.mode) == (option, plugin, mode)
                }
                clear = [
                    f"{cell.certificate}{'' if must_warn(cell) else ' (its CA is trusted)'}"
                    for cell, outcome in found.items()
                    if outcome.seen
                ]
                if clear:
                    parts.append(f"{mode}: SEEN with {', '.join(clear)}")
            lines.append(f"  {plugin:22} {'; '.join(parts) or 'never seen'}")
    return lines
