"""Row changes as Arrow IPC streams: each message is a stream with its schema, of one table and one definition.

The columns are those of ``.batches()``. A transaction gives one message for each of its tables, several where it has
more rows or bytes than a message may have; an update's two rows are in one. The rows of a table are in order; those of
several tables are told apart by ``_event_index`` and ``_row_index`` alone. Rows of a snapshot have the
``_change_type`` ``read``, and the position of the source when they were read.

Schema changes are streams of the table ``_schema_changes``; a TRUNCATE is one that goes where the table's rows go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
import pyarrow as pa
from msgspec import Meta

from replica_client.binlog.options import DecodeOptions
from replica_client.readers.transaction import Transaction
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.batching import BatchAssembler
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.row_change import Change
from replica_client.sinks.formats.message import Message, MessageKind
from replica_client.sinks.schema_change_batches import schema_changes_batch
from replica_client.sinks.sink_options import read_options
from replica_client.sinks.snapshot_sink import SnapshotRows

_READ: Final = pa.array(["read"], pa.string())


class ArrowOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of the format.

    Attributes:
        max_rows: rows of a message at most.
        max_bytes: bytes of a message at most, but for one row; brokers of Kafka take 1 MB unless told otherwise.
        compression: of the buffers in a stream; readers need the codec.
    """

    max_rows: Annotated[int, Meta(ge=2)] = 16_384
    max_bytes: Annotated[int, Meta(ge=1)] = 900_000
    compression: Literal["none", "lz4", "zstd"] = "none"


class ArrowFormat:
    """See the module.

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
        """Make it from a table of the configuration.

        Raises:
            ConfigError: an option is wrong.
        """
        return cls(read_options(ArrowOptions, options, "format_options"))

    def messages(self, transaction: Transaction) -> Iterator[Message]:
        """See :class:`~replica_client.sinks.formats.line_format.MessageFormat`."""
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
        """See :class:`~replica_client.sinks.formats.line_format.MessageFormat`."""
        shape, low = rows.shape, rows.low
        names = tuple(column.name for column in rows.columns)
        builder = BatchBuilder(shape, names, self._decoding, None, self._options.max_rows)
        stamp, version = rows.timestamp * 1_000_000, low.sort_key()
        for number, row in zip(rows.numbers, rows.rows, strict=True):
            coordinates = (low.file, low.offset, 0, number, "", rows.timestamp, shape)
            change = Change("insert", shape.database, shape.table, None, row, *coordinates)
            if not builder.try_append(change, version, stamp):
                yield from self._of_batch(_as_read(builder.finish()), {})
                builder.append(change, version, stamp)
        if len(builder):
            yield from self._of_batch(_as_read(builder.finish()), {})

    def _of_batch(
        self, batch: pa.RecordBatch, rows: Mapping[int, RowsOfEvent]
    ) -> Iterator[Message]:
        """The messages of a batch: halves where it is too large.

        Args:
            batch: of changes.
            rows: events of the transaction by their index.
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
            # A change that is too large is named.
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


def _as_read(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose rows were read, and not changed."""
    kinds = pa.DictionaryArray.from_arrays(pa.array([0] * batch.num_rows, pa.int32()), _READ)
    return batch.set_column(0, batch.schema.field(0), kinds)
