"""Row changes as HTTP requests: at least once; exactly once if the receiver honours their keys.

``webhook-signature`` is ``v1,`` and the base64 of an HMAC-SHA-256 of ``ID.TIMESTAMP.BODY``.
https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md

A request is a POST of JSON lines (a JSON array for the format ``cloudevents``): one transaction, or
up to ``events`` events of it. For the format ``arrow`` it is one stream. Requests are sent one
after the other, in order. ``Idempotency-Key`` is the id of the first event: a request that is sent
again, after a crash or a lost answer, has the same key and the same lines. A receiver sees each
change once if it stores the key and the effect of the request in one transaction, and answers 2xx
to a known key.

Only the status and ``Retry-After`` of an answer matter; at most 16 KiB of its body are read.

2xx accepts the request. After 408, 409, 425, 429, 5xx and a broken connection it is sent again,
after ``Retry-After`` or a growing pause. Everything else, including redirects, stops the sink with
an error.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import random
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import httpx
import msgspec

from replica_client import __version__
from replica_client.errors import ConfigError, SinkError
from replica_client.protocol.codec.printable import printable
from replica_client.sinks.bounded_http import exchange, trusting
from replica_client.sinks.event_sink import Event, EventSink
from replica_client.sinks.formats.line_format import FormatOptions, chosen_message_format
from replica_client.sinks.formats.native import BATCH
from replica_client.sinks.registry import Count, Period, Seconds, Whole, read_options

_OWN: Final = frozenset(
    (
        *("content-type", "content-length", "content-encoding", "host", "idempotency-key"),
        *("webhook-id", "webhook-timestamp", "webhook-signature"),
    )
)


class WebhookOptions(FormatOptions, frozen=True, kw_only=True):
    """Options of the sink ``http``.

    Attributes:
        url: URL of the receiver, ``https://…`` or ``http://…``; may be ``file:…``.
        key: key of the signature; ``""``: requests are not signed. ``whsec_`` and base64, or any
            text; may be ``file:…``.
        headers: headers of each request, such as ``{ Authorization = "Bearer ${TOKEN}" }``.
        format: ``native``, ``debezium``, ``maxwell``, ``canal``, ``cloudevents`` or ``arrow``.
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
    headers: dict[str, str] = msgspec.field(default_factory=dict)
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


_PREFIX: Final = "whsec_"


def signing_key(text: str) -> bytes:
    """Return the key for a text: base64 after ``whsec_``, otherwise the text itself.

    Raises:
        ConfigError: the text after ``whsec_`` is not base64.
    """
    if not text.startswith(_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise ConfigError("sink http: key must be base64 after whsec_") from None


def signature(key: bytes, name: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header ``webhook-signature``.

    Args:
        key: the shared key of sender and receiver.
        name: the request's id.
        timestamp: seconds since 1970.
        body: body of the request as it is sent.
    """
    text = f"{name}.{timestamp}.".encode() + body
    digest = hmac.new(key, text, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


_AGAIN: Final = frozenset((408, 409, 425, 429))
_FIRST_PAUSE: Final = 0.1
_ARROW_TYPE: Final = "application/vnd.apache.arrow.stream"


def make(table: Mapping[str, object]) -> WebhookSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return WebhookSink(read_webhook_options(table))


class WebhookSink(EventSink):
    """The sink ``http``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: WebhookOptions) -> None:
        arrow = options.format == "arrow"
        events = 1 if arrow else options.events
        super().__init__(chosen_message_format(options), portion=events, join=options.join)
        self._options = options
        self._batch = options.format == "cloudevents"
        self._type = BATCH if self._batch else _ARROW_TYPE if arrow else "application/x-ndjson"
        self._end = b"" if arrow else b"\n"
        self._key = signing_key(options.key)
        parts = urlsplit(options.url)
        # Path and query may contain a secret.
        self._where = f"{parts.scheme}://{parts.hostname}" + (
            f":{parts.port}" if parts.port else ""
        )
        self._client: httpx.AsyncClient | None = None

    async def connect(self) -> None:
        """Create the HTTP client; see the base.

        The first request shows whether the receiver answers.
        """
        options = self._options
        verify = trusting(options.ca, "sink http: ca") if options.ca else True
        headers = {
            **options.headers,
            "Content-Type": self._type,
            "User-Agent": f"replica_client/{__version__}",
        }
        self._client = httpx.AsyncClient(headers=headers, timeout=options.timeout, verify=verify)

    async def send(self, events: Sequence[Event]) -> None:
        if self._batch:
            body = b"[" + b",".join(event.value for event in events) + b"]"
        else:
            body = b"".join(event.value + self._end for event in events)
        name, pause = events[0].id, _FIRST_PAUSE
        for left in reversed(range(self._options.retries + 1)):
            why, wait = await self._post(name, events[-1].id, body)
            if not why:
                return
            wait = wait if wait is not None else pause * random.uniform(0.5, 1)
            if not left or wait > self._options.longest_wait:
                raise SinkError(f"{self._where}: {why}", retriable=True)
            await asyncio.sleep(wait)
            pause = min(pause * 2, self._options.longest_wait)

    async def _post(self, name: str, last: str, body: bytes) -> tuple[str, float | None]:
        """Send a request once.

        Return why it must be sent again, ``""`` if it was accepted, and the seconds to wait before
        that.
        """
        if self._client is None:
            raise SinkError(f"{self._where}: the sink is not open")
        headers = {"Replica-Client-First": name, "Replica-Client-Last": last}
        if not self._options.join:
            # A string of RFC 8941; ids have neither quotes nor backslashes.
            headers["Idempotency-Key"] = f'"{name}"'
        if self._key:
            now = int(time.time())
            headers |= {
                "webhook-id": name,
                "webhook-timestamp": str(now),
                "webhook-signature": signature(self._key, name, now, body),
            }
        try:
            request = self._client.build_request(
                "POST", self._options.url, content=body, headers=headers
            )
            answer = await exchange(self._client, request, seconds=self._options.timeout)
        except httpx.TransportError as error:
            return f"{type(error).__name__}: {error}"[:300], None
        status = answer.status_code
        if 200 <= status < 300:
            return "", None
        why = f"the receiver answers {status} {printable(answer.reason_phrase)[:100]}".rstrip()
        if status in _AGAIN or status >= 500:
            return why, retry_after(answer.headers.get("Retry-After", ""))
        raise SinkError(f"{self._where}: {why} to the events {name} to {last}")

    async def disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


def retry_after(text: str) -> float | None:
    """Return the seconds of a ``Retry-After``, which may be a date; None if it is invalid."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        found = parsedate_to_datetime(text)
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return max(0.0, (found - datetime.now(UTC)).total_seconds())
