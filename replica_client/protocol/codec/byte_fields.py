"""Fields of packets and events: a bounds-checked reader of bytes, and a writer."""

from __future__ import annotations

from typing import Self

from replica_client.errors import EncodeError, ShortBufferError

# The smallest first byte that is not a length-encoded integer of one byte.
_LONG = 0xFB


class ByteReader:
    """A reader of protocol fields in ``data[start:end]``, with a cursor.

    Integers are little-endian unless a method says otherwise. A method raises
    :class:`~replica_client.errors.ShortBufferError`, and leaves the cursor where it was, if the
    field does not fit.
    """

    __slots__ = ("_data", "_end", "_offset", "_start")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        stop = len(data) if end is None else end
        if not 0 <= start <= stop <= len(data):
            raise ShortBufferError(start, stop - start, max(0, len(data) - start), "buffer")
        self._data = data
        self._start = start
        self._offset = start
        self._end = stop

    @property
    def offset(self) -> int:
        """Number of bytes read since the start."""
        return self._offset - self._start

    @property
    def remaining(self) -> int:
        """Number of bytes left."""
        return self._end - self._offset

    def _advance(self, size: int, what: str = "field") -> int:
        at = self._offset
        if size < 0 or size > self._end - at:
            raise ShortBufferError(at - self._start, size, self._end - at, what)
        self._offset = at + size
        return at

    def uint(self, size: int) -> int:
        """Read an unsigned integer of ``size`` bytes."""
        at = self._advance(size, "integer")
        return int.from_bytes(self._data[at : at + size], "little")

    def sint(self, size: int) -> int:
        """Read a two's complement integer of ``size`` bytes."""
        at = self._advance(size, "integer")
        return int.from_bytes(self._data[at : at + size], "little", signed=True)

    def take(self, size: int, what: str = "bytes") -> bytes:
        """Read ``size`` bytes."""
        at = self._advance(size, what)
        return bytes(self._data[at : at + size])

    def rest(self) -> bytes:
        """Read all bytes that are left."""
        at = self._advance(self._end - self._offset)
        return bytes(self._data[at : self._end])

    def left(self) -> bytes:
        """Return all bytes that are left, without moving the cursor."""
        return bytes(self._data[self._offset : self._end])

    def peek(self) -> int:
        """Return the next byte as an integer, without moving the cursor."""
        if self._offset >= self._end:
            raise ShortBufferError(self.offset, 1, 0, "byte")
        return self._data[self._offset]

    def skip(self, size: int) -> None:
        """Skip ``size`` bytes."""
        self._advance(size)

    def nul_string(self) -> bytes:
        """Read bytes up to a NUL; the NUL is consumed and not returned."""
        at = self._data.find(b"\0", self._offset, self._end)
        if at < 0:
            raise ShortBufferError(self.offset, self.remaining + 1, self.remaining, "NUL string")
        value = bytes(self._data[self._offset : at])
        self._offset = at + 1
        return value

    def lenenc(self) -> int:
        """Read a length-encoded integer (1, 3, 4 or 9 bytes); refuse 0xfb and 0xff.

        Spec: MySQL "Protocol::LengthEncodedInteger".
        """
        first = self.peek()
        if first < 0xFB:
            self._offset += 1
            return first
        if first in (0xFB, 0xFF):
            raise ShortBufferError(self.offset, 9, self.remaining, f"length byte 0x{first:02x}")
        size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
        at = self._advance(1 + size, "length-encoded integer")
        return int.from_bytes(self._data[at + 1 : at + 1 + size], "little")

    def lenenc_bytes(self) -> bytes:
        """Read bytes that follow their length-encoded length."""
        at = self._offset
        size = self.lenenc()
        if size > self.remaining:
            self._offset = at
            raise ShortBufferError(self.offset, size, self._end - at, "length-encoded string")
        return self.take(size)

    def lenenc_strings(self, count: int) -> tuple[bytes, ...]:
        """Read ``count`` byte strings, each after its length-encoded length."""
        data, at, end = self._data, self._offset, self._end
        strings: list[bytes] = []
        while len(strings) < count:
            size = data[at] if at < end else _LONG
            if size < _LONG and size < end - at:
                strings.append(bytes(data[at + 1 : at + 1 + size]))
                at += 1 + size
                continue
            before, self._offset = self._offset, at
            try:
                strings.append(self.lenenc_bytes())
            except ShortBufferError:
                self._offset = before
                raise
            at, self._offset = self._offset, before
        self._offset = at
        return tuple(strings)


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
