"""Conversion of librdkafka's errors to errors of a sink."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from replica_client.errors import SinkError

_FENCED = frozenset(
    (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
)
# Errors that an operator must fix; the sink retries less often.
_NEVER_PASS = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._INVALID_ARG,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
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


@contextmanager
def kafka_errors(where: str) -> Iterator[None]:
    """Raise errors of librdkafka in the block as ``SinkError``.

    Args:
        where: the servers, for messages.
    """
    try:
        yield
    except KafkaException as error:
        raise sink_error(where, error.args[0]) from error


def sink_error(where: str, error: KafkaError) -> SinkError:
    """Return the sink's error for an error of librdkafka."""
    code = error.code()
    if code in _FENCED:
        return FencedProducerError(
            f"Kafka at {where}: another process writes with this transactional_id and fenced this one: end one of "
            f"them, or give it another transactional_id and position_topic ({error.str()})"
        )
    text = f"Kafka at {where}: {error.name()}: {error.str()}"[:500]
    return SinkError(text, retriable=code not in _NEVER_PASS)
