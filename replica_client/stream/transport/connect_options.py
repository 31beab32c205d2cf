"""Sources as users name them: connection options, URLs, several hosts, MySQL option files, environment."""

from __future__ import annotations

import getpass
import ipaddress
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from replica_client.errors import ConfigError
from replica_client.options import URL_ALIASES, check_argument, fields_of, options_on
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.wire.auth.plugin import UnverifiedPassword

DEFAULT_PORT = 3306
MIB = 1 << 20

_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})")


class TlsMode(StrEnum):
    """TLS modes, named as in MySQL."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify-ca"
    VERIFY_IDENTITY = "verify-identity"


def is_loopback(host: str) -> bool:
    """Return whether a name or address is of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """TLS options of a connection.

    Attributes:
        mode: ``disabled``; ``preferred``: TLS when the server has it; ``required``: TLS or failure;
            ``verify-ca``: also the certificate's chain; ``verify-identity``: also its host name.
            When a CA is given, ``preferred`` and ``required`` check the chain too.
        ca: file of CA certificates (PEM); None: the system's, where a mode verifies.
        cert: file of our own certificate (PEM), for accounts that require one.
        key: file of its private key (PEM); None: it is in ``cert``.
        key_password: of the private key.
        fingerprint: ``sha256:`` and 64 hexadecimal digits, optionally with colons: SHA-256 of the
            server's certificate (DER), whoever signed it. With several, separated by commas, one
            must match. The connection is then made with TLS or not at all.
    """

    mode: TlsMode = TlsMode.PREFERRED
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    fingerprint: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "mode", TlsMode(self.mode))
        if self.fingerprint is None:
            return
        texts = [text.strip().lower() for text in self.fingerprint.split(",")]
        plain = [text[:7] + text[7:].replace(":", "") for text in texts]
        if not all(_FINGERPRINT.fullmatch(text) for text in plain):
            raise ConfigError(
                "tls_fingerprint must be sha256: and the 64 hexadecimal digits that "
                "`openssl x509 -noout -fingerprint -sha256 -in server-cert.pem` shows"
            )
        if self.mode is TlsMode.DISABLED:
            raise ConfigError("tls_fingerprint is given and tls is disabled: leave one of them out")
        object.__setattr__(self, "fingerprint", ",".join(plain))

    @property
    def is_required(self) -> bool:
        """Whether a server without TLS is refused."""
        wanted = self.mode not in (TlsMode.DISABLED, TlsMode.PREFERRED)
        return wanted or self.verifies_chain or self.fingerprint is not None

    @property
    def proof(self) -> str:
        """How an accepted certificate was proven to be the server's; empty when nothing proved it.

        A chain to one of the system's authorities proves nothing unless the name is checked, too:
        anybody can get such a certificate.
        """
        if self.fingerprint is not None:
            return "its fingerprint"
        if self.mode is TlsMode.VERIFY_IDENTITY:
            return "its chain and name"
        return "its chain" if self.ca is not None and self.verifies_chain else ""

    @property
    def verifies_chain(self) -> bool:
        """Whether the server's certificate is checked against a CA."""
        return self.mode in (TlsMode.VERIFY_CA, TlsMode.VERIFY_IDENTITY) or (
            self.ca is not None and self.mode is not TlsMode.DISABLED
        )


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """Address, credentials and limits of a connection to a source.

    Attributes:
        host: name or address (IPv6 without brackets).
        port: TCP port.
        user: account name; empty: the operating system's user.
        password: never shown by ``repr``, logs or errors.
        password_provider: asked for the password at each login instead (tokens that expire); may
            be a coroutine function.
        database: default database, or empty.
        unix_socket: path of a Unix socket to use instead of TCP, or None.
        tls: see :class:`TlsOptions`; a Unix socket has none.
        connect_timeout: seconds until the login must be done.
        read_timeout: seconds until the answer to a statement must be there.
        max_packet_size: bytes that one packet (one event) may have.
        max_answer_size: bytes of memory that the list of all tables and columns may take, about.
        allow_public_key_retrieval: without TLS, trust the RSA key that the server sends for
            caching_sha2_password and sha256_password.
        unverified_password: which servers get the password itself inside TLS when nothing proves
            the server's certificate: ``never``, ``caching_sha2`` or ``any``.
        server_public_key: file of the server's RSA key (PEM), or None.
        compression: ``""`` none, ``zlib`` or ``zstd``: the protocol's own compression.
        program_name: program name in the server's connection attributes.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    user: str = ""
    password: str = field(default="", repr=False)
    password_provider: Callable[[], str | Awaitable[str]] | None = field(default=None, repr=False)
    database: str = ""
    unix_socket: str | None = None
    tls: TlsOptions = field(default_factory=TlsOptions)
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    max_packet_size: int = 1024 * MIB
    max_answer_size: int = 512 * MIB
    allow_public_key_retrieval: bool = False
    unverified_password: UnverifiedPassword = UnverifiedPassword.CACHING_SHA2
    server_public_key: str | None = None
    compression: str = ""
    program_name: str = "replica_client"

    def __post_init__(self) -> None:
        if not 0 < self.port < 65536:
            raise ConfigError(f"port {self.port} is not between 1 and 65535")
        for name in ("connect_timeout", "max_packet_size", "max_answer_size"):
            check_argument(name, getattr(self, name))
        check_argument("answer_timeout", self.read_timeout)
        check_argument("compression", self.compression)
        object.__setattr__(
            self, "unverified_password", UnverifiedPassword(self.unverified_password)
        )
        if not self.user:
            object.__setattr__(self, "user", _system_user())

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine."""
        return bool(self.unix_socket) or is_loopback(self.host)

    @property
    def address(self) -> str:
        """The address for messages: ``host:port``, ``[::1]:port`` or the socket's path."""
        if self.unix_socket:
            return self.unix_socket
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def with_options(options: ConnectOptions, values: Mapping[str, Any]) -> ConnectOptions:
    """Return the options of a connection with others in place of some.

    Args:
        options: of the connection.
        values: by the names of :data:`~replica_client.options.OPTIONS`; None is "not given".

    Raises:
        ConfigError: a value is wrong.
    """
    tls, fields = fields_of(values, "tls"), fields_of(values, "connect")
    if isinstance(whole := tls.get("mode"), TlsOptions):
        return replace(options, tls=whole, **fields)
    return replace(options, tls=replace(options.tls, **tls), **fields)


def _system_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise ConfigError("no user is given, and the operating system has no name for us") from None


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
