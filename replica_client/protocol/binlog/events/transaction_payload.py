"""TRANSACTION_PAYLOAD: a whole transaction's events, compressed (MySQL 8.0.20+)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from replica_client.errors import BinlogDecodeError, LimitExceededError
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_END_MARK = 0
_PAYLOAD_SIZE = 1
_COMPRESSION_TYPE = 2
_UNCOMPRESSED_SIZE = 3
_NUMBERS: Final = (_PAYLOAD_SIZE, _COMPRESSION_TYPE, _UNCOMPRESSED_SIZE)


class PayloadCompression(IntEnum):
    """The compression of a payload."""

    ZSTD = 0
    NONE = 255


@dataclass(frozen=True, slots=True)
class TransactionPayloadEvent:
    """The events of one transaction, without checksums, in one compressed piece.

    Bytes: header fields, each type (length-encoded), length (length-encoded), value, up to the end
    mark, a lone 0; then the payload::

        type  field              value
        0     end mark           no length, no value
        1     payload_size       length-encoded integer
        2     compression_type   length-encoded integer: 0 zstd, 255 none
        3     uncompressed_size  length-encoded integer; absent when not compressed
        other                    kept, not interpreted

    The post-header length in format descriptions for this type (40) is not used, neither
    here nor upstream.

    Attributes:
        header_fields: (type, value bytes) in the order written, unknown ones too.
        payload: as in the event, compressed; :mod:`replica_client.protocol.binlog.payload` reads it.
        extra: bytes after the payload.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: a field has another length than its value, or is missing.
        LimitExceededError: ``uncompressed_size`` is above the option max_uncompressed_size.

    Spec: MySQL ``Transaction_payload_event`` (control_events.h, codecs/binary.cpp).
    """

    header_fields: tuple[tuple[int, bytes], ...]
    payload: bytes
    extra: bytes = b""

    @property
    def compression_type(self) -> int:
        """A :class:`PayloadCompression`, as a number."""
        value = self._number(_COMPRESSION_TYPE)
        return PayloadCompression.NONE if value is None else value

    @property
    def payload_size(self) -> int:
        """Number of bytes of the payload in the event."""
        return len(self.payload)

    @property
    def uncompressed_size(self) -> int | None:
        """Size of the events, by the event's header; ``payload_size`` if not compressed."""
        value = self._number(_UNCOMPRESSED_SIZE)
        if value is None and self.compression_type == PayloadCompression.NONE:
            return len(self.payload)
        return value

    @property
    def unknown_fields(self) -> tuple[tuple[int, bytes], ...]:
        """Header fields of unknown types."""
        return tuple(field for field in self.header_fields if field[0] not in _NUMBERS)

    def _number(self, field_type: int) -> int | None:
        for known, value in self.header_fields:
            if known == field_type:
                return ByteReader(value).lenenc()
        return None

    @classmethod
    def of(cls, payload: bytes, compression_type: int, uncompressed_size: int) -> Self:
        """Return the event that a server writes for a payload."""
        fields = [(_COMPRESSION_TYPE, _number_bytes(compression_type))]
        if compression_type != PayloadCompression.NONE:
            fields.append((_UNCOMPRESSED_SIZE, _number_bytes(uncompressed_size)))
        fields.append((_PAYLOAD_SIZE, _number_bytes(len(payload))))
        return cls(tuple(fields), payload)

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the header fields; keep the payload as bytes."""
        fields: list[tuple[int, bytes]] = []
        payload_size: int | None = None
        while field_type := body.lenenc():
            value = body.lenenc_bytes()
            fields.append((field_type, value))
            if field_type in _NUMBERS:
                number = ByteReader(value)
                size = number.lenenc()
                if number.remaining:
                    raise BinlogDecodeError(
                        f"header field {field_type} has a value of {len(value)} bytes",
                        offset=body.offset,
                    )
                if field_type == _PAYLOAD_SIZE:
                    payload_size = size
                limit = ctx.options.max_uncompressed_size
                if field_type == _UNCOMPRESSED_SIZE and size > limit:
                    raise LimitExceededError(
                        f"payload of {size} uncompressed bytes is larger than "
                        f"max_uncompressed_size ({limit})"
                    )
        if payload_size is None:
            raise BinlogDecodeError("header field of the payload's size is missing")
        return cls(tuple(fields), body.take(payload_size, "payload"), body.rest())

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter()
        for field_type, value in self.header_fields:
            out.lenenc(field_type).lenenc_bytes(value)
        return out.lenenc(_END_MARK).raw(self.payload).raw(self.extra).done()


def _number_bytes(value: int) -> bytes:
    return ByteWriter().lenenc(value).done()
