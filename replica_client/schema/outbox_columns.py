"""The columns of an outbox table that say where its rows are sent, and as what."""

from __future__ import annotations

from collections.abc import Iterator

from replica_client.codec.quick_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class OutboxColumns:
    """The columns of an outbox table, in Debezium's terms.

    Attributes:
        id: the message's unique id; its header ``id``.
        key: the message's key.
        route: the column whose value names the destination.
        payload: the message.
        topic: template of the destination; ``{route}`` is the value of :attr:`route`.
        headers: names of further headers, and their columns.
    """

    id: str
    key: str
    route: str
    payload: str
    topic: str
    headers: tuple[tuple[str, str], ...] = ()

    def columns(self) -> Iterator[str]:
        """Yield the names of all these columns."""
        yield from (self.id, self.key, self.route, self.payload)
        for _, column in self.headers:
            yield column
