"""A binlog file that is in memory, read where it lies."""

from __future__ import annotations

import io
from typing import Any

from replica_client.errors import ConfigError


class InMemoryBytes(io.RawIOBase):
    """Reads ``bytes``, a ``memoryview``, an ``mmap`` or whatever else is contiguous memory.

    Args:
        memory: the whole file.

    Attributes:
        memory: its bytes.
        offset: of the one that is read next.

    Raises:
        ConfigError: it is not contiguous.
    """

    def __init__(self, memory: Any) -> None:
        super().__init__()
        try:
            self.memory = memoryview(memory).cast("B")
        except (TypeError, ValueError) as error:
            raise ConfigError(f"a binlog in memory has to be contiguous bytes: {error}") from None
        self.offset = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the bytes that are next."""
        part = self.memory[self.offset : self.offset + len(buffer)]
        buffer[: len(part)] = part
        self.offset += len(part)
        return len(part)
