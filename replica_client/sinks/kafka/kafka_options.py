"""Options of the sink ``kafka``. The module does not import the Kafka client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

import msgspec

from replica_client.errors import ConfigError
from replica_client.protocol.codec.compression import SizedCache
from replica_client.sinks.formats.line_format import FormatOptions, make_message_format
from replica_client.sinks.protocol import Guarantee
from replica_client.sinks.registry import Count, Period, Whole, read_options

if TYPE_CHECKING:
    from replica_client.sinks.formats.message import MessageKind


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
    timeout: Period = 30.0

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
            raise ConfigError("sink kafka: registry: url must be http://host:port")


def registry_properties(options: RegistryOptions) -> dict[str, Any]:
    """Return the properties of Confluent's client."""
    found: dict[str, Any] = {"url": options.url, "timeout": options.timeout}
    if options.username or options.password:
        found["basic.auth.user.info"] = f"{options.username}:{options.password}"
    if options.ca:
        found["ssl.ca.location"] = options.ca
    return found


_MAX: Final = 249
_KEPT: Final = 4096
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]")
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_KNOWN: Final = {
    "topic": ("prefix", "database", "table"),
    "schema_topic": ("prefix", "database", "table"),
    "transaction_topic": ("prefix",),
    "position_topic": ("prefix",),
    "transactional_id": ("prefix",),
}


def check_topics(options: KafkaOptions) -> None:
    """Check the templates for unknown placeholders and for characters that no topic may have.

    Raises:
        ConfigError: a template is wrong; the message names it.
    """
    for option, known in _KNOWN.items():
        template: str = getattr(options, option)
        for name in _PLACEHOLDER.findall(template):
            if name not in known:
                wanted = ", ".join(f"{{{one}}}" for one in known)
                raise ConfigError(
                    f"sink kafka: {option}: {{{name}}} is unknown; known are {wanted}"
                )
    if not options.topic:
        raise ConfigError("sink kafka: topic must be a name")
    for option in ("topic_prefix", "topic", "schema_topic", "transaction_topic", "position_topic"):
        text = _PLACEHOLDER.sub("", getattr(options, option))
        if _OTHER.search(text):
            raise ConfigError(
                f"sink kafka: {option}: letters, digits, '.', '_' and '-' are wanted, not {text!r}"
            )


class TopicNames:
    """Chooses the topic of each message.

    Characters of table names that no topic may have become ``_``. Such a name also gets a digest as
    suffix, so that two tables do not share a topic.

    Args:
        options: the templates.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._routed: SizedCache[str, str] = SizedCache(_KEPT)
        self._known: dict[tuple[MessageKind, str, str], str] = {}

    def of(self, kind: MessageKind, database: str, table: str) -> str:
        """Return the topic of a message; ``""`` for none."""
        name = self._known.get((kind, database, table))
        if name is None:
            name = self._known[kind, database, table] = self._made(kind, database, table)
        return name

    def routed(self, name: str) -> str:
        """Return the topic of a message that names its destination."""
        topic = self._routed.get(name)
        if topic is None:
            topic = _OTHER.sub("_", name) or "_"
            if topic != name or len(topic) > _MAX:
                topic = _with_digest(topic, [name])
            self._routed.put(name, topic, len(name))
        return topic

    def _made(self, kind: MessageKind, database: str, table: str) -> str:
        options = self._options
        if kind == "transaction":
            return options.named(options.transaction_topic)
        template = options.topic if kind == "row" else options.schema_topic
        values = {"prefix": options.topic_prefix, "database": database, "table": table}
        text = _PLACEHOLDER.sub(lambda match: values[match[1]], template)
        used = [values[name] for name in _PLACEHOLDER.findall(template) if name != "prefix"]
        name = _OTHER.sub("_", text)
        # A name with a point is ambiguous: `a.b` and `c` would have the same topic as `a` and
        # `b.c`.
        if name != text or len(name) > _MAX or any("." in one for one in used):
            name = _with_digest(name, used)
        return name


def _with_digest(name: str, used: Sequence[str]) -> str:
    digest = sha256("\0".join(used).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{name[: _MAX - 17]}-{digest}"


# Properties that the guarantee depends on.
_OURS = frozenset(
    (
        *("bootstrap.servers", "metadata.broker.list", "transactional.id", "enable.idempotence", "acks"),
        *("request.required.acks", "retries", "message.send.max.retries", "max.in.flight", "partitioner"),
        *("max.in.flight.requests.per.connection", "transaction.timeout.ms", "message.timeout.ms"),
        *("delivery.timeout.ms", "isolation.level", "group.id", "enable.auto.commit", "debug"),
        *("security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"),
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
    )
)  # fmt: skip

_OF_ALL_CLIENTS: Final = (
    "ssl.",
    "sasl.",
    "enable.ssl.",
    "socket.",
    "broker.",
    "client.",
    "reconnect.",
    "https.",
)
"""Beginnings of the properties of ``client`` that concern connections, of producers and readers."""


class KafkaOptions(FormatOptions, frozen=True, kw_only=True):
    """Options of the sink ``kafka``.

    Attributes:
        bootstrap_servers: ``kafka1:9092,kafka2:9092``.
        topic_prefix: first part of topic names, Debezium's ``topic.prefix``.
        topic: topic of row changes and TRUNCATE; ``{prefix}``, ``{database}`` and ``{table}`` are
            replaced.
        schema_topic: topic of schema changes, with the same placeholders; ``""`` for none.
        transaction_topic: topic of the beginnings and ends of transactions that the format
            ``debezium`` writes with ``provide_transaction_metadata``.
        position_topic: compacted topic with one partition, used by this sink alone: position and
            state.
        transactional_id: id used by this sink alone; the last process that uses it fences the
            others.
        guarantee: ``exactly-once``: messages and position in one Kafka transaction, for readers
            with ``isolation.level=read_committed``; ``at-least-once``: without transactions, if
            brokers or rights do not allow them; a position store keeps the position.
        format: ``native``, ``debezium``, ``flat``, ``maxwell``, ``canal``, ``cloudevents``,
            ``avro`` or ``arrow``.
        format_options: options of the format; ``avro`` has those of ``debezium``.
        registry: the schema registry of the format ``avro``: ``url``, and if needed ``username``,
            ``password`` (may be ``file:…``), ``ca``, ``timeout``; ``register = false`` uses only
            registered schemas.
        key_columns: columns that are the key of messages, by pattern of the table; the primary key
            by default.
        tombstones_on_delete: after a key is gone, send a message without a value, for compaction.
            By default only for the formats ``native``, ``debezium``, ``flat`` and ``avro``, also as the data
            of ``cloudevents``.
        headers: whether each message has headers with its transaction and its number in it.
        create_topics: create missing topics.
        partitions: number of partitions of a new topic; -1: the broker's default.
        replication_factor: replication factor of a new topic; -1: the broker's default.
        topic_config: configuration of new topics, such as ``{ "retention.ms" = "-1" }``.
        compression: codec of message batches; readers need it, too.
        max_message_bytes: maximum bytes of a message; a larger message is an error. The brokers'
            default is 1 MB.
        transaction_messages: maximum messages of a Kafka transaction; a larger commit takes
            several, and readers can see the first ones before the last; 0: no limit.
        transaction_timeout: seconds after which the broker aborts an open transaction; a large
            source transaction must be written within this time.
        timeout: seconds without an answer after which a broker counts as unavailable.
        security_protocol: protocol of the connections.
        sasl_mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512``, ``GSSAPI`` or
            ``OAUTHBEARER``.
        username: user for SASL.
        password: password for SASL; may be ``file:…``.
        tls_ca: file with the certificates of trusted authorities.
        tls_certificate: file with the certificate of this client.
        tls_key: file with the key of that certificate.
        tls_key_password: password of the key file.
        client: other properties of librdkafka, such as ``{ "linger.ms" = "20" }``; those of
            connections, such as ``sasl.oauthbearer.method``, apply to all its clients.
    """

    bootstrap_servers: str
    topic_prefix: str = "replica_client"
    topic: str = "{prefix}.{database}.{table}"
    schema_topic: str = "{prefix}"
    transaction_topic: str = "{prefix}.transaction"
    position_topic: str = "{prefix}.position"
    transactional_id: str = "{prefix}"
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    registry: RegistryOptions | None = None
    key_columns: dict[str, list[str]] = msgspec.field(default_factory=dict)
    tombstones_on_delete: bool | None = None
    headers: bool = False
    create_topics: bool = True
    partitions: int = -1
    replication_factor: int = -1
    topic_config: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"
    max_message_bytes: Count = 1_000_000
    transaction_messages: Whole = 0
    transaction_timeout: Period = 60.0
    timeout: Period = 30.0
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: str = ""
    username: str = ""
    password: str = ""
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_key_password: str = ""
    client: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Kafka at {self.bootstrap_servers}>"  # nothing that may hold a password

    @property
    def exactly_once(self) -> bool:
        """Whether messages and position are committed in Kafka transactions."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    @property
    def tombstones(self) -> bool:
        """Whether a message without a value follows when a key is gone."""
        if self.tombstones_on_delete is None:
            name = self.format
            if name == "cloudevents":
                name = str(self.format_options.get("data", "native"))
            return name in ("native", "debezium", "flat", "avro")
        return self.tombstones_on_delete

    @property
    def fixed_topics(self) -> tuple[str, ...]:
        """The topics whose names do not depend on a table."""
        templates = self.topic, self.schema_topic, self.exactly_once and self.position_topic
        found = [self.named(one) for one in templates if one]
        return tuple(one for one in found if "{" not in one)

    @property
    def group(self) -> str:
        """The consumer group whose offsets are the heartbeats of the lease."""
        return f"{self.named(self.transactional_id)}.position"

    def named(self, template: str) -> str:
        """Return a name that does not depend on a table, with ``{prefix}`` replaced."""
        return template.replace("{prefix}", self.topic_prefix)


def read_kafka_options(table: Mapping[str, object]) -> KafkaOptions:
    """Return the options in a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    flat = {**table}
    for name in ("topic_config", "client"):
        # TOML reads `retention.ms = 1` as a table in a table.
        if isinstance(given := table.get(name), Mapping):
            flat[name] = dict(_flat(given))
    options = read_options(KafkaOptions, flat, "sink kafka")
    if not options.bootstrap_servers.strip():
        raise ConfigError("sink kafka: bootstrap_servers must be host:port")
    taken = sorted(_OURS & options.client.keys())
    if taken:
        raise ConfigError(f"sink kafka: client: {taken[0]} is set by the sink's own options")
    for name in ("partitions", "replication_factor"):
        if getattr(options, name) < 1 and getattr(options, name) != -1:
            raise ConfigError(f"sink kafka: {name} must be at least 1, or -1")
    if options.security_protocol.startswith("SASL") and not options.sasl_mechanism:
        raise ConfigError("sink kafka: sasl_mechanism must be PLAIN, SCRAM-SHA-512 or another")
    if options.exactly_once and options.transaction_timeout < options.timeout:
        raise ConfigError(
            f"sink kafka: transaction_timeout must be at least timeout ({options.timeout:g} s), not "
            f"{options.transaction_timeout:g}"
        )
    if not options.named(options.transactional_id):
        raise ConfigError("sink kafka: transactional_id must be a name")
    check_topics(options)
    if options.registry is not None:
        check_registry(options.registry)
    if (options.format == "avro") != (options.registry is not None):
        raise ConfigError("sink kafka: the format 'avro' and the table 'registry' need each other")
    make_message_format(options.format, format_options(options))
    return options


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def properties_text(table: Mapping[str, object]) -> dict[str, str]:
    """Return properties as the texts that Kafka expects."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in table.items()
    }


def format_options(options: KafkaOptions) -> dict[str, Any]:
    """Return the options of the format.

    The topics' prefix is the default of Debezium's ``topic_prefix``.
    """
    if options.format in ("debezium", "flat", "avro"):
        return {"topic_prefix": options.topic_prefix, **options.format_options}
    return options.format_options


def client_properties(options: KafkaOptions) -> dict[str, Any]:
    """Return the properties that all clients share."""
    named = {
        "bootstrap.servers": options.bootstrap_servers,
        "security.protocol": options.security_protocol,
        "sasl.mechanism": options.sasl_mechanism,
        "sasl.username": options.username,
        "sasl.password": options.password,
        "ssl.ca.location": options.tls_ca,
        "ssl.certificate.location": options.tls_certificate,
        "ssl.key.location": options.tls_key,
        "ssl.key.password": options.tls_key_password,
    }
    return {
        "client.id": "replica_client",
        "socket.timeout.ms": int(options.timeout * 1000),
        "reconnect.backoff.max.ms": 2000,
        **{name: value for name, value in named.items() if value},
        **{
            name: value
            for name, value in options.client.items()
            if name.startswith(_OF_ALL_CLIENTS)
        },
    }


def producer_properties(options: KafkaOptions) -> dict[str, Any]:
    """Return the properties of the producer."""
    own: dict[str, Any] = {
        "enable.idempotence": True,
        "compression.type": options.compression,
        "message.max.bytes": options.max_message_bytes,
        "queue.buffering.max.kbytes": 64 << 10,
        # As Java's producers, but rows of a table without a key stay in order.
        "partitioner": "murmur2",
        "delivery.report.only.error": True,
    }
    if options.exactly_once:
        own["transactional.id"] = options.named(options.transactional_id)
        own["transaction.timeout.ms"] = int(options.transaction_timeout * 1000)
    else:
        own["message.timeout.ms"] = int(options.timeout * 1000)
    return {**client_properties(options), **own, **options.client}
