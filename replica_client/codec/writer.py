"""Write protocol fields into bytes; the counterpart of :mod:`replica_client.codec.reader`."""

from __future__ import annotations

from typing import Self

from replica_client.errors import EncodeError


class ByteWriter:
    """A writer of protocol fields; methods return the writer, :meth:`done` the bytes."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def _integer(self, value: int, size: int, order: str, signed: bool) -> Self:
        try:
            self._data += value.to_bytes(size, "big" if order == "big" else "little", signed=signed)
        except OverflowError as error:
            raise EncodeError(f"{value} does not fit into {size} bytes") from error
        return self

    def uint(self, value: int, size: int) -> Self:
        """Append an unsigned little-endian integer."""
        try:
            self._data += value.to_bytes(size, "little")
        except OverflowError as error:
            raise EncodeError(f"{value} does not fit into {size} bytes") from error
        return self

    def sint(self, value: int, size: int) -> Self:
        """Append a two's complement little-endian integer."""
        return self._integer(value, size, "little", signed=True)

    def uint_be(self, value: int, size: int) -> Self:
        """Append an unsigned big-endian integer."""
        return self._integer(value, size, "big", signed=False)

    def raw(self, value: bytes) -> Self:
        """Append bytes as they are."""
        self._data += value
        return self

    def nul_string(self, value: bytes) -> Self:
        """Append bytes and a NUL."""
        if b"\0" in value:
            raise EncodeError("a NUL-terminated string cannot hold a NUL")
        self._data += value + b"\0"
        return self

    def lenenc(self, value: int) -> Self:
        """Append a length-encoded integer in its shortest form."""
        if value < 0xFB:
            return self.uint(value, 1)
        for prefix, size in ((0xFC, 2), (0xFD, 3), (0xFE, 8)):
            if value < 1 << (8 * size):
                return self.uint(prefix, 1).uint(value, size)
        raise EncodeError(f"{value} does not fit into a length-encoded integer")

    def lenenc_bytes(self, value: bytes) -> Self:
        """Append bytes after their length-encoded length."""
        return self.lenenc(len(value)).raw(value)

    def done(self) -> bytes:
        """Return all bytes written."""
        return bytes(self._data)
