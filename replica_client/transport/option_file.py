"""Credentials from MySQL option files (``~/.my.cnf``) and from the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from replica_client.errors import ConfigError

DEFAULT_GROUPS = ("client", "replica_client")
"""Groups that are read; later groups override earlier ones."""

_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\", "'": "'", '"': '"'}

# Options that MySQL's [client] group and a source's URL have in common.
_KNOWN = frozenset(
    ("user", "password", "host", "port", "socket", "database")
    + ("ssl_mode", "ssl_ca", "ssl_cert", "ssl_key", "tls", "tls_ca", "tls_cert", "tls_key")
    + ("tls_fingerprint", "unverified_password")
    + ("tls_key_password", "compression")
    + ("connect_timeout", "read_timeout", "server_public_key", "allow_public_key_retrieval")
)


def _value(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    else:
        text = text.partition(" #")[0].rstrip()
    out = []
    characters = iter(text)
    for character in characters:
        if character == "\\":
            following = next(characters, "")
            out.append(_ESCAPES.get(following, "\\" + following))
        else:
            out.append(character)
    return "".join(out)


def parse_option_file(text: str, groups: Sequence[str] = DEFAULT_GROUPS) -> dict[str, str]:
    """Parse the text of an option file and return the options of some groups.

    Names have underscores; other groups are ignored. Comments, blank lines, quotes, MySQL's
    escapes, and ``name`` without value are understood; ``!include`` lines are not followed.
    """
    found: dict[str, dict[str, str]] = {group: {} for group in groups}
    group = ""
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;!":
            continue
        if line.startswith("["):
            group = line[1:].partition("]")[0].strip()
            continue
        name, _, value = line.partition("=")
        key = name.strip().lower().replace("-", "_").removeprefix("loose_")
        if group in found and key in _KNOWN:
            found[group][key] = _value(value)
    merged: dict[str, str] = {}
    for one in groups:
        merged |= found[one]
    return merged


def read_option_file(path: str, groups: Sequence[str] = DEFAULT_GROUPS) -> dict[str, str]:
    """Read the options of an option file; ``~`` means the home directory.

    Raises:
        ConfigError: it cannot be read, or everybody may write it.
    """
    file = Path(path).expanduser()
    try:
        mode = file.stat().st_mode
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise ConfigError(f"option_file {file}: {error.strerror}") from None
    if mode & 0o002:
        raise ConfigError(f"option_file {file}: everybody may write it; run chmod o-w on it")
    return parse_option_file(text, groups)


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return user and password from ``REPLICA_CLIENT_USER`` and ``REPLICA_CLIENT_PASSWORD``.

    ``MYSQL_PWD`` serves as password too, as it does for MySQL's own programs.
    """
    found: dict[str, str] = {}
    if user := environment.get("REPLICA_CLIENT_USER"):
        found["user"] = user
    password = environment.get("REPLICA_CLIENT_PASSWORD", environment.get("MYSQL_PWD"))
    if password is not None:
        found["password"] = password
    return found
