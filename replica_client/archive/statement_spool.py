"""A spool on disk for statements that are read, in either order, once all are known to be valid."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from struct import Struct
from typing import Final

_END: Final = Struct("<QB")
_WINDOW: Final = 1 << 20


class StatementSpool:
    """Records in a temporary file without a name, so that no other process can open it.

    Reading backward keeps one window of the file in memory.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._size = 0

    def add(self, kind: int, text: str) -> None:
        """Add a record.

        Args:
            kind: 0 to 255.
            text: the record's text.

        Raises:
            OSError: the disk is full.
        """
        data = text.encode()
        self._file.write(_END.pack(len(data), kind) + data + _END.pack(len(data), kind))
        self._size += len(data) + 2 * _END.size

    def forward(self) -> Iterator[tuple[int, str]]:
        """Yield the records, the first one first."""
        self._file.seek(0)
        while head := self._file.read(_END.size):
            size, kind = _END.unpack(head)
            text = self._file.read(size).decode()
            self._file.read(_END.size)
            yield kind, text

    def backward(self) -> Iterator[tuple[int, str]]:
        """Yield the records, the last one first."""
        end = self._size
        window, start = b"", end
        while end:
            need = _END.size
            while True:
                if end - need < start:
                    start = max(0, end - max(need, _WINDOW))
                    self._file.seek(start)
                    window = self._file.read(end - start)
                size, kind = _END.unpack_from(window, end - start - _END.size)
                need = size + 2 * _END.size
                if end - need >= start:
                    break
            at = end - start - need + _END.size
            yield kind, window[at : at + size].decode()
            end -= need

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
