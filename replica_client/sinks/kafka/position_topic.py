"""The topic of positions, producers that are closed later, and the client's errors.

Freeing a producer while a request for its transaction is in flight ends the whole process (an
assertion of librdkafka 2.16). Such a producer is kept in a thread until its brokers answer, or say
that another producer fenced it.

Records of one partition, by key:

==============  ==============================================================
key             value
==============  ==============================================================
``position``    ``{"version": 1, "position": …, "ahead": n, "last": digest}``
``state``       JSON object
``owner``       JSON object: the identity of the writer
``lease``       the process that writes, and its epoch
``state-1`` …   texts of the growing parts of the state
==============  ==============================================================

``ahead`` is the number of messages after the position that the topics already have, and ``last`` is
the digest of the last one. They are set if a commit of several Kafka transactions was interrupted.

The holder of the lease writes its heartbeats as offsets of the consumer group
``TRANSACTIONAL_ID.position``, so that the topic does not grow. Each heartbeat is a random number.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from replica_client.errors import PositionFormatError, SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.sinks.kafka.kafka_options import KafkaOptions, client_properties
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import Lease, Owner

_TRY_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0


def give_up(producer: Producer, seconds: float) -> None:
    """Abort a producer's transaction, so that readers need not wait for its timeout.

    Args:
        producer: a producer with an open transaction, which the caller no longer uses.
        seconds: time to wait for the brokers; then a thread goes on trying.
    """
    if not _abort(producer, seconds):
        threading.Thread(
            target=_until_over, args=(producer,), name="replica-client-kafka", daemon=True
        ).start()


def _until_over(producer: Producer) -> None:
    while not _abort(producer, _TRY_SECONDS):
        time.sleep(_QUIET_SECONDS)


def _abort(producer: Producer, seconds: float) -> bool:
    """Abort the transaction, and return whether none is open any more."""
    try:
        producer.abort_transaction(seconds)
    except KafkaException as error:
        if not error.args[0].fatal():
            return False
        # Fenced, or refused for good: only wait for requests that are in flight.
        time.sleep(_QUIET_SECONDS)
    return True


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


_VERSION = 1
_POSITION = "position"
OWNER_KEY, LEASE_KEY = "owner", "lease"
_OF_WRITERS = frozenset((OWNER_KEY, LEASE_KEY))
_LOG = logging.getLogger("replica_client.sinks")


@dataclass(frozen=True, slots=True)
class Found:
    """The contents of a position topic.

    Attributes:
        checkpoint: checkpoint of the last commit; None before the first commit.
        ahead: number of messages after the checkpoint that the topics already have.
        last: digest of the last of these messages.
        owners: the identity that writes there, if known.
        lease: lease of the process that writes; None if no process ever took one.
    """

    checkpoint: Checkpoint | None = None
    ahead: int = 0
    last: str = ""
    owners: tuple[Owner, ...] = ()
    lease: Lease | None = None


def position_record(position: Position | None, ahead: int, last: str) -> dict[str, str]:
    """Return the record of a position, by its key."""
    value = {
        "version": _VERSION,
        "position": None if position is None else position.to_json(),
        "ahead": ahead,
        "last": last,
    }
    return {_POSITION: json.dumps(value)}


def read_position(options: KafkaOptions, state: GrowingKeys, *, may_be_new: bool = False) -> Found:
    """Return the contents of the position topic; nothing if the topic is empty.

    A writer calls this after ``init_transactions``, when no transaction of its own is open.

    Args:
        options: options of the sink.
        state: keys of the growing parts of the state.
        may_be_new: whether a missing topic counts as empty. A writer, which has created its topic,
            gets an error instead: it must not start over because a broker does not know the topic
            yet.

    Raises:
        SinkError: a broker is unavailable, or the topic holds no position of this release.
    """
    topic = options.named(options.position_topic)
    records = _records(options, topic, may_be_new=may_be_new)
    try:
        owners, lease = _writers(records)
        text = records.get(_POSITION)
        if text is None:
            if records.keys() - _OF_WRITERS:
                raise PositionFormatError(f"there is {sorted(records)[0]!r:.80} and no position")
            return Found(owners=owners, lease=lease)
        saved = json.loads(text)
        if saved["version"] != _VERSION:
            raise PositionFormatError(f"version {saved['version']}")
        ahead, last = int(saved["ahead"]), str(saved["last"])
        if saved["position"] is None:
            return Found(None, ahead, last, owners, lease)
        states = state.read(records.get(GrowingKeys.KEY), records)
        checkpoint = Checkpoint(Position.from_json(saved["position"]), states)
        return Found(checkpoint, ahead, last, owners, lease)
    except (ValueError, KeyError, TypeError, PositionFormatError) as error:
        raise SinkError(
            f"Kafka at {options.bootstrap_servers}: topic {topic} holds no position of this release ({error}); name "
            "another position_topic"
        ) from error


def read_writers(options: KafkaOptions) -> Found:
    """Read the owners and the lease from the position topic.

    This also works while a transaction of a dead process is open there.

    Raises:
        SinkError: a broker is unavailable, or the records are not of this release.
    """
    topic = options.named(options.position_topic)
    try:
        owners, lease = _writers(_records(options, topic, may_be_new=True, waits=False))
    except (ValueError, TypeError) as error:
        raise SinkError(f"Kafka at {options.bootstrap_servers}: topic {topic}: {error}") from error
    return Found(owners=owners, lease=lease)


def _writers(records: Mapping[str, str]) -> tuple[tuple[Owner, ...], Lease | None]:
    owner = records.get(OWNER_KEY)
    owners = (Owner.from_json(json.loads(owner)),) if owner else ()
    return owners, Lease.from_text(records.get(LEASE_KEY))


def read_beat(options: KafkaOptions) -> str:
    """Return the last heartbeat of the lease's holder as text."""
    with _consumer(options, "read_committed") as consumer:
        partition = TopicPartition(options.named(options.position_topic), 0)
        found = consumer.committed([partition], timeout=options.timeout)
        return str(found[0].offset)


@contextmanager
def beats(options: KafkaOptions) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a heartbeat."""
    topic = options.named(options.position_topic)
    with _consumer(options, "read_committed") as consumer:

        def beat(text: str) -> None:
            offset = TopicPartition(topic, 0, int(text, 16) >> 2)
            consumer.commit(offsets=[offset], asynchronous=False)

        yield beat


def _records(
    options: KafkaOptions, topic: str, *, may_be_new: bool, waits: bool = True
) -> dict[str, str]:
    """Return the last value of each key in a topic, without deleted keys.

    Args:
        options: how to connect.
        topic: a topic with one partition.
        may_be_new: see :func:`read_position`.
        waits: whether to wait for the end of an open transaction; otherwise only records committed
            before it are read.
    """
    records: dict[str, str] = {}
    # For a reader of committed records the topic ends where the first open transaction begins.
    # Records committed after that would be missed, and an old position would be taken for the last
    # one.
    with _consumer(options, "read_uncommitted") as consumer:
        partition = TopicPartition(topic, 0)
        try:
            _, end = consumer.get_watermark_offsets(partition, timeout=options.timeout)
        except KafkaException as unknown:
            if may_be_new and unknown.args[0].code() in UNKNOWN_TOPIC:
                return {}
            raise
    if end <= 0:
        return {}
    with _consumer(options, "read_committed") as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + options.timeout
        while True:
            message = consumer.poll(0.2)
            if time.monotonic() > deadline:
                raise SinkError(
                    f"Kafka at {options.bootstrap_servers}: the topic {topic} cannot be read up to its end at {end}: "
                    "a broker is unavailable, or another writer has an open transaction there",
                    retriable=True,
                )
            if message is None:
                continue
            error = message.error()
            if error is None:
                deadline = time.monotonic() + options.timeout
                key, value = _text(message.key()), message.value()
                if value is None:
                    records.pop(key, None)
                else:
                    records[key] = _text(value)
            elif error.code() == KafkaError._PARTITION_EOF:
                offset = message.offset()
                if offset is not None and (offset >= end or not waits):
                    return records
            elif not error.retriable():
                raise sink_error(options.bootstrap_servers, error)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def _consumer(options: KafkaOptions, isolation: str) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            **client_properties(options),
            **{name: value for name, value in options.client.items() if name.startswith("ssl.")},
            # The client requires it, but joins no group.
            "group.id": f"{options.named(options.transactional_id)}.position",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "fetch.wait.max.ms": 50,
            "auto.offset.reset": "earliest",
        },
        logger=_LOG,
    )
    try:
        yield consumer
    finally:
        consumer.close()
