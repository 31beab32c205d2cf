"""Secrets and transforms in options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from replica_client.errors import ConfigError
from replica_client.stream.transforms.transformer import Transformer


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


def transforms_of(given: Mapping[str, str]) -> str:
    """Return the transforms with their key, as JSON.

    Raises:
        ConfigError: they are wrong, or cannot be combined with another option.
    """
    key = secret_of(given, "transformKeyEnv", "transformKeyFile")
    text = given.get("transform")
    if text is None:
        if key is not None:
            raise ConfigError("option transformKeyFile or transformKeyEnv is for transform")
        return ""
    # Transforms name columns and tables of the source; these options name the transformed ones.
    if wrong := [name for name in ("columns", "filterPushdown") if name in given]:
        raise ConfigError(f"option {wrong[0]} does not go with transform, which says what is given")
    try:
        tables = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"option transform is a JSON list of objects: {error}") from None
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise ConfigError("option transform is a JSON list of objects")
    if any("key" in one for one in tables):
        raise ConfigError(
            "option transform: key: Spark shows options to people; give transformKeyFile or transformKeyEnv"
        )
    if key is not None:
        tables = [{**one, "key": key} for one in tables]
    found = Transformer.of(tables)
    if found is not None and found.has_outbox:
        raise ConfigError("option transform: outbox makes messages for sinks; Spark gets rows")
    return json.dumps(tables) if tables else ""
