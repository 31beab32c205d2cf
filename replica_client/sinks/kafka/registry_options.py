"""Options of the schema registry that the format ``avro`` writes its schemas to."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from replica_client.errors import ConfigError


class RegistryOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the table ``registry`` of the sink ``kafka``.

    Attributes:
        url: ``http://registry:8081``; several with commas between them are tried in turn.
        username: for HTTP's basic authentication.
        password: likewise; may be ``file:…``.
        ca: file with the certificates of authorities that are trusted.
        register: register schemas; otherwise they must be there.
        timeout: seconds that a request may take as a whole.
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
        """Hosts and ports, for messages."""
        parts = [urlsplit(one.strip()) for one in self.url.split(",")]
        return ", ".join(
            f"{one.hostname}:{one.port}" if one.port else str(one.hostname) for one in parts
        )


def check_registry(options: RegistryOptions) -> None:
    """Refuse a URL that is none.

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
    """Properties of Confluent's client."""
    found: dict[str, Any] = {"url": options.url, "timeout": options.timeout}
    if options.username or options.password:
        found["basic.auth.user.info"] = f"{options.username}:{options.password}"
    if options.ca:
        found["ssl.ca.location"] = options.ca
    return found
