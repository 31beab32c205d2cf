"""GTID_TAGGED: the start of a transaction whose GTID has a tag (MySQL 8.3+)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

from replica_client.errors import BinlogDecodeError, EncodeError, UnsupportedEventError
from replica_client.protocol.binlog.event import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.binlog.payload import (
    VERSION,
    MessageHead,
    read_array,
    read_signed,
    read_text,
    read_unsigned,
    write_array,
    write_signed,
    write_text,
    write_unsigned,
)
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_SID_SIZE = 16
_MAX_TAG_SIZE = 32

_Reader = Callable[[ByteReader], Any]
_Writer = Callable[[ByteWriter, Any], ByteWriter]


def _read_sid(body: ByteReader) -> bytes:
    return read_array(body, _SID_SIZE)


def _read_tag(body: ByteReader) -> str:
    raw = read_text(body)
    if len(raw) > _MAX_TAG_SIZE or not raw.isascii():
        raise BinlogDecodeError(f"tag of a GTID is {raw[: _MAX_TAG_SIZE + 1]!r}")
    return raw.decode("ascii")


def _write_tag(out: ByteWriter, tag: str) -> ByteWriter:
    return write_text(out, tag.encode("ascii"))


MESSAGE_FIELDS: Final[tuple[tuple[str, _Reader, _Writer], ...]] = (
    ("flags", read_unsigned, write_unsigned),
    ("sid", _read_sid, write_array),
    ("gno", read_signed, write_signed),
    ("tag", _read_tag, _write_tag),
    ("last_committed", read_signed, write_signed),
    ("sequence_number", read_signed, write_signed),
    ("immediate_commit_timestamp", read_unsigned, write_unsigned),
    ("original_commit_timestamp", read_unsigned, write_unsigned),
    ("transaction_length", read_unsigned, write_unsigned),
    ("immediate_server_version", read_unsigned, write_unsigned),
    ("original_server_version", read_unsigned, write_unsigned),
    ("commit_group_ticket", read_unsigned, write_unsigned),
)
_REQUIRED: Final = ("flags", "sid", "gno", "tag")
_SAME_AS: Final = {
    "original_commit_timestamp": "immediate_commit_timestamp",
    "original_server_version": "immediate_server_version",
}


@dataclass(frozen=True, slots=True)
class GtidTaggedEvent:
    """The start of a transaction ``sid:tag:gno``.

    The body is one message of :mod:`replica_client.protocol.binlog.payload`, with these fields::

        id  field                       value
        0   flags                       unsigned; bit 0: may hold non-transactional changes
        1   sid                         array of 16: uuid of the server that committed it first
        2   gno                         signed
        3   tag                         text, at most 32 characters
        4   last_committed              signed
        5   sequence_number             signed
        6   immediate_commit_timestamp  unsigned; microseconds
        7   original_commit_timestamp   unsigned; absent when equal to the one before
        8   transaction_length          unsigned; whole transaction, this event too
        9   immediate_server_version    unsigned; e.g. 90704
        10  original_server_version     unsigned; absent when equal to the one before
        11  commit_group_ticket         unsigned; group replication

    Attributes:
        last_required_id: id of the last field that a reader must know.
        unknown_fields: fields of later versions, as bytes; readers may ignore them.
        extra: bytes after the message.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).
        UnsupportedEventError: another format version, or an unknown field that must be known.
        BinlogDecodeError: fields out of order, or without sid, gno or tag.

    Spec: MySQL ``Gtid_event::define_fields`` (control_events.h).
    """

    flags: int
    sid: bytes
    gno: int
    tag: str
    last_committed: int | None = None
    sequence_number: int | None = None
    immediate_commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    transaction_length: int | None = None
    immediate_server_version: int | None = None
    original_server_version: int | None = None
    commit_group_ticket: int | None = None
    last_required_id: int = 0
    unknown_fields: bytes = b""
    extra: bytes = b""

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode the message."""
        head = MessageHead.decode(body)
        values: dict[str, Any] = {}
        fields = ByteReader(head.fields)
        next_id = 0
        unknown = b""
        while fields.remaining:
            at = fields.offset
            field_id = read_unsigned(fields)
            if field_id < next_id:
                raise BinlogDecodeError(f"field {field_id} of the message is out of order")
            if field_id >= len(MESSAGE_FIELDS):
                if field_id <= head.last_required_id:
                    raise UnsupportedEventError(
                        f"field {field_id} is not known, and the server requires that it is"
                    )
                unknown = head.fields[at:]
                break
            name, read, _ = MESSAGE_FIELDS[field_id]
            values[name] = read(fields)
            next_id = field_id + 1
        for name in _REQUIRED:
            if name not in values:
                raise BinlogDecodeError(f"the message has no field {name}")
        for name, same in _SAME_AS.items():
            values.setdefault(name, values.get(same))
        return cls(
            **values,
            last_required_id=head.last_required_id,
            unknown_fields=unknown,
            extra=body.rest(),
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body.

        Raises:
            EncodeError: ``sid`` has not 16 bytes.
        """
        if len(self.sid) != _SID_SIZE:
            raise EncodeError(f"a sid has {_SID_SIZE} bytes, not {len(self.sid)}")
        out = ByteWriter()
        for field_id, (name, _, write) in enumerate(MESSAGE_FIELDS):
            value = getattr(self, name)
            same = _SAME_AS.get(name)
            if value is None or (same is not None and value == getattr(self, same)):
                continue
            write_unsigned(out, field_id)
            write(out, value)
        fields = out.raw(self.unknown_fields).done()
        return MessageHead(VERSION, self.last_required_id, fields).encode() + self.extra
