"""TLS: contexts by mode, its start on an open stream, and notices about secrecy."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

from replica_client.errors import ConfigError, TlsError
from replica_client.protocol.wire.auth.plugin import fingerprint_of
from replica_client.stream.transport.connect_options import ConnectOptions, TlsMode, TlsOptions


def client_context(options: TlsOptions) -> ssl.SSLContext | None:
    """Build the TLS context for a connection; None when TLS is disabled.

    Raises:
        ConfigError: a certificate or key file cannot be used; the message names it.
    """
    if options.mode is TlsMode.DISABLED:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.mode is TlsMode.VERIFY_IDENTITY
    context.verify_mode = ssl.CERT_REQUIRED if options.verifies_chain else ssl.CERT_NONE
    if options.ca is not None:
        try:
            context.load_verify_locations(cafile=options.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls_ca {options.ca}: {_reason(error)}") from None
    elif options.verifies_chain:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if options.cert is not None:
        try:
            context.load_cert_chain(
                options.cert, options.key, password=lambda: options.key_password or ""
            )
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls_cert {options.cert}: {_reason(error)}") from None
    return context


def accepted_certificate(tls: ssl.SSLObject, options: TlsOptions) -> bytes:
    """Check the fingerprint of the server's certificate and return the certificate (DER).

    Raises:
        TlsError: it is not the one that the options ask for.
    """
    certificate = tls.getpeercert(binary_form=True) or b""
    found = fingerprint_of(certificate)
    if options.fingerprint is not None and found not in options.fingerprint.split(","):
        raise TlsError(
            f"the server's certificate has the fingerprint {found}, not that of tls_fingerprint: it was "
            "replaced, or somebody stands between us and the server; ask who runs it"
        )
    return certificate


def _reason(error: OSError) -> str:
    return error.strerror or getattr(error, "reason", "") or "not a PEM file"


def tls_failure(error: BaseException, options: TlsOptions) -> str:
    """Return one line that says why TLS failed and what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message
        if "mismatch" in detail.lower() or "not valid for" in detail.lower():
            return f"the server's certificate is for another name ({detail}); use tls=verify-ca to skip it"
        return f"the server's certificate was refused ({detail}); give its CA with tls_ca"
    if isinstance(error, ssl.SSLError):
        if error.reason in (
            "UNSUPPORTED_PROTOCOL",
            "WRONG_SSL_VERSION",
            "TLSV1_ALERT_PROTOCOL_VERSION",
            "WRONG_VERSION_NUMBER",  # of the record: yaSSL of MySQL 5.6
        ):
            return (
                "the server's TLS is older than 1.2, which is not secure any more; upgrade the server, "
                "or use tls=disabled where nobody can listen"
            )
        reason = (error.reason or "handshake failed").replace("_", " ").lower()
        return f"TLS handshake failed ({reason})"
    return f"TLS handshake failed ({type(error).__name__})"


async def start_tls(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    context: ssl.SSLContext,
    server_hostname: str | None = None,
) -> asyncio.Transport:
    """Put TLS between a stream and its socket, and return the stream's new transport.

    Args:
        reader: of the stream.
        writer: of the stream.
        context: certificates, and the requirements for the peer.
        server_hostname: the server's name, on the client's side.

    Raises:
        ssl.SSLError: the peer does not meet the context's requirements.
        ConnectionResetError: the peer left.
    """
    plain = writer.transport
    ends: Any = (reader, writer)
    try:
        await writer.start_tls(context, server_hostname=server_hostname)
    except AttributeError:
        if writer.transport is not None:
            raise
    secure: Any = writer.transport
    if secure is None:
        # The transport is None if the connection is lost in the loop iteration that ends the
        # handshake.
        for end in ends:
            end._transport = plain
        raise ConnectionResetError("the connection was lost as TLS began")
    ends[0]._transport = secure  # Python 3.11 keeps the old transport there
    transport: asyncio.Transport = secure
    return transport


async def start_tls_late(
    stream_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
) -> None:
    """Start TLS on a server's side, although the client's first TLS bytes were already read.

    Raises:
        ConnectionError: the client sent something else.
    """
    buffered: Any = stream_reader
    transport: Any = writer.transport
    transport.pause_reading()
    early = bytes(buffered._buffer)
    buffered._buffer.clear()
    plain = transport.get_protocol()
    starting = asyncio.create_task(start_tls(stream_reader, writer, context))
    try:
        while early and not starting.done():
            await asyncio.sleep(0)
            tls = transport.get_protocol()
            if tls is not plain and tls._transport is not None:
                view = tls.get_buffer(len(early))
                view[: len(early)] = early
                tls.buffer_updated(len(early))
                break
        await starting
    except OSError as error:
        raise ConnectionError(str(error)) from error
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)


_LOG = logging.getLogger("replica_client.stream")

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
