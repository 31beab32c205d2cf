"""Whose certificates a sink trusts."""

from __future__ import annotations

import ssl

from replica_client.errors import ConfigError


def trusting(ca: str, what: str) -> ssl.SSLContext:
    """TLS that trusts the authorities of a file.

    Args:
        ca: the file, PEM.
        what: the option, for messages.

    Raises:
        ConfigError: the file cannot be read, or has no certificates; names the option.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"{what}: {ca}: {error.strerror or error}") from None
