"""TLS contexts that trust the authorities of a given file."""

from __future__ import annotations

import ssl

from replica_client.errors import ConfigError


def trusting(ca: str, what: str) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in a file.

    Args:
        ca: path of the PEM file.
        what: name of the option, for error messages.

    Raises:
        ConfigError: the file cannot be read, or has no certificates; the message names the option.
    """
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"{what}: {ca}: {error.strerror or error}") from None
