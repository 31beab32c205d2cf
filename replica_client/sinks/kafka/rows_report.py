"""What becomes of the messages of a rows event: which row a message was of that a broker did not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from confluent_kafka import KafkaError

from replica_client.rows.change import RowsOfEvent
from replica_client.sinks.formats.message import Message

_Text = str | bytes | None


class Delivered(Protocol):
    """A message of which librdkafka reports."""

    def topic(self) -> str | None:
        """Where it was to go."""

    def key(self) -> _Text:
        """As it was written."""

    def value(self) -> _Text:
        """Likewise."""


class RowsReport:
    """Told of each message of a rows event: one object for all of them, as most are delivered.

    What refuses a message is its size or that it has no key. Messages of the same key and size are therefore refused
    together, and naming the first of them is right.

    Args:
        rows: of the event.
        failed: is told of a message that was not taken.

    Attributes:
        rows: as given.
        written: index of the row, key and size of the value of each message that is written; -1 for none. Whoever
            writes one appends it: a call for each would take longer than that.
    """

    __slots__ = ("_failed", "rows", "written")

    def __init__(
        self,
        rows: RowsOfEvent,
        failed: Callable[[KafkaError | None, Delivered, Message | None], None],
    ) -> None:
        self.rows = rows
        self._failed = failed
        self.written: list[tuple[int, _Text, int]] = []

    def __call__(self, error: KafkaError | None, delivered: Delivered) -> None:
        """What became of one of them."""
        if error is None:
            return
        keys, sizes = _forms(delivered.key()), {len(one) for one in _forms(delivered.value())}
        for index, key, size in self.written:
            is_key = key in keys if keys else key is None
            if is_key and (size in sizes if sizes else size < 0):
                text = delivered.value()
                shown = Message("row", "", "", None, "", rows=self.rows, row_index=index)
                binary = text.encode() if isinstance(text, str) else text
                self._failed(error, delivered, shown._replace(binary=binary))
                return
        self._failed(error, delivered, None)


def _forms(text: _Text) -> list[str | bytes]:
    """A text as it may have been written: in characters or bytes."""
    if text is None:
        return []
    if isinstance(text, str):
        return [text, text.encode()]
    return [text, text.decode("utf-8", "replace")]
