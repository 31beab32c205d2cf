"""EXECUTE_LOAD_QUERY: a LOAD DATA statement, after the events with its file."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.binlog.events.query import QueryEvent
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass


class LoadDuplicates(IntEnum):
    """The handling of rows with an existing key by LOAD DATA."""

    LOAD_DUP_ERROR = 0
    LOAD_DUP_IGNORE = 1
    LOAD_DUP_REPLACE = 2


@dataclass(frozen=True, slots=True)
class ExecuteLoadQueryEvent(QueryEvent):
    """A LOAD DATA statement (statement format, 5.0.3 and later).

    Bytes: as :class:`~replica_client.protocol.binlog.events.query.QueryEvent`, with a longer post-header::

        offset  size  field
        13      4     file_id
        17      4     file_name_start    of the file's name in the statement, a byte offset
        21      4     file_name_end      the byte after it
        25      1     duplicates         :class:`LoadDuplicates`
        26      p-26  extra_load_header  p = post-header length of the type; empty if p = 26

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: no NUL follows the schema.

    Spec: MySQL ``Execute_load_query_event`` (load_data_events.h).
    """

    file_id: int = 0
    file_name_start: int = 0
    file_name_end: int = 0
    duplicates: int = LoadDuplicates.LOAD_DUP_ERROR
    extra_load_header: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        plain = QueryEvent.decode(body, ctx)
        own = ByteReader(plain.extra_post_header)
        file_id, start, end, duplicates = own.uint(4), own.uint(4), own.uint(4), own.uint(1)
        return cls(
            plain.thread_id,
            plain.exec_time,
            plain.error_code,
            plain.status_vars,
            plain.schema,
            plain.query,
            b"",
            file_id,
            start,
            end,
            duplicates,
            own.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        own = ByteWriter().uint(self.file_id, 4).uint(self.file_name_start, 4)
        own.uint(self.file_name_end, 4).uint(self.duplicates, 1).raw(self.extra_load_header)
        return QueryEvent(
            self.thread_id,
            self.exec_time,
            self.error_code,
            self.status_vars,
            self.schema,
            self.query,
            own.done(),
        ).encode(ctx)
