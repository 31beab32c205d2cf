"""A connection whose answers were captured from servers, or come from SQLite where a statement is plain SQL."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any

from replica_client.errors import ServerError
from replica_client.protocol.constants.client_server import ServerFlavor

Rows = Sequence[tuple[Any, ...]]


class Answers:
    """Answers statements by the first pattern that matches; several answers are given one after the other.

    Args:
        flavor: of the server.
        answers: patterns of statements, and what the server says to them; the last answer stays.
        tables: where statements go that no pattern matches.
    """

    def __init__(
        self,
        flavor: ServerFlavor,
        answers: dict[str, list[Rows | ServerError]],
        tables: sqlite3.Connection | None = None,
    ) -> None:
        self.server = SimpleNamespace(
            is_mariadb=flavor is ServerFlavor.MARIADB, flavor=flavor, casefolds_names=False
        )
        self.options = SimpleNamespace(address="db1:3306")
        self.asked: list[str] = []
        self._answers = {pattern: list(given) for pattern, given in answers.items()}
        self._tables = tables

    async def query(self, sql: str, *_: object, columns: int = 0, **__: object) -> Rows:
        rows = await self._answer(sql)
        assert all(len(row) >= columns for row in rows), (sql, columns)
        return rows

    async def _answer(self, sql: str) -> Rows:
        self.asked.append(sql)
        for pattern, given in self._answers.items():
            if re.search(pattern, sql):
                answer = given.pop(0) if len(given) > 1 else given[0]
                if isinstance(answer, ServerError):
                    raise answer
                return answer
        if self._tables is None:
            return []
        return self._tables.execute(_for_sqlite(sql)).fetchall()

    async def stream(self, sql: str, *, size: int) -> AsyncIterator[Rows]:
        rows = await self.query(sql)
        for at in range(0, len(rows), size):
            yield rows[at : at + size]

    async def binlog_status(self) -> SimpleNamespace:
        ((file, position, *_),) = await self.query("SHOW BINARY LOG STATUS")
        return SimpleNamespace(file=file, position=position)


def _for_sqlite(sql: str) -> str:
    if sql.startswith(("SET ", "START ", "ROLLBACK")):
        return "SELECT 1"
    sql = re.sub(r"_utf8mb4 x'([0-9a-f]*)'", r"CAST(x'\1' AS TEXT)", sql)
    return (
        sql.replace("`d`.", "").replace("AS UNSIGNED", "AS INTEGER").replace("AS CHAR", "AS TEXT")
    )
