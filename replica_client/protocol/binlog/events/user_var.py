"""USER_VAR: a user variable that the next statement reads."""

from __future__ import annotations

import struct
from decimal import Decimal
from enum import IntEnum
from typing import Self

from replica_client.errors import ColumnDecodeError
from replica_client.protocol.binlog.context import DEFAULT_CONTEXT, EventContext
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass

_UNSIGNED = 1
_DIGIT_GROUP = 9
_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_MAX_PRECISION = 81


class UserVarType(IntEnum):
    """Types of a user variable's value (``Item_result``)."""

    STRING_RESULT = 0
    REAL_RESULT = 1
    INT_RESULT = 2
    ROW_RESULT = 3
    DECIMAL_RESULT = 4


@dataclass(frozen=True, slots=True)
class UserVarEvent:
    """A value of the user variable ``@name``, for the next statement.

    Bytes (little-endian)::

        offset  size  field
        0       p     extra_post_header  p = post-header length of the type; 0 in known versions
        p       4     name length
        ...     n     name               in UTF-8
        ...     1     is_null            not 0: the event ends here
        ...     1     type_code          :class:`UserVarType`
        ...     4     collation_id       of the value
        ...     4     value length
        ...     v     value_bytes        string: its bytes; real: 8-byte double; int: 8 bytes;
                                         decimal: precision, scale, binary decimal
        ...     1     flags              bit 0: unsigned; absent before 5.5
        ...     rest  extra              MariaDB: chunks that refine the type

    Attributes:
        value_bytes: None when the variable is NULL.

    Raises:
        ShortBufferError: the body is shorter (the decoder makes it ``TruncatedEventError``).

    Spec: MySQL ``User_var_event`` (statement_events.h); MariaDB ``User_var_log_event``.
    """

    name: bytes
    is_null: int
    type_code: int = UserVarType.STRING_RESULT
    collation_id: int = 0
    value_bytes: bytes | None = None
    flags: int | None = None
    extra_post_header: bytes = b""
    extra: bytes = b""

    @property
    def unsigned(self) -> bool:
        """Whether an integer value is unsigned."""
        return bool((self.flags or 0) & _UNSIGNED)

    @property
    def value(self) -> bytes | int | float | Decimal | None:
        """The value as a Python object; a string stays bytes of the collation's character set.

        Raises:
            ColumnDecodeError: the bytes are not a value of the type.
        """
        raw = self.value_bytes
        if raw is None:
            return None
        if self.type_code == UserVarType.STRING_RESULT:
            return raw
        if self.type_code == UserVarType.REAL_RESULT and len(raw) == 8:
            real: float = struct.unpack("<d", raw)[0]
            return real
        if self.type_code == UserVarType.INT_RESULT and len(raw) == 8:
            return int.from_bytes(raw, "little", signed=not self.unsigned)
        if self.type_code == UserVarType.DECIMAL_RESULT:
            return _decimal(raw)
        raise ColumnDecodeError(
            f"user variable of type {self.type_code} has a value of {len(raw)} bytes"
        )

    @classmethod
    def decode(cls, body: ByteReader, ctx: EventContext) -> Self:
        """Decode post-header and body."""
        extra_post_header = body.take(ctx.post_header_size(0))
        name = body.take(body.uint(4), "user variable name")
        is_null = body.uint(1)
        if is_null:
            return cls(name, is_null, extra_post_header=extra_post_header, extra=body.rest())
        type_code, collation_id = body.uint(1), body.uint(4)
        value = body.take(body.uint(4), "user variable value")
        flags = body.uint(1) if body.remaining else None
        return cls(
            name, is_null, type_code, collation_id, value, flags, extra_post_header, body.rest()
        )

    def encode(self, ctx: EventContext = DEFAULT_CONTEXT) -> bytes:
        """Return the encoded body."""
        out = ByteWriter().raw(self.extra_post_header).uint(len(self.name), 4).raw(self.name)
        out.uint(self.is_null, 1)
        if not self.is_null:
            value = self.value_bytes or b""
            out.uint(self.type_code, 1).uint(self.collation_id, 4)
            out.uint(len(value), 4).raw(value)
            if self.flags is not None:
                out.uint(self.flags, 1)
        return out.raw(self.extra).done()


def _decimal(raw: bytes) -> Decimal:
    """Decode a binary decimal that follows its precision and scale.

    Groups of nine digits take four bytes big-endian, the odd digits at both ends fewer; the first
    bit is inverted, and all bits are when the number is negative.
    """
    if len(raw) < 3:
        raise ColumnDecodeError("decimal of a user variable ends early")
    precision, scale = raw[0], raw[1]
    if not 0 < precision <= _MAX_PRECISION or scale > precision:
        raise ColumnDecodeError(f"user variable has the type DECIMAL({precision},{scale})")
    head, tail = (precision - scale) % _DIGIT_GROUP, scale % _DIGIT_GROUP
    groups = [head] if head else []
    groups += [_DIGIT_GROUP] * ((precision - scale) // _DIGIT_GROUP + scale // _DIGIT_GROUP)
    groups += [tail] if tail else []
    size = sum(_GROUP_BYTES[digits] for digits in groups)
    if len(raw) != 2 + size:
        raise ColumnDecodeError(f"DECIMAL({precision},{scale}) has {len(raw) - 2} bytes")
    negative = not raw[2] & 0x80
    data = bytes((raw[2] ^ 0x80, *raw[3:]))
    if negative:
        data = bytes(byte ^ 0xFF for byte in data)
    text, at = "", 0
    for digits in groups:
        width = _GROUP_BYTES[digits]
        number = int.from_bytes(data[at : at + width], "big")
        if number >= 10**digits:
            raise ColumnDecodeError(f"decimal of a user variable has {number} in {digits} digits")
        text += f"{number:0{digits}d}"
        at += width
    return Decimal((int(negative), tuple(map(int, text)), -scale))
