"""Errors of librdkafka as errors of the sink: the reason, who answered, and what an operator must do."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from replica_client.errors import SinkError
from replica_client.sinks.kafka.kafka_options import KafkaOptions, client_properties

_PART_SECONDS: Final = 0.5
_DOUBT_SECONDS: Final = 5.0
"""Time after which brokers that hang up, or that all refuse the connection, are not waited for."""
_FENCED = frozenset(
    (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
)
_REFUSED = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    )
)
"""Codes of a connection that the broker or the client refuses."""
# Errors that an operator must fix; the sink retries less often.
_NEVER_PASS = _REFUSED | frozenset(
    (
        KafkaError._INVALID_ARG,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_RECORD,
    )
)
_HUNG_UP = ("security.protocol", "PLAINTEXT broker listener", "in state APIVERSION_QUERY")
"""Words of librdkafka about a broker that ends a connection before it answered anything."""
_NO_ANSWER = frozenset((KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN))
UNKNOWN_TOPIC = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
)
"""Codes of a topic that does not exist, of brokers and of librdkafka."""
UNWRITABLE = frozenset(
    (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
    )
)
"""Codes of a message that can never be written: too large, or keyless in a compacted topic."""


class FencedProducerError(SinkError):
    """Another producer fenced this one."""


class ConnectionReports(logging.Handler):
    """Reports and log lines of a client about its connections.

    librdkafka has the reason of a failure only there, and hands them out while events are polled:
    what its calls raise says only that no broker answered. Nothing of it goes to the log.

    Attributes:
        refused: the report of a connection that was refused for its security settings.
        said: the last line about a connection that failed.
        all_down: whether no broker takes connections.
    """

    def __init__(self) -> None:
        super().__init__()
        self.refused: KafkaError | None = None
        self.said = ""
        self.all_down = False
        self.logger = logging.Logger("librdkafka")
        self.logger.addHandler(self)

    @property
    def is_doubtful(self) -> bool:
        """Whether a broker hung up as one with other security settings does."""
        return _is_doubtful(self.said)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the client's log."""
        text = record.getMessage()
        if "FAIL" in text or "ERROR" in text:
            self.said = text.partition("]: ")[2] or text

    def __call__(self, error: KafkaError) -> None:
        """Take a report."""
        if error.code() in _REFUSED:
            self.refused = error
        elif error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.all_down = True
        else:
            self.said = error.str()

    def properties(self, options: KafkaOptions) -> dict[str, Any]:
        """Return the properties of a client whose reports are taken."""
        return {**client_properties(options), "error_cb": self}


def _is_doubtful(text: str) -> bool:
    return any(one in text for one in _HUNG_UP)


def topics_of(
    options: KafkaOptions, client: AdminClient | Consumer, reports: ConnectionReports
) -> set[str]:
    """Wait until a broker answers, and return the names of its topics.

    Raises:
        SinkError: the brokers are unavailable; or they refuse this client, which is reported at once.
    """
    began = time.monotonic()
    while True:
        try:
            return set(client.list_topics(timeout=_PART_SECONDS).topics)
        except KafkaException as error:
            failed: KafkaError = error.args[0]
        client.poll(0)
        waited = time.monotonic() - began
        over = waited > options.timeout or failed.code() not in _NO_ANSWER
        if waited > _DOUBT_SECONDS:
            over = over or reports.all_down or reports.is_doubtful
        if over or reports.refused is not None:
            raise sink_error(options, failed, reports=reports) from None


@contextmanager
def kafka_errors(
    options: KafkaOptions, reports: ConnectionReports | None = None, topic: str = ""
) -> Iterator[None]:
    """Raise errors of librdkafka in the block as ``SinkError``.

    Args:
        options: of the sink.
        reports: of the client.
        topic: the topic that the block is about.
    """
    try:
        yield
    except KafkaException as error:
        raise sink_error(options, error.args[0], topic, reports) from error


def sink_error(
    options: KafkaOptions,
    error: KafkaError,
    topic: str = "",
    reports: ConnectionReports | None = None,
) -> SinkError:
    """Return the sink's error for an error of librdkafka.

    Args:
        options: of the sink.
        error: the error.
        topic: the topic that the error is about, if it is about one.
        reports: of the client: the reason, if no broker answered.
    """
    said = error.str()
    if reports is not None and error.code() in _NO_ANSWER:
        if reports.refused is not None:
            error = reports.refused
            said = error.str()
        else:
            said = reports.said or said
    code, where = error.code(), options.bootstrap_servers
    if code in _FENCED:
        return FencedProducerError(
            f"Kafka at {where}: another process writes with this transactional_id and fenced this one: end one of "
            f"them, or give it another transactional_id and position_topic ({error.str()})"
        )
    text = f"Kafka at {where}: {error.name()}: {said}"[:500]
    doubtful = code not in _NEVER_PASS and _is_doubtful(said)
    if remedy := _remedy(options, code, topic, doubtful=doubtful):
        text = f"{text}: {remedy}"
    missing = bool(topic) and code in UNKNOWN_TOPIC and not options.create_topics
    return SinkError(text, retriable=code not in _NEVER_PASS and not doubtful and not missing)


def _remedy(options: KafkaOptions, code: int, topic: str, *, doubtful: bool) -> str:
    """Return what an operator must do; ``""`` if nothing is known."""
    if doubtful:
        return f"the listener may need another security_protocol than {options.security_protocol}"
    if code in UNKNOWN_TOPIC and not options.create_topics:
        return f"create the topic {topic}, or set create_topics = true" if topic else ""
    identity = options.named(options.transactional_id)
    if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return (
            f"the account needs READ on the group {options.group}, where the sink's lease is kept"
        )
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return f"the account needs WRITE and DESCRIBE on the transactional id {identity}"
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return "the account needs CREATE on the cluster, or on the topics"
    if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        rights = "DESCRIBE and WRITE" + (" and CREATE" if options.create_topics else "")
        rights += " and READ" if topic == options.named(options.position_topic) else ""
        return f"the account needs {rights} on the topic {topic or 'that is named'}"
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        limit = options.transaction_timeout
        return f"transaction_timeout is {limit:g} s, above the broker's transaction.max.timeout.ms"
    return ""
