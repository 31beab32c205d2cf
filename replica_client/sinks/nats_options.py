"""Options of the sink ``nats``. The module does not import the NATS client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.registry import Count, Period, read_options

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_SUBJECT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_STREAM: Final = re.compile(r"[A-Za-z0-9_-]+")


class NatsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``nats``.

    Attributes:
        url: URL ``nats://user@host:4222`` or ``tls://…``; several are separated by commas.
        password: password, instead of one in the URL; may be ``file:…``.
        credentials: file with a JWT and its seed.
        ca: file with certificates of trusted authorities, for TLS; ``""``: those of the system. With it, and with
            ``tls://``, a server without TLS is refused.
        stream: stream for the messages; created if it does not exist.
        subject: first part of subjects; ``.DATABASE.TABLE`` follows for rows, ``.schema`` for
            schema changes.
        duplicate_window: seconds for which a stream that the sink creates remembers the ids of
            messages.
        replicas: number of replicas of a stream that the sink creates.
        format: ``native``, ``debezium``, ``maxwell``, ``canal``, ``cloudevents`` or ``arrow``.
        format_options: options of the format.
        messages: maximum messages that wait for their acknowledgements at the same time.
        timeout: time limit of connecting and of acknowledgements, in seconds.
    """

    url: str
    password: str = ""
    credentials: str = ""
    ca: str = ""
    stream: str = "replica_client"
    subject: str = "replica_client"
    duplicate_window: Period = 600.0
    replicas: Count = 1
    format: str = "native"
    format_options: dict[str, Any] = {}
    messages: Count = 1000
    timeout: Period = 30.0

    def __repr__(self) -> str:
        return "<NATS>"  # nothing that may hold a password

    @property
    def servers(self) -> list[str]:
        """The URL of each server."""
        return [one.strip() for one in self.url.split(",") if one.strip()]


def read_nats_options(table: Mapping[str, object]) -> NatsOptions:
    """Return the options in a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(NatsOptions, table, "sink nats")
    parts = [urlsplit(one) for one in options.servers]
    if not parts or any(one.scheme not in _SCHEMES or not one.hostname for one in parts):
        raise ConfigError("sink nats: url must be nats:// or tls:// with a host")
    if not _STREAM.fullmatch(options.stream):
        raise ConfigError("sink nats: stream: letters, digits, - and _ are wanted")
    if not _SUBJECT.fullmatch(options.subject):
        raise ConfigError("sink nats: subject: letters, digits, - and _ with points are wanted")
    return options
