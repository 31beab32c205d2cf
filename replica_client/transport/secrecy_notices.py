"""Notices about a connection's secrecy: one log line each, once per process."""

from __future__ import annotations

import logging

from replica_client.transport.connect_options import ConnectOptions, TlsMode

_LOG = logging.getLogger("replica_client")

_MAX_REPORTED = 1000

_reported: set[str] = set()


def _tell(text: str) -> None:
    if text in _reported:
        return
    if len(_reported) >= _MAX_REPORTED:
        _reported.clear()
    _reported.add(text)
    _LOG.warning("%s", text)


def forget() -> None:
    """Forget the notices logged so far, so that each is logged again."""
    _reported.clear()


def tell_exposed(options: ConnectOptions, plugin: str, tls: str, fingerprint: str) -> None:
    """Warn that the password itself went to an unverified server.

    Args:
        options: of the connection.
        plugin: the plugin that asked for the password.
        tls: version in use; empty: it went under an RSA key that the server sent.
        fingerprint: of the server's certificate.
    """
    if tls:
        _tell(
            f"{options.address}: {plugin} sent the password inside {tls} to a server whose certificate "
            f"nothing verified; if it is the server's own, put tls_fingerprint={fingerprint} into the "
            "URL (or tls_ca and tls=verify-identity); unverified_password=never refuses this"
        )
    else:
        _tell(
            f"{options.address}: {plugin} sent the password without TLS under an RSA key that the server "
            "sent and nothing verified; give server_public_key, or use TLS"
        )


def tell_negotiated(
    options: ConnectOptions, tls: str, verified_by: str, fingerprint: str, *, exposed: bool
) -> None:
    """Warn when TLS mode ``preferred`` left a remote connection in clear or unverified."""
    if options.is_local or options.tls.mode is not TlsMode.PREFERRED or verified_by or exposed:
        return
    if not tls:
        _tell(
            f"{options.address} offers no TLS: changes travel in clear; tls=required refuses this, "
            "tls=disabled accepts it"
        )
    else:
        _tell(
            f"{options.address}: {tls}, but nothing verified the server's certificate: give tls_ca and "
            f"tls=verify-identity, or tls_fingerprint={fingerprint} if it is the server's own; "
            "tls=required accepts it"
        )
