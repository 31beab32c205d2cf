"""Keys of the configuration that the environment overrides.

``REPLICA_CLIENT__DAEMON__LISTEN=0.0.0.0:9190`` sets ``listen`` in ``[daemon]``;
``REPLICA_CLIENT__SOURCE__SHOP__URL=…`` sets ``url`` of the source named ``shop``, and
``REPLICA_CLIENT__SOURCE__SHOP__SINK__LAKE__BATCH_ROWS=500`` a key of its sink named ``lake``. Names
are written in capitals, with ``_`` for characters that a variable's name cannot have. A value that
is TOML (``500``, ``true``, ``["shop.*"]``) is parsed, any other is text.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from replica_client.errors import ConfigError

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
            raise ConfigError(f"{variable}: {head.lower()} is no table")
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
