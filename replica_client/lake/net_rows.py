"""Net changes of logged rows, as JSON texts, and the resulting rows of a current table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replica_client.errors import DataLossError
from replica_client.lake.lake_table import LakeTable, keys_of, row_digest
from replica_client.tables.net_changes import NetByKey, NetCounts


@dataclass(frozen=True)
class NetRows:
    """The net effect of a sequence of changes.

    Attributes:
        keys: keys of all changed rows, in the form of :meth:`LakeTable.keys`.
        rows: the rows among them that exist afterwards.
        row_keys: their keys, in the same order.
    """

    keys: Sequence[Any]
    rows: pa.Table
    row_keys: Sequence[Any]


def net_rows(
    table: LakeTable,
    operations: Sequence[str],
    before: Sequence[str | None],
    after: Sequence[str | None],
    copies: Callable[[Iterable[str]], Counter[str]],
) -> NetRows:
    """Reduce changes to their net effect.

    Args:
        table: their table.
        operations: ``insert``, ``update`` or ``delete`` of each, in the order of the binlog;
            ``snapshot`` is an insert.
        before: JSON objects.
        after: JSON objects.
        copies: returns how many equal rows of each digest the state table has; called for tables
            without a primary key only.

    Raises:
        SchemaMismatchError: a row does not fit the table.
        DataLossError: a deleted row did not exist.
    """
    if table.source_key:
        return _by_key(table, operations, before, after)
    return _by_copies(table, before, after, copies)


def _by_key(
    table: LakeTable,
    operations: Sequence[str],
    before: Sequence[str | None],
    after: Sequence[str | None],
) -> NetRows:
    if table.keeps_deleted:
        return _by_key_and_mark(table, operations, before, after)
    old = iter(table.keys([text for text in before if text is not None]))
    rows = table.decode([text for text in after if text is not None])
    new = zip(keys_of(rows, table.key_positions), rows, strict=True)
    # Rows may exist already: a crash repeats steps, and copies overlap the log.
    net: NetByKey[Any, Any] = NetByKey(_name(table), strict=False)
    for operation in operations:
        if operation in ("update", "delete"):
            net.delete(next(old))
        if operation != "delete":
            net.insert(*next(new))
    return NetRows(net.touched(), table.to_arrow([*net.added.values()]), list(net.added))


def _by_key_and_mark(
    table: LakeTable,
    operations: Sequence[str],
    before: Sequence[str | None],
    after: Sequence[str | None],
) -> NetRows:
    """Reduce changes like :func:`_by_key`, with the deleted rows last."""
    images = []
    for texts in (before, after):
        rows = table.decode([text for text in texts if text is not None])
        images.append(zip(keys_of(rows, table.key_positions), rows, strict=True))
    old, new = images
    there: dict[Any, Any] = {}
    gone: dict[Any, Any] = {}
    for operation in operations:
        if operation in ("update", "delete"):
            key, row = next(old)
            there.pop(key, None)
            gone[key] = row
        if operation != "delete":
            key, row = next(new)
            gone.pop(key, None)
            there[key] = row
    keys = [*there, *gone]
    found = table.to_arrow([*there.values(), *gone.values()], deleted=len(gone))
    return NetRows(keys, found, keys)


def _by_copies(
    table: LakeTable,
    before: Sequence[str | None],
    after: Sequence[str | None],
    copies: Callable[[Iterable[str]], Counter[str]],
) -> NetRows:
    change: NetCounts[str] = NetCounts()
    texts: dict[str, str] = {}
    for text in before:
        if text is not None:
            change.delete(row_digest(text))
    for text in after:
        if text is not None:
            digest = row_digest(text)
            change.insert(digest)
            texts[digest] = text
    there = copies(digest for digest, count in change.items() if count)
    gone, come = copies_of(_name(table), dict(change.items()), there)
    keys = [key for key, _ in come]
    rows = table.to_arrow(table.decode([texts[digest] for _, digest in come]), keys)
    return NetRows([*gone, *keys], rows, keys)


def copies_of(
    name: str, change: Mapping[str, int], there: Mapping[str, int]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return which of a table's equal rows are removed, and which are added.

    Args:
        name: the table's name, for messages.
        change: by digest, the change of the number of equal rows.
        there: by digest, how many the state table has.

    Returns:
        keys of the removed rows; key and digest of the added rows.

    Raises:
        DataLossError: more rows are removed than exist.
    """
    gone: list[str] = []
    come: list[tuple[str, str]] = []
    for digest, count in change.items():
        had = there[digest]
        if had + count < 0:
            raise DataLossError(
                f"{name}: {-count} equal rows go, and {had} are in the "
                "table: the lake lacks rows of the source; take a new snapshot of the table"
            )
        gone += [f"{digest}#{number}" for number in range(had + count, had)]
        come += [(f"{digest}#{number}", digest) for number in range(had, had + count)]
    return gone, come


def _name(table: LakeTable) -> str:
    return f"{table.model.database}.{table.model.name}"
