"""HEARTBEAT, v1 and v2: the source is alive and has nothing to send."""

from __future__ import annotations

from typing import Self

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_POSITION_SIZE = 8


@dataclass(frozen=True, slots=True)
class HeartbeatEvent:
    """A heartbeat on an idle stream, never in a file; has the source's ``next_position``.

    Bytes (little-endian)::

        size  field
        8     position  only from MariaDB, beyond 4 GiB; the header's next_position is 0 then
        rest  log_file  the file that the source is reading; no NUL

    A NUL within the first eight bytes shows that they are a position: no file name contains a NUL,
    and every position below 2**56 does.

    Spec: MySQL ``Heartbeat_event`` (control_events.h); MariaDB ``Heartbeat_log_event``
    (log_event.h).
    """

    log_file: str
    position: int | None = None

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the body."""
        data = body.rest()
        position: int | None = None
        if len(data) >= _POSITION_SIZE and 0 in data[:_POSITION_SIZE]:
            position = int.from_bytes(data[:_POSITION_SIZE], "little")
            data = data[_POSITION_SIZE:]
        return cls(data.decode("utf-8", "surrogateescape"), position)

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter()
        if self.position is not None:
            out.uint(self.position, _POSITION_SIZE)
        return out.raw(self.log_file.encode("utf-8", "surrogateescape")).done()


_END, _LOG_FILE, _LOG_POSITION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class HeartbeatV2Event:
    """A heartbeat with a 64-bit position; sent when the dump command asks for it (8.0.26).

    Bytes: tagged fields, each ``type`` (length-encoded), ``length`` (length-encoded), value, in any
    order, up to a type of 0::

        type  field     value
        1     log_file  name, no NUL
        2     position  length-encoded integer
        0     -         end; has neither length nor value

    Attributes:
        log_file: the file that the source is reading.
        position: the offset in that file.
        unknown_fields: (type, value) of other fields, in order.
        field_order: the types in order; a missing type is not in the event.
        has_end_mark: whether the type 0 ends the fields.

    Raises:
        ShortBufferError: a field is cut (the decoder makes it ``TruncatedEventError``).
        BinlogDecodeError: a field occurs twice, or its value does not match its length.

    Spec: MySQL ``Heartbeat_event_v2`` (control_events.h), codec ``Heartbeat`` (binary.cpp).
    """

    log_file: str
    position: int
    unknown_fields: tuple[tuple[int, bytes], ...] = ()
    field_order: tuple[int, ...] = (_LOG_FILE, _LOG_POSITION)
    has_end_mark: bool = True
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the body."""
        log_file: str | None = None
        position: int | None = None
        unknown: list[tuple[int, bytes]] = []
        order: list[int] = []
        has_end_mark = False
        while body.remaining:
            code = body.lenenc()
            if code == _END:
                has_end_mark = True
                break
            value = body.lenenc_bytes()
            order.append(code)
            if code == _LOG_FILE and log_file is None:
                log_file = value.decode("utf-8", "surrogateescape")
            elif code == _LOG_POSITION and position is None:
                field = ByteReader(value)
                position = field.lenenc()
                if field.remaining:
                    raise BinlogDecodeError(f"heartbeat position has {len(value)} bytes")
            elif code in (_LOG_FILE, _LOG_POSITION):
                raise BinlogDecodeError(f"heartbeat field {code} comes twice")
            else:
                unknown.append((code, value))
        return cls(
            log_file or "",
            position or 0,
            tuple(unknown),
            tuple(order),
            has_end_mark,
            body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        values = {
            _LOG_FILE: self.log_file.encode("utf-8", "surrogateescape"),
            _LOG_POSITION: ByteWriter().lenenc(self.position).done(),
        }
        unknown = iter(self.unknown_fields)
        out = ByteWriter()
        for code in self.field_order:
            value = values[code] if code in values else next(unknown, (code, b""))[1]
            out.lenenc(code).lenenc_bytes(value)
        if self.has_end_mark:
            out.lenenc(_END)
        return out.raw(self.extra).done()
