"""Secrets of the source's options, read from files and environment variables of the driver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from replica_client.errors import ConfigError


def secret_of(given: Mapping[str, str], variable: str, file: str) -> str | None:
    """Read a secret from an environment variable or a file of the driver; None if none is named.

    Raises:
        ConfigError: both are named, or the named one does not exist.
    """
    if variable in given and file in given:
        raise ConfigError(f"give one of the options {variable}, {file}")
    if variable in given:
        secret = os.environ.get(given[variable])
        if secret is None:
            raise ConfigError(
                f"option {variable}: the driver has no environment variable {given[variable]}"
            )
        return secret
    if file in given:
        return bytes_of_file(given[file], file).decode("utf-8", "surrogateescape").rstrip("\r\n")
    return None


def bytes_of_file(path: str, option: str) -> bytes:
    """Read a file of the driver.

    Raises:
        ConfigError: the file cannot be read; the message names the option.
    """
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"option {option}: {path}: {error.strerror or error}") from None
