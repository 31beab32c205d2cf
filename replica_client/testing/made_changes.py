"""Changes, transactions and binlog files made for tests.

What is made is written as a binlog and read from it: a made change is what a stream delivers, in every respect.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from replica_client.errors import ConfigError
from replica_client.options import checked_types
from replica_client.protocol.binlog.event import BinlogEvent
from replica_client.protocol.constants.event_types import EventType
from replica_client.protocol.position import Position
from replica_client.rows.change import RowsOfEvent
from replica_client.rows.image import RowImageDecoder
from replica_client.rows.row_change import Change
from replica_client.stream.files.binlog_file import open_binlog
from replica_client.stream.transactions.transaction import Transaction
from replica_client.testing.made_binlog import MadeBinlog, MadeRow, Values, row_of

_FILE: Final = "binlog.000001"
_DAY_1: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def _read(binlog: MadeBinlog) -> Iterator[Transaction]:
    stream = io.BytesIO(bytes(binlog.data))
    stream.name = _FILE
    return open_binlog(stream).transactions()


@checked_types
def make_change(
    table: str,
    *,
    before: Values | None = None,
    after: Values | None = None,
    key: str | Sequence[str] | None = None,
    commit_time: datetime.datetime = _DAY_1,
) -> Change:
    """Return a change as a stream delivers it, made from Python values.

    Args:
        table: ``database.table``.
        before: the row before the change; None: an insert.
        after: the row after the change; None: a delete.
        key: columns of the primary key; None: ``id`` if there is one, else the first column.
        commit_time: when it was committed; a time without zone is UTC.

    Raises:
        ConfigError: the values make no row.

    Examples:
        >>> from replica_client.testing import make_change
        >>> change = make_change("shop.orders", after={"id": 7, "state": "paid"})
        >>> change.kind, change.key, change.after["state"]
        ('insert', (7,), 'paid')
    """
    row = MadeRow.of(table, before, after, key)
    return next(iter(_made([row], commit_time).changes))


@checked_types
def make_transaction(
    *changes: Change, commit_time: datetime.datetime = _DAY_1, gtid: str | None = None
) -> Transaction:
    """Return a transaction of some changes as a stream delivers it.

    Args:
        changes: the changes, in order.
        commit_time: when it was committed; a time without zone is UTC.
        gtid: its GTID, ``UUID:NUMBER``; None: one of the same server each time.

    Raises:
        ConfigError: there is no change, or a GTID of another form.

    Examples:
        >>> from replica_client.testing import make_change, make_transaction
        >>> transaction = make_transaction(make_change("shop.orders", after={"id": 7}))
        >>> [change.after["id"] for change in transaction.changes]
        [7]
    """
    if not changes:
        raise ConfigError("make_transaction: give a change at least")
    return _made([row_of(change) for change in changes], commit_time, gtid)


def _made(
    rows: Sequence[MadeRow], commit_time: datetime.datetime, gtid: str | None = None
) -> Transaction:
    binlog = MadeBinlog()
    _write_rows(binlog, rows, _with_zone(commit_time), None if gtid is None else _gtid(gtid))
    return next(_read(binlog))


def _gtid(text: str) -> tuple[bytes, int]:
    sid, _, number = text.partition(":")
    try:
        raw, found = bytes.fromhex(sid.replace("-", "")), int(number)
    except ValueError:
        raw, found = b"", 0
    if len(raw) != 16 or found < 1:
        raise ConfigError(f"gtid {text!r}: write UUID:NUMBER")
    return raw, found


def _with_zone(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def _write_rows(
    binlog: MadeBinlog,
    rows: Sequence[MadeRow],
    when: datetime.datetime,
    gtid: tuple[bytes, int] | None = None,
) -> None:
    timestamp = binlog.begin(when, gtid)
    binlog.query("BEGIN", rows[0].database, timestamp)
    for row in rows:
        binlog.row(row, timestamp)
    binlog.commit(timestamp)


Item = str | Change | Transaction | Sequence[Change]
"""A statement, a change, or several changes of one transaction."""


@checked_types
def write_binlog(
    path: str | Path,
    items: Iterable[Item],
    *,
    database: str = "shop",
    first_commit: datetime.datetime = _DAY_1,
) -> Path:
    """Write a binlog file of MySQL, and return its path.

    Args:
        path: the file, or a directory that gets ``binlog.000001``.
        items: in order. Text is a statement, such as ``CREATE TABLE …``; a change is a transaction of its own, a list
            of changes or a transaction is one. Columns of types that are not made from Python values, as ENUM and
            SET of delivered changes, become TEXT.
        database: the default database of statements.
        first_commit: commit time of the first; each later one is a second after the one before.

    Raises:
        ConfigError: an item is none of these, or a value cannot be written.
        OSError: the file cannot be written.

    Examples:
        >>> from replica_client.testing import make_change, write_binlog
        >>> file = write_binlog("binlog.000001", [make_change("shop.orders", after={"id": 7})])
        >>> next(rc.open_binlog(file).changes()).after["id"]
        7
    """
    if not isinstance(items, Iterable) or isinstance(items, str | bytes | Mapping):
        raise ConfigError("write_binlog(): give a list of statements and changes")
    path = Path(path)
    if path.is_dir():
        path /= _FILE
    binlog = MadeBinlog()
    when = _with_zone(first_commit)
    for item in items:
        if isinstance(item, str):
            timestamp = binlog.begin(when)
            binlog.query(item, database, timestamp)
        else:
            _write_rows(binlog, _rows_of(item), when)
        when += datetime.timedelta(seconds=1)
    path.write_bytes(binlog.data)
    return path


def _rows_of(item: Any) -> list[MadeRow]:
    if isinstance(item, Change):
        item = [item]
    elif isinstance(item, Transaction):
        item = list(item.changes)
    elif not isinstance(item, Sequence):
        item = [item]
    if not item or not all(isinstance(one, Change) for one in item):
        raise ConfigError(
            f"write_binlog: {item!r:.60} is not a statement, change, transaction or list of changes"
        )
    return [row_of(change) for change in item]


def sample_binlogs() -> list[Path]:
    """Return the two binlog files of a small shop that come with the package, written by MySQL 9.7.

    Examples:
        >>> from replica_client.testing import sample_binlogs
        >>> sum(1 for _ in rc.open_binlog(sample_binlogs()).changes())
        87
    """
    data = Path(__file__).parent / "data"
    return [data / "shop-bin.000001", data / "shop-bin.000002"]


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
