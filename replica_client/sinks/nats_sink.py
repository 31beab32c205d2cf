"""Row changes as messages of a NATS JetStream stream: at least once; once in its duplicate window.

Each message has its event's id as ``Nats-Msg-Id``. The stream drops a message whose id it has seen
within its duplicate window: messages that are sent again after a crash are in the stream once, if
the sink is back within that time. Messages of one portion are sent without waiting for each other's
acknowledgement. Each names its predecessor in ``Nats-Expected-Last-Msg-Id``, so that the stream
refuses the messages after a lost one, and the order is kept. The stream must therefore have no
other writer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote, urlsplit

from nats.aio.client import Client
from nats.errors import Error as NatsError, MaxPayloadError
from nats.js.api import Header, PubAck, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from replica_client.errors import ConfigError, SinkError
from replica_client.sinks.bounded_http import trusting
from replica_client.sinks.event_sink import Event, EventSink
from replica_client.sinks.formats.line_format import FormatOptions, chosen_message_format
from replica_client.sinks.formats.message import Message, unwritable
from replica_client.sinks.registry import Count, Period, read_options

_SCHEMES: Final = ("nats", "tls", "ws", "wss")
_SUBJECT: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_STREAM: Final = re.compile(r"[A-Za-z0-9_-]+")


class NatsOptions(FormatOptions, frozen=True, kw_only=True):
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


_KEY = "Replica-Client-Key"
_CLOSE_SECONDS = 1.0
_NEVER_PASS = ("authorization", "permissions", "authentication")


def make(table: Mapping[str, object]) -> NatsSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return NatsSink(read_nats_options(table))


class _Client(Client):  # type: ignore[misc]
    """A client that sends no password in clear where TLS is configured.

    nats-py leaves that to the server's greeting, which anybody on the way can change.

    Args:
        needs_tls: whether every server needs TLS, not only those at ``tls://``.
    """

    def __init__(self, *, needs_tls: bool) -> None:
        super().__init__()
        self._needs_tls = needs_tls

    def _connect_command(self) -> bytes:
        scheme = self._current_server.uri.scheme if self._current_server else ""
        is_needed = (self._needs_tls and scheme != "wss") or scheme == "tls"
        if is_needed and (scheme == "ws" or not self._server_info.get("tls_required")):
            raise NatsError(
                "the server offers no TLS, which tls:// and ca need; without both the password is sent in clear"
            )
        return bytes(super()._connect_command())


class NatsSink(EventSink):
    """The sink ``nats``; see the module.

    Args:
        options: what the user chose.
    """

    sends_messages = True

    def __init__(self, options: NatsOptions) -> None:
        super().__init__(chosen_message_format(options), portion=options.messages, join=True)
        self._options = options
        hosts = [urlsplit(one) for one in options.servers]
        self._where = "NATS at " + ", ".join(f"{one.hostname}:{one.port or 4222}" for one in hosts)
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._error = ""

    async def probe(self) -> None:
        with self._errors():
            client = await self._connected()
            await client.close()

    async def connect(self) -> None:
        options = self._options
        with self._errors():
            self._client = await self._connected()
            stream = self._stream = self._client.jetstream(
                timeout=options.timeout, publish_async_max_pending=options.messages
            )
            try:
                await stream.stream_info(options.stream)
            except NotFoundError:
                await stream.add_stream(
                    StreamConfig(
                        name=options.stream,
                        subjects=[f"{options.subject}.>"],
                        duplicate_window=options.duplicate_window,
                        num_replicas=options.replicas,
                    )
                )

    async def _connected(self) -> Client:
        options = self._options
        given: dict[str, object] = {}
        if options.password:
            given["password"] = options.password
            given["user"] = urlsplit(options.servers[0]).username
        if options.credentials:
            given["user_credentials"] = options.credentials
        if options.ca:
            given["tls"] = trusting(options.ca, "sink nats: ca")
        self._error = ""
        client = _Client(needs_tls=bool(options.ca))
        try:
            await client.connect(
                options.servers,
                name="replica_client",
                # The service opens the sink again, and unacknowledged messages are sent again.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=options.timeout,
                error_cb=self._failed,
                **given,
            )
        except BaseException:
            # The client leaves its socket open. After a failed TLS handshake the end of a close never comes.
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()
            raise
        return client

    async def _failed(self, error: Exception) -> None:
        self._error = f"{type(error).__name__}: {error}"

    async def send(self, events: Sequence[Event]) -> None:
        if self._stream is None:
            raise SinkError(f"{self._where}: the sink is not open")
        acknowledged: list[asyncio.Future[PubAck]] = []
        last = ""
        with self._errors():
            try:
                async with asyncio.timeout(self._options.timeout):
                    for event in events:
                        headers = {Header.MSG_ID.value: event.id}
                        if last:
                            headers[Header.EXPECTED_LAST_MSG_ID.value] = last
                        last = event.id
                        acknowledged.append(await self._publish(event, headers))
                    await asyncio.gather(*acknowledged)
            finally:
                for one in acknowledged:
                    one.cancel()

    async def _publish(self, event: Event, headers: dict[str, str]) -> asyncio.Future[PubAck]:
        assert self._stream is not None
        subject, value = self._subject(event.message), event.value
        headers |= _headers(event.message)
        try:
            future: asyncio.Future[PubAck] = await self._stream.publish_async(
                subject, value, stream=self._options.stream, headers=headers
            )
            return future
        except MaxPayloadError as error:
            text = (
                f"{self._where}: the event {event.id} of {subject} has {len(value)} bytes, more than the server's "
                "max_payload"
            )
            raise unwritable(event.message, text) from error

    def _subject(self, message: Message) -> str:
        if message.kind != "row":
            return f"{self._options.subject}.{message.kind}"
        if message.topic:
            return f"{self._options.subject}.{_subject_of(message.topic)}"
        return f"{self._options.subject}.{_token(message.database)}.{_token(message.table)}"

    async def disconnect(self) -> None:
        client, self._client, self._stream = self._client, None, None
        if client is not None:
            with self._errors():
                await client.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            text = self._error or f"no answer in {self._options.timeout:g} s"
            raise SinkError(f"{self._where}: {text}", retriable=True) from error
        except (NatsError, OSError) as error:
            text = f"{type(error).__name__}: {error}"[:300]
            passing = not any(one in text.lower() for one in _NEVER_PASS)
            raise SinkError(f"{self._where}: {text}", retriable=passing) from error


def _subject_of(topic: str) -> str:
    """Return the subject for a message's destination.

    Points stay, and empty parts become ``_``.
    """
    return ".".join(quote(part, safe="") or "_" for part in topic.split("."))


def _headers(message: Message) -> dict[str, str]:
    """Return headers and key of a message with a destination; none for other messages."""
    if not message.topic:
        return {}
    found = {**dict(message.headers), **({} if message.key is None else {_KEY: message.key})}
    for name, text in found.items():
        if not text.isprintable() or text != text.strip():
            raise unwritable(
                message,
                f"sink nats: {name} of a row of {message.database}.{message.table} is not text that a header can hold",
            )
    return found


def _token(name: str) -> str:
    """Return a name as part of a subject. Points, wildcards and blanks are percent-encoded."""
    return quote(name, safe="").replace(".", "%2E")
