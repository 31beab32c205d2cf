"""Data files written again with changed rows."""

from __future__ import annotations

import datetime
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_client.errors import DataLossError, SinkError, StorageError
from replica_client.lake.key_order import comparable, unheld
from replica_client.lake.lake_table import DELETED, LakeTable, keys_of, row_digest
from replica_client.lake.parquet_files import in_schema, new_file, read_parquet, repeating_columns
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.storage.files import remove_files
from replica_client.storage.location import Location, reason_of
from replica_client.stream.tables.net_changes import NetByKey, NetCounts

COMPRESSION = "zstd"
SPLIT_SIZE = 48 << 20
"""Bytes of a file above which it is split."""

_MAX_STATISTIC = 64
_ROW_GROUP = 128 << 10
_TELLING_SHARE = 48
"""Files of at least :data:`SPLIT_SIZE` / 48 show how big rows are; smaller ones are mostly footers."""


@dataclass(frozen=True)
class Rewrite:
    """The work of one rewrite; can be pickled.

    Attributes:
        directory: the table's directory.
        paths: the file; none for a new one, several that become one.
        size: their bytes.
        schema: the table's schema, as it is written.
        key: names of the key's columns.
        ordered: whether bounds of the first of them are written.
        removed: keys of rows to remove.
        added: rows to add.
        renamed: for a table whose columns changed: the file's name of each column; None: they did
            not.
        kind: prefix of the names of the new files.
        deleted: whether all existing rows are marked as deleted.
    """

    directory: Location
    paths: tuple[str, ...]
    size: int
    schema: pa.Schema
    key: tuple[str, ...]
    ordered: bool
    removed: pa.Table | None = None
    added: pa.Table | None = None
    renamed: dict[str, str] | None = field(default=None)
    kind: str = "part"
    deleted: bool = False

    def run(self) -> list[NewFile] | None:
        """Run the rewrite; see :func:`run`."""
        return run(self)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that was written, and is in no version of the table yet."""

    path: str
    size: int
    modified: int
    statistics: str
    rows: int


def run(work: Rewrite) -> list[NewFile] | None:
    """Write the new files; they belong to the table when they are committed.

    Returns:
        the new files; None where nothing changes.

    Raises:
        SinkError: a file cannot be read or written.
    """
    try:
        rows, before = _rows(work)
        if rows is None:
            return None
        if not rows.num_rows:
            return []
        telling = work.size * _TELLING_SHARE >= SPLIT_SIZE and before > 0
        size = work.size * rows.num_rows // before if telling else rows.nbytes // 3
        pieces = max(1, size // (SPLIT_SIZE // 2)) if size > SPLIT_SIZE else 1
        if work.ordered and (pieces > 1 or len(work.paths) != 1):
            rows = _sorted(rows, work.key)
        step = -(-rows.num_rows // pieces)
        return [_write(work, rows.slice(at, step)) for at in range(0, rows.num_rows, step)]
    except (OSError, StorageError, pa.ArrowInvalid) as error:
        reason = reason_of(error, work.directory)
        raise SinkError(
            f"{work.directory}: {', '.join(work.paths) or 'a new file'}: {reason}; what was committed before is whole"
        ) from None


def _sorted(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return rows in the order of their key; most rows are in order already."""
    first, count = rows[key[0]].combine_chunks(), rows.num_rows
    if len(key) == 1 and not first.null_count:
        if pc.all(pc.less(first.slice(0, count - 1), first.slice(1))).as_py():
            return rows
    return rows.sort_by([(name, "ascending") for name in key])


def _rows(work: Rewrite) -> tuple[pa.Table | None, int]:
    """Return the rows to write, None if the file is unchanged, and how many rows the files have."""
    parts, before = [], 0
    for path in work.paths:
        found = read_parquet(work.directory / path)
        before += found.num_rows
        kept = without_keys(found, work.removed, work.key)
        unchanged = kept.num_rows == found.num_rows and work.renamed is None and not work.deleted
        if unchanged and (work.added is None or not work.added.num_rows):
            return None, before
        rows = in_schema(kept, work.schema, work.renamed)
        if work.deleted:
            at = rows.schema.get_field_index(DELETED)
            marks = pa.array([True] * rows.num_rows, pa.bool_())
            rows = rows.set_column(at, rows.schema.field(at), marks)
        parts.append(rows)
    if work.added is not None and work.added.num_rows:
        parts.append(work.added)
    return pa.concat_tables(parts) if parts else work.schema.empty_table(), before


def without_keys(found: pa.Table, removed: pa.Table | None, key: Sequence[str]) -> pa.Table:
    """Return rows of a state table without those of some keys (:meth:`LakeTable.key_table`)."""
    if removed is not None and removed.num_rows:
        for name in key:
            at = removed.schema.get_field_index(name)
            removed = removed.set_column(at, name, removed[name].cast(found[name].type))
        texts = unheld(removed, key)
        removed = comparable(removed, key, texts)
        keys = comparable(found, key, texts)
        if len(key) == 1:
            name = key[0]
            found = found.filter(pc.invert(pc.is_in(keys[name], value_set=removed[name])))
        else:
            numbers = pa.array(range(found.num_rows), pa.int64())
            left = keys.append_column("_place", numbers).join(
                removed,
                keys=list(key),
                join_type="left anti",
            )
            found = found.take(left["_place"].sort())
    return found


def _write(work: Rewrite, rows: pa.Table) -> NewFile:
    name = f"{work.kind}-{uuid.uuid4().hex}.{COMPRESSION}.parquet"
    with new_file(work.directory / name) as made:
        pq.write_table(
            rows,
            made.stream,
            compression=COMPRESSION,
            row_group_size=_ROW_GROUP,
            use_dictionary=repeating_columns(rows),
        )
    statistics = _statistics(rows, work.key[0] if work.ordered else None)
    return NewFile(name, made.size, made.modified, statistics, rows.num_rows)


def _statistics(rows: pa.Table, key: str | None) -> str:
    kept: dict[str, Any] = {"numRecords": rows.num_rows}
    if key is not None:
        bounds = pc.min_max(rows[key]).as_py()
        least, most = _json(bounds["min"]), _json(bounds["max"])
        nulls = rows[key].null_count
        if nulls:  # a date that Arrow cannot hold: the file may have any
            kept |= {"nullCount": {key: nulls}}
        elif least is not None and most is not None:
            kept |= {
                "minValues": {key: least},
                "maxValues": {key: most},
                "nullCount": {key: 0},
            }
    return json.dumps(kept)


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str) and (len(value) > _MAX_STATISTIC or not value.isascii()):
        return None
    return value


def remove(directory: Location, files: Sequence[NewFile]) -> None:
    """Delete files that are not committed."""
    remove_files(*(directory / file.path for file in files))


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
