"""A binlog file in memory, read in place."""

from __future__ import annotations

import io
from typing import Any

from replica_client.errors import ConfigError


class InMemoryBytes(io.RawIOBase):
    """Stream over ``bytes``, a ``memoryview``, an ``mmap`` or other contiguous memory.

    Args:
        memory: the whole file.

    Attributes:
        memory: the file's bytes.
        offset: offset of the next byte to read.

    Raises:
        ConfigError: the memory is not contiguous.
    """

    def __init__(self, memory: Any) -> None:
        super().__init__()
        try:
            self.memory = memoryview(memory).cast("B")
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a binlog in memory has to be contiguous bytes: {error}") from None
        self.offset = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the next bytes into a buffer and return their number."""
        part = self.memory[self.offset : self.offset + len(buffer)]
        buffer[: len(part)] = part
        self.offset += len(part)
        return len(part)
