"""Messages that wait for the last part of their transaction: in memory up to a limit, then in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Final

import msgspec

from replica_client.sinks.formats.message import Message

_MEMORY_BYTES: Final = 16 << 20
_Stored = tuple[str, str, str, str, str | None, str, str | None, tuple[tuple[str, str], ...]]


class MessageSpool:
    """Keeps messages in order; what event they are of is not kept."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(_Stored)

    def __bool__(self) -> bool:
        return self._file is not None

    def take(self, messages: Iterable[Message]) -> None:
        """Add messages."""
        if self._file is None:
            # Closed by clear, in another call.
            self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
        for message in messages:
            self._file.write(self._encoder.encode((message.topic, *message[:7])) + b"\n")

    def messages(self) -> Iterator[Message]:
        """All of them."""
        if self._file is None:
            return
        self._file.seek(0)
        for line in self._file:
            topic, kind, *members = self._decoder.decode(line)
            message = Message("row" if kind == "row" else "schema", *members)
            yield message._replace(topic=topic)

    def clear(self) -> None:
        """Forget all messages."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
