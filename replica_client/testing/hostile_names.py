"""Transactions on tables whose names a sink might confuse, or use as a path out of its directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, Literal

from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.stream.transactions.transaction import Transaction

TableName = tuple[str, str]

HOSTILE_NAMES: Final[tuple[TableName, ...]] = (
    *(("aa", "Orders"), ("aa", "orders"), ("AA", "orders"), ("aa", "ORDERS")),
    *(("aa.b", "c"), ("aa", "b.c"), ("aa%2Eb", "c"), ("aa", "b%2Ec")),
    *(("..", ".."), (".", "."), ("..", "t"), ("a/..", "../t"), ("/", "/tmp"), ("a\\b", "..\\t")),
    *(("_open", "t"), ("_segments", "t"), ("_schema_changes", "_schema_changes")),
    *(("_delta_log", "_delta_log"), ("parquet.checkpoint.json", "t"), (".lock", ".hidden")),
    *(("sqlite_x", "t"), ("SQLITE_sequence", "t"), ("_replica_client_tables", "t")),
    *(("%s", "%s"), ("%%", "%(x)s"), ("%25", "%7E"), ("a`b", "`"), ('a"b', '"'), ("a'b", "'; --")),
    *(("é", "e\u0301"), ("é", "é"), ("ß", "ẞ"), ("ß", "ss"), ("K", "\u212a"), ("K", "k")),
    *(("é" * 64, "é" * 64), ("é" * 63 + "e", "é" * 64), ("日" * 40, "本" * 48)),
    *((" a", "a"), ("a", " a"), ("$", "#"), ("a\tb", "a\nb"), ("a;b", "a,b"), ("d=1", "x=2")),
)
"""Databases and tables that servers can have, each a danger to somebody."""


def on_tables(
    transactions: Iterable[Transaction],
    names: Iterable[TableName],
    kind: Literal["insert", "delete"] = "insert",
) -> Iterator[Transaction]:
    """Insert the first rows of some transactions into tables of other names, or delete them there.

    Args:
        transactions: with an insert.
        names: of the tables; each gets a transaction.
        kind: of the changes.
    """
    first, rows = next(
        (one, rows) for one in transactions for rows in one.rows if rows.event.body.kind == "insert"
    )
    event = rows.event if kind == "insert" else _deleted(rows.event)
    offset = first.start.offset + (0 if kind == "insert" else 1_000_000)
    for name in names:
        shape = replace(rows.shape, database=name[0], table=name[1])
        offset += 1000
        yield first.__replace__(
            start=Position(first.start.file, offset, first.start.gtid_set),
            position=Position(first.start.file, offset + 1000, first.start.gtid_set),
            rows=(RowsOfEvent(event, shape, RowImageDecoder(shape), rows.event_index, 0, rows.gtid),),
            schema_changes=(),
            part=0,
            complete=True,
        )  # fmt: skip


def _deleted(event: BinlogEvent) -> BinlogEvent:
    """Return the event that deletes the rows of an insert: its before images are the inserted images."""
    body = event.body
    return replace(
        event,
        header=replace(event.header, type_code=EventType.DELETE_ROWS_EVENT),
        body=replace(body, kind="delete", type_code=EventType.DELETE_ROWS_EVENT),
    )
