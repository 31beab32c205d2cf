"""QUERY: a statement."""

from __future__ import annotations

from struct import Struct
from typing import Literal, Self

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.binlog.events.query_status import (
    QueryStatus,
    parse_query_status,
    parse_session_status,
)
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.charsets import (
    UndecodableTextError,
    UnknownCollationError,
    decode_text,
)
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER = Struct("<IIBHH")
_POST_HEADER_V3 = Struct("<IIBH")
_UTF8MB4 = 45


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A statement that the source executed: DDL, BEGIN, COMMIT, statement-format DML.

    Bytes (little-endian)::

        offset  size  field
        0       4     thread_id          connection id on the source
        4       4     exec_time          seconds from start to logging
        8       1     schema length
        9       2     error_code         the statement's on the source
        11      2     status_vars length absent before binlog v4
        13      p-13  extra_post_header  p = post-header length of the type; empty if p = 13
        p       v     status_vars        see :mod:`replica_client.protocol.binlog.events.query_status`
        p+v     s     schema             default database, UTF-8
        p+v+s   1     NUL
        ...     rest  query              in the client's character set

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: no NUL follows the schema.

    Spec: MySQL ``Query_event`` (statement_events.h); MariaDB KB "QUERY_EVENT".
    """

    thread_id: int
    exec_time: int
    error_code: int
    status_vars: bytes
    schema: bytes
    query: bytes
    extra_post_header: bytes = b""

    @property
    def status(self) -> QueryStatus:
        """The parsed status variables."""
        return parse_query_status(self.status_vars)

    @property
    def session(self) -> QueryStatus:
        """The parsed status variables, cached; ``ddl_xid`` may be that of another statement."""
        return parse_session_status(self.status_vars)

    def query_text(self, errors: Literal["strict", "replace"] = "strict") -> str:
        """Decode the statement by the client character set in the status variables.

        Without that variable (statements made by the server, and all before 5.0), UTF-8 is used.

        Raises:
            BinlogDecodeError: the bytes are not text of that character set (``errors="strict"``),
                it is not known, or the status variables are cut.
        """
        client = self.status.character_set_client
        try:
            return decode_text(self.query, _UTF8MB4 if client is None else client, errors)
        except (UndecodableTextError, UnknownCollationError) as error:
            raise BinlogDecodeError(f"query text: {error}") from error

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER.size)
        if size < _POST_HEADER.size:
            fixed = _POST_HEADER_V3.unpack(body.take(_POST_HEADER_V3.size, "post-header"))
            thread_id, exec_time, schema_size, error_code = fixed
            status_size, extra = 0, body.take(max(0, size - _POST_HEADER_V3.size))
        else:
            thread_id, exec_time, schema_size, error_code, status_size = _POST_HEADER.unpack(
                body.take(_POST_HEADER.size, "post-header")
            )
            extra = body.take(size - _POST_HEADER.size)
        status_vars = body.take(status_size, "status variables")
        schema = body.take(schema_size, "schema")
        if body.uint(1):
            raise BinlogDecodeError("no NUL follows the schema", offset=body.offset - 1)
        return cls(thread_id, exec_time, error_code, status_vars, schema, body.rest(), extra)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(self.thread_id, 4).uint(self.exec_time, 4)
        out.uint(len(self.schema), 1).uint(self.error_code, 2)
        if ctx.post_header_size(_POST_HEADER.size) >= _POST_HEADER.size:
            out.uint(len(self.status_vars), 2)
        out.raw(self.extra_post_header).raw(self.status_vars)
        return out.raw(self.schema).raw(b"\0").raw(self.query).done()
