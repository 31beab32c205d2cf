"""Sources as users name them: URLs, several hosts, MySQL option files, environment."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from replica_client.errors import ConfigError
from replica_client.options import URL_ALIASES, options_on
from replica_client.stream.transport.connect_options import ConnectOptions, with_options

DEFAULT_GROUPS = ("client", "replica_client")
"""Groups that are read; later groups override earlier ones."""

_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "s": " ", "\\": "\\", "'": "'", '"': '"'}

PARTS = ("user", "host", "port", "database")
"""Options of a file that are parts of a URL; all parameters of a URL may be there, too."""

_KNOWN = frozenset((*PARTS, *options_on("url"), *URL_ALIASES))


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


SCHEMES = ("mysql", "mariadb")

_OPTIONS = options_on("url")


def is_source_url(text: str) -> bool:
    """Return whether a text is meant as the URL of a source and not as a path."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def parse_url(url: str, environment: Mapping[str, str] | None = None) -> ConnectOptions:
    """Parse a source's URL; its parts are percent-decoded.

    The options after the ``?`` are those of :data:`~replica_client.options.OPTIONS`. MySQL's names (``ssl-mode``,
    ``ssl-ca`` …) and hyphens for underscores are understood.

    What the URL leaves out comes from the option file that it names (``option_file=~/.my.cnf``,
    groups client and replica_client), then from the variables REPLICA_CLIENT_USER and
    REPLICA_CLIENT_PASSWORD (or MYSQL_PWD).

    Args:
        url: the URL.
        environment: instead of the process's environment.

    Raises:
        ConfigError: it is not such a URL; the message says which part, and shows no secret.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        host = parts.hostname
    except ValueError:
        # urllib's own text may contain a piece of the password.
        raise ConfigError(
            "the URL's host or port cannot be read: write mysql://user:password@host:port/ and "
            "percent-encode special characters in user and password (@ is %40, / is %2F, # is %23)"
        ) from None
    if host and "," in host:
        raise ConfigError("several hosts in a URL are for streams; give one host here")
    if parts.scheme.lower() not in SCHEMES:
        raise ConfigError("a source's URL begins with mysql:// or mariadb://")
    if parts.fragment or ("#" in url and not parts.fragment):
        raise ConfigError("a source's URL has no '#' part: write %23 for a # in a password")
    database = unquote(parts.path.removeprefix("/"))
    if "/" in parts.path.removeprefix("/"):
        raise ConfigError("a source's URL has one path part at most, the default database")
    given = parse_qsl(parts.query, keep_blank_values=True)
    values = from_environment(os.environ if environment is None else environment)
    for name, value in given:
        if _key(name) == "option_file":
            values |= read_option_file(value)
    taken: dict[str, Any] = {key: values.pop(key) for key in PARTS if key in values}
    if not str(taken.get("port", 0)).isdigit():
        raise ConfigError("port in the option file is not a number")
    if "port" in taken:
        taken["port"] = int(taken["port"])
    options = {
        key: value
        for name, value in values.items()
        for key, value in _option(name, value, "the option file")
    }
    options |= {
        key: value
        for name, text in given
        if _key(name) != "option_file"
        for key, value in _option(name, text, "the URL")
    }
    stated = {
        "host": unquote(host or ""),
        "port": port,
        "user": unquote(parts.username or ""),
        "database": database,
    }
    if parts.password is not None:
        options["password"] = unquote(parts.password)
    taken |= {key: value for key, value in stated.items() if value not in ("", None)}
    return with_options(ConnectOptions(**taken), options)


def _key(name: str) -> str:
    key = name.lower().replace("-", "_")
    return URL_ALIASES.get(key, key)


def _option(name: str, text: str, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the name of an option in Python and its value."""
    option = _OPTIONS.get(_key(name))
    if option is None:
        known = ", ".join(sorted([*_OPTIONS, "option_file"]))
        raise ConfigError(f"option {name!r} in {where} is not known; known are {known}")
    yield option.name, option.read(text, "url")


def split_hosts(url: str) -> list[str]:
    """Split ``mysql://u:p@h1,h2:3307/`` into one URL for each host.

    Raises:
        ConfigError: a host between commas is empty.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return [url]
    end = min((rest.find(sign) for sign in "/?#" if sign in rest), default=len(rest))
    credentials, at, hosts = rest[:end].rpartition("@")
    names = hosts.split(",")
    if len(names) > 1 and not all(names):
        raise ConfigError("the URL has an empty host in its list: write host1,host2:3307")
    return [f"{scheme}://{credentials}{at}{name}{rest[end:]}" for name in names]


def parse_hosts(
    source: str | ConnectOptions | Sequence[str | ConnectOptions],
    environment: Mapping[str, str] | None = None,
) -> list[ConnectOptions]:
    """Return the hosts of a URL, of several URLs, or of options, in order.

    Raises:
        ConfigError: a URL is invalid, or there is no host.
    """
    if isinstance(source, ConnectOptions):
        return [source]
    if isinstance(source, str):
        return [parse_url(url, environment) for url in split_hosts(source)]
    if not isinstance(source, Sequence):
        raise ConfigError(
            f"a source is a URL such as mysql://user@host/, or a list of them, not {type(source).__name__}"
        )
    hosts = [host for one in source for host in parse_hosts(one, environment)]
    if not hosts:
        raise ConfigError("no source is given: the list of hosts is empty")
    return hosts


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:9190``, ``[::1]:9190`` or ``:9190`` (loopback).

    Raises:
        ConfigError: it is neither.
    """
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"listen: {text!r} is not an address; write 127.0.0.1:9190")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)
