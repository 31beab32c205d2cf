"""Files of MariaDB's InnoDB-based binlog, read as a binlog file of MariaDB.

The events have no offsets in such a file. Their positions are those that they have in the binlog file that this module
makes of it: a format description, the GTID state and the events of the transactions that were committed in the file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Final

from replica_client.errors import BinlogDecodeError
from replica_client.protocol.binlog.encoder import encode_event
from replica_client.protocol.binlog.event import (
    BinlogEvent,
    BinlogFormat,
    DecodeOptions,
    EventHeader,
)
from replica_client.protocol.binlog.events.control import (
    SERVER_VERSION_SIZE,
    FormatDescriptionEvent,
)
from replica_client.protocol.binlog.events.gtids import MariadbGtidListEvent
from replica_client.protocol.binlog.innodb_binlog import HEAD_SIZE, FileHead, InnodbRecords
from replica_client.protocol.constants.event_types import ChecksumAlgorithm, EventFlag, EventType

_VERSION: Final = b"12.3.0-MariaDB"
_NAME: Final = re.compile(r"(.*-)[0-9]{6,18}(\.ibb)")
_SIZES: Final = {
    **dict.fromkeys((8, 9, 10, 11), 4),
    1: 56,
    2: 13,
    4: 8,
    6: 18,
    12: 18,
    15: 230,
    17: 4,
    18: 26,
    19: 8,
    26: 2,
    **dict.fromkeys((23, 24, 25, 166, 167, 168), 8),
    **dict.fromkeys((30, 31, 32, 169, 170, 171), 10),
    161: 4,
    162: 19,
    163: 4,
    165: 13,
    172: 9,
}
_DESCRIPTION: Final = FormatDescriptionEvent(
    server_version=_VERSION.ljust(SERVER_VERSION_SIZE, b"\0"),
    post_header_sizes=bytes(_SIZES.get(code, 0) for code in range(1, 173)),
    checksum_algorithm=ChecksumAlgorithm.OFF,
)


class InnodbEvents(io.RawIOBase):
    """A stream of the events of a file, as in a binlog file after its magic.

    Args:
        stream: the file, open at any place.
        name: its name. Other files that it needs are next to it.
        options: limits, and whether checksums are verified.

    Raises:
        BinlogDecodeError: the header is damaged; reading raises for faults behind it.
    """

    def __init__(self, stream: BinaryIO, name: str, options: DecodeOptions) -> None:
        super().__init__()
        self._stream = stream
        path = getattr(stream, "name", None)
        self._path = Path(path) if isinstance(path, str | Path) else None
        self._others: dict[int, BinaryIO | None] = {}
        self._name = name
        self._verifies = options.verify_checksum
        head = FileHead.decode(self._at(stream, 0, HEAD_SIZE), verify=self._verifies)
        self._number = head.file_number
        self._records = InnodbRecords(self._read, options.max_event_size, verify=self._verifies)
        self._pieces = chain(self._begin(), chain.from_iterable(self._transactions()))
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Copy the next bytes into a buffer and return their number."""
        try:
            while not self._left:
                self._left = memoryview(next(self._pieces))
        except StopIteration:
            return 0
        except BinlogDecodeError as error:
            raise error.at(file=self._name) from None
        part = self._left[: len(buffer)]
        buffer[: len(part)] = part
        self._left = self._left[len(part) :]
        return len(part)

    def close(self) -> None:
        """Close the files next to this one."""
        for other in self._others.values():
            if other is not None:
                other.close()
        self._others = {}
        super().close()

    def _transactions(self) -> Iterator[Iterator[bytes]]:
        return self._records.transactions(self._number)

    def _begin(self) -> Iterator[bytes]:
        """Yield the events with which a binlog file begins."""
        layout: BinlogFormat = _DESCRIPTION.format
        state = MariadbGtidListEvent(tuple(self._records.first_state(self._number)))
        for code, body in (
            (EventType.FORMAT_DESCRIPTION_EVENT, _DESCRIPTION),
            (EventType.GTID_LIST_EVENT, state),
        ):
            # The headers of a relay log do not say where their events end in this file.
            header = EventHeader(0, code, 0, 0, 0, EventFlag.LOG_EVENT_RELAY_LOG_F)
            yield encode_event(BinlogEvent(header, body), layout)

    def _read(self, number: int, offset: int, size: int) -> bytes | None:
        if number == self._number:
            return self._at(self._stream, offset, size)
        if number not in self._others:
            self._others[number] = self._open(number)
        other = self._others[number]
        return None if other is None else self._at(other, offset, size)

    def _open(self, number: int) -> BinaryIO | None:
        """Open a file next to this one; None if there is none."""
        match = _NAME.fullmatch(self._path.name) if self._path is not None else None
        if match is None or self._path is None:
            return None
        path = self._path.with_name(f"{match[1]}{number:06d}{match[2]}")
        return path.open("rb") if path.exists() else None

    @staticmethod
    def _at(stream: BinaryIO, offset: int, size: int) -> bytes:
        memory = getattr(stream, "memory", None)
        if memory is not None:
            return bytes(memory[offset : offset + size])
        stream.seek(offset)
        return stream.read(size)
