"""Options of the schema registry for the format ``avro``."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from replica_client.errors import ConfigError


class RegistryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the table ``registry`` of the sink ``kafka``.

    Attributes:
        url: ``http://registry:8081``; several, separated by commas, are tried in turn.
        username: user for HTTP basic authentication.
        password: its password; may be ``file:…``.
        ca: file with the certificates of trusted authorities.
        register: whether to register schemas; otherwise they must be registered already.
        timeout: time limit of a whole request, in seconds.
    """

    url: str
    username: str = ""
    password: str = ""
    ca: str = ""
    register: bool = True
    timeout: Annotated[float, Meta(gt=0)] = 30.0

    def __repr__(self) -> str:
        return f"<schema registry at {self.where()}>"  # nothing that may hold a password

    def where(self) -> str:
        """Return hosts and ports, for messages."""
        parts = [urlsplit(one.strip()) for one in self.url.split(",")]
        return ", ".join(
            f"{one.hostname}:{one.port}" if one.port else str(one.hostname) for one in parts
        )


def check_registry(options: RegistryOptions) -> None:
    """Check that the URLs are valid.

    Raises:
        ConfigError: says which option is wrong.
    """
    for one in options.url.split(","):
        try:
            parts = urlsplit(one.strip())
            wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
        except ValueError:
            wrong = True
        if wrong:
            raise ConfigError("sink kafka: registry: url: http://host:port is wanted")


def registry_properties(options: RegistryOptions) -> dict[str, Any]:
    """Return the properties of Confluent's client."""
    found: dict[str, Any] = {"url": options.url, "timeout": options.timeout}
    if options.username or options.password:
        found["basic.auth.user.info"] = f"{options.username}:{options.password}"
    if options.ca:
        found["ssl.ca.location"] = options.ca
    return found
