"""The topic of positions, and producers that are closed later.

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
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from replica_client.errors import PositionFormatError, SinkError
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.position import Position
from replica_client.sinks.kafka.kafka_errors import (
    UNKNOWN_TOPIC,
    ConnectionReports,
    kafka_errors,
    sink_error,
    topics_of,
)
from replica_client.sinks.kafka.kafka_options import KafkaOptions
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import Lease, Owner

_TRY_SECONDS: Final = 2.0
_QUIET_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1
_PART_SECONDS: Final = 0.5
_WAITING: Final = frozenset((KafkaError._TIMED_OUT, KafkaError._WAIT_COORD))


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


_VERSION = 1
_POSITION = "position"
OWNER_KEY, LEASE_KEY = "owner", "lease"
_OF_WRITERS = frozenset((OWNER_KEY, LEASE_KEY))


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
    """Return the last heartbeat of the lease's holder as text.

    Raises:
        SinkError: a broker is unavailable, or the account may not read the group.
    """
    partition = TopicPartition(options.named(options.position_topic), 0)
    with _consumer(options, "read_committed") as consumer:
        return str(_committed(options, consumer, partition))


def check_beats(options: KafkaOptions) -> None:
    """Check that the account may write heartbeats and read positions, without writing anything.

    The broker looks at the rights before it looks for the partition, which does not exist.

    Raises:
        SinkError: it may not, or a broker is unavailable.
    """
    topic = options.named(options.position_topic)
    offset = TopicPartition(topic, 1, 0)
    with _consumer(options, "read_committed") as consumer, kafka_errors(options, topic=topic):
        _committed(options, consumer, offset)  # a commit would wait for a group that it may not see
        try:
            for done in consumer.commit(offsets=[offset], asynchronous=False) or ():
                if done.error is not None:
                    raise KafkaException(done.error)
        except KafkaException as error:
            if error.args[0].code() not in UNKNOWN_TOPIC:
                raise


def _committed(options: KafkaOptions, consumer: Consumer, partition: TopicPartition) -> int:
    """Return the offset that the group committed.

    A group that the account may not see is reported while events are polled; the call itself waits.
    """
    deadline = time.monotonic() + options.timeout
    while True:
        try:
            return int(consumer.committed([partition], timeout=_PART_SECONDS)[0].offset)
        except KafkaException as error:
            failed: KafkaError = error.args[0]
        message = consumer.poll(0)
        reported = None if message is None else message.error()
        if reported is not None and reported.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            failed = reported
        elif failed.code() in _WAITING and time.monotonic() < deadline:
            continue
        raise sink_error(options, failed)


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
        deadline = time.monotonic() + options.timeout
        while True:
            try:
                _, end = consumer.get_watermark_offsets(partition, timeout=options.timeout)
                break
            except KafkaException as unknown:
                failed: KafkaError = unknown.args[0]
                if failed.code() not in UNKNOWN_TOPIC or time.monotonic() > deadline:
                    raise sink_error(options, failed, topic) from unknown
                if may_be_new:
                    return {}
            if not options.create_topics:
                raise sink_error(options, failed, topic)
            time.sleep(_LOOK_SECONDS)  # a broker knows a new topic a moment after it was created
            # librdkafka remembers that a topic is missing, and answers from its memory until all
            # topics are asked for.
            topics_of(options, consumer, ConnectionReports())
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
                raise sink_error(options, error, topic)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


@contextmanager
def _consumer(options: KafkaOptions, isolation: str) -> Iterator[Consumer]:
    """Yield a consumer whose brokers have answered."""
    reports = ConnectionReports()
    with kafka_errors(options, reports):
        consumer = Consumer(
            {
                **reports.properties(options),
                # The client requires it, but joins no group.
                "group.id": options.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 50,
                "auto.offset.reset": "earliest",
            },
            logger=reports.logger,
        )
    try:
        topics_of(options, consumer, reports)
        yield consumer
    finally:
        consumer.close()
