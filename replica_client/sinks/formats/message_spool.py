"""Storage for messages of incomplete transactions: in memory up to a limit, then in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Final

import msgspec

from replica_client.sinks.formats.message import Message, MessageKind

_MEMORY_BYTES: Final = 16 << 20


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """The stored part of a message. Schemas are stored by number, as they are long and few."""

    kind: MessageKind
    database: str
    table: str
    key: str | None
    value: str
    gone: str | None
    headers: tuple[tuple[str, str], ...]
    topic: str
    schemas: int
    binary: bytes | None


class MessageSpool:
    """Stores messages in order, without their rows events."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(_Stored)
        self._schemas: dict[tuple[str, str], int] = {}

    def __bool__(self) -> bool:
        return self._file is not None

    def take(self, messages: Iterable[Message]) -> None:
        """Add messages."""
        if self._file is None:
            # Closed by clear, in another call.
            self._file = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115
        for message in messages:
            number = self._schemas.setdefault(message.schemas, len(self._schemas))
            stored = _Stored(*message[:7], message.topic, number, message.binary)
            self._file.write(self._encoder.encode(stored) + b"\n")

    def messages(self) -> Iterator[Message]:
        """Yield all stored messages."""
        if self._file is None:
            return
        self._file.seek(0)
        schemas = list(self._schemas)
        for line in self._file:
            one = self._decoder.decode(line)
            yield Message(
                *(one.kind, one.database, one.table, one.key, one.value, one.gone, one.headers),
                topic=one.topic,
                schemas=schemas[one.schemas],
                binary=one.binary,
            )

    def clear(self) -> None:
        """Remove all messages."""
        file, self._file = self._file, None
        self._schemas.clear()
        if file is not None:
            file.close()
