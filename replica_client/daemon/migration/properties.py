"""Java properties and JSON of connectors, read as texts by key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from replica_client.errors import ConfigError

_MAX_BYTES: Final = 16 << 20
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_END: Final = re.compile(r"(?<!\\)(?:\\\\)*([=: \t\f])")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def read_bounded(path: Path) -> bytes:
    """Read a file of limited size.

    Raises:
        ConfigError: the file is too large to be a configuration.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{path}: more than {_MAX_BYTES >> 20} MiB; this is no configuration")
    return data


def read_properties(path: Path) -> dict[str, str]:
    """Read a properties file, or a connector's JSON (flat, or below ``config``).

    Raises:
        ConfigError: it is neither; the message says where, and shows no value.
        OSError: the file cannot be read.
    """
    try:
        text = read_bounded(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: this is not UTF-8 text") from None
    if not text.lstrip().startswith("{"):
        return dict(_lines(text))
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "it"
        raise ConfigError(f"{path}: {where}: this is not JSON") from None
    if isinstance(found, Mapping) and isinstance(found.get("config"), Mapping):
        found = {"name": found.get("name", ""), **found["config"]}
    made = {}
    for key, value in found.items():
        if isinstance(value, Mapping | list):
            raise ConfigError(f"{path}: {key}: a connector's keys have texts, not tables")
        made[key] = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return made


def _lines(text: str) -> Iterator[tuple[str, str]]:
    for line in _logical(text):
        found = _KEY_END.search(line)
        if found is None:
            yield _plain(line), ""
            continue
        key, rest = line[: found.start(1)], line[found.start(1) :].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        yield _plain(key), _plain(rest)


def _logical(text: str) -> Iterator[str]:
    """Yield lines without comments; join a line that ends in a backslash with the next."""
    whole = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not whole and (not line or line[0] in "#!"):
            continue
        whole += line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            whole = whole[:-1]
            continue
        yield whole
        whole = ""
    if whole:
        yield whole


def _plain(text: str) -> str:
    def value(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(value, text)
