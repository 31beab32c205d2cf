"""Typed change files: the changes of one table in its own columns, written by the decoding task.

A file has the rows of one table and shape between two statements of the binlog: an insert and a
delete are one row, an update two (``update_preimage``, ``update_postimage``), as in Delta's Change
Data Feed. In addition to the columns that all files of the change log have (:data:`COMMON`), it has

* ``$NAME``: each column of the table;
* ``_arrival``: the row's number in the order of the binlog; rows are sorted by the primary key, and
  rows of one key by this number;
* ``_absent``, ``_lossless``: as of :mod:`replica_client.rows.batches`;
* ``_row_digest``: for tables without a primary key, a digest that equal rows share.

The facts that the driver needs without reading a file (:class:`ChangeFile`) are in the statistics
of its commit.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from replica_client.lake.key_order import order_of
from replica_client.lake.lake_table import LakeTable, row_digest
from replica_client.lake.parquet_files import new_file
from replica_client.lake.partial_images import NO_KEY, ImageFacts, completed, image_facts
from replica_client.protocol.codec.quick_dataclass import dataclass
from replica_client.rows.batches import BatchBuilder
from replica_client.rows.json_images import json_columns, json_images
from replica_client.rows.runs import CHANGE_TYPES
from replica_client.schema.shape import ColumnShape, TableShape
from replica_client.storage.location import Location

SOFT_DELETES_NEED_WHOLE: Final = (
    "its deleted rows are to stay (soft_deletes), which needs whole row images; SET GLOBAL binlog_row_image = 'FULL', "
    "then have it copied again (lake copy)"
)

COLUMN: Final = "$"
"""Prefix of the names of a table's columns in a change file."""

ARRIVAL: Final = "_arrival"
DIGEST: Final = "_row_digest"
COMMON: Final = (
    "_commit_version", "_commit_timestamp", "_gtid", "_file", "_offset", "_event_index", "_row_index",
    "database", "table", "operation",
)  # fmt: skip
DETAILS: Final = "replica_client"
"""Member of a file's statistics with the fields of :class:`ChangeFile`."""

_SHAPE: Final = b"replica_client.shape"
_KEY: Final = b"replica_client.key"
_FIRST_COLUMN: Final = 10  # of a batch of BatchBuilder; the change columns come before
_ROW_GROUP: Final = 32 << 10
_PIECE_SIZE: Final = 256 << 20
_MAX_BOUND: Final = 100
_SORTABLE: Final = (
    pa.types.is_integer,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_decimal,
)


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """A file of changes that a task wrote.

    Attributes:
        path: path relative to the change log.
        size: size in bytes.
        modified: modification time in milliseconds since 1970.
        rows: number of rows; an update has two.
        changes: number of changes.
        part: number of its range.
        section: number of groups of statements before it in that range.
        piece: its number in the section.
        database: database of its table; ``""`` for a file of the envelope, with statements and
            other rare rows.
        table: its table's name.
        first: least ``_commit_version``.
        last: greatest ``_commit_version``.
        committed: when the last change was committed, in microseconds since 1970.
        key: first column of the primary key; ``""`` where it has no order, or is not known.
        least: least value of that column.
        greatest: greatest value of that column.
        partial: whether images lack columns that stay unchanged.
        moves: whether such an update changes a key.
        lacks: why the images do not give whole rows; ``""`` when they do.
    """

    path: str
    size: int
    modified: int
    rows: int
    changes: int
    part: int
    section: int
    piece: int
    database: str
    table: str
    first: str
    last: str
    committed: int
    key: str = ""
    least: Any = None
    greatest: Any = None
    partial: bool = False
    moves: bool = False
    lacks: str = ""

    def lacks_of(self, table: LakeTable) -> str:
        """Return why the images do not give whole rows of a lake table; ``""`` when they do."""
        if self.lacks or not self.partial:
            return self.lacks
        if not table.source_key:
            return NO_KEY
        return SOFT_DELETES_NEED_WHOLE if table.keeps_deleted else ""

    def statistics(self) -> str:
        """Return Delta's statistics of the file as JSON, with all fields of this class."""
        bounds = {"_commit_version": (self.first, self.last)}
        if self.table:
            bounds |= {"database": (self.database,) * 2, "table": (self.table,) * 2}
        return json.dumps(
            {
                "numRecords": self.rows,
                "minValues": {name: low for name, (low, _) in bounds.items()},
                "maxValues": {name: high for name, (_, high) in bounds.items()},
                "nullCount": dict.fromkeys(bounds, 0),
                DETAILS: asdict(self),
            }
        )


class ChangeFileBuilder(BatchBuilder):
    """A builder of change files, for changes of one table and shape."""

    has_user_names: ClassVar[bool] = False  # a change file has "$" before them

    def finish(self) -> pa.RecordBatch:
        """Return the changes as a batch of :class:`BatchBuilder`, its schema with shape and key."""
        batch = completed(super().finish(), self.shape)
        shape = self.shape
        key = [shape.columns[at].name for at in shape.primary_key]
        metadata = {
            **(batch.schema.metadata or {}),
            _KEY: json.dumps(key).encode(),
            _SHAPE: _shape_json(shape),
        }
        if not key and batch.num_rows:
            batch = batch.append_column(DIGEST, pa.array(_digests(batch, shape), pa.string()))
        return batch.replace_schema_metadata(metadata)


def _digests(batch: pa.RecordBatch, shape: TableShape) -> list[str]:
    images = json_images(batch, shape)
    found = []
    for before, after in zip(images.before.to_pylist(), images.after.to_pylist(), strict=True):
        if before is not None:
            found.append(before)
        if after is not None:
            found.append(after)
    return list(map(row_digest, found))


def _shape_json(shape: TableShape) -> bytes:
    columns = [asdict(column) for column in shape.columns]
    value = {"database": shape.database, "table": shape.table, "columns": columns}
    return json.dumps(value, ensure_ascii=True).encode()


def is_typed(schema: pa.Schema) -> bool:
    """Return whether a file of this schema has typed changes, not rows of the envelope."""
    return _SHAPE in (schema.metadata or {})


def shape_in(schema: pa.Schema) -> TableShape:
    """Return the shape of a change file's rows, from its schema."""
    value = json.loads(schema.metadata[_SHAPE])
    columns = []
    for one in value["columns"]:
        for name in ("labels", "unknown_labels"):
            one[name] = None if one[name] is None else tuple(one[name])
        columns.append(ColumnShape(**one))
    return TableShape(value["database"], value["table"], tuple(columns))


class ChangeFileWriter:
    """A writer of change files, for the changes that a task decodes.

    Args:
        directory: directory of the change log.
        part: number of the task's range.
    """

    def __init__(self, directory: Location, part: int) -> None:
        self._directory = directory
        self._part = part
        self._section = self._pieces = 0
        self._pending: dict[tuple[bytes, bytes], list[pa.RecordBatch]] = {}
        self._sizes: dict[tuple[bytes, bytes], int] = {}
        self._others: list[pa.Table] = []
        self.files: list[ChangeFile] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add changes of a table, in the order of the binlog.

        Raises:
            OSError: a file cannot be written.
            StorageError: a file cannot be written to a store.
        """
        if not batch.num_rows:
            return
        metadata = batch.schema.metadata
        name = metadata[b"database"], metadata[b"table"]
        pending = self._pending.setdefault(name, [])
        if pending and not pending[0].schema.equals(batch.schema, check_metadata=True):
            self._write(name)
            pending = self._pending.setdefault(name, [])
        pending.append(batch)
        size = self._sizes.get(name, 0) + batch.nbytes
        self._sizes[name] = size
        if size >= _PIECE_SIZE:
            self._write(name)

    def add_others(self, rows: pa.RecordBatch) -> None:
        """Add statements or rows in the envelope; they come after all changes added before.

        Raises:
            OSError: a file cannot be written.
            StorageError: a file cannot be written to a store.
        """
        self.flush()
        sections = pa.array([self._section] * rows.num_rows, pa.int64())
        self._others.append(pa.Table.from_batches([rows]).append_column("_section", sections))
        self._section += 1

    def flush(self) -> None:
        """Write all added changes, except statements."""
        for name in list(self._pending):
            self._write(name)

    def finish(self) -> list[ChangeFile]:
        """Write the remaining changes; return all files."""
        self.flush()
        if self._others:
            rows = pa.concat_tables(self._others)
            self._others = []
            path, size, modified = self._store(rows, "other", dictionary=True)
            self.files.append(
                ChangeFile(path, size, modified, rows.num_rows, rows.num_rows, self._part, -1, 0, "", "",
                           *_range_of(rows))
            )  # fmt: skip
        return self.files

    def _write(self, name: tuple[bytes, bytes]) -> None:
        batches = self._pending.pop(name)
        self._sizes.pop(name, None)
        rows, key, facts = change_rows(batches)
        least, greatest = _bounds(rows, key)
        path, size, modified = self._store(rows, "part", dictionary=False)
        database, table = (one.decode() for one in name)
        kinds = rows["operation"].cast(pa.string())
        updates = pc.sum(pc.equal(kinds, "update_preimage")).as_py() or 0
        self.files.append(
            ChangeFile(
                path, size, modified, rows.num_rows, rows.num_rows - updates, self._part, self._section,
                self._pieces, database, table, *_range_of(rows),
                key if least is not None else "", least, greatest,
                facts.partial, facts.moves, facts.lacks,
            )
        )  # fmt: skip
        self._pieces += 1

    def _store(self, rows: pa.Table, kind: str, *, dictionary: bool) -> tuple[str, int, int]:
        path = f"{kind}-{uuid.uuid4().hex}.zstd.parquet"
        texts: bool | list[str] = dictionary
        if not dictionary:
            texts = [one.name for one in rows.schema if pa.types.is_dictionary(one.type)]
        # Statistics of long texts cost a sixth of the writing, and nothing uses them.
        key = json.loads((rows.schema.metadata or {}).get(_KEY, b"[]"))
        bounded = [
            name for name in (*COMMON, *(COLUMN + one for one in key)) if name in rows.schema.names
        ]
        with new_file(self._directory / path) as made:
            pq.write_table(
                rows,
                made.stream,
                compression="zstd",
                row_group_size=_ROW_GROUP,
                use_dictionary=texts,
                write_statistics=bounded,
            )
        return path, made.size, made.modified


def change_rows(batches: Sequence[pa.RecordBatch]) -> tuple[pa.Table, str, ImageFacts]:
    """Return the rows of a change file, the first column of the key, and facts about its images.

    The batches have one schema.
    """
    schema = batches[0].schema
    key = json.loads(schema.metadata[_KEY])
    found = pa.Table.from_batches(batches).unify_dictionaries()
    count = found.num_rows
    # User columns may have the names of change columns, which come first.
    head = {name: found.column(at) for at, name in enumerate(schema.names[:_FIRST_COLUMN])}
    columns = {name: head[name] for name in COMMON if name in head}
    for name in ("database", "table"):
        text = pa.array([schema.metadata[name.encode()].decode()], pa.string())
        zeros = pa.repeat(pa.scalar(0, pa.int32()), count)
        columns[name] = pa.DictionaryArray.from_arrays(zeros, text)
    columns["operation"] = head["_change_type"]
    columns[ARRIVAL] = pa.array(range(count), pa.int32())
    for name in ("_absent", "_lossless"):
        columns[name] = head[name]
    for at, name in enumerate(schema.names[_FIRST_COLUMN:], _FIRST_COLUMN):
        columns[name if name == DIGEST else COLUMN + name] = found.column(at)
    rows = pa.table(columns).replace_schema_metadata(schema.metadata)
    keys = [COLUMN + name for name in key]
    facts = image_facts(rows, keys, json_columns(shape_in(rows.schema)))
    if not keys or not all(any(test(rows[name].type) for test in _SORTABLE) for name in keys):
        return rows, "", facts
    rows = rows.combine_chunks()  # Arrow takes rows of many chunks at several times the price
    order = order_of(rows, keys)
    return rows if order is None else rows.take(order), keys[0][len(COLUMN) :], facts


def _range_of(rows: pa.Table) -> tuple[str, str, int]:
    versions = rows["_commit_version"]
    if pa.types.is_dictionary(versions.type):
        versions = pc.unique(versions.unify_dictionaries()).dictionary_decode()
    bounds = pc.min_max(versions).as_py()
    committed = pc.max(rows["_commit_timestamp"]).cast(pa.int64()).as_py()
    return bounds["min"], bounds["max"], int(committed)


def _bounds(rows: pa.Table, key: str) -> tuple[Any, Any]:
    """Return the least and greatest value of the sorted first key column, as JSON has them."""
    if not key:
        return None, None
    column = rows[COLUMN + key]
    ends = [_json(column[0].as_py()), _json(column[-1].as_py())]
    return (None, None) if None in ends else (ends[0], ends[1])


def _json(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else None
    if isinstance(value, datetime.datetime):
        return None
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, str):
        return value if len(value) <= _MAX_BOUND else None
    return value if isinstance(value, int) else None


def envelope_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield the changes of a change file in the envelope, in the order of the binlog."""
    shape = shape_in(rows.schema)
    rows = rows.unify_dictionaries().sort_by(ARRIVAL)
    images = json_images(_batch(rows), shape)
    first = range(rows.num_rows) if images.rows is None else images.rows.to_pylist()
    common = rows.select(list(COMMON)).to_pylist()
    for at, before, after in zip(
        first, images.before.to_pylist(), images.after.to_pylist(), strict=True
    ):
        row = dict(common[at])
        if row["operation"].startswith("update"):
            row["operation"] = "update"
        yield {**row, "before": before, "after": after}


def with_digests(rows: pa.Table, shape: TableShape) -> pa.Table:
    """Return the rows of a change file with ``_row_digest``, in the order of the binlog.

    Where a table has no primary key, servers report a UNIQUE key without NULL as one in the binlog.
    The task that decoded the rows added no digests then.
    """
    rows = rows.sort_by(ARRIVAL)
    return rows.append_column(DIGEST, pa.array(_digests(_batch(rows), shape), pa.string()))


def _batch(rows: pa.Table) -> pa.RecordBatch:
    """Return the rows of a change file as the batch from which they were made."""
    kinds = _numbered(rows["operation"])
    heads = [
        pa.nulls(rows.num_rows) if name not in rows.column_names else rows[name]
        for name in ("_commit_timestamp", "_commit_version", "_gtid", "_file", "_offset",
                     "_event_index", "_row_index", "_absent", "_lossless")
    ]  # fmt: skip
    names = [name for name in rows.column_names if name.startswith(COLUMN)]
    arrays = [kinds, *map(one_array, (*heads, *(rows[name] for name in names)))]
    labels = ["_change_type", *map(str, range(len(heads))), *(n[len(COLUMN) :] for n in names)]
    return pa.RecordBatch.from_arrays(arrays, names=labels)


def _numbered(operations: pa.ChunkedArray) -> pa.DictionaryArray:
    kinds = pa.array(CHANGE_TYPES, pa.string())
    numbers = pc.index_in(one_array(operations.cast(pa.string())), value_set=kinds)
    return pa.DictionaryArray.from_arrays(numbers, kinds)


def one_array(found: Any) -> pa.Array:
    """Return a column as one array."""
    if not isinstance(found, pa.ChunkedArray):
        return found
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
