"""Row changes as messages of Kafka topics: exactly once for readers of committed messages.

All messages between two commits, and the position after them, are one Kafka transaction: a reader
with ``isolation.level=read_committed`` sees all messages of a source transaction or none. With
``batch_rows = 1`` each source transaction is a Kafka transaction of its own; otherwise several may
share one.

Opening the sink fences every earlier producer with the same transactional id and aborts its open
transaction. The position topic then shows whether a commit whose answer was lost took place. This
process keeps nothing that a crash could lose.

A commit of more than ``transaction_messages`` takes several Kafka transactions; see
:mod:`~replica_client.sinks.kafka.position_topic`. The headers of its messages hold the source
transaction and the message's number in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replica_client.errors import ConfigError, SinkError, install_command
from replica_client.protocol.position import Position
from replica_client.sinks.formats.line_format import (
    MessageFormat,
    OutboxMessages,
    make_message_format,
)
from replica_client.sinks.formats.message import NEW_KEY, KeyChoice, Message, MessageSpool
from replica_client.sinks.kafka.kafka_errors import FencedProducerError
from replica_client.sinks.kafka.kafka_options import (
    KafkaOptions,
    TopicNames,
    format_options,
    read_kafka_options,
)
from replica_client.sinks.kafka.position_topic import (
    LEASE_KEY,
    OWNER_KEY,
    Found,
    beats,
    check_beats,
    position_record,
    read_beat,
    read_position,
    read_writers,
)
from replica_client.sinks.kafka.topic_writer import TopicWriter
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.writing import Batches, Worker, in_thread, os_errors
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.position.stores.growing import GrowingKeys
from replica_client.stream.position.stores.ownership import Claim, Heart, Lease, Owner, fenced
from replica_client.stream.transactions.transaction import Transaction

if TYPE_CHECKING:
    from replica_client.sinks.kafka.avro_messages import AvroMessages
    from replica_client.sinks.kafka.kafka_options import RegistryOptions

_CLOCK = re.compile(r'"ts(?:_ms|_us|_ns)?":[0-9]+')
_GIVE_BACK_SECONDS: Final = 1.0
_TRANSACTION, _ORDER = "replica_client.transaction", "replica_client.order"


def make(table: Mapping[str, object]) -> KafkaSink:
    """Return the sink for a table of the configuration.

    Raises:
        ConfigError: an option is wrong; the message names it.
    """
    return KafkaSink(read_kafka_options(table))


class KafkaSink:
    """The sink ``kafka``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.guarantee = options.guarantee
        self.holds_position = options.exactly_once
        self._options = options
        self._format: MessageFormat = make_message_format(
            options.format, format_options(options), KeyChoice(options.key_columns)
        )
        self._avro = None if options.registry is None else _avro_messages(options.registry)
        self._topics = TopicNames(options)
        self._position_topic = options.named(options.position_topic)
        self._worker = Worker()
        self._batches = Batches(in_thread(self._worker, self._take))
        self._writer: TopicWriter | None = None
        self._state = GrowingKeys()
        self._position: Position | None = None
        # Messages after the saved position: those in the topics already, and those seen here so
        # far.
        self._ahead = self._seen = 0
        self._last = ""
        self._order = 0
        self._parts = MessageSpool()
        self._claim: Claim | None = None
        self._lease: Lease | None = None
        self._heart: Heart | None = None

    def claim(self, claim: Claim) -> None:
        self._claim = claim

    async def saved(self) -> Checkpoint | None:
        if not self._options.exactly_once:
            return None
        return (await self._worker.run(self._found)).checkpoint

    async def owners(self) -> Sequence[Owner]:
        return (await self._worker.run(self._writers)).owners

    def _found(self) -> Found:
        """Return the contents of the position topic, without fencing a producer."""
        return read_position(self._options, GrowingKeys(), may_be_new=True)

    def route_outbox(self) -> None:
        self._format = OutboxMessages(self._format, lines=False)

    async def probe(self) -> None:
        await self._worker.run(self._probe)
        if self._avro is not None:
            await self._worker.run(self._avro.probe)

    def _probe(self) -> None:
        options = self._options
        TopicWriter(options).probe()
        if options.exactly_once:
            check_beats(options)

    async def open(self) -> Checkpoint | None:
        return await self._worker.run(self._open)

    async def write(self, transaction: Transaction) -> None:
        with self._fencing():
            await self._batches.add(transaction)

    async def write_some(self, transactions: Sequence[Transaction], size: int) -> None:
        with self._fencing():
            await self._batches.add_some(transactions, size)

    @property
    def takes_snapshot(self) -> bool:
        return not self._ahead

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        with self._fencing():
            await self._batches.flush()
            await self._worker.run(self._write_snapshot, rows)

    async def commit(self, checkpoint: Checkpoint) -> None:
        with self._fencing():
            await self._batches.flush()
            await self._worker.run(self._commit, checkpoint)

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._close)
        self._worker.stop()

    def _writers(self) -> Found:
        """Return owners and lease from the position topic; nothing if the topic is missing."""
        return read_writers(self._options)

    def _open(self) -> Checkpoint | None:
        options, claim = self._options, self._claim
        if not options.exactly_once:
            self._writer = TopicWriter(options)
            self._writer.begin()
            return None
        before = None if claim is None else self._look(claim)
        with self._fencing():
            writer = self._writer = TopicWriter(options)
            writer.begin()
            # The records must never expire.
            writer.make_topics(
                (self._position_topic,), 1, {"cleanup.policy": "compact", "retention.ms": "-1"}
            )
            found = read_position(options, self._state)
            if claim is not None:
                check_beats(options)
                self._take_lease(claim, before, found.lease)
        self._ahead, self._seen, self._last = found.ahead, 0, found.last
        self._position = None if found.checkpoint is None else found.checkpoint.position
        return found.checkpoint

    # The identity of the writer, and its lease.

    def _look(self, claim: Claim) -> Lease | None:
        """Return the current lease, before its holder's producer is fenced.

        Raises:
            ForeignOwnerError: the topic belongs to another owner.
            StandbyError: another process writes.
        """
        found = self._writers()
        mine = claim.resolve(found.owners)
        for other in found.owners:
            if other.id not in (mine.id, claim.takes_over):
                raise claim.foreign(f"topic {self._position_topic}", other)
        if found.lease is not None:
            self._lease = claim.take(found.lease, read_beat(self._options))
        else:
            self._lease = claim.take(None, "")
        return found.lease

    def _take_lease(self, claim: Claim, before: Lease | None, found: Lease | None) -> None:
        """Write the lease with a producer that fenced the earlier ones, and start its heartbeat."""
        if found != before:
            raise fenced(self._where)  # another process was faster
        assert self._lease is not None
        self._put({OWNER_KEY: json.dumps(claim.owner.to_json()), LEASE_KEY: self._lease.to_text()})
        self._opened().commit()
        self._heart = Heart(lambda: beats(self._options))

    def _give_back(self, writer: TopicWriter) -> None:
        """Release the lease, so that a standby need not wait."""
        lease, self._lease = self._lease, None
        heart, self._heart = self._heart, None
        if heart is None or lease is None:
            return
        heart.stop()
        if not writer.is_idle:
            return  # the open transaction will be aborted
        with suppress(SinkError):
            self._writer = writer
            self._put({LEASE_KEY: replace(lease, holder="").to_text()})
            writer.commit(_GIVE_BACK_SECONDS)
        self._writer = None

    @contextmanager
    def _fencing(self) -> Iterator[None]:
        """Raise the error of a standby if another process fenced the producer.

        Without a claim, the error is raised as it is.
        """
        try:
            yield
        except FencedProducerError as error:
            if self._claim is None:
                raise
            raise fenced(self._where) from error

    @property
    def _where(self) -> str:
        return f"Kafka at {self._options.bootstrap_servers}"

    def _take(self, transactions: list[Transaction]) -> None:
        self._make_topics(transactions)
        for transaction in transactions:
            messages = self._format.messages(transaction)
            if not self._options.exactly_once and (self._parts or not transaction.complete):
                # Without Kafka's transactions readers would see parts of an incomplete transaction.
                with os_errors("temporary file of the sink kafka"):
                    self._parts.take(messages)
                if not transaction.complete:
                    continue
                messages = self._parts.messages()
            self._write(transaction, messages)
            self._parts.clear()

    def _make_topics(self, transactions: list[Transaction]) -> None:
        """Create the topics of rows that are missing together: one by one takes brokers 30 times as long."""
        if isinstance(self._format, OutboxMessages):
            return  # its messages name their topics
        topic_of = self._topics.of
        shapes = {id(rows.shape): rows.shape for one in transactions for rows in one.rows}
        names = {topic_of("row", shape.database, shape.table) for shape in shapes.values()}
        self._opened().make_topics(name for name in names if name)

    def _write(self, transaction: Transaction, messages: Iterable[Message]) -> None:
        options, writer, avro = self._options, self._opened(), self._avro
        tombstones, limit, topic_of = (
            options.tombstones,
            options.transaction_messages,
            self._topics.of,
        )
        tells = options.headers or (limit and (transaction.part or not transaction.complete))
        name = transaction.gtid or f"{transaction.start.file}:{transaction.start.offset}"
        if not transaction.part:
            self._order = 0
        topic, known = "", None
        for message in messages:
            rows = message.rows
            if message.topic:
                topic, known = self._topics.routed(message.topic), None
            elif rows is None or rows is not known:
                # All messages of an event go to the same topic.
                topic, known = topic_of(message.kind, message.database, message.table), rows
            if not topic:
                continue
            self._order += 1
            self._seen += 1
            if self._seen <= self._ahead:
                self._pass_over(message)
                continue
            headers = message.headers
            if tells:
                headers += ((_TRANSACTION, name), (_ORDER, str(self._order)))
            if avro is None:
                value = message.value if message.binary is None else message.binary
                if value:  # else the format has only a tombstone for it
                    writer.write(topic, message.key, value, headers, message)
            else:
                writer.write(topic, *self._bytes(topic, message), headers, message)
            if tombstones and message.gone is not None:
                gone = message.gone if avro is None else avro.key(topic, message, message.gone)
                kept = tuple(one for one in message.headers if one[0] == NEW_KEY)
                writer.write(topic, gone, None, kept, message)
            if limit and self._seen - self._ahead >= limit and options.exactly_once:
                self._commit_some(message)

    def _write_snapshot(self, rows: SnapshotRows) -> None:
        """Write snapshot rows in one Kafka transaction, however many there are.

        After a crash the snapshot would not yield the same rows again.
        """
        writer = self._opened()
        for number, message in enumerate(self._format.snapshot(rows), 1):
            if message.topic:
                topic = self._topics.routed(message.topic)
            else:
                topic = self._topics.of(message.kind, message.database, message.table)
            if not topic:
                continue
            headers = message.headers
            if self._options.headers:
                headers += ((_TRANSACTION, rows.name), (_ORDER, str(number)))
            key, value = self._bytes(topic, message)
            writer.write(topic, key, value, headers, message)

    def _bytes(self, topic: str, message: Message) -> tuple[str | bytes | None, str | bytes]:
        """Return key and value as they are written."""
        if self._avro is not None:
            return self._avro.key(topic, message, message.key), self._avro.value(topic, message)
        return message.key, message.value if message.binary is None else message.binary

    def _pass_over(self, message: Message) -> None:
        """Skip a message that its topic has already.

        Raise an error if the last skipped message is not the one in the topic.
        """
        if self._seen == self._ahead and _digest(message) != self._last:
            options = self._options
            raise SinkError(
                f"Kafka at {options.bootstrap_servers}: the records after the position differ from those that "
                "are delivered again: the choice of tables, the format or topics were changed in the middle of a "
                f"commit; set them back, or name another position_topic than {self._position_topic} and start over"
            )

    def _commit_some(self, last: Message) -> None:
        """End a Kafka transaction in the middle of a commit.

        The saved position stays, together with the number of messages already written after it.
        """
        digest = _digest(last)
        self._put(position_record(self._position, self._seen, digest))
        self._opened().commit()
        self._ahead, self._last = self._seen, digest

    def _commit(self, checkpoint: Checkpoint) -> None:
        writer = self._opened()
        if not self._options.exactly_once:
            writer.commit()
            return
        ahead = self._ahead - min(self._ahead, self._seen)
        plan = self._state.plan(checkpoint.state)
        self._put(plan.put)
        self._put(dict.fromkeys(plan.gone))
        self._put(position_record(checkpoint.position, ahead, self._last))
        writer.commit()
        self._state.saved(plan)
        self._position, self._ahead, self._seen = checkpoint.position, ahead, 0

    def _put(self, records: Mapping[str, str | None]) -> None:
        writer = self._opened()
        for key, value in records.items():
            writer.write(self._position_topic, key, value, partition=0)

    def _close(self) -> None:
        self._parts.clear()
        writer, self._writer = self._writer, None
        if writer is not None:
            self._give_back(writer)
            writer.close()
        if self._avro is not None:
            self._avro.close()

    def _opened(self) -> TopicWriter:
        if self._writer is None:
            raise SinkError(f"Kafka at {self._options.bootstrap_servers}: the sink is not open")
        return self._writer


def _digest(message: Message) -> str:
    """Return a digest that identifies a message. The time at which it was made is left out."""
    text = f"{message.key}\0{_CLOCK.sub('', message.value)}".encode("utf-8", "backslashreplace")
    return hashlib.sha256(text + (message.binary or b"")).hexdigest()


def _avro_messages(options: RegistryOptions) -> AvroMessages:
    # Imported only if used: the registry's client belongs to an extra.
    try:
        from replica_client.sinks.kafka.avro_messages import AvroMessages
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"sink kafka: the format 'avro' needs {error.name}: {install_command('avro')}"
        ) from error
    return AvroMessages(options)
