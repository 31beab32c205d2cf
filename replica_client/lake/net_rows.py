"""Many changes of a table reduced to one: which rows go, and which are there afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from replica_client.errors import DataLossError
from replica_client.lake.lake_table import LakeTable, keys_of, row_digest


@dataclass(frozen=True)
class NetRows:
    """What a sequence of changes comes to.

    Attributes:
        keys: keys of all rows that were touched, as :meth:`LakeTable.keys` gives them.
        rows: the rows among them that are there afterwards.
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
    """Reduce changes, given in the order of the binlog.

    Args:
        table: their table.
        operations: ``insert``, ``update`` or ``delete`` of each; ``snapshot`` is an insert.
        before: JSON objects.
        after: JSON objects.
        copies: how many equal rows of each digest the state table has; asked for tables without a
            primary key only.

    Raises:
        SchemaMismatchError: a row is not of the table.
        DataLossError: a row that goes was not there.
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
    old = iter(table.keys([text for text in before if text is not None]))
    texts = [text for text in after if text is not None]
    rows = table.decode(texts)
    new = iter(enumerate(keys_of(rows, table.key_positions)))
    last: dict[Any, int] = {}
    for operation in operations:
        if operation == "update":
            gone = next(old)
            at, key = next(new)
            if gone != key:
                last[gone] = -1
            last[key] = at
        elif operation == "delete":
            last[next(old)] = -1
        else:
            at, key = next(new)
            last[key] = at
    left = [(key, at) for key, at in last.items() if at >= 0]
    return NetRows(
        list(last),
        table.to_arrow([rows[at] for _, at in left]),
        [key for key, _ in left],
    )


def _by_copies(
    table: LakeTable,
    before: Sequence[str | None],
    after: Sequence[str | None],
    copies: Callable[[Iterable[str]], Counter[str]],
) -> NetRows:
    change: Counter[str] = Counter()
    texts: dict[str, str] = {}
    for text in before:
        if text is not None:
            change[row_digest(text)] -= 1
    for text in after:
        if text is not None:
            digest = row_digest(text)
            change[digest] += 1
            texts[digest] = text
    there = copies(digest for digest, count in change.items() if count)
    gone: list[str] = []
    come: list[tuple[str, str]] = []
    for digest, count in change.items():
        had = there[digest]
        if had + count < 0:
            raise DataLossError(
                f"{table.model.database}.{table.model.name}: {-count} equal rows go, and {had} are in the "
                "table: the lake lacks rows of the source; take a new snapshot of the table"
            )
        gone += [f"{digest}#{number}" for number in range(had + count, had)]
        come += [(f"{digest}#{number}", texts[digest]) for number in range(had, had + count)]
    keys = [key for key, _ in come]
    rows = table.to_arrow(table.decode([text for _, text in come]), keys)
    return NetRows([*gone, *keys], rows, keys)
