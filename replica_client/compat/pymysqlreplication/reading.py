"""Reading an event's bytes one value after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replica_client.protocol.wire.dump_commands import ComRegisterSlave
from replica_client.protocol.wire.framing import encode_packets


class PacketReader:
    """A reader of the bytes after an event's header; numbers are little-endian unless named ``_be``."""

    _at = 0

    def _bytes(self) -> bytes:
        raise NotImplementedError

    def read(self, size: int) -> bytes:
        """Read the next ``size`` bytes."""
        data = self._bytes()[self._at : self._at + size]
        self._at += size
        return data

    def unread(self, data: bytes) -> None:
        """Go back by as many bytes."""
        self._at -= len(data)

    def advance(self, size: int) -> None:
        """Pass over bytes."""
        self._at += size

    def bytes_to_read(self) -> int:
        """Return how many bytes are left."""
        return len(self._bytes()) - self._at

    def read_available(self) -> bytes:
        """Read all bytes that are left."""
        return self.read(self.bytes_to_read())

    def _number(self, size: int, *, signed: bool = False, big: bool = False) -> int:
        return int.from_bytes(self.read(size), "big" if big else "little", signed=signed)

    def read_uint_by_size(self, size: int) -> int:
        """Read an unsigned integer of ``size`` bytes."""
        return self._number(size)

    def read_int_be_by_size(self, size: int) -> int:
        """Read a signed big-endian integer of ``size`` bytes."""
        return self._number(size, signed=True, big=True)

    def read_uint8(self) -> int:
        """Read an unsigned integer of 1 byte."""
        return self._number(1)

    def read_int16(self) -> int:
        """Read a signed integer of 2 bytes."""
        return self._number(2, signed=True)

    def read_uint16(self) -> int:
        """Read an unsigned integer of 2 bytes."""
        return self._number(2)

    def read_int24(self) -> int:
        """Read a signed integer of 3 bytes."""
        return self._number(3, signed=True)

    def read_int24_be(self) -> int:
        """Read a signed big-endian integer of 3 bytes."""
        return self._number(3, signed=True, big=True)

    def read_uint24(self) -> int:
        """Read an unsigned integer of 3 bytes."""
        return self._number(3)

    def read_int32(self) -> int:
        """Read a signed integer of 4 bytes."""
        return self._number(4, signed=True)

    def read_uint32(self) -> int:
        """Read an unsigned integer of 4 bytes."""
        return self._number(4)

    def read_uint40(self) -> int:
        """Read an unsigned integer of 5 bytes."""
        return self._number(5)

    def read_int40_be(self) -> int:
        """Read an unsigned big-endian integer of 5 bytes."""
        return self._number(5, big=True)

    def read_uint48(self) -> int:
        """Read an unsigned integer of 6 bytes."""
        return self._number(6)

    def read_uint56(self) -> int:
        """Read an unsigned integer of 7 bytes."""
        return self._number(7)

    def read_uint64(self) -> int:
        """Read an unsigned integer of 8 bytes."""
        return self._number(8)

    def read_int64(self) -> int:
        """Read a signed integer of 8 bytes."""
        return self._number(8, signed=True)

    def unpack_uint16(self, n: bytes) -> int:
        """Return the unsigned integer in the first 2 bytes of ``n``."""
        return int.from_bytes(n[:2], "little")

    def unpack_int24(self, n: bytes) -> int:
        """Return the unsigned integer in the first 3 bytes of ``n``."""
        return int.from_bytes(n[:3], "little")

    def unpack_int32(self, n: bytes) -> int:
        """Return the unsigned integer in the first 4 bytes of ``n``."""
        return int.from_bytes(n[:4], "little")

    def read_length_coded_binary(self) -> int | None:
        """Read a length-encoded integer; None is NULL."""
        first = self.read_uint8()
        if first == 251:
            return None
        size = {252: 2, 253: 3, 254: 8}.get(first)
        return first if size is None else self._number(size)

    def read_length_coded_string(self) -> bytes | None:
        """Read bytes after a length-encoded length; None is NULL."""
        length = self.read_length_coded_binary()
        return None if length is None else self.read(length)

    def read_length_coded_pascal_string(self, size: int) -> bytes:
        """Read bytes after their length of ``size`` bytes."""
        return self.read(self._number(size))

    def read_variable_length_string(self) -> bytes:
        """Read bytes after a length with 7 bits in each byte."""
        length = shift = 0
        while True:
            byte = self.read_uint8()
            length |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return self.read(length)

    def read_string(self) -> bytes:
        """Read bytes up to a NUL."""
        data = self._bytes()
        end = data.find(b"\0", self._at)
        end = len(data) if end < 0 else end
        found = data[self._at : end]
        self._at = end + 1
        return found


class ReportSlave:
    """The data that a source lists of this client: a host name, a tuple (host, user, password, port), or a dict."""

    hostname = ""
    username = ""
    password = ""
    port = 0

    def __init__(self, value: str | tuple[Any, ...] | list[Any] | Mapping[str, Any]) -> None:
        names = ("hostname", "username", "password", "port")
        if isinstance(value, Mapping):
            for name in names:
                if name in value:
                    setattr(self, name, value[name])
        elif isinstance(value, (tuple, list)):
            for name, part in zip(names, value, strict=False):
                setattr(self, name, part)
        else:
            self.hostname = value

    def __repr__(self) -> str:
        return (
            f"<ReportSlave hostname={self.hostname} username={self.username} "
            f"password={'***' if self.password else ''} port={self.port}>"
        )

    def command(self, server_id: int, master_id: int = 0) -> ComRegisterSlave:
        """Return the command that registers this client."""
        return ComRegisterSlave(
            server_id,
            self.hostname,
            self.username,
            int(self.port),
            self.password,
            master_id=master_id,
        )

    def encoded(self, server_id: int, master_id: int = 0) -> bytes:
        """Return the packet of :meth:`command`."""
        return encode_packets(self.command(server_id, master_id).encode())
