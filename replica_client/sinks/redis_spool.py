"""Storage for lines that wait for a commit: in memory up to a limit, then in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

from replica_client.sinks.formats.line_format import LineFormat
from replica_client.sinks.formats.outbox import OutboxFormat
from replica_client.sinks.protocol import SnapshotRows
from replica_client.sinks.stdout_sink import encode_lines, encode_messages
from replica_client.stream.transactions.transaction import Transaction


class LineSpool:
    """Stores lines in order.

    Args:
        line_format: the format of the lines.
        memory_bytes: maximum bytes that are kept in memory.

    Attributes:
        count: number of stored lines.
    """

    def __init__(self, line_format: LineFormat, memory_bytes: int) -> None:
        self._format = line_format
        self._memory_bytes = memory_bytes
        self._file: tempfile.SpooledTemporaryFile[bytes] | None = None
        self.count = 0

    def route_outbox(self) -> None:
        """Write rows of outbox tables as messages from now on."""
        self._format = OutboxFormat(self._format)

    def take(self, transactions: Iterable[Transaction]) -> None:
        """Add the lines of transactions."""
        self._put(encode_lines(self._format, transactions))

    def take_snapshot(self, rows: SnapshotRows) -> None:
        """Add the lines of snapshot rows."""
        self._put(encode_messages(self._format.snapshot(rows)))

    def _put(self, pieces: Iterable[bytes | bytearray]) -> None:
        for data in pieces:
            if self._file is None:
                # Closed by clear, in another call.
                self._file = tempfile.SpooledTemporaryFile(self._memory_bytes)  # noqa: SIM115
            self._file.write(data)
            self.count += data.count(b"\n")

    def chunks(self, lines: int, size: int) -> Iterator[list[bytes]]:
        """Yield all lines without line ends, in lists.

        A list ends at ``lines`` lines, or with the line that reaches ``size`` bytes.
        """
        if self._file is None:
            return
        self._file.seek(0)
        chunk: list[bytes] = []
        buffered = 0
        for line in self._file:
            chunk.append(line[:-1])
            buffered += len(line)
            if len(chunk) >= lines or buffered >= size:
                yield chunk
                chunk, buffered = [], 0
        if chunk:
            yield chunk

    def clear(self) -> None:
        """Remove all lines."""
        file, self._file, self.count = self._file, None, 0
        if file is not None:
            file.close()
