"""Writing to topics, and delivery reports."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from replica_client.errors import SinkError
from replica_client.rows.change import RowsOfEvent
from replica_client.sinks.formats.message import Message, unwritable
from replica_client.sinks.kafka.kafka_errors import (
    UNWRITABLE,
    ConnectionReports,
    FencedProducerError,
    kafka_errors,
    sink_error,
    topics_of,
)
from replica_client.sinks.kafka.kafka_options import (
    KafkaOptions,
    producer_properties,
    properties_text,
)
from replica_client.sinks.kafka.position_topic import give_up

_Text = str | bytes | None


class Delivered(Protocol):
    """A message in a delivery report of librdkafka."""

    def topic(self) -> str | None:
        """Return the message's topic."""

    def key(self) -> _Text:
        """Return the key as it was written."""

    def value(self) -> _Text:
        """Return the value as it was written."""


class RowsReport:
    """The delivery callback for all messages of a rows event.

    One object serves all messages, as most of them are delivered. A broker refuses a message for
    its size or its missing key. Messages of the same key and size are therefore refused together,
    and naming the first one is right.

    Args:
        rows: the rows event.
        failed: called for a message that was not delivered.

    Attributes:
        rows: the rows event.
        written: row index, key and size of the value of each written message; size -1 for no value.
            The writer appends to the list directly, as a method call per message would be slower.
    """

    __slots__ = ("_failed", "rows", "written")

    def __init__(
        self,
        rows: RowsOfEvent,
        failed: Callable[[KafkaError | None, Delivered, Message | None], None],
    ) -> None:
        self.rows = rows
        self._failed = failed
        self.written: list[tuple[int, _Text, int]] = []

    def __call__(self, error: KafkaError | None, delivered: Delivered) -> None:
        """Handle the delivery report of a message."""
        if error is None:
            return
        keys, sizes = _forms(delivered.key()), {len(one) for one in _forms(delivered.value())}
        for index, key, size in self.written:
            is_key = key in keys if keys else key is None
            if is_key and (size in sizes if sizes else size < 0):
                text = delivered.value()
                shown = Message("row", "", "", None, "", rows=self.rows, row_index=index)
                binary = text.encode() if isinstance(text, str) else text
                self._failed(error, delivered, shown._replace(binary=binary))
                return
        self._failed(error, delivered, None)


def _forms(text: _Text) -> list[str | bytes]:
    """Return the forms in which a text may have been written: as characters or bytes."""
    if text is None:
        return []
    if isinstance(text, str):
        return [text, text.encode()]
    return [text, text.decode("utf-8", "replace")]


_POLL_EVERY = 500
_SHOWN = 5
_LONGER = 4.0
_LONGEST_SECONDS = 900.0
"""Brokers' default of ``transaction.max.timeout.ms``."""
_LIMITS: dict[tuple[str, str], float] = {}
"""Time limits of transactions, by brokers and transactional id, where the configured one was too short."""
_ABORT_SECONDS = 2.0
_REPORT_SECONDS = 2.0


class TopicWriter:
    """Writes messages to Kafka. The methods block and must be called from one thread.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._where = options.bootstrap_servers
        self._reports: ConnectionReports | None = None
        self._began = 0.0
        self._key = options.bootstrap_servers, options.named(options.transactional_id)
        self._limit = max(options.transaction_timeout, _LIMITS.get(self._key, 0.0))
        self._producer: Producer | None = None
        self._admin: AdminClient | None = None
        self._topics: set[str] = set()
        self._open = False
        self._failed: SinkError | None = None
        self._sent = 0
        self._report: RowsReport | None = None

    def probe(self) -> None:
        """Ask the brokers for their topics, to check that they answer.

        Raises:
            SinkError: the brokers are unavailable, or refuse.
        """
        options, reports = self._options, ConnectionReports()
        with kafka_errors(options, reports):
            admin = AdminClient(reports.properties(options), logger=reports.logger)
            self._topics = topics_of(options, admin, reports)
        if not options.create_topics:
            self._need_topics(options.fixed_topics)

    def _need_topics(self, names: Iterable[str]) -> None:
        """Raise an error that names those of some topics that do not exist."""
        missing = sorted({*names} - self._topics)
        if missing:
            shown = ", ".join(missing[:_SHOWN]) + (", …" if missing[_SHOWN:] else "")
            raise SinkError(
                f"Kafka at {self._where}: there is no topic {shown}: create it, or set create_topics = true"
            )

    def begin(self) -> None:
        """Connect, fence earlier writers of the transactional id and abort their transactions.

        Raises:
            SinkError: the brokers are unavailable, or refuse.
        """
        options = self._options
        self._reports = reports = ConnectionReports()
        with kafka_errors(options, reports):
            self._admin = AdminClient(reports.properties(options), logger=reports.logger)
            self._topics = topics_of(options, self._admin, reports)
            properties = producer_properties(options)
            if options.exactly_once:
                properties["transaction.timeout.ms"] = int(self._limit * 1000)
            self._producer = Producer(
                {**reports.properties(options), **properties}, logger=reports.logger
            )
            if options.exactly_once:
                self._retried(self._producer.init_transactions)

    def make_topics(
        self,
        names: Iterable[str],
        partitions: int | None = None,
        config: dict[str, str] | None = None,
    ) -> None:
        """Create those of some topics that do not exist, together.

        Args:
            names: of the topics.
            partitions: of each; None: as configured, as is ``config``.
            config: configuration of each.

        Raises:
            SinkError: the brokers are unavailable, or refuse.
        """
        missing = sorted({*names} - self._topics)
        options = self._options
        if missing and self._admin is not None and not options.create_topics:
            self._topics = topics_of(options, self._admin, self._reports or ConnectionReports())
            self._need_topics(missing)
        elif missing and self._admin is not None:
            if partitions is None:
                partitions, config = options.partitions, properties_text(options.topic_config)
            made = self._admin.create_topics(
                [
                    NewTopic(name, partitions, options.replication_factor, config=config or {})
                    for name in missing
                ],
                request_timeout=options.timeout,
            )
            for name, future in made.items():
                with kafka_errors(options, self._reports, name):
                    try:
                        future.result()
                    except KafkaException as error:
                        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                            raise
        self._topics.update(missing)

    def write(
        self,
        topic: str,
        key: str | bytes | None,
        value: str | bytes | None,
        headers: Iterable[tuple[str, str]] = (),
        message: Message | None = None,
        *,
        partition: int = -1,
    ) -> None:
        """Queue a message. The next :meth:`commit` makes it visible.

        Args:
            topic: the topic; created if missing.
            key: the key; None for none.
            value: the value; None for a tombstone.
            headers: names and values.
            message: the change, for errors.
            partition: partition of the topic; -1: chosen by the key.

        Raises:
            SinkError: the message cannot be written now.
            PoisonChangeError: the message can never be written.
        """
        producer = self._producer
        if producer is None:
            producer = self._opened()
        if topic not in self._topics:
            self.make_topics((topic,))
        if not self._open:
            if self._options.exactly_once:
                with kafka_errors(self._options, self._reports):
                    producer.begin_transaction()
                self._began = time.monotonic()
            self._open = True
        report: Callable[[KafkaError | None, Delivered], None]
        if message is None or (rows := message.rows) is None:
            report = self._not_delivered
        else:
            known = self._report
            if known is None or known.rows is not rows:
                known = self._report = RowsReport(rows, self._not_delivered)
            known.written.append((message.row_index, key, -1 if value is None else len(value)))
            report = known
        try:
            if headers:
                producer.produce(topic, value, key, partition, report, headers=list(headers))
            else:
                producer.produce(topic, value, key, partition, report)
        except (UnicodeEncodeError, BufferError, KafkaException) as error:
            self._write_again(error, (topic, value, key, partition, report), headers, message)
        self._sent += 1
        if not self._sent % _POLL_EVERY:
            self._poll(producer, 0)
        if self._failed is not None:
            self._raise_failed()

    def _write_again(
        self,
        error: Exception,
        given: tuple[Any, ...],
        headers: Iterable[tuple[str, str]],
        message: Message | None,
    ) -> None:
        """Retry a message that was not accepted the first time, or raise the reason."""
        producer = self._opened()
        topic, value, key, *rest = given
        deadline = time.monotonic() + self._options.timeout
        while True:
            if isinstance(error, UnicodeEncodeError):
                # A name with bytes that are not UTF-8: a JSON escape, as in lines.
                value, key = _encoded(value), _encoded(key)
            elif isinstance(error, BufferError):
                # The queue is full, as the brokers are slower: wait for them.
                self._poll(producer, 0.05)
                if time.monotonic() > deadline:
                    raise SinkError(
                        f"Kafka at {self._where}: nothing was taken for {self._options.timeout:g} s",
                        retriable=True,
                    ) from None
            elif isinstance(error, KafkaException):
                if error.args[0].code() == KafkaError._STATE:
                    # An earlier message was refused meanwhile, and with it the transaction.
                    self._hear(producer)
                    self._raise_failed()
                if error.args[0].code() == KafkaError._FATAL:
                    raise self._error(self._cause(producer, error.args[0])) from error
                raise self._refused(error.args[0], topic, message) from error
            try:
                producer.produce(topic, value, key, *rest, headers=list(headers))
                return
            except (UnicodeEncodeError, BufferError, KafkaException) as again:
                error = again

    @property
    def is_idle(self) -> bool:
        """Whether nothing uncommitted was written and nothing failed."""
        return self._producer is not None and not self._open and self._failed is None

    def commit(self, seconds: float | None = None) -> None:
        """Commit the messages; once this returns, all in-sync replicas have them.

        Args:
            seconds: time limit; None: the option ``timeout``.

        Raises:
            SinkError: the commit may have happened or not; the position topic shows it.
            PoisonChangeError: a message can never be written.
        """
        producer = self._opened()
        if not self._open:
            return
        try:
            if self._options.exactly_once:
                self._retried(producer.commit_transaction, seconds)
            else:
                left = producer.flush(self._options.timeout + 1)
                self._raise_failed()
                if left:
                    raise SinkError(
                        f"Kafka at {self._where}: {left} messages were not acknowledged in "
                        f"{self._options.timeout:g} s",
                        retriable=True,
                    )
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                # The error of the refused message says more than that of the commit.
                self._hear(producer)
                self._raise_failed()
            raise self._error(error.args[0]) from error
        self._open = False

    def close(self) -> None:
        """Abort uncommitted messages and close the connections."""
        producer, self._producer, self._admin = self._producer, None, None
        if producer is None:
            return
        if self._open and self._options.exactly_once:
            give_up(producer, _ABORT_SECONDS)
        self._open = False

    def _retried(self, call: Callable[[float], None], seconds: float | None = None) -> None:
        """Call a function again after retriable errors, until it succeeds or the time is over."""
        deadline = time.monotonic() + (self._options.timeout if seconds is None else seconds)
        while True:
            left = max(deadline - time.monotonic(), 0.1)
            try:
                call(left)
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    def _hear(self, producer: Producer) -> None:
        """Wait a moment for the delivery report of a refused message."""
        deadline = time.monotonic() + _REPORT_SECONDS
        while self._failed is None and time.monotonic() < deadline:
            with contextlib.suppress(KafkaException):
                producer.poll(0.05)

    def _cause(self, producer: Producer, fatal: KafkaError) -> KafkaError:
        """Return the error that made the producer unusable.

        librdkafka reports it only once, while events are polled.
        """
        deadline = time.monotonic() + _REPORT_SECONDS
        while time.monotonic() < deadline:
            try:
                producer.poll(0.05)
            except KafkaException as error:
                return error.args[0]
        return fatal

    def _poll(self, producer: Producer, seconds: float) -> None:
        """Process pending delivery reports."""
        try:
            producer.poll(seconds)
        except KafkaException as error:
            raise self._error(error.args[0]) from error

    def _error(self, error: KafkaError, topic: str = "") -> SinkError:
        """Return the sink's error for an error of the producer."""
        found = sink_error(self._options, error, topic, self._reports)
        seconds = time.monotonic() - self._began
        if not isinstance(found, FencedProducerError) or not self._open or seconds < self._limit:
            return found
        # The broker ends a transaction of this age as it fences a producer.
        next_limit = min(self._limit * _LONGER, _LONGEST_SECONDS)
        longer = next_limit > self._limit
        if longer:
            _LIMITS[self._key] = next_limit
        return SinkError(
            f"Kafka at {self._where}: a Kafka transaction was open for {seconds:.0f} s, and the broker ended it after "
            f"transaction_timeout ({self._limit:g} s): "
            + (f"the next one gets {next_limit:g} s; " if longer else "")
            + "raise transaction_timeout, or set transaction_messages so that a large commit takes several",
            retriable=longer,
        )

    def _opened(self) -> Producer:
        if self._producer is None:
            raise SinkError(f"Kafka at {self._where}: the sink is not open")
        return self._producer

    def _raise_failed(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def _not_delivered(
        self, error: KafkaError | None, delivered: Delivered, message: Message | None = None
    ) -> None:
        # Messages of an aborted transaction are expected to be purged.
        if error is None or error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            return
        if self._failed is None:
            self._failed = self._refused(error, delivered.topic() or "", message)

    def _refused(self, error: KafkaError, topic: str, message: Message | None) -> SinkError:
        if error.code() not in UNWRITABLE or message is None or message.rows is None:
            return self._error(error, topic)
        size = len(message.data)
        return unwritable(
            message,
            f"Kafka at {self._where}: {topic} does not take a message of {size} bytes: {error.name()}: {error.str()} "
            f"(max_message_bytes is {self._options.max_message_bytes})",
        )


def _encoded(text: str | bytes | None) -> bytes | None:
    return text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
