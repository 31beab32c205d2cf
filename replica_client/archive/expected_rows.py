"""The rows that an undo or redo script expects on a server, and a check of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple, Self

from replica_client.transport.connection import SourceConnection
from replica_client.transport.url import parse_url

_AT_ONCE: Final = 100


class ExpectedRow(NamedTuple):
    """The rows of a table that a statement expects.

    Attributes:
        table: its name in SQL.
        there: condition on the key of a row that must exist; None: no row must.
        exact: condition on all columns of that row.
        free: condition on a key that no row may have; None: no key must be free.
    """

    table: str
    there: str | None
    exact: str | None
    free: str | None

    def to_text(self) -> str:
        """Return the expectation as JSON."""
        return json.dumps(self)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the expectation from the text of :meth:`to_text`."""
        return cls(*json.loads(text))


class Conflict(NamedTuple):
    """A row that differs from what a script expects.

    Attributes:
        table: its name in SQL.
        row: condition that identifies the row.
        what: ``gone``, ``changed`` or ``there``: the row has the key of a row that the script adds.
    """

    table: str
    row: str
    what: str


async def conflicts(
    expected: Iterator[ExpectedRow], url: str, session: tuple[str, ...]
) -> AsyncIterator[Conflict]:
    """Yield the rows of a server that differ from what a script expects; nothing is written.

    A row that several statements change is checked for the first of them. 8 bytes are kept for each
    row.

    Args:
        expected: expectations of the statements, in their order.
        url: URL of the server.
        session: statements that the script begins with.

    Raises:
        ServerError: the server refuses a query, for example because a table's columns differ.
        TransportError: the server cannot be reached.
    """
    async with await SourceConnection.open(parse_url(url)) as connection:
        for statement in session:
            await connection.query(statement)
        await connection.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await connection.query("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        waiting: list[ExpectedRow] = []
        for one in _first_looks(expected):
            waiting.append(one)
            if len(waiting) == _AT_ONCE:
                for conflict in await _look(connection, waiting):
                    yield conflict
                waiting = []
        for conflict in await _look(connection, waiting):
            yield conflict
        await connection.query("ROLLBACK")


def _first_looks(expected: Iterator[ExpectedRow]) -> Iterator[ExpectedRow]:
    """Yield the expectations on rows that no earlier statement has changed."""
    seen: set[bytes] = set()

    def is_new(table: str, condition: str | None) -> bool:
        if condition is None:
            return False
        digest = blake2b(f"{table} {condition}".encode(), digest_size=8).digest()
        if digest in seen:
            return False
        seen.add(digest)
        return True

    for one in expected:
        there, free = is_new(one.table, one.there), is_new(one.table, one.free)
        if there or free:
            yield ExpectedRow(
                one.table, one.there if there else None, one.exact, one.free if free else None
            )


async def _look(connection: SourceConnection, rows: list[ExpectedRow]) -> list[Conflict]:
    parts = []
    for number, one in enumerate(rows):
        there = _exists(one.table, one.there)
        exact = _exists(one.table, None if one.there is None else one.exact)
        parts.append(f"SELECT {number}, {there}, {exact}, {_exists(one.table, one.free)}")
    if not parts:
        return []
    found = []
    for number, there, exact, taken in await connection.query(" UNION ALL ".join(parts), columns=4):
        one = rows[int(number)]
        if one.there is not None and not int(exact):
            found.append(Conflict(one.table, one.there, "changed" if int(there) else "gone"))
        if one.free is not None and int(taken):
            found.append(Conflict(one.table, one.free, "there"))
    return found


def _exists(table: str, condition: str | None) -> str:
    if condition is None:
        return "0"
    return f"EXISTS (SELECT 1 FROM {table} WHERE {condition})"  # noqa: S608 - values are quoted where it was made
