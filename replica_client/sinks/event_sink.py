"""Base classes of sinks that write events.

A sink of your own derives a class and implements how events are sent::

    class MySink(EventSink):
        async def send(self, events):
            await my_queue.put_all([(event.id, event.value) for event in events])

Parts of a large transaction wait, in memory and then in a temporary file, until the last part
arrives. Events that were sent but not committed are sent again after a crash, with the same ids
and in the same portions, so that the receiver can recognize them.

Schema changes are rows of the table ``_schema_changes``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.arrow_types import number_array, text_array
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.row_change import Change
from replica_client.schema.history import SchemaChange
from replica_client.sinks.formats.line_format import MessageFormat, OutboxMessages, make_format
from replica_client.sinks.formats.message import Message, MessageSpool
from replica_client.sinks.protocol import Guarantee, SnapshotRows
from replica_client.sinks.writing import Batches, Worker, os_errors
from replica_client.stream.position.stores.base import Checkpoint
from replica_client.stream.transactions.transaction import Transaction

_AT_ONCE: Final = 64


class Event(NamedTuple):
    """A change with its id, ready to be sent.

    Attributes:
        id: unique id: the transaction (GTID, or file and offset), ``:``, and the event's number in
            it.
        message: the change in the sink's format, with its table and key.
    """

    id: str
    message: Message

    @property
    def value(self) -> bytes:
        """The change as bytes: JSON in UTF-8, or the output of the format."""
        return self.message.data


class EventSink:
    """A sink that sends events in portions; see the module.

    Args:
        message_format: the format of the events; None: the native format.
        portion: maximum events in one call of :meth:`send`.
        join: whether a portion may hold events of several transactions. Portions then differ when
            events are sent again.
    """

    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    holds_position = False
    sends_messages = False
    """Whether the sink sends destination, key and headers of a message apart from its value."""

    def __init__(
        self,
        message_format: MessageFormat | None = None,
        *,
        portion: int = 1000,
        join: bool = False,
    ) -> None:
        self._format: MessageFormat = message_format or make_format("native", {})
        self._portion, self._join = portion, join
        self._worker = Worker()
        self._batches = Batches(self._hand_on)
        self._parts = MessageSpool()

    # Methods to override.

    async def connect(self) -> None:
        """Prepare the sink for sending.

        Raises:
            SinkError: the sink cannot be used; the message says why and what to do.
        """

    async def send(self, events: Sequence[Event]) -> None:
        """Send events. They survive a crash once this method returns.

        Raises:
            SinkError: sending failed; ``retriable`` says whether a later attempt may succeed.
        """
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Release all resources. May be called at any time, also twice."""

    # Common to all event sinks.

    def route_outbox(self) -> None:
        self._format = OutboxMessages(self._format, lines=not self.sends_messages)

    async def open(self) -> Checkpoint | None:
        await self.connect()
        return None

    async def write(self, transaction: Transaction) -> None:
        await self._batches.add(transaction)

    @property
    def takes_snapshot(self) -> bool:
        return True

    async def write_snapshot(self, rows: SnapshotRows) -> None:
        await self._batches.flush()
        messages = self._format.snapshot(rows)
        events = (
            Event(f"{rows.name}:{number}", message) for number, message in enumerate(messages, 1)
        )
        while some := await self._worker.run(_list, events, self._portion):
            await self.send(some)

    async def commit(self, checkpoint: Checkpoint) -> None:
        await self._batches.flush()

    async def close(self) -> None:
        self._batches.clear()
        await self._worker.run(self._parts.clear)
        self._worker.stop()
        await self.disconnect()

    async def _hand_on(self, transactions: list[Transaction]) -> None:
        portions = self._portions(transactions)
        while some := await self._worker.run(_some, portions):
            for events in some:
                await self.send(events)

    def _portions(self, transactions: Iterable[Transaction]) -> Iterator[list[Event]]:
        waiting: list[Event] = []
        for transaction in transactions:
            for event in self._events(transaction):
                waiting.append(event)
                if len(waiting) >= self._portion:
                    yield waiting
                    waiting = []
            if waiting and not self._join:
                yield waiting
                waiting = []
        if waiting:
            yield waiting

    def _events(self, transaction: Transaction) -> Iterator[Event]:
        """Yield the events of a transaction once its last part has arrived."""
        messages: Iterable[Message] = self._format.messages(transaction)
        if self._parts or not transaction.complete:
            with os_errors("temporary file of the sink"):
                self._parts.take(messages)
            if not transaction.complete:
                return
            messages = self._parts.messages()
        start = transaction.start
        # A file's name may hold what no header can.
        name = transaction.gtid or f"{quote(start.file)}:{start.offset}"
        for number, message in enumerate(messages, 1):
            yield Event(f"{name}:{number}", message)
        self._parts.clear()


def _list(events: Iterator[Event], count: int) -> list[Event]:
    return list(islice(events, count))


def _some(portions: Iterator[list[Event]]) -> list[list[Event]]:
    return list(islice(portions, _AT_ONCE))


SCHEMA_CHANGES = "_schema_changes"
_READ: Final = text_array([b"read"])
_SCHEMA = pa.schema(
    [
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("_commit_version", pa.string(), nullable=False),
        pa.field("_gtid", pa.string(), nullable=False),
        pa.field("_file", pa.string(), nullable=False),
        pa.field("_offset", pa.int64(), nullable=False),
        pa.field("_event_index", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("database", pa.string(), nullable=False),
        pa.field("table", pa.string(), nullable=False),
        pa.field("statement", pa.string(), nullable=False),
        pa.field("definition", pa.string()),
    ],
    metadata={b"database": b"", b"table": SCHEMA_CHANGES.encode()},
)


def schema_changes_batch(
    transaction: Transaction, changes: Sequence[SchemaChange]
) -> pa.RecordBatch:
    """Return a record batch of schema changes.

    ``definition`` is the table's new definition as JSON, with its name.
    """
    stamp = transaction.commit_us
    rows = [
        {
            "_commit_timestamp": stamp,
            "_commit_version": transaction.commit_version,
            "_gtid": transaction.gtid,
            "_file": change.file,
            "_offset": change.position,
            "_event_index": change.event_index,
            "kind": change.kind,
            "database": change.database,
            "table": change.table,
            "statement": change.statement,
            "definition": _definition(change),
        }
        for change in changes
    ]
    return pa.RecordBatch.from_pylist(rows, _SCHEMA)


def _definition(change: SchemaChange) -> str | None:
    after = change.after
    if after is None:
        return None
    return json.dumps({"database": after.database, "table": after.name, **after.to_json()})


def snapshot_batches(
    rows: SnapshotRows, decoding: DecodeOptions, max_rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield batches of snapshot rows, with the ``_change_type`` ``read``."""
    shape, low = rows.shape, rows.low
    names = tuple(column.name for column in rows.columns)
    builder = BatchBuilder(shape, names, decoding, None, max_rows)
    stamp, version = rows.timestamp * 1_000_000, low.sort_key()
    for number, row in zip(rows.numbers, rows.rows, strict=True):
        coordinates = (low.file, low.offset, 0, number, "", rows.timestamp, shape)
        change = Change("insert", shape.database, shape.table, None, row, *coordinates)
        if not builder.try_append(change, version, stamp):
            yield _as_read(builder.finish())
            builder.append(change, version, stamp)
    if len(builder):
        yield _as_read(builder.finish())


def _as_read(batch: pa.RecordBatch) -> pa.RecordBatch:
    kinds = pa.DictionaryArray.from_arrays(number_array([0] * batch.num_rows), _READ)
    return batch.set_column(0, batch.schema.field(0), kinds)
