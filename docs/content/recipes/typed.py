"""A program with types: it checks under `mypy --strict` and pyright.

    python typed.py binlog.000024

Arrow record batches have the types of pyarrow; `pip install pyarrow-stubs` gives them to type checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Any, assert_type

import replica_client as rc


def rows_of(source: str) -> Iterator[dict[str, Any]]:
    for change in rc.open_binlog(source).changes():
        assert_type(change, rc.AnyChange)
        if change.kind != "delete":
            assert_type(change.after, rc.Row)
            yield dict(change.after)


def moved(change: rc.AnyChange) -> tuple[rc.Row, rc.Row] | None:
    match change:
        case rc.UpdateChange(before=before, after=after):
            return before, after
        case rc.InsertChange() | rc.DeleteChange():
            return None


def tables_of(source: str) -> dict[tuple[str, str], int]:
    counts: dict[tuple[str, str], int] = {}
    for transaction in rc.open_binlog(source).transactions():
        assert_type(transaction.changes, rc.Changes)
        if transaction.changes:
            assert_type(transaction.changes[0], rc.AnyChange)
            assert_type(transaction.changes[:2], list[rc.AnyChange])
        for rows in transaction.rows:
            assert_type(rows, rc.RowsOfEvent)
            table = (rows.shape.database, rows.shape.table)
            counts[table] = counts.get(table, 0) + sum(1 for _ in rows)
    return counts


def since(source: str, when: datetime) -> list[str]:
    found: list[str] = []
    for change in rc.open_binlog(source).changes():
        row = change.after or change.before
        created = row.get("created") if row is not None and "created" in row else None
        if isinstance(created, rc.DateTime) and created >= when:
            found.append(change.to_json())
    return found


def follow(url: str) -> None:
    with rc.follow(url, position_store="shop.position") as stream:
        for transaction in stream.transactions():
            assert_type(transaction, rc.Transaction)
            stream.acknowledge(transaction.position)


async def connect(url: str) -> int:
    rows = 0
    async with rc.connect(url, tables=["shop.*"]) as stream:
        async for item in stream.changes(notices=True):
            if isinstance(item, rc.SchemaChange):
                continue
            if isinstance(item, rc.Loss):
                raise SystemExit(f"lost: {item}")
            assert_type(item, rc.AnyChange)
            rows += 1
            await stream.acknowledge(stream.position)
    return rows


if __name__ == "__main__":
    for row in rows_of(sys.argv[1]):
        print(row)
    print(tables_of(sys.argv[1]))
