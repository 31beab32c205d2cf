"""Options of the sink ``http``. The module does not import the HTTP client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError
from replica_client.sinks.registry import Count, Period, Seconds, Whole, read_options

_OWN: Final = frozenset(
    (
        *("content-type", "content-length", "content-encoding", "host", "idempotency-key"),
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    )
)


class WebhookOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the sink ``http``.

    Attributes:
        url: URL of the receiver, ``https://…`` or ``http://…``; may be ``file:…``.
        key: key of the signature; ``""``: requests are not signed. ``whsec_`` and base64, or any
            text; may be ``file:…``.
        headers: headers of each request, such as ``{ Authorization = "Bearer ${TOKEN}" }``.
        format: ``native``, ``debezium``, ``maxwell``, ``canal``, ``cloudevents`` or ``arrow``.
        format_options: options of the format.
        events: maximum events of a request; a larger transaction takes several requests.
        join: whether a request may have events of several transactions. This is faster for small
            ones, but portions differ when they are sent again: no ``Idempotency-Key`` is sent.
        timeout: time limit of a whole request in seconds, from the connection to the end of the
            answer; then the request is sent again.
        retries: how often a request is sent again before the sink is closed and opened again.
        longest_wait: maximum seconds of ``Retry-After``; with more the sink is closed and opened
            again.
        ca: file with certificates of trusted authorities; ``""``: those of certifi.
    """

    url: str
    key: str = ""
    headers: dict[str, str] = {}
    format: str = "native"
    format_options: dict[str, Any] = {}
    events: Count = 1000
    join: bool = False
    timeout: Period = 30.0
    retries: Whole = 5
    longest_wait: Seconds = 60.0
    ca: str = ""

    def __repr__(self) -> str:
        return "<HTTP>"  # nothing that may hold a secret


def read_webhook_options(table: Mapping[str, object]) -> WebhookOptions:
    """Return the options in a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    options = read_options(WebhookOptions, table, "sink http")
    parts = urlsplit(options.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError("sink http: url must be https:// or http:// with a host")
    if parts.username or parts.password:
        raise ConfigError("sink http: url: it has a password; give it in headers")
    for name, value in options.headers.items():
        if name.lower() in _OWN:
            raise ConfigError(f"sink http: headers: {name} is set by the sink")
        if not (name + value).isascii() or not (name + value).isprintable() or not name:
            raise ConfigError(f"sink http: headers: {name!r}: it must be printable ASCII")
    return options
