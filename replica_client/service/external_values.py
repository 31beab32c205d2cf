"""Values of the configuration that are kept in the environment or in a file.

``${NAME}`` is a variable of the environment, ``${NAME:-text}`` one with a default. As a part of a URL
it is percent-encoded (but : and ,), so that a password may hold any sign; as the whole value it is taken as it is.
``file:/run/secrets/password``, as the whole value of a password or URL, is what that file holds,
without the line's end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from replica_client.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_MAX_FILE_SIZE = 1 << 20
SECRET_KEYS = ("password", "url", "key")
"""Names of keys whose value may be ``file:…``."""


def resolve(key: str, text: str, directory: Path, environment: Mapping[str, str]) -> str:
    """Return the value of a text of the configuration, with its references replaced.

    Args:
        key: its key.
        text: as it is written.
        directory: of the configuration file; a relative path is relative to it.
        environment: the variables.

    Raises:
        ConfigError: a variable is not set, or a file cannot be read.
    """
    if key in SECRET_KEYS and text.startswith("file:"):
        return _from_file(key, directory / Path(text.removeprefix("file:")).expanduser())

    def value(match: re.Match[str]) -> str:
        found = environment.get(match[1], match[2])
        if found is None:
            raise ConfigError(f"{key}: the environment variable {match[1]} is not set")
        return quote(found, safe=":,") if "://" in text and match[0] != text else found

    return _VARIABLE.sub(value, text)


def resolved(values: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Return a table with all texts resolved, those of nested lists and tables too."""
    return {key: _any(key, value, directory) for key, value in values.items()}


def _any(key: str, value: Any, directory: Path) -> Any:
    if isinstance(value, str):
        return resolve(key, value, directory, os.environ)
    if isinstance(value, list):
        return [_any(key, item, directory) for item in value]
    if isinstance(value, dict):
        return resolved(value, directory)
    return value


def _from_file(key: str, path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_FILE_SIZE + 1)
    except OSError as error:
        raise ConfigError(f"{key}: {path}: {error.strerror}") from None
    if len(data) > _MAX_FILE_SIZE:
        raise ConfigError(f"{key}: {path} is larger than 1 MiB: that is no {key}")
    try:
        return data.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigError(f"{key}: {path} is not UTF-8 text") from None
