"""Values of the configuration that are kept in the environment or in a file.

``${NAME}`` is a variable of the environment, ``${NAME:-text}`` one with a default. As a part of a URL
it is percent-encoded (but : and ,), so that a password may hold any sign; as the whole value it is taken as it is.
``file:/run/secrets/password``, as the whole value of a password or URL, is what that file holds,
without the line's end.

``REPLICA_CLIENT__DAEMON__LISTEN=0.0.0.0:9190`` sets ``listen`` in ``[daemon]``;
``REPLICA_CLIENT__SOURCE__SHOP__URL=…`` sets ``url`` of the source named ``shop``, and
``REPLICA_CLIENT__SOURCE__SHOP__SINK__LAKE__BATCH_ROWS=500`` a key of its sink named ``lake``. Names
are written in capitals, with ``_`` for characters that a variable's name cannot have. A value that
is TOML (``500``, ``true``, ``["shop.*"]``) is parsed, any other is text.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from replica_client.errors import ConfigError, install_command
from replica_client.service.configuration import DaemonConfig

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_MAX_FILE_SIZE = 1 << 20
SECRET_KEYS = ("password", "url", "key", "control_token")
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


PREFIX: Final = "REPLICA_CLIENT__"
_ARRAYS = {"SOURCE": "source", "SINK": "sink"}


def override(document: dict[str, Any], environment: Mapping[str, str]) -> None:
    """Apply the environment's values to a parsed configuration.

    Raises:
        ConfigError: a variable names a source or sink that does not exist.
    """
    for variable, text in sorted(environment.items()):
        if variable.startswith(PREFIX):
            _set(document, variable, variable.removeprefix(PREFIX).split("__"), _value(text))


def _set(table: dict[str, Any], variable: str, parts: list[str], value: Any) -> None:
    head, *rest = parts
    if not rest:
        table[head.lower()] = value
    elif head in _ARRAYS and len(rest) > 1:
        _set(_member(table, variable, _ARRAYS[head], rest[0]), variable, rest[1:], value)
    else:
        inner = table.setdefault(head.lower(), {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{variable}: {head.lower()} is not a table")
        _set(inner, variable, rest, value)


def _member(table: dict[str, Any], variable: str, key: str, name: str) -> dict[str, Any]:
    members = table.get(key, [])
    for member in members if isinstance(members, list) else []:
        if isinstance(member, dict):
            own = str(member.get("name", member.get("type", "")))
            if re.sub(r"[^A-Z0-9]", "_", own.upper()) == name:
                return member
    raise ConfigError(f"{variable}: there is no {key} whose name is {name!r} in capitals")


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def otlp_endpoint(config: DaemonConfig) -> str:
    """Return the URL of the collector.

    Raises:
        ConfigError: the URL is malformed, or the extra is not installed.
    """
    text = resolve("otlp", config.daemon.otlp, config.directory, os.environ)
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("otlp must be a URL, such as http://collector:4318")
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        raise ConfigError(f"otlp: OpenTelemetry is not installed: {install_command('otlp')}")
    return text
