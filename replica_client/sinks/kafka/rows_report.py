"""Delivery reports for the messages of a rows event, to name the row of a refused message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from confluent_kafka import KafkaError

from replica_client.rows.change import RowsOfEvent
from replica_client.sinks.formats.message import Message

_Text = str | bytes | None


class Delivered(Protocol):
    """A message in a delivery report of librdkafka."""

    def topic(self) -> str | None:
        """Return the message's topic."""

    def key(self) -> _Text:
        """Return the key as it was written."""

    def value(self) -> _Text:
        """Return the value as it was written."""


class RowsReport:
    """The delivery callback for all messages of a rows event.

    One object serves all messages, as most of them are delivered. A broker refuses a message for
    its size or its missing key. Messages of the same key and size are therefore refused together,
    and naming the first one is right.

    Args:
        rows: the rows event.
        failed: called for a message that was not delivered.

    Attributes:
        rows: the rows event.
        written: row index, key and size of the value of each written message; size -1 for no value.
            The writer appends to the list directly, as a method call per message would be slower.
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
        """Handle the delivery report of a message."""
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
    """Return the forms in which a text may have been written: as characters or bytes."""
    if text is None:
        return []
    if isinstance(text, str):
        return [text, text.encode()]
    return [text, text.decode("utf-8", "replace")]
