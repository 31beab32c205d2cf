"""TRANSACTION_CONTEXT: the data by which group replication certifies a transaction."""

from __future__ import annotations

from typing import Self

from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POST_HEADER_SIZE = 18


@dataclass(frozen=True, slots=True)
class TransactionContextEvent:
    """Identity and read/write sets of a transaction; only in group replication's own channels.

    Bytes (little-endian)::

        offset  size  field
        0       1     server_uuid length
        1       4     thread_id
        5       1     gtid_specified      not 0: the GTID was given, not generated
        6       4     snapshot_version length
        10      4     write set count
        14      4     read set count
        18      p-18  extra_post_header   p = post-header length of the type; empty if p = 18
        p       ...   server_uuid         text
        ...     ...   snapshot_version    encoded GTID set, executed when the transaction began
        ...     ...   write_set           each: 2-byte length, bytes (hashes of changed keys)
        ...     ...   read_set            the same
        ...     rest  extra               empty in known versions

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``Transaction_context_event`` (control_events.h).
    """

    server_uuid: bytes
    thread_id: int
    gtid_specified: int
    snapshot_version: bytes
    write_set: tuple[bytes, ...]
    read_set: tuple[bytes, ...]
    extra_post_header: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        size = ctx.post_header_size(_POST_HEADER_SIZE)
        uuid_size, thread_id, gtid_specified = body.uint(1), body.uint(4), body.uint(1)
        snapshot_size, write_count, read_count = body.uint(4), body.uint(4), body.uint(4)
        extra_post_header = body.take(size - _POST_HEADER_SIZE, "post-header")
        return cls(
            body.take(uuid_size, "server uuid"),
            thread_id,
            gtid_specified,
            body.take(snapshot_size, "snapshot version"),
            _items(body, write_count),
            _items(body, read_count),
            extra_post_header,
            body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().uint(len(self.server_uuid), 1).uint(self.thread_id, 4)
        out.uint(self.gtid_specified, 1).uint(len(self.snapshot_version), 4)
        out.uint(len(self.write_set), 4).uint(len(self.read_set), 4)
        out.raw(self.extra_post_header).raw(self.server_uuid).raw(self.snapshot_version)
        for item in (*self.write_set, *self.read_set):
            out.uint(len(item), 2).raw(item)
        return out.raw(self.extra).done()


def _items(body: ByteReader, count: int) -> tuple[bytes, ...]:
    return tuple([body.take(body.uint(2), "set item") for _ in range(count)])
