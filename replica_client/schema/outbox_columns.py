"""Which columns of an outbox table say where its rows go, and as what."""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OutboxColumns:
    """The columns of an outbox table, by Debezium's meaning.

    Attributes:
        id: tells a message from all others; its header ``id``.
        key: of the message.
        route: what the destination is named by.
        payload: the message.
        topic: template of the destination; ``{route}`` is the value of :attr:`route`.
        headers: names of more headers, and their columns.
    """

    id: str
    key: str
    route: str
    payload: str
    topic: str
    headers: tuple[tuple[str, str], ...] = ()

    def columns(self) -> Iterator[str]:
        """The names of all of them."""
        yield from (self.id, self.key, self.route, self.payload)
        for _, column in self.headers:
            yield column
