"""Row changes as Arrow IPC streams.

Each message is a complete stream with its schema, of one table and one definition. The columns are
those of ``.batches()``. A transaction gives one message per table, or several if the rows or bytes
exceed the limits of a message. The two rows of an update are in one message. The rows of a table
are in order. Only ``_event_index`` and ``_row_index`` order the rows of several tables. Rows of a
snapshot have the ``_change_type`` ``read`` and the source's position when they were read.

Schema changes are streams of the table ``_schema_changes``. A TRUNCATE is also such a stream, but
is sent to the destination of the table's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta

from replica_client.protocol.binlog.event import DecodeOptions
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.sinks.event_sink import schema_changes_batch, snapshot_batches
from replica_client.sinks.formats.message import Message, MessageKind
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.registry import read_options
from replica_client.stream.transactions.transaction import Transaction


class ArrowOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the format ``arrow``.

    Attributes:
        max_rows: maximum rows of a message.
        max_bytes: maximum bytes of a message, unless a single change is larger. Kafka brokers
            accept 1 MB by default.
        compression: codec of the buffers in a stream; readers need it, too.
    """

    max_rows: Annotated[int, Meta(ge=2)] = 16_384
    max_bytes: Annotated[int, Meta(ge=1)] = 900_000
    compression: Literal["none", "lz4", "zstd"] = "none"


class ArrowFormat:
    """The format ``arrow``; see the module.

    Args:
        options: what the user chose.
    """

    def __init__(self, options: ArrowOptions) -> None:
        self._options = options
        self._decoding = DecodeOptions()
        self._assembler = BatchAssembler(options.max_rows, self._decoding)
        codec = None if options.compression == "none" else options.compression
        self._writing = pa.ipc.IpcWriteOptions(compression=codec)

    @classmethod
    def of(cls, options: Mapping[str, object]) -> ArrowFormat:
        """Build the format from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(ArrowOptions, options, "format_options"))

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        for change in transaction.schema_changes:
            kind: MessageKind = "row" if change.kind == "truncate_table" else "schema"
            stream = self._stream(schema_changes_batch(transaction, [change]))
            yield _message(kind, change.database, change.table, stream)
        rows = {one.event_index: one for one in transaction.rows}
        stamp, version = transaction.commit_us, transaction.commit_version
        for batch in self._assembler.add(transaction.rows, version, stamp):
            yield from self._of_batch(batch, rows)
        for batch in self._assembler.flush():
            yield from self._of_batch(batch, rows)

    def snapshot(self, rows: SnapshotRows) -> Iterator[Message]:
        for batch in snapshot_batches(rows, self._decoding, self._options.max_rows):
            yield from self._of_batch(batch, {})

    def _of_batch(
        self, batch: pa.RecordBatch, rows: Mapping[int, RowsOfEvent]
    ) -> Iterator[Message]:
        """Yield the messages of a batch, split in halves until they are small enough.

        Args:
            batch: the changes.
            rows: row events of the transaction, by event index.
        """
        count, stream = batch.num_rows, self._stream(batch)
        half = count // 2
        if half and batch["_change_type"][half].as_py() == "update_postimage":
            half += 1 if half + 1 < count else -1
        if len(stream) > self._options.max_bytes and half:
            yield from self._of_batch(batch.slice(0, half), rows)
            yield from self._of_batch(batch.slice(half), rows)
            return
        metadata = batch.schema.metadata
        names = metadata[b"database"].decode(), metadata[b"table"].decode()
        known: dict[str, Any] = {}
        if not half:
            # The sink names the row if a single change is too large.
            event = rows.get(batch["_event_index"][0].as_py())
            known = {"rows": event, "row_index": batch["_row_index"][0].as_py()}
        yield _message("row", *names, stream)._replace(**known)

    def _stream(self, batch: pa.RecordBatch) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=self._writing) as writer:
            writer.write_batch(batch)
        return bytes(sink.getvalue())


def _message(kind: MessageKind, database: str, table: str, stream: bytes) -> Message:
    return Message(kind, database, table, None, "", binary=stream)
