"""TLS contexts by mode."""

from __future__ import annotations

import ssl

from replica_client.errors import ConfigError, TlsError
from replica_client.transport.connect_options import TlsMode, TlsOptions
from replica_client.wire.auth.certificate_proof import fingerprint_of


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
