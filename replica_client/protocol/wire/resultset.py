"""Text result sets, as a server writes them and as a client reads them.

Spec: MySQL "COM_QUERY Response", "Protocol::ColumnDefinition41", "Text Resultset Row".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica_client.errors import MalformedPacketError
from replica_client.protocol.codec.byte_fields import ByteReader, ByteWriter
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.protocol.constants.column_types import ColumnType
from replica_client.protocol.wire.connection_phase import UTF8MB4_GENERAL_CI
from replica_client.protocol.wire.packets import EofPacket, decoding, text

_NULL = 0xFB
_FIXED_SIZE = 12
_BINARY = 63

Value = str | bytes | int | None
"""A value of a row in the text protocol."""


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """A column of a result set.

    Bytes: six length-encoded strings (catalog ``def``, schema, table, original table, name,
    original name), 0x0C, then character_set (2), length (4), type (1), flags (2), decimals (1), 0
    (2).
    """

    name: str
    type_code: int = ColumnType.MYSQL_TYPE_VAR_STRING
    character_set: int = UTF8MB4_GENERAL_CI
    length: int = 1024
    flags: int = 0
    decimals: int = 0

    @classmethod
    def decode(cls, payload: bytes) -> ColumnDefinition:
        """Read a payload; raises ``MalformedPacketError``."""
        reader = ByteReader(payload)
        with decoding("column definition"):
            for _ in range(4):
                reader.lenenc_bytes()
            name = text(reader.lenenc_bytes())
            reader.lenenc_bytes()
            if reader.lenenc() != _FIXED_SIZE:
                raise MalformedPacketError("column definition packet: wrong size of fixed fields")
            character_set, length = reader.uint(2), reader.uint(4)
            return cls(name, reader.uint(1), character_set, length, reader.uint(2), reader.uint(1))

    def encode(self) -> bytes:
        """Return the payload."""
        out = ByteWriter()
        name = self.name.encode()
        for part in (b"def", b"", b"", b"", name, name):
            out.lenenc_bytes(part)
        out.lenenc(_FIXED_SIZE).uint(self.character_set, 2).uint(self.length, 4)
        return out.uint(self.type_code, 1).uint(self.flags, 2).uint(self.decimals, 3).done()


def encode_row(values: Iterable[Value]) -> bytes:
    """Encode a row's payload: length-encoded texts, 0xFB for NULL."""
    out = ByteWriter()
    for value in values:
        if value is None:
            out.uint(_NULL, 1)
        else:
            out.lenenc_bytes(
                value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
            )
    return out.done()


def decode_row(payload: bytes, count: int) -> tuple[bytes | None, ...]:
    """Decode the values of a row's payload; raises ``MalformedPacketError``."""
    reader = ByteReader(payload)
    out: list[bytes | None] = []
    with decoding("row"):
        for _ in range(count):
            if reader.peek() == _NULL:
                reader.skip(1)
                out.append(None)
            else:
                out.append(reader.lenenc_bytes())
    if reader.remaining:
        raise MalformedPacketError(f"row packet: {reader.remaining} bytes too many")
    return tuple(out)


def encode_result(names: Sequence[str], rows: Sequence[Sequence[Value]]) -> list[bytes]:
    """Encode a whole result set as payloads (with EOF packets, as before CLIENT_DEPRECATE_EOF).

    A column is BIGINT when all its values are integers, otherwise a string.
    """
    payloads = [ByteWriter().lenenc(len(names)).done()]
    for index, name in enumerate(names):
        values = [row[index] for row in rows]
        if values and all(isinstance(value, int) for value in values):
            column = ColumnDefinition(name, ColumnType.MYSQL_TYPE_LONGLONG, _BINARY, 20)
        else:
            column = ColumnDefinition(name)
        payloads.append(column.encode())
    payloads.append(EofPacket().encode())
    payloads += [encode_row(row) for row in rows]
    payloads.append(EofPacket().encode())
    return payloads
